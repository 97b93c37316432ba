"""Small cells: below the minimum only sizes remain, at the minimum everything does."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fp2.report.reading import coverage_of, suppress_small_cells


@pytest.mark.parametrize("min_cell", [0, 7, 8, 10, 16, 17, 1000])
def test_exactly_the_groups_below_the_minimum_are_blank(results: dict[str, Any], min_cell: int) -> None:
    before = copy.deepcopy(results)
    shown = suppress_small_cells(results, min_cell)
    assert results == before
    for old, new in zip(results["disparities"], shown["disparities"], strict=True):
        for was, group in zip(old["groups"], new["groups"], strict=True):
            small = was["n_subjects"] < min_cell
            assert group["suppressed"] is small
            assert group["n_subjects"] == was["n_subjects"]
            assert (group["mean"], group["sd"]) == ((None, None) if small else (was["mean"], was["sd"]))
    for was, row in zip(results["answers_by_group"], shown["answers_by_group"], strict=True):
        small = results["dataset"]["groups"][was["cut"]][was["group"]]["n_subjects"] < min_cell
        assert row["planned"] == was["planned"]
        assert row["refused"] == (None if small else was["refused"])


def test_twice_is_once_and_unknown_sizes_count_as_small(results: dict[str, Any]) -> None:
    del results["dataset"]["groups"]["region"]["Africa"]
    once = suppress_small_cells(results)
    assert suppress_small_cells(once) == once
    row = next(r for r in once["answers_by_group"] if r["group"] == "Africa")
    assert row["refused"] is None


def test_coverage_is_the_share_of_images_with_a_value(results: dict[str, Any]) -> None:
    rows = [("a", "trust", 10, 4), ("b", "trust", 30, 6), ("a", "lifestyle", 0, 0)]
    results["coverage"] = [
        {"cut": "region", "group": group, "probe": probe, "scorer": "economic", "n_images": n, "with_value": found}
        for group, probe, n, found in rows
    ]
    assert coverage_of(results, "region", "economic") == {"trust": 0.25}
    assert coverage_of(results, "region", "valence") == {}
    assert coverage_of({}, "region", "economic") == {}
