"""The distance of two models' fingerprints on two independent samples of subjects.

The null hypothesis is that the profiles of group means are parallel: the models' means of every group differ by one
constant. It is the absence of an interaction of model and group in a two-way layout with unequal variances, tested by a
permutation test of a studentised statistic (Pauly, Brunner and Konietschke 2015): the constant is removed, subjects
exchange the model within their groups, and |T| of every contrast of two groups takes the variances of all four cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import (
    CHUNK_BYTES,
    NO_GAP,
    V0_PERMUTATION,
    BoolArray,
    FloatArray,
    GroupMoments,
    IntArray,
    Prepared,
    YesNo,
    cell_means,
    moments,
    pair_error,
    pairs,
    prepare,
    read_entries,
    resampled_moments,
    stream,
    weighted_sums,
)
from fp2.methods.several_runs.distance import FingerprintDistance, correlation, length, lengths, profile, summarised

_STREAM = 7


@dataclass(frozen=True)
class ModelOutcomes:
    """One model's answers about its subjects.

    values (n, m): one column per outcome, NaN = missing; groups, subjects, images (n,): labels of each line.
    """

    values: ArrayLike
    groups: ArrayLike
    subjects: ArrayLike
    images: ArrayLike | None = None


@dataclass(frozen=True)
class _Cells:
    """Subject means y (N, G, m) of one sample in common units, NaN where none; member (N, G); how it is resampled."""

    y: FloatArray
    member: BoolArray
    prepared: Prepared
    kept: IntArray


def independent_distance(
    first: ModelOutcomes,
    second: ModelOutcomes,
    *,
    n_permutations: int,
    n_bootstrap: int,
    seed: int,
    alpha: float = 0.05,
    min_subjects: int = 10,
) -> FingerprintDistance:
    """Compare the profiles of two models that were asked about different subjects.

    Groups with at least `min_subjects` subjects in both samples are compared. The numbers are those of
    `fingerprint_distance`, but `null_mean` and `null_p95` are of the distance when subjects exchange the model within
    their groups; the interval resamples the subjects of each sample.

    Raises
    ------
    ValueError
        If the numbers of outcomes differ, or a subject is in both samples.
    """
    shared = set(np.asarray(first.subjects).astype(str)) & set(np.asarray(second.subjects).astype(str))
    if shared:
        raise ValueError(f"{len(shared)} subjects are in both samples")
    read = [read_entries(s.values, s.groups, s.subjects, s.images) for s in (first, second)]
    m = read[0].values.shape[1]
    if read[1].values.shape[1] != m:
        raise ValueError(f"the samples have {m} and {read[1].values.shape[1]} outcomes")
    prepared = [prepare(entries, cell_means(entries), min_subjects) for entries in read]
    nothing = FingerprintDistance(by_outcome=(None,) * m)
    if prepared[0] is None or prepared[1] is None:
        return nothing
    both = [p for p in prepared if p is not None]
    labels = [[entries.names[code] for code in p.units.kept] for entries, p in zip(read, both, strict=True)]
    names = [name for name in sorted(labels[0]) if name in labels[1]]
    if len(names) < 2:
        return nothing
    cells = [
        _common(p, [group_names.index(name) for name in names]) for p, group_names in zip(both, labels, strict=True)
    ]
    eligible = np.all([c.prepared.eligible[c.kept] for c in cells], axis=0)
    groups_used = np.flatnonzero(eligible.sum(axis=0) >= 2)
    if not len(groups_used):
        return nothing
    t, difference, null_t, null = _test(cells, eligible, groups_used, n_permutations, seed)
    low, high = _interval(cells, eligible, groups_used, n_bootstrap, seed, alpha) if n_bootstrap else (None, None)
    return replace(
        summarised(m, groups_used, difference, null, [(t, null_t)]),
        ci_low=low,
        ci_high=high,
        correlation=correlation([_centred_means(cell, eligible, groups_used) for cell in cells]),
        n_subjects=sum(int(np.isfinite(cell.y[:, :, groups_used]).any(axis=(1, 2)).sum()) for cell in cells),
        groups=tuple(name for name, counts in zip(names, eligible[:, groups_used], strict=True) if counts.any()),
    )


def _common(p: Prepared, outcome_columns: Sequence[int]) -> _Cells:
    """Return the cells of the chosen groups in the outcomes' own units."""
    chosen = np.array(outcome_columns, dtype=np.intp)
    in_groups = p.member[:, chosen].any(axis=1)
    return _Cells(p.y[in_groups][:, chosen] * p.scale, p.member[in_groups][:, chosen], p, chosen)


