"""The short form of `make torture`: killed runs go on, and nothing that was stored is lost or asked again."""

from __future__ import annotations

import pytest

from benchmarks.torture.__main__ import torture
from benchmarks.torture.kills import kills

pytestmark = pytest.mark.long


@pytest.mark.thorough
def test_killed_runs_lose_nothing_and_end_with_the_same_tables() -> None:
    rows = torture([kills], seed=1, short=True)
    assert [row.tries for row in rows] == [1, 1]
    assert [row.broken for row in rows] == [[], []]
