"""The simulation of runs that stop: a short form of it, and the designs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from bench import REPOSITORY

import fp2.stats.disparities
from fp2.stats.interval import GapTest
from fp2.stats.rows import DisparityRow


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    for name in (
        "permuted_divergences",
        "_reference_numbers",
        "shrunken_range",
        "range_influence",
    ):  # which the simulation leaves out
        monkeypatch.setattr(fp2.stats.disparities, name, getattr(fp2.stats.disparities, name))
    for kind, name in ((DisparityRow, "to_dict"), (GapTest, "detectable")):
        monkeypatch.setattr(kind, name, getattr(kind, name))
    import stopping

    yield stopping
    sys.modules.pop("stopping")


@pytest.mark.thorough
def test_large_gaps_are_found_with_few_answers_and_small_ones_are_not_claimed(
    stopping: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["stopping.py", "--short", "--json"])
    stopping.main()
    rows = {row["gap"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["bound"]["false equivalents %"] <= 10
    assert rows["4 MDE"]["decided biased %"] == 100
    assert rows["4 MDE"]["asked %, median"] < rows["2 MDE"]["asked %, median"] < 60
    assert all(row["repeated intervals cover %"] > 85 for row in rows.values())


def test_designs_keep_their_level_and_pocock_finds_large_gaps_first(stopping: Any) -> None:
    pocock, late = (stopping.design_row(f"{name}, 7 looks", 2000) for name in ("pocock", "obrien_fleming"))
    assert pocock["false claims %, of 1.25"] < 2.2
    assert pocock["asked % at 4 MDE"] < late["asked % at 4 MDE"]


def test_the_confidence_sequence_has_the_bounds_of_another_implementation(stopping: Any) -> None:
    """`normal_mixture_bound` of expectation 0.6.1 (v_opt 50, alpha_opt 0.0125, two-sided), over sqrt(v)."""
    bounds = stopping.sequence_bounds(0.0125, np.array([30, 50, 100, 250, 500]), 50)
    assert bounds.tolist() == pytest.approx([3.52490148, 3.50307178, 3.52735326, 3.60900524, 3.68774674], abs=1e-8)