def _test(
    cells: Sequence[_Cells], eligible: BoolArray, groups_used: IntArray, n: int, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return max|T| (u,) and profile difference (G, 1, u) as observed, and permuted max|T| and distances (B, u)."""
    y = np.concatenate([c.y for c in cells])[:, :, groups_used]
    member = np.concatenate([c.member for c in cells])
    is_first = np.repeat([1.0, 0.0], [len(c.y) for c in cells])[None]
    counts = eligible[:, groups_used]
    unit = np.nanstd(np.where(counts, y, np.nan), axis=(0, 1))
    unit = np.where(unit > 1e-12 * np.maximum(1.0, np.nanmax(np.abs(y), axis=(0, 1))), unit, 0.0)
    y = np.where(unit > 0, y / np.where(unit > 0, unit, 1.0), y * 0.0)
    observed = _both(y, is_first, counts)
    t = _max_t(*observed)[0]
    # under the null hypothesis one constant separates the models in all groups: it is removed before subjects exchange
    gap, error = observed[0].mean - observed[1].mean, observed[0].error + observed[1].error
    weight = np.where(np.isfinite(gap) & (error > 0), 1 / np.where(error > 0, error, 1.0), 0.0)
    constant = (weight * np.nan_to_num(gap)).sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-300)
    level = np.nanmean(np.where(np.isfinite(y), y - is_first[0][:, None, None] * constant, np.nan), axis=0)
    rest = y - is_first[0][:, None, None] * constant - level
    _, stratum = np.unique(member, axis=0, return_inverse=True)
    rng = stream(seed, _STREAM)
    step = max(1, CHUNK_BYTES // (8 * (len(y) + 16 * y.shape[1] ** 2 * y.shape[2])))
    largest, apart = [], []
    for start in range(0, n, step):
        who = _exchanged(is_first[0], stratum.reshape(-1), min(step, n - start), rng)
        exchanged = _both(rest, who, counts)
        largest.append(_max_t(*exchanged))
        apart.append(lengths(_difference(exchanged, counts) * unit))
    return t, _difference(observed, counts) * unit, np.concatenate(largest), np.concatenate(apart)


def _exchanged(is_first: FloatArray, stratum: IntArray, b: int, rng: np.random.Generator) -> FloatArray:
    """Return `b` permutations of who is in the first sample, within subjects of the same groups, (b, N)."""
    out = np.empty((b, len(is_first)))
    for code in np.unique(stratum):
        members = np.flatnonzero(stratum == code)
        out[:, members] = rng.permuted(np.broadcast_to(is_first[members], (b, len(members))), axis=1)
    return out


def _both(y: FloatArray, is_first: FloatArray, eligible: BoolArray) -> tuple[GroupMoments, GroupMoments]:
    """Return the moments of both samples for indicators of the first, (b, N)."""
    m = y.shape[2]
    never = YesNo(np.zeros(m, dtype=bool), np.zeros(m), np.ones(m))
    first, second = (
        moments(weighted_sums(y, who), eligible, never, V0_PERMUTATION) for who in (is_first, 1 - is_first)
    )
    return first, second


def _max_t(first: GroupMoments, second: GroupMoments) -> FloatArray:
    """Return the largest |T| over contrasts of two groups between the models, (b, m); 0/0 = 0."""
    gap = np.nan_to_num(first.mean) - np.nan_to_num(second.mean)
    valid = first.valid & second.valid
    best = np.zeros(gap.shape[1:])
    for g, h in pairs(len(gap)):
        square = (gap[g] - gap[h]) ** 2
        error = pair_error(first, g, h) + pair_error(second, g, h)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(square <= NO_GAP, 0.0, square / error)
        np.maximum(best, np.where(valid[g] & valid[h], value, 0.0), out=best)
    return np.where(valid.sum(axis=0) >= 2, np.sqrt(best), np.nan)


def _difference(moments_of_both: tuple[GroupMoments, GroupMoments], eligible: BoolArray) -> FloatArray:
    """Return the difference of the two centred profiles, (G, b, m)."""
    return profile(moments_of_both[0].mean - moments_of_both[1].mean, eligible, np.ones(eligible.shape[1]))


def _resampled(cell: _Cells, groups_used: IntArray, n: int, seed: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield means and squared errors (G, b, u), the observed ones first."""
    p = cell.prepared
    observed, resamples = resampled_moments(p, n, seed)
    for resampled in (observed, *resamples):
        mean, error = resampled.mean[cell.kept][:, :, groups_used], resampled.error[cell.kept][:, :, groups_used]
        yield mean * p.scale[groups_used], np.where(np.isfinite(error), error, 0.0) * p.scale[groups_used] ** 2


def _interval(
    cells: Sequence[_Cells], eligible: BoolArray, groups_used: IntArray, n: int, seed: int, alpha: float
) -> tuple[float, float]:
    """Return the ends, as `fp2.methods.several_runs.distance` does for one sample."""
    from scipy.special import ndtri

    draws = [list(_resampled(cell, groups_used, n, seed + index)) for index, cell in enumerate(cells)]
    mean = [np.concatenate([batch[0] for batch in batches], axis=1) for batches in draws]
    error = [np.concatenate([batch[1] for batch in batches], axis=1) for batches in draws]
    counts = eligible[:, groups_used]
    distances = profile(mean[0] - mean[1], counts, np.ones(len(groups_used)))
    total = np.where(counts[:, None], error[0] + error[1], 0.0).sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
    unit = np.sqrt(total.mean(axis=-1))
    own_distances, apart = distances[:, :1], distances[:, 1:] - distances[:, :1]
    apart[~np.isfinite(apart)] = 0.0
    distance = float(length(own_distances)[0])
    slope = np.where(np.isfinite(own_distances), own_distances, 0.0) / (
        np.maximum(np.isfinite(own_distances).sum(axis=0), 1) * len(groups_used)
    )
    along = (slope / max(distance, 1e-300) * apart).sum(axis=(0, 2))
    off = np.divide(length(apart), unit[1:], out=np.zeros(len(unit) - 1), where=unit[1:] > 0)
    reach = float(np.quantile(off, 1 - alpha, method="higher")) * float(unit[0])
    spread = float(along.std()) if distance > 0 else reach
    return max(0.0, distance - reach), distance + float(ndtri(1 - alpha / 2)) * spread


def _centred_means(cell: _Cells, eligible: BoolArray, groups_used: IntArray) -> FloatArray:
    """Return one model's centred profile."""
    means = (np.nanmean(cell.y[:, eligible[:, j], j], axis=0) for j in groups_used)
    return np.concatenate([mean - mean.mean() for mean in means])
