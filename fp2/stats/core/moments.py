"""Group means with their standard errors, and the studentised differences of pairs of groups.

One formula for the permutation test, the bootstrap interval and what is derived from them. Arrays are (G, b, m):
groups, relabellings or resamples, outcomes. Values must be scaled to about unit spread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from fp2.stats.core.numeric import BoolArray, FloatArray
from fp2.stats.core.sums import Sums

NO_SPREAD = 1e-12
NO_GAP = 1e-20
MEAN_TIE = 1e-10


@dataclass(frozen=True)
class GroupMoments:
    """Moments of the subject means of every group, each (G, b, m) except `pool` (b, m).

    Attributes
    ----------
    mean, variance
        Mean (NaN if not valid) and variance (ddof 1).
    error
        Squared standard error of the mean from the regularised variance, infinite if not valid.
    n, valid
        Number of subjects with a value, and whether the group counts: at least 2, and eligible.
    pool
        Pooled variance.
    design
        Yes/no outcomes: variance of a group's subject means over that of single independent answers, in (0, 1].
    correlation : (G, G, b, m) or None
        Of two groups' means, through the subjects in both; None if no subject is in two groups.
    """

    mean: FloatArray
    variance: FloatArray
    error: FloatArray
    n: FloatArray
    valid: BoolArray
    pool: FloatArray
    design: FloatArray
    correlation: FloatArray | None


class YesNo(NamedTuple):
    """Which outcomes are yes/no, and their scaling: rate = centre + scale * mean, with the overall rate `centre`."""

    which: BoolArray
    centre: FloatArray
    scale: FloatArray


def moments(sums: Sums, eligible: BoolArray, yes_no: YesNo, v0: float | FloatArray) -> GroupMoments:
    """Return means and regularised squared errors from sums.

    Parameters
    ----------
    sums : Sums
    eligible : (G, m)
        Groups that count for an outcome.
    yes_no : YesNo
        Yes/no outcomes (m,), whose squared errors follow from the overall rate.
    v0 : float or (m,)
        Weight of the pooled variance, in degrees of freedom, for other outcomes.
    """
    n, valid = sums.n, (sums.n >= 2) & eligible[:, None, :]
    size = np.where(valid, n, 2.0)
    mean = np.where(valid, sums.s / size, np.nan)
    variance = np.maximum(sums.q - sums.s * sums.s / size, 0.0) / (size - 1)
    variance[variance < NO_SPREAD] = 0.0
    variance[~valid] = 0.0
    relative = None if sums.spread is None else sums.spread / size
    # s^2 <- ((n - 1) s^2 + v0 pool) / (n - 1 + v0), with the pooled variance
    dof = np.maximum(np.where(valid, n, 0.0) - 1, 0.0)
    pool = (dof * variance).sum(axis=0) / np.maximum(dof.sum(axis=0), 1.0)
    regular = (dof * variance + v0 * pool) / np.maximum(dof + v0, 1.0)
    if relative is not None:
        # not the pooled variance alone: a group may vary more; not its own alone: of few it is 0 by chance
        regular = np.fmax(regular, pool * relative)
        relative = np.where(np.isnan(relative), 1.0, relative)
    design = np.ones_like(variance)
    if yes_no.which.any():
        null, design = _yes_no_variance(np.nan_to_num(mean), variance, size, pool, relative, yes_no)
        regular = np.where(yes_no.which, null, regular)
    error = np.where(valid, regular / size, np.inf)
    correlation = None if sums.cross is None else _correlation(sums, mean, variance, size)
    return GroupMoments(mean, variance, error, n, valid, pool, design, correlation)


def _yes_no_variance(
    mean: FloatArray, variance: FloatArray, n: FloatArray, pool: FloatArray, relative: FloatArray | None, yes_no: YesNo
) -> tuple[FloatArray, FloatArray]:
    """Return the variance of subject means if all groups had the overall rate, and the design ratio, (G, b, m) each.

    A mean of several answers varies less than one answer, by the design ratio s^2 / (p (1 - p)) of the group. Where
    the answers of a subject agree more than elsewhere the group's own ratio is larger than the pooled one, and counts:
    the pooled variance alone rejects 13 % instead of 5 % there, the larger of pooled and own variance 9 %, by
    simulation. The ratio is applied to the overall rate as in a score test: the variance at the group's own rate is too
    small where that rate is near 0 by chance. `relative` (G, b, m): mean relative variance of a group's subjects.
    """
    square = np.where(yes_no.scale > 0, yes_no.scale, 1.0) ** 2
    overall = yes_no.centre * (1 - yes_no.centre) / square
    rate = yes_no.centre + yes_no.scale * mean
    single = np.maximum(rate * (1 - rate), 0.0) / square
    pooled = pool if relative is None else pool * relative
    common = np.minimum(pooled / np.maximum(overall, NO_SPREAD), 1.0)
    own_ratio = np.where(variance > 0, variance * (n - 1) / n / np.maximum(single, NO_SPREAD), 0.0)
    design = np.clip(own_ratio, common, 1.0)
    return np.maximum(pooled, overall * np.minimum(own_ratio, 1.0)), design


def _correlation(sums: Sums, mean: FloatArray, variance: FloatArray, size: FloatArray) -> FloatArray:
    """Return the correlation of two groups' means, through the deviations of the subjects that they share."""
    assert sums.cross is not None
    n, s, q = sums.cross
    centre = np.nan_to_num(mean)
    deviation = q - centre[None] * s - centre[:, None] * s.swapaxes(0, 1) + centre[:, None] * centre[None] * n
    squares = variance * (size - 1)
    scale = np.sqrt(squares[:, None] * squares[None])
    share = np.divide(deviation, scale, out=np.zeros_like(deviation), where=scale > 0)
    return np.clip(share, -1.0, 1.0)


