"""A2: interval of max - min from a studentised bootstrap of whole subjects, and how often each group came out worst.

Groups without common subjects are resampled one by one, with replacement. Where subjects count in several groups, each
subject gets one Exp(1) weight in all of them, and standard errors follow from the weighted influences. Subjects without
an answer to an outcome are resampled too and fall out of that outcome's sums: one resample serves all outcomes.
PCG64 streams are consumed row by row, so chunking changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fp2.stats.pairwise import PairTable, pair_table
from fp2.stats.permutation import stream
from fp2.stats.rows import BoolArray, FloatArray
from fp2.stats.studentised import GroupMoments, max_t_squared, moments, share_worst
from fp2.stats.sums import CHUNK_BYTES, Cross, Sums

V0 = 3.0


@dataclass(frozen=True)
class Interval:
    """low, high (m,): the interval; worst (G, m): share of resamples in which each group was the worst."""

    low: FloatArray
    high: FloatArray
    worst: FloatArray


def observed_moments(y: FloatArray, member: BoolArray, eligible: BoolArray, dependent: bool) -> GroupMoments:
    """Moments of what was seen, regularised as A2 asks. y (N, G, m): subject means, NaN where there is none.

    member (N, G): who is in which group, answered or not.
    """
    ones = np.ones((1, len(y)))
    if not dependent:
        return moments(
            _disjoint(y, [ones[:, member[:, g]] for g in range(y.shape[1])], member), eligible, _never(eligible), V0
        )
    return moments(_stack([_weighted(y[:, :, j], ones) for j in range(y.shape[2])]), eligible, _never(eligible), V0)


def bootstrap_interval(
    y: FloatArray,
    member: BoolArray,
    eligible: BoolArray,
    sign: FloatArray,
    *,
    dependent: bool,
    n_bootstrap: int,
    seed: int,
    alpha: float,
) -> Interval:
    """Resample `n_bootstrap` times and return A2's interval (not yet clipped to the scale).

    y (N, G, m) scaled subject means; member (N, G): who is in which group, answered or not; eligible (G, m);
    sign (m,) +1 if a low mean is bad.
    """
    seen = observed_moments(y, member, eligible, dependent)
    centre = np.where(seen.valid, seen.mean, 0.0)
    largest, worst = [], np.zeros(y.shape[1:])
    for sums in resampled_sums(y, member, dependent, n_bootstrap, seed):
        again = moments(sums, eligible, _never(eligible), V0)
        largest.append(max_t_squared(again, centre))
        worst += share_worst(again, sign)
    # a resample that lost all but one group says nothing: it widens
    everything = np.concatenate(largest)
    everything[np.isnan(everything)] = np.inf
    q = np.sqrt(np.quantile(everything, 1 - alpha, axis=0, method="higher"))
    low, high = _ends(pair_table(seen), q, alpha)
    return Interval(low, high, worst / n_bootstrap)


def resampled_sums(y: FloatArray, member: BoolArray, dependent: bool, n: int, seed: int) -> Iterator[Sums]:
    """Resample whole subjects `n` times, all outcomes together: sums by group in chunks that fit the memory budget."""
    return _weighted_draws(y, n, seed) if dependent else _disjoint_draws(y, member, n, seed)


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


def _never(eligible: BoolArray) -> BoolArray:
    """No outcome takes the pooled variance here: rates that are far apart have different spreads."""
    return np.zeros(eligible.shape[1], dtype=bool)


def _disjoint_draws(y: FloatArray, member: BoolArray, n: int, seed: int) -> Iterator[Sums]:
    sizes = [int(n) for n in member.sum(axis=0)]
    streams = [stream(seed, 0, 0, g) for g in range(len(sizes))]
    step = max(1, CHUNK_BYTES // (8 * max(2 * sum(sizes), 6 * y.shape[1] * y.shape[2])))
    for start in range(0, n, step):
        b = min(step, n - start)
        yield _disjoint(y, [_counts(rng, b, size) for rng, size in zip(streams, sizes, strict=True)], member)


def _counts(rng: np.random.Generator, b: int, size: int) -> FloatArray:
    """How often each of `size` subjects is drawn in `b` resamples, (b, size)."""
    if size == 0:
        return np.zeros((b, 0))
    drawn = rng.integers(0, size, (b, size)) + size * np.arange(b)[:, None]
    return np.bincount(drawn.reshape(-1), minlength=b * size).reshape(b, size).astype(np.float64)


def _disjoint(y: FloatArray, counts: list[FloatArray], member: BoolArray) -> Sums:
    parts = []
    for g, count in enumerate(counts):
        own = y[member[:, g], g]
        present = np.isfinite(own)
        own = np.where(present, own, 0.0)
        parts.append([count @ part for part in (present.astype(np.float64), own, own * own)])
    n, s, q = (np.stack([p[i] for p in parts]) for i in range(3))
    return Sums(n, s, q, None)


def _weighted_draws(y: FloatArray, n: int, seed: int) -> Iterator[Sums]:
    rng = stream(seed, 0, 1)
    people, groups, m = y.shape
    step = max(1, CHUNK_BYTES // (8 * max(people, 6 * groups * groups * m)))
    for start in range(0, n, step):
        weights = rng.standard_exponential((min(step, n - start), people))
        yield _stack([_weighted(y[:, :, j], weights) for j in range(m)])


def _stack(columns: list[Sums]) -> Sums:
    """Put the sums of single outcomes side by side on the last axis."""
    n, s, q = (np.concatenate([c[i] for c in columns], axis=-1) for i in range(3))
    crosses = [c.cross for c in columns if c.cross is not None]
    return Sums(n, s, q, Cross(*(np.concatenate(part, axis=-1) for part in zip(*crosses, strict=True))))


def _weighted(y: FloatArray, weights: FloatArray) -> Sums:
    """Sums of one outcome, y (N, G), under subject weights (b, N), scaled to each group's number of subjects.

    So scaled, mean and variance are those of the weighted sample, and the error still is that of n_g subjects.
    """
    groups, b = y.shape[1], len(weights)
    present = np.isfinite(y)
    filled, mask = np.where(present, y, 0.0), present.astype(np.float64)
    # pairs of groups without a common subject add nothing
    first, second = np.nonzero(mask.T @ mask)
    table = np.concatenate([a[:, first] * z[:, second] for a, z in ((mask, mask), (filled, mask), (filled, filled))], 1)
    parts = np.zeros((3, groups, groups, b))
    parts[:, first, second] = (weights @ table).T.reshape(3, len(first), b)
    n, s, q = parts
    diagonal = np.arange(groups)
    weight = n[diagonal, diagonal]
    size = np.broadcast_to(present.sum(axis=0)[:, None].astype(np.float64), weight.shape)
    scale = size / np.where(weight > 0, weight, 1.0)
    root = np.sqrt(scale[:, None] * scale[None])
    cross = Cross(*((part * root)[..., None] for part in (n, s, q)))
    own = (s[diagonal, diagonal] * scale, q[diagonal, diagonal] * scale)
    return Sums(size[..., None], own[0][..., None], own[1][..., None], cross)
