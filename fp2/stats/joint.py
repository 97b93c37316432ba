"""The joint permutations of a panel: null distributions of all statistics from the same relabellings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fp2.stats.core.moments import GroupMoments, max_t_squared, range_of_means, worst_shares
from fp2.stats.core.numeric import FloatArray, stream
from fp2.stats.core.resampling import permuted_moments
from fp2.stats.core.units import Prepared
from fp2.stats.entropy import permuted_divergences
from fp2.stats.options import Options


@dataclass(frozen=True)
class JointPermutations:
    """Observed statistics and their B permutations; means and gaps are scaled.

    Attributes
    ----------
    observed : GroupMoments
    max_t : (m,)
        Observed largest studentised contrast.
    raw_permuted, max_t_permuted : (B, m)
    worst_again : (G, m)
        How often a resample names the same worst group again, given that a permutation made it the worst; NaN if none
        did.
    js, js_permuted : (m,), (min(B, 2000), m)
        Jensen-Shannon divergence.
    """

    observed: GroupMoments
    max_t: FloatArray
    raw_permuted: FloatArray
    max_t_permuted: FloatArray
    worst_again: FloatArray
    js: FloatArray
    js_permuted: FloatArray


def joint_permutations(p: Prepared, options: Options) -> JointPermutations:
    """Draw the permutations once and compute every permuted statistic from them."""
    b_all, m = options.n_permutations, len(p.scale)
    raw, largest = np.empty((b_all, m)), np.empty((b_all, m))
    worst, again = np.zeros(p.eligible.shape), np.zeros(p.eligible.shape)
    normal = stream(options.seed, 0, 2)
    observed, batches = permuted_moments(p, options.yes_no, b_all, options.seed)
    start = 0
    for found in batches:
        b = found.mean.shape[1]
        raw[start : start + b] = range_of_means(found)
        largest[start : start + b] = np.sqrt(max_t_squared(found))
        shares = worst_shares(found, options.sign)
        worst += shares.sum(axis=1)
        noise = normal.standard_normal((b, len(p.eligible))).T[:, :, None]
        again += _worst_again(found, shares, options.sign, noise).sum(axis=1)
        start += b
    js, js_permuted = permuted_divergences(p, options)
    repeated = np.where(worst > 0, again / np.where(worst > 0, worst, 1.0), np.nan)
    return JointPermutations(observed, np.sqrt(max_t_squared(observed)[0]), raw, largest, repeated, js, js_permuted)


def _worst_again(found: GroupMoments, shares: FloatArray, sign: FloatArray, noise: FloatArray) -> FloatArray:
    """Return `shares` (G, b, m) where a further resample of the subjects would name the same worst group, else 0.

    `noise` (G, b, 1): standard normal; a resampled mean is approximately normal around the mean with its standard error
    (common subjects of two groups are neglected).
    """
    error = np.sqrt(found.variance / np.maximum(found.n, 1.0))
    again = np.where(found.valid, found.mean * sign + noise * error, np.inf)
    return np.where(again <= again.min(axis=0), shares, 0.0)
