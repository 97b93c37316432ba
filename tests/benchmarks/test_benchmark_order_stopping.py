"""The simulation of runs that stop when their order is certain: a short form of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from bench import REPOSITORY


@pytest.fixture
def order_stopping(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    import order_stopping

    monkeypatch.setattr(order_stopping, "detectable", lambda name, more: 0.05)
    yield order_stopping
    for name in ("order_stopping", "stopping"):
        sys.modules.pop(name)


@pytest.mark.thorough
def test_a_large_difference_is_ordered_with_few_answers_and_equal_ones_are_not(
    order_stopping: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--runs", "10", "--worlds", "clustered", "--cases", "equal", "4", "--json"]
    monkeypatch.setattr(sys, "argv", ["order_stopping.py", *words])
    order_stopping.main()
    rows = {row["case"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["equal"]["wrong order %"] <= 30
    assert rows["4"]["right order %"] == 100
    assert rows["4"]["asked %, median"] < rows["equal"]["asked %, median"] <= 100
