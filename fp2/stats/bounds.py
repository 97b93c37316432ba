"""Worst-case bounds of a disparity when refusals hide answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fp2.stats.layout import make_cells, read_entries


def refusal_bounds(
    values: ArrayLike,
    refused: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    *,
    value_range: tuple[float, float] = (-1.0, 1.0),
    min_subjects: int = 10,
) -> tuple[float | None, float | None]:
    """Return the smallest and the largest max - min that the refused answers could have led to.

    values, refused (bool), groups, subjects: (n,), one entry per (answer, group). A refused answer may be worth
    anything in `value_range`, each group as it likes; an error (NaN, not refused) stays missing, because errors are
    no refusals. Groups with fewer than `min_subjects` subjects with a value or a refusal are left out; (None, None)
    with fewer than two groups left.
    """
    return bounds_between(refusal_ends(values, refused, value_range), groups, subjects, min_subjects=min_subjects)


def refusal_ends(values: ArrayLike, refused: ArrayLike, value_range: tuple[float, float]) -> NDArray[np.float64]:
    """Return (n, 2): what each answer is worth at least and at most; a refused one may be worth anything."""
    y, hidden = np.asarray(values, dtype=np.float64), np.asarray(refused, dtype=bool)
    low, high = value_range
    return np.stack([np.where(hidden, low, y), np.where(hidden, high, y)], axis=1)


def bounds_between(
    ends: ArrayLike, groups: ArrayLike, subjects: ArrayLike, *, min_subjects: int = 10
) -> tuple[float | None, float | None]:
    """Return the smallest and the largest max - min of values that lie between `ends` (n, 2); see `refusal_bounds`."""
    cells = make_cells(read_entries(ends, groups, subjects, None))
    by_group = [
        cells.mean[(cells.group == g) & np.isfinite(cells.mean[:, 0])]
        for g in range(int(cells.group.max(initial=-1)) + 1)
    ]
    means = np.array([e.mean(axis=0) for e in by_group if len(e) >= max(min_subjects, 1)])
    if len(means) < 2:
        return None, None
    lowest, highest = means[:, 0], means[:, 1]
    apart = float(max(0.0, lowest.max() - highest.min()))
    gaps = highest[:, None] - lowest[None, :]
    np.fill_diagonal(gaps, -np.inf)
    return apart, float(gaps.max())
