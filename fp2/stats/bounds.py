"""Worst-case bounds of a disparity under refusals: each refused answer may be worth anything on the scale.

Sharp bounds without assumptions on the missing values (Manski 1989). Errors are not refusals and stay missing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.numeric import FloatArray


def refusal_ends(values: ArrayLike, refused: ArrayLike, value_range: tuple[float, float]) -> FloatArray:
    """Return the least and largest value that each answer can have, (n, 2); `value_range` for a refused one.

    values, refused (bool): (n,). An error is NaN and not refused.
    """
    y, hidden = np.asarray(values, dtype=np.float64), np.asarray(refused, dtype=bool)
    low, high = value_range
    return np.stack([np.where(hidden, low, y), np.where(hidden, high, y)], axis=1)


def bounds_between(
    ends: ArrayLike, groups: ArrayLike, subjects: ArrayLike, *, min_subjects: int = 10
) -> tuple[float | None, float | None]:
    """Return the smallest and the largest max - min of group means of values that lie between `ends`.

    Parameters
    ----------
    ends : (n, 2)
        As `refusal_ends` returns them, one line per (answer, group); NaN = missing.
    groups, subjects : (n,)
    min_subjects : int
        Groups with fewer subjects with a value or a refusal are left out.

    Returns
    -------
    tuple
        (None, None) with fewer than two groups.
    """
    cells = cell_means(read_entries(ends, groups, subjects, None))
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
