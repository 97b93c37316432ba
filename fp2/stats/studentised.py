"""The statistic: max - min of group means, and the largest studentised difference over all pairs of groups.

Shared by the permutation (A1), the interval (A2) and what is derived from them, so that there is one formula.
Arrays are (G, b, m): groups, relabellings or resamples, outcomes. Values must be scaled to about unit spread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fp2.stats.rows import BoolArray, FloatArray
from fp2.stats.sums import Sums

NO_SPREAD = 1e-12
NO_GAP = 1e-20
MEAN_TIE = 1e-10


@dataclass(frozen=True)
class GroupMoments:
    """Mean, squared standard error of the mean (regularised), raw variance, count and validity: each (G, b, m).

    `correlation` (G, G, b, m) of two groups' means through the subjects that they share; None if they share none.
    """

    mean: FloatArray
    variance: FloatArray
    error: FloatArray
    n: FloatArray
    valid: BoolArray
    pool: FloatArray
    correlation: FloatArray | None


def moments(sums: Sums, eligible: BoolArray, pooled: BoolArray, v0: float) -> GroupMoments:
    """Turn sums into means and regularised squared errors.

    eligible (G, m): groups that count for an outcome; pooled (m,): yes/no outcomes, whose groups take the pooled
    variance, each subject in proportion to what its number of answers makes of it; v0: weight of the pooled variance
    otherwise (1 in A1, 3 in A2). A group with fewer than 2 answers
    is not valid: its mean is NaN, and no pair with it counts.
    """
    n, valid = sums.n, (sums.n >= 2) & eligible[:, None, :]
    size = np.where(valid, n, 2.0)
    mean = np.where(valid, sums.s / size, np.nan)
    variance = np.maximum(sums.q - sums.s * sums.s / size, 0.0) / (size - 1)
    variance[variance < NO_SPREAD] = 0.0
    variance[~valid] = 0.0
    relative = None if sums.spread is None else sums.spread / size
    pool, error = squared_errors(variance, np.where(valid, n, 0.0), pooled, v0, relative)
    correlation = None if sums.cross is None else _correlation(sums, mean, variance, size)
    return GroupMoments(mean, variance, error, n, valid, pool, correlation)


def squared_errors(
    variance: FloatArray, n: FloatArray, pooled: BoolArray, v0: float, relative: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the pooled variance (b, m) and each group's regularised s^2 / n (G, b, m), infinite where n < 2.

    `relative` (G, b, m): mean relative variance of a group's subjects, for the outcomes that take the pooled one.
    """
    dof = np.maximum(n - 1, 0.0)
    pool = (dof * variance).sum(axis=0) / np.maximum(dof.sum(axis=0), 1.0)
    regular = (dof * variance + v0 * pool) / np.maximum(dof + v0, 1.0)
    if pooled.any():
        regular = np.where(pooled, pool if relative is None else pool * relative, regular)
    return pool, np.where(n >= 2, regular / np.maximum(n, 1.0), np.inf)


def _correlation(sums: Sums, mean: FloatArray, variance: FloatArray, size: FloatArray) -> FloatArray:
    """Correlation of two groups' means: sum over shared subjects of their deviations, over both sums of squares."""
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


def pair_error(found: GroupMoments, g: int, h: int) -> FloatArray:
    """Squared standard error of mean_g - mean_h, (b, m); infinite where a group is not valid."""
    error_g, error_h = found.error[g], found.error[h]
    total: FloatArray = error_g + error_h
    if found.correlation is None:
        return total
    # scaling the influences with the regularised variances keeps the squared error non-negative
    with np.errstate(invalid="ignore"):
        less = 2 * found.correlation[g, h] * np.sqrt(error_g * error_h)
        rest: FloatArray = np.where(total - less > NO_SPREAD * total, total - less, 0.0)
    return np.where(np.isfinite(total), rest, np.inf)


def max_t_squared(found: GroupMoments, less: FloatArray | None = None) -> FloatArray:
    """Return the largest squared studentised difference over valid pairs, (b, m); 0/0 = 0, x/0 = infinity.

    `less` (G, 1, m) is subtracted from the means first (the bootstrap compares with what was observed).
    NaN where fewer than two groups are valid.
    """
    mean = np.where(found.valid, found.mean, 0.0)
    if less is not None:
        mean = mean - less
    best = np.zeros(mean.shape[1:])
    exact = bool((found.pool > 0).all()) and found.correlation is None
    for g, h in pairs(len(mean)):
        gap = mean[g] - mean[h]
        gap *= gap
        error = pair_error(found, g, h)
        if exact:
            gap /= error
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                gap = np.where(gap <= NO_GAP, 0.0, gap / error)
        np.maximum(best, gap, out=best)
    return np.where(found.valid.sum(axis=0) >= 2, best, np.nan)


def spread(found: GroupMoments) -> FloatArray:
    """Return max - min of the valid group means, (b, m); NaN where fewer than two are valid."""
    if found.valid.all():
        gap: FloatArray = found.mean.max(axis=0) - found.mean.min(axis=0)
        return gap
    high = np.where(found.valid, found.mean, -np.inf).max(axis=0)
    low = np.where(found.valid, found.mean, np.inf).min(axis=0)
    with np.errstate(invalid="ignore"):
        return np.where(found.valid.sum(axis=0) >= 2, high - low, np.nan)


def share_worst(found: GroupMoments, sign: FloatArray) -> FloatArray:
    """How often each group is the worst, (G, m): a tie is shared. `sign` (m,): +1 where a low mean is bad, else -1."""
    total: FloatArray = worst_shares(found, sign).sum(axis=1)
    return total


def worst_shares(found: GroupMoments, sign: FloatArray) -> FloatArray:
    """1 for the worst group of each batch and outcome, (G, b, m); tied groups share it."""
    mean = np.where(found.valid, found.mean * sign, np.inf)
    lowest = (mean <= mean.min(axis=0) + MEAN_TIE) & found.valid
    ties = np.maximum(lowest.sum(axis=0), 1)
    shares: FloatArray = lowest / ties
    return shares


def worst_again(found: GroupMoments, shares: FloatArray, sign: FloatArray, noise: FloatArray) -> FloatArray:
    """Whether one more resample of the same people would name the same worst group: `shares` where it does, else 0.

    `noise` (G, b, 1): standard normal; a resampled mean is about normal around the mean with its standard error
    (groups that share people are treated as if they did not).
    """
    error = np.sqrt(found.variance / np.maximum(found.n, 1.0))
    again = np.where(found.valid, found.mean * sign + noise * error, np.inf)
    return np.where(again <= again.min(axis=0), shares, 0.0)
