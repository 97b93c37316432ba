"""Sample size: how many subjects and images a group needs for a gap to be found with a given power.

A mean over the k images of a subject has the variance sd^2 (icc + (1 - icc) / k). With n subjects in each of G groups,
max|T| over pairs of groups is then approximately a studentised range divided by sqrt(2) (Tukey-Kramer; separate
variances as in Games and Howell 1976), central if no group differs and non-central if two groups do. Its critical value
at the level of one test of the family, and its power, are integrals of the normal distribution; nothing is simulated.
The contrast of all groups, which the test has beside the pairs, changes the power by less than two points here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import FloatArray, cell_means, read_entries

MOST_SUBJECTS = 1_000_000
PILOT_LIMIT = 0.8
"""Confidence of the upper limit of a pilot's variance (Browne 1995, Statistics in Medicine 14)."""
USUAL_SD, USUAL_ICC = 0.2, 0.6
"""Standard deviation of an answer, as a share of the scorer's range, and ICC: those of valence in the default run."""
_DF_PRIOR = 1.0
"""Degrees of freedom that the permutation test's regularisation adds to a pair's variance."""


@dataclass(frozen=True)
class Spread:
    """The variation of one outcome within groups.

    Attributes
    ----------
    sd
        Standard deviation of one answer.
    icc
        Intraclass correlation of the images of one subject, in [0, 1]; None if every subject has one image.
    df
        Degrees of freedom of the estimate; infinite for a stated value.
    """

    sd: float
    icc: float | None
    df: float = math.inf

    def variance(self, images: int) -> float:
        """Return the variance of a subject's mean over `images` images; without an icc, images do not average out."""
        alike = 1.0 if self.icc is None else self.icc
        return self.sd**2 * (alike + (1 - alike) / images)

    def cautious(self) -> Spread:
        """Return the spread with the upper confidence limit of its standard deviation, from chi-squared."""
        if math.isinf(self.df):
            return self
        from scipy.special import chdtri

        return Spread(self.sd * math.sqrt(self.df / float(chdtri(self.df, PILOT_LIMIT))), self.icc, self.df)


def spread_of(values: ArrayLike, groups: ArrayLike, subjects: ArrayLike) -> Spread | None:
    """Return the spread of one outcome within its groups, by one-way analysis of variance; None without variation.

    Mean squares are between subjects within groups and within subjects. A negative intraclass correlation counts as 0.

    Parameters
    ----------
    values, groups, subjects : (n,)
        One entry per (answer, group), NaN = missing.

    Raises
    ------
    ValueError
        As `read_entries`.
    """
    entries = read_entries(values, groups, subjects, None)
    cells = cell_means(entries)
    present = np.isfinite(entries.values[:, 0])
    value, cell = entries.values[present, 0], cells.of_entry[present]
    used, cell = np.unique(cell, return_inverse=True)
    if not len(used) or np.ptp(value) <= 1e-12 * max(1.0, float(np.abs(value).max())):
        return None
    size, mean = np.bincount(cell).astype(np.float64), np.bincount(cell, weights=value) / np.bincount(cell)
    group_of = cells.group[used]
    images, n_groups = np.bincount(group_of, weights=size), len(np.unique(group_of))
    centre = np.bincount(group_of, weights=size * mean) / np.maximum(images, 1.0)
    between_df, within_df = len(used) - n_groups, len(value) - len(used)
    if between_df < 1:
        return None
    between = float((size * (mean - centre[group_of]) ** 2).sum()) / between_df
    if within_df < 1:
        return Spread(math.sqrt(between), None, between_df) if between > 0 else None
    within = float(((value - mean[cell]) ** 2).sum()) / within_df
    k0 = (
        len(value) - float((np.bincount(group_of, weights=size**2)[images > 0] / images[images > 0]).sum())
    ) / between_df
    subject = max((between - within) / k0, 0.0) if k0 > 0 else 0.0
    total = subject + within
    return Spread(math.sqrt(total), subject / total, between_df) if total > 0 else None


