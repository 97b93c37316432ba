"""Interval of max - min of the group means by a studentised bootstrap, and the probability of each group ranking worst.

The percentile bootstrap does not cover the range of group means near 0 (coverage 0 at a gap of 0, by simulation). Here
resampled differences of all pairs are studentised, and the quantile of their maximum is a simultaneous critical value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fp2.stats.core.moments import PairTable, max_t_squared, pair_table, worst_shares
from fp2.stats.core.numeric import FloatArray
from fp2.stats.core.resampling import resampled_moments
from fp2.stats.core.units import Prepared


@dataclass(frozen=True)
class Interval:
    """low, high (m,): the scaled interval; worst (G, m): share of resamples in which each group ranks worst."""

    low: FloatArray
    high: FloatArray
    worst: FloatArray


def bootstrap_interval(p: Prepared, sign: FloatArray, *, n_bootstrap: int, seed: int, alpha: float) -> Interval:
    """Return the interval at 1 - alpha from `n_bootstrap` resamples of the subjects.

    low = max over pairs of |d| - q SE, at least 0, with the (1 - alpha) quantile q of the resampled maximum of
    |d* - d| / SE*; high = max over pairs of |d| + t SE, with Student's t for a single pair. `sign` (m,): +1 where a low
    mean is bad, else -1.
    """
    observed, resamples = resampled_moments(p, n_bootstrap, seed)
    centre = np.where(observed.valid, observed.mean, 0.0)
    largest, worst = [], np.zeros(p.eligible.shape)
    for found in resamples:
        largest.append(max_t_squared(found, centre))
        worst += worst_shares(found, sign).sum(axis=1)
    maxima = np.concatenate(largest)
    # a resample that lost all but one group carries no information: it widens the interval
    maxima[np.isnan(maxima)] = np.inf
    q = np.sqrt(np.quantile(maxima, 1 - alpha, axis=0, method="higher"))
    low, high = _ends(pair_table(observed), q, alpha)
    return Interval(low, high, worst / n_bootstrap)


def _ends(table: PairTable, q: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    from scipy.special import ndtri, stdtrit

    known = np.isfinite(table.gap)
    t = np.where(np.isfinite(table.df), stdtrit(np.where(np.isfinite(table.df), table.df, 1.0), 1 - alpha / 2), 0.0)
    t = np.where(np.isinf(table.df), ndtri(1 - alpha / 2), t)
    with np.errstate(invalid="ignore"):
        less = np.where(table.error > 0, q * table.error, 0.0)
    low = np.where(known, table.gap - less, -np.inf).max(axis=0)
    high = np.where(known, table.gap + t * table.error, -np.inf).max(axis=0)
    none = ~known.any(axis=0)
    return np.where(none, np.nan, np.maximum(low, 0.0)), np.where(none, np.nan, high)
