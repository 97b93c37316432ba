"""What version 0.3.0 computed, for the column "0.3.0" of the report: its formulas where they are no longer in use.

They rest on the moments of the current package with the weights of that version.
"""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np
from scipy.special import stdtr, stdtrit

from benchmarks.validity.measure import p_values
from benchmarks.validity.worlds import ALPHA, Data, World
from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.moments import GroupMoments, YesNo, moments, pair_error, pair_table, pairs
from fp2.stats.core.resampling import observed_moments, resampled_moments, with_agreement
from fp2.stats.core.sums import group_sums
from fp2.stats.core.units import Labels, Permuter, Prepared, prepare


def prepared(data: Data) -> Prepared:
    """Return the units of a data set in which at least two groups are large enough."""
    entries = read_entries(data.values, data.groups, data.subjects, data.images)
    p = prepare(entries, cell_means(entries), 10)
    assert p is not None, "every world has two large groups"
    return p


def p_value(world: World, data: Data, n_permutations: int, seed: int) -> np.ndarray:
    """Return p (m,): of pairs alone; yes/no outcomes by the pooled variance, two groups with one degree of it."""
    p = prepared(data)
    m = len(p.scale)
    units = with_agreement(p, np.full(m, True)) if world.yes_no else p.data
    permuter = Permuter(p.units, seed)
    scores = YesNo(np.zeros(m, dtype=bool), np.zeros(m), np.ones(m))

    def largest(labels: Labels) -> np.ndarray:
        sums = group_sums(units, labels)
        found = moments(sums, p.eligible, scores, 1.0)
        if world.yes_no:
            size = np.where(found.valid, found.n, 2.0)
            relative = 1.0 if sums.spread is None else sums.spread / size
            found = replace(found, error=np.where(found.valid, found.pool * relative / size, np.inf))
        return np.sqrt(_largest_pair(found, 0.0))

    return p_values(largest(permuter.observed())[0], largest(permuter.draw(n_permutations)))


def _largest_pair(found: GroupMoments, less: float | np.ndarray) -> np.ndarray:
    """Return the largest squared studentised difference of two means less `less` (G, 1, m), (b, m)."""
    mean, largest = found.mean - less, []
    for g, h in pairs(len(mean)):
        gap, error = (mean[g] - mean[h]) ** 2, pair_error(found, g, h)
        with np.errstate(divide="ignore", invalid="ignore"):
            largest.append(np.where(gap <= 1e-20, 0.0, gap / error))
    return np.asarray(np.fmax.reduce(largest))


def interval(data: Data, n_bootstrap: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends, (m,) each: a studentised bootstrap of the maximum, and the largest Welch limit of a pair."""
    p = prepared(data)
    found, resamples = resampled_moments(p, n_bootstrap, seed)
    centre = np.where(found.valid, found.mean, 0.0)
    largest = np.concatenate([_largest_pair(again, centre) for again in resamples])
    critical = np.sqrt(np.quantile(np.where(np.isnan(largest), np.inf, largest), 1 - ALPHA, axis=0, method="higher"))
    gap, error, df = astuple(pair_table(found))
    margin = np.where(error > 0, critical * np.where(error > 0, error, 1.0), 0.0)
    low, high = (gap - margin).max(axis=0), (gap + stdtrit(np.minimum(df, 1e9), 1 - ALPHA / 2) * error).max(axis=0)
    return np.maximum(low, 0.0) * p.scale, high * p.scale


def equivalence_p(data: Data, bound: float) -> np.ndarray:
    """Return the largest p of two one-sided Welch t tests over pairs, (m,), with the pooled variance of 3 subjects."""
    p = prepared(data)
    gap, error, df = astuple(pair_table(observed_moments(p.y, p.member, p.eligible, p.units.dependent)))
    room = bound / p.scale - gap
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, -room / error, np.where(room > 0, -np.inf, np.inf))
    return np.asarray(stdtr(np.minimum(df, 1e9), t).max(axis=0))


def ordered(values: np.ndarray, data: Data, n_bootstrap: int, seed: int) -> np.ndarray:
    """Return (K, K): the row's shrunken composite is significantly lower than the column's; values (K, n, m)."""
    k = len(values)
    p = prepared(replace(data, values=np.moveaxis(values, 1, 0).reshape(values.shape[1], -1)))
    found, resamples = resampled_moments(p, n_bootstrap, seed)
    observed = _composites(found, p, k)[0]
    again = np.concatenate([_composites(one, p, k) for one in resamples])
    difference, resampled = observed[:, None] - observed, again[:, :, None] - again[:, None]
    spread = resampled.std(axis=0, ddof=1)
    t = np.abs(resampled - resampled.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    critical = np.quantile(t.reshape(len(again), -1).max(axis=1), 1 - ALPHA, method="higher")
    return np.asarray(difference < -critical * spread)


def _composites(found: GroupMoments, p: Prepared, k: int) -> np.ndarray:
    """Return the mean shrunken range of each model, (b, K); tau^2 of Paule and Mandel (1982) by Newton's method."""
    y, v = found.mean, np.maximum(found.pool / found.n, 1e-12)
    tau2 = np.zeros(y.shape[1:])
    for _ in range(30):
        weight = 1 / (v + tau2)
        mu = (weight * y).sum(axis=0) / weight.sum(axis=0)
        square = weight * (y - mu) ** 2
        tau2 = tau2 + np.maximum(square.sum(axis=0) - (len(y) - 1), 0.0) / (weight * square).sum(axis=0)
    ranges = np.ptp(mu + tau2 / (tau2 + v) * (y - mu), axis=0) * p.scale
    return np.asarray(ranges.reshape(len(ranges), k, -1).mean(axis=2))
