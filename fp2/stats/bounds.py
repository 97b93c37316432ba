"""Worst-case bounds of a disparity under refusals: each refused answer may be worth anything on the scale.

Sharp bounds without assumptions on the missing values (Manski 1989). Errors are not refusals and stay missing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.numeric import FloatArray


class GapBounds(NamedTuple):
    """The least and the largest gap, and an interval at 1 - alpha for the gap; None with fewer than two groups."""

    low: float | None
    high: float | None
    ci_low: float | None
    ci_high: float | None


def refusal_ends(values: ArrayLike, refused: ArrayLike, value_range: tuple[float, float]) -> FloatArray:
    """Return the least and largest value that each answer can have, (n, 2); `value_range` for a refused one.

    values, refused (bool): (n,). An error is NaN and not refused.
    """
    y, hidden = np.asarray(values, dtype=np.float64), np.asarray(refused, dtype=bool)
    low, high = value_range
    return np.stack([np.where(hidden, low, y), np.where(hidden, high, y)], axis=1)


def bounds_between(
    ends: ArrayLike, groups: ArrayLike, subjects: ArrayLike, *, min_subjects: int = 10, alpha: float = 0.05
) -> GapBounds:
    """Return the smallest and the largest max - min of group means of values that lie between `ends`.

    The interval is for the gap itself, not for its whole range (Imbens and Manski 2004): its critical value lies
    between the one-sided and the two-sided one, and follows from the width of the range. The upper end is the largest
    of the pairs' upper limits, which covers whatever pair is the largest; the lower end takes all pairs into account
    (Bonferroni), because the largest of several differences is too large by chance.

    Parameters
    ----------
    ends : (n, 2)
        As `refusal_ends` returns them, one line per (answer, group); NaN = missing.
    groups, subjects : (n,)
    min_subjects : int
        Groups with fewer subjects with a value or a refusal are left out.
    alpha : float
        1 - confidence level.
    """
    cells = cell_means(read_entries(ends, groups, subjects, None))
    has_ends = np.isfinite(cells.mean).all(axis=1)
    size = np.bincount(cells.group[has_ends], minlength=int(cells.group.max(initial=-1)) + 1)
    large_groups = np.flatnonzero(size >= max(min_subjects, 2))
    if len(large_groups) < 2:
        return GapBounds(None, None, None, None)
    means = np.empty((len(large_groups), 2))
    pull = np.zeros((len(large_groups), 2, int(cells.subject.max()) + 1))
    for k, g in enumerate(large_groups):
        in_group = has_ends & (cells.group == g)
        y, n = cells.mean[in_group], int(size[g])
        means[k] = y.mean(axis=0)
        pull[k][:, cells.subject[in_group]] = ((y - means[k]) / np.sqrt(n * (n - 1))).T
    # highest of one group less lowest of another, and the reverse
    above = means[:, 1][:, None] - means[:, 0][None]
    error = np.sqrt(((pull[:, 1][:, None] - pull[:, 0][None]) ** 2).sum(axis=-1))
    df = np.minimum.outer(size[large_groups], size[large_groups]) - 1.0
    pairs = ~np.eye(len(large_groups), dtype=bool)
    low, high = max(0.0, float((-above)[pairs].max())), float(above[pairs].max())
    largest = float(error[pairs].max())
    width = np.inf if largest == 0 else (high - low) / largest
    up, down = (_critical(level, width, df) for level in (alpha, alpha / pairs.sum()))
    ci_low = max(0.0, float((-above - down * error)[pairs].max()))
    return GapBounds(low, high, ci_low, float((above + up * error)[pairs].max()))


def _critical(alpha: float, width: float, df: FloatArray) -> FloatArray:
    """Return Student's t in place of the normal c with Phi(c + width) - Phi(-c) = 1 - alpha."""
    from scipy.optimize import brentq
    from scipy.special import ndtr, ndtri, stdtrit

    one_sided, two = float(-ndtri(alpha)), float(-ndtri(alpha / 2))

    def excess(x: float) -> float:
        return float(ndtr(x + width) - ndtr(-x) - (1 - alpha))

    # at the ends, rounding decides the sign
    c = two if excess(two) <= 0 else one_sided if excess(one_sided) >= 0 else brentq(excess, one_sided, two)
    critical: FloatArray = stdtrit(df, float(ndtr(c)))
    return critical
