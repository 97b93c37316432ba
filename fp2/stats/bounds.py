"""Worst-case bounds of a disparity when refusals hide answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

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
    y, hidden = np.asarray(values, dtype=np.float64), np.asarray(refused, dtype=bool)
    low, high = value_range
    both = np.stack([np.where(hidden, low, y), np.where(hidden, high, y)], axis=1)
    cells = make_cells(read_entries(both, groups, subjects, None))
    ends = [
        cells.mean[(cells.group == g) & np.isfinite(cells.mean[:, 0])]
        for g in range(int(cells.group.max(initial=-1)) + 1)
    ]
    means = np.array([e.mean(axis=0) for e in ends if len(e) >= max(min_subjects, 1)])
    if len(means) < 2:
        return None, None
    lowest, highest = means[:, 0], means[:, 1]
    apart = float(max(0.0, lowest.max() - highest.min()))
    gaps = highest[:, None] - lowest[None, :]
    np.fill_diagonal(gaps, -np.inf)
    return apart, float(gaps.max())