def detection_power(gap: float, spread: Spread, *, groups: int, subjects: int, images: int, level: float) -> float:
    """Return the power of the max|T| test at `level` with `subjects` subjects in each of `groups` groups.

    Two groups differ by `gap`; all others lie midway between them, where they help least.

    Raises
    ------
    ValueError
        For fewer than two groups or subjects, or a level outside (0, 1).
    """
    if groups < 2 or subjects < 2 or images < 1 or not 0 < level < 1:
        raise ValueError("need at least two groups, two subjects a group and one image, and 0 < level < 1")
    variance = spread.variance(images)
    if variance <= 0:
        return 1.0 if gap > 0 else 0.0
    df = 2.0 * (subjects - 1) + _DF_PRIOR
    shift = gap / math.sqrt(variance / subjects)
    return 1 - _range_below(_critical_range(groups, df, level), groups, df, shift)


def detectable_gap(
    spread: Spread, *, groups: int, subjects: float, images: int, level: float, power: float = 0.8
) -> float:
    """Return the gap that the test finds with `power`: the minimum detectable effect of `detection_power`."""
    n = max(2, round(subjects))
    low, high = 0.0, spread.sd
    while detection_power(high, spread, groups=groups, subjects=n, images=images, level=level) < power:
        low, high = high, 2 * high
    while high - low > 0.005 * high:
        middle = (low + high) / 2
        enough = detection_power(middle, spread, groups=groups, subjects=n, images=images, level=level) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


def subjects_needed(
    gap: float, spread: Spread, *, groups: int, images: int, level: float, power: float = 0.8, least: int = 10
) -> int | None:
    """Return the fewest subjects a group, at least `least`, for which `gap` is found with `power`.

    None if more than a million would be needed. Raises ValueError for a gap that is not positive.
    """
    if not gap > 0 or not 0 < power < 1:
        raise ValueError(f"need a gap above 0 and a power between 0 and 1, got {gap} and {power}")

    def enough(n: int) -> bool:
        return detection_power(gap, spread, groups=groups, subjects=n, images=images, level=level) >= power

    low, high = max(least, 2) - 1, max(least, 2)
    while not enough(high):
        if high >= MOST_SUBJECTS:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@cache
def _grid() -> tuple[FloatArray, FloatArray]:
    """Return the nodes and weights of the integrals over (-1, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(96)
    return nodes, weights


def _range_below(width: float, groups: int, df: float, shift: float) -> float:
    """Return P(R <= width S): R the range of normals with means -shift/2, 0, ..., 0, shift/2, and S^2 ~ chi^2/df.

    The sum over which normal is the smallest, integrated over its value, and over S (Copenhaver and Holland 1988).
    """
    from scipy.special import gammaln, ndtr

    nodes, weights = _grid()
    mean = np.zeros(groups)
    mean[0], mean[-1] = -shift / 2, shift / 2
    x = mean[:, None] + 8.5 * nodes  # each group's own value when it is the smallest
    density = np.exp(-0.5 * (8.5 * nodes) ** 2) / math.sqrt(2 * math.pi) * 8.5 * weights
    half = 8.0 / math.sqrt(2 * df)
    low, high = max(1e-6, 1 - half), 1 + half + 4.0 / df
    s = low + (high - low) * (nodes + 1) / 2
    log = 0.5 * df * math.log(df / 2) + math.log(2) - gammaln(df / 2) + (df - 1) * np.log(s) - df * s**2 / 2
    mass = np.exp(log) * weights * (high - low) / 2
    below = np.zeros(len(s))
    kinds, number = np.unique(mean, return_counts=True)
    for value, count in zip(kinds, number, strict=True):
        at = x[np.flatnonzero(mean == value)[0]]
        product = np.ones((len(s), len(at)))
        for other, many in zip(kinds, number, strict=True):
            times = int(many) - int(other == value)
            if times:
                product *= (ndtr(at + (width * s)[:, None] - other) - ndtr(at - other)) ** times
        below += int(count) * (product @ density)
    return float(min(1.0, (below @ mass) / mass.sum()))


@cache
def _critical_range(groups: int, df: float, level: float) -> float:
    """Return the (1 - level) quantile of the studentised range, by bisection."""
    low, high = 0.0, 8.0
    while 1 - _range_below(high, groups, df, 0.0) > level:
        high *= 2
        if high > 1e4:
            return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - _range_below(middle, groups, df, 0.0) > level else (low, middle)
        if high - low < 1e-6:
            break
    return high