def pairs(n_groups: int) -> Iterator[tuple[int, int]]:
    """Every pair g < h."""
    return ((g, h) for g in range(n_groups) for h in range(g + 1, n_groups))


def pair_error(group_moments: GroupMoments, g: int, h: int) -> FloatArray:
    """Return the squared standard error of mean_g - mean_h, (b, m); infinite where a group is not valid."""
    error_g, error_h = group_moments.error[g], group_moments.error[h]
    total: FloatArray = error_g + error_h
    if group_moments.correlation is None:
        return total
    # scaling the influences with the regularised variances keeps the squared error non-negative
    with np.errstate(invalid="ignore"):
        less = 2 * group_moments.correlation[g, h] * np.sqrt(error_g * error_h)
        rest: FloatArray = np.where(total - less > NO_SPREAD * total, total - less, 0.0)
    return np.where(np.isfinite(total), rest, np.inf)


def max_t_squared(group_moments: GroupMoments, less: FloatArray | None = None) -> FloatArray:
    """Return the largest squared studentised contrast of the means, (b, m); 0/0 = 0, x/0 = infinity.

    Over pairs of valid groups and, times `contrast_weight`, over all contrasts of the groups (Scheffe 1953): a group
    apart from the others shows in a pair, means in even steps show in all of them together. Where groups have common
    subjects, or a group has no spread, pairs alone count. `less` (G, 1, m) is subtracted from the means first (the
    bootstrap compares with what was observed). NaN where fewer than two groups are valid.
    """
    mean = np.where(group_moments.valid, group_moments.mean, 0.0)
    if less is not None:
        mean = mean - less
    best = np.zeros(mean.shape[1:])
    exact = bool((group_moments.pool > 0).all()) and group_moments.correlation is None
    for g, h in pairs(len(mean)):
        gap = mean[g] - mean[h]
        gap *= gap
        error = pair_error(group_moments, g, h)
        if exact:
            gap /= error
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                gap = np.where(gap <= NO_GAP, 0.0, gap / error)
        np.maximum(best, gap, out=best)
    n_valid = group_moments.valid.sum(axis=0)
    weight = np.array([contrast_weight(group_moments, k) for k in range(len(mean) + 1)])
    if weight.any():
        np.maximum(best, weight[n_valid] ** 2 * squared_contrast(mean, group_moments.error), out=best)
    return np.where(n_valid >= 2, best, np.nan)


