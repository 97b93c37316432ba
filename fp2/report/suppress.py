"""Small cells: of groups with few subjects, reports show the size and no other number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MIN_CELL = 10
_OUTCOMES = ("refused", "failed", "answered")


def suppress_small_cells(results: Mapping[str, Any], min_cell: int = MIN_CELL) -> dict[str, Any]:
    """Return a copy of `results` without the numbers of groups of fewer than `min_cell` subjects, except their sizes.

    Parameters
    ----------
    results : mapping
        The content of `results.json`.
    min_cell : int
        For smaller groups, mean and standard deviation (per disparity row) and the counts of answers become None, with
        `suppressed: true`. A group of unknown size counts as small.

    Returns
    -------
    dict
        A new dict; `results` is unchanged. The function is idempotent.
    """
    kept = dict(results)
    kept["disparities"] = [
        {**row, "groups": [_group(group, min_cell) for group in row.get("groups", [])]}
        for row in results.get("disparities", [])
    ]
    sizes = results.get("dataset", {}).get("groups", {})
    kept["answers_by_group"] = [
        _answers(row, sizes.get(row["cut"], {}).get(row["group"], {}), min_cell)
        for row in results.get("answers_by_group", [])
    ]
    return kept


def _group(group: Mapping[str, Any], min_cell: int) -> dict[str, Any]:
    """Blank mean and standard deviation of a small group of one disparity row."""
    small = group["n_subjects"] < min_cell
    return {**group, "mean": None, "sd": None, "suppressed": True} if small else {**group, "suppressed": False}


def _answers(row: Mapping[str, Any], size: Mapping[str, Any], min_cell: int) -> dict[str, Any]:
    """Blank the answer counts of a small group."""
    if size.get("n_subjects", 0) >= min_cell:
        return {**row, "suppressed": False}
    return {**row, **dict.fromkeys(_OUTCOMES), "suppressed": True}