def contrast_weight(group_moments: GroupMoments, n_groups: int) -> float:
    """Return `all_contrasts` of so many groups; 0 where groups have common subjects."""
    return 0.0 if group_moments.correlation is not None else all_contrasts(n_groups)


@cache
def all_contrasts(n_groups: int) -> float:
    """Return by what the largest of all studentised contrasts is multiplied beside the largest pair; 0 for two groups.

    The ratio of their asymptotic 5 % critical values for groups of equal size, of the studentised range and of
    chi-squared: both then reject equally often. Permutations calibrate the test whatever the ratio.
    """
    from scipy.stats import chi2, studentized_range

    if n_groups < 3:
        return 0.0
    return float(studentized_range.ppf(0.95, n_groups, np.inf) / np.sqrt(2 * chi2.ppf(0.95, n_groups - 1)))


def squared_contrast(mean: FloatArray, error: FloatArray) -> FloatArray:
    """Return the largest squared studentised contrast of independent means, the sum of (mean - m)^2 / error.

    `m` is the mean weighted by 1 / error. mean, error : (G, ...), error infinite for groups that do not count; 0 where
    a squared error is 0.
    """
    positive = error > 0
    weight = np.where(positive, 1.0 / np.where(positive, error, 1.0), 0.0)
    centre = (weight * mean).sum(axis=0) / np.maximum(weight.sum(axis=0), NO_SPREAD)
    total: FloatArray = (weight * (mean - centre) ** 2).sum(axis=0)
    return np.where(positive.all(axis=0), total, 0.0)


def range_of_means(group_moments: GroupMoments) -> FloatArray:
    """Return max - min of the valid group means, (b, m); NaN where fewer than two are valid."""
    if group_moments.valid.all():
        gap: FloatArray = group_moments.mean.max(axis=0) - group_moments.mean.min(axis=0)
        return gap
    high = np.where(group_moments.valid, group_moments.mean, -np.inf).max(axis=0)
    low = np.where(group_moments.valid, group_moments.mean, np.inf).min(axis=0)
    with np.errstate(invalid="ignore"):
        return np.where(group_moments.valid.sum(axis=0) >= 2, high - low, np.nan)


def worst_shares(group_moments: GroupMoments, sign: FloatArray) -> FloatArray:
    """Return 1 for the worst group of each batch and outcome, (G, b, m); tied groups share it.

    `sign` (m,): +1 where a low mean is bad, else -1.
    """
    mean = np.where(group_moments.valid, group_moments.mean * sign, np.inf)
    lowest = (mean <= mean.min(axis=0) + MEAN_TIE) & group_moments.valid
    ties = np.maximum(lowest.sum(axis=0), 1)
    shares: FloatArray = lowest / ties
    return shares


@dataclass(frozen=True)
class PairTable:
    """Observed pairs of groups, each (pairs, m): |mean_g - mean_h|, its standard error, degrees of freedom.

    NaN where a group is not valid.
    """

    gap: FloatArray
    error: FloatArray
    df: FloatArray

    def column(self, j: int) -> PairTable:
        """Return the pairs of one outcome, each (pairs,)."""
        return PairTable(self.gap[:, j], self.error[:, j], self.df[:, j])


def pair_table(group_moments: GroupMoments) -> PairTable:
    """Tabulate the pairs of an observed batch of one (b = 1)."""
    gaps, errors, dfs = [], [], []
    n = np.where(group_moments.valid, group_moments.n, np.nan)[:, 0]
    single = np.where(group_moments.valid, group_moments.error, np.nan)[:, 0]
    for g, h in pairs(len(group_moments.mean)):
        ok = group_moments.valid[g, 0] & group_moments.valid[h, 0]
        gaps.append(np.abs(group_moments.mean[g, 0] - group_moments.mean[h, 0]))
        errors.append(np.sqrt(np.where(ok, pair_error(group_moments, g, h)[0], np.nan)))
        # Welch's degrees of freedom, infinite where both errors are 0
        terms = single[g] ** 2 / (n[g] - 1) + single[h] ** 2 / (n[h] - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            dfs.append(np.where(terms == 0, np.inf, (single[g] + single[h]) ** 2 / terms))
    return PairTable(np.array(gaps), np.array(errors), np.array(dfs))
