"""Group moments under permuted labels and in bootstrap resamples, in batches that fit the memory budget.

The permutation relabels the exchangeable units; the bootstrap resamples subjects. One permutation or resample serves
all outcomes: a subject without an answer to an outcome is drawn too and drops out of that outcome's sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fp2.stats.core.entries import count_and_sum
from fp2.stats.core.moments import GroupMoments, YesNo, max_t_squared, moments, range_of_means, worst_shares
from fp2.stats.core.numeric import CHUNK_BYTES, BoolArray, FloatArray, stream
from fp2.stats.core.sums import Cross, Sums, group_sums
from fp2.stats.core.units import Permuter, Prepared, UnitData

UNEVEN_IMAGES = 1.25
"""Ratio of two groups' mean images a subject from which the variance of a score's means follows from the images."""
V0_PERMUTATION = 1.0
V0_BOOTSTRAP = 3.0
"""Weights of the pooled variance in the standard errors, in degrees of freedom (`moments`); two groups have none in the
permutation test."""


def permuted_moments(p: Prepared, pooled: BoolArray, n: int, seed: int) -> tuple[GroupMoments, Iterator[GroupMoments]]:
    """Return the observed moments, and those of `n` relabellings in batches; pooled (m,) marks yes/no outcomes."""
    data = with_agreement(p, pooled)
    permuter, step = Permuter(p.units, seed), data.chunk(n)
    return studentised_moments(p, pooled, p.eligible, group_sums(data, permuter.observed())), (
        studentised_moments(p, pooled, p.eligible, group_sums(data, permuter.draw(min(step, n - start))))
        for start in range(0, n, step)
    )


def with_agreement(p: Prepared, pooled: BoolArray) -> UnitData:
    """Return the values of the units with the agreement of one subject's answers; pooled (m,) marks yes/no outcomes."""
    return replace(p.data, agreement=_agreement(p, pooled))


def studentised_moments(p: Prepared, pooled: BoolArray, eligible: BoolArray, sums: Sums) -> GroupMoments:
    """Return the moments that the permutation test studentises with; eligible (G, m): the groups that count."""
    return moments(sums, eligible, YesNo(pooled, p.centre, p.scale), v0_permutation(eligible))


def v0_permutation(eligible: BoolArray) -> FloatArray:
    """Return the weight of the pooled variance of each outcome, (m,), from the groups (G, m) that count for it."""
    # two groups take their own variances: with the pooled one, 60 against 10 subjects of three times the spread are
    # found to differ in 7 to 9 % instead of 5 % of data sets without a gap
    return np.where(eligible.sum(axis=0) > 2, V0_PERMUTATION, 0.0)


def _agreement(p: Prepared, pooled: BoolArray) -> FloatArray | None:
    """Return the intraclass correlation of one subject's answers, in [0, 1], (m,), from the unscaled values.

    ANOVA estimator over units. The mean of a subject with one image varies more than that of a subject with six: for
    scores that are nearly always 0, a group with one image a subject differs in 33 % of data sets without a gap. For a
    yes/no outcome it counts where units have different numbers of images, for a score where groups have: means of
    images a subject that differ by the factor `UNEVEN_IMAGES`. NaN elsewhere. Relabelling changes nothing of it. None
    if no outcome has it.
    """
    count, total = p.data.count, p.total
    answered = count > 0
    largest = count.max(axis=0)
    uneven = (np.where(answered, count, largest) < largest).any(axis=0) & (pooled | _uneven_images(p))
    if not uneven.any():
        return None
    mean = np.where(answered, total / np.where(answered, count, 1.0), 0.0)
    squares = count_and_sum(p.image_unit, len(count), p.image_values**2)[1]
    images, subjects = count.sum(axis=0), answered.sum(axis=0)
    centre = (count * mean).sum(axis=0) / np.maximum(images, 1)
    between = (count * (mean - centre) ** 2).sum(axis=0) / np.maximum(subjects - 1, 1)
    rest = np.where(answered, np.maximum(squares - count * mean**2, 0.0), 0.0)
    within = rest.sum(axis=0) / np.maximum(images - subjects, 1)
    k0 = (images - (count**2).sum(axis=0) / np.maximum(images, 1)) / np.maximum(subjects - 1, 1)
    below = between + (k0 - 1) * within
    icc = np.clip((between - within) / np.where(below > 0, below, 1.0), 0.0, 1.0)
    return np.where(uneven, icc, np.nan)


def _uneven_images(p: Prepared) -> BoolArray:
    """Return whether the mean images a subject of an outcome's groups differ by the factor `UNEVEN_IMAGES`."""
    member = p.units.label_sets[p.units.label_set].T.astype(np.float64)
    answered = member @ (p.data.count > 0).astype(np.float64)
    mean = (member @ p.data.count) / np.maximum(answered, 1.0)
    counts = p.eligible & (answered > 0)
    largest, smallest = np.where(counts, mean, -np.inf).max(axis=0), np.where(counts, mean, np.inf).min(axis=0)
    uneven: BoolArray = largest >= UNEVEN_IMAGES * smallest
    return uneven


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
    """

    observed: GroupMoments
    max_t: FloatArray
    raw_permuted: FloatArray
    max_t_permuted: FloatArray
    worst_again: FloatArray


def joint_permutations(p: Prepared, yes_no: BoolArray, sign: FloatArray, n: int, seed: int) -> JointPermutations:
    """Draw `n` permutations of a panel once and compute the permuted statistics of every outcome from them.

    yes_no (m,) marks yes/no outcomes; sign (m,): +1 where a low mean is bad, else -1.
    """
    m = len(p.scale)
    raw, largest = np.empty((n, m)), np.empty((n, m))
    worst, repeated_shares = np.zeros(p.eligible.shape), np.zeros(p.eligible.shape)
    normal = stream(seed, 0, 2)
    observed, batches = permuted_moments(p, yes_no, n, seed)
    start = 0
    for permuted in batches:
        b = permuted.mean.shape[1]
        raw[start : start + b] = range_of_means(permuted)
        largest[start : start + b] = np.sqrt(max_t_squared(permuted))
        shares = worst_shares(permuted, sign)
        worst += shares.sum(axis=1)
        # a resampled mean is about normal around the mean (common subjects of two groups are neglected)
        noise = normal.standard_normal((b, len(p.eligible))).T[:, :, None]
        error = np.sqrt(permuted.variance / np.maximum(permuted.n, 1.0))
        mean = np.where(permuted.valid, permuted.mean * sign + noise * error, np.inf)
        repeated_shares += np.where(mean <= mean.min(axis=0), shares, 0.0).sum(axis=1)
        start += b
    repeated = np.where(worst > 0, repeated_shares / np.where(worst > 0, worst, 1.0), np.nan)
    return JointPermutations(observed, np.sqrt(max_t_squared(observed)[0]), raw, largest, repeated)


def resampled_moments(p: Prepared, n: int, seed: int) -> tuple[GroupMoments, Iterator[GroupMoments]]:
    """Return the observed moments, and those of `n` bootstrap resamples of the subjects in batches.

    Groups without common subjects are resampled one by one, with replacement. Where subjects count in several groups,
    each subject gets one Exp(1) weight in all of them (Bayesian bootstrap; Rubin 1981).
    """
    dependent, none = p.units.dependent, _no_yes_no(p.eligible)
    draws = _weighted_draws(p.y, n, seed) if dependent else _disjoint_draws(p.y, p.member, n, seed)
    return observed_moments(p.y, p.member, p.eligible, dependent), (
        moments(sums, p.eligible, none, V0_BOOTSTRAP) for sums in draws
    )


def observed_moments(y: FloatArray, member: BoolArray, eligible: BoolArray, dependent: bool) -> GroupMoments:
    """Return the observed moments with the bootstrap's regularisation.

    Parameters
    ----------
    y : (N, G, m)
        Subject means, NaN where there is none.
    member : (N, G)
        Who is in which group, answered or not.
    eligible : (G, m)
        Groups that count for an outcome.
    dependent : bool
        Whether subjects count in several groups.
    """
    ones = np.ones((1, len(y)))
    if not dependent:
        sums = _disjoint(y, [ones[:, member[:, g]] for g in range(y.shape[1])], member)
    else:
        sums = _stack([_weighted(y[:, :, j], ones) for j in range(y.shape[2])])
    return moments(sums, eligible, _no_yes_no(eligible), V0_BOOTSTRAP)


def _no_yes_no(eligible: BoolArray) -> YesNo:
    """No outcome takes the variance of the overall rate here: rates that are far apart have different variances."""
    m = eligible.shape[1]
    return YesNo(np.zeros(m, dtype=bool), np.zeros(m), np.ones(m))


def _disjoint_draws(y: FloatArray, member: BoolArray, n: int, seed: int) -> Iterator[Sums]:
    sizes = [int(size) for size in member.sum(axis=0)]
    streams = [stream(seed, 0, 0, g) for g in range(len(sizes))]
    step = max(1, CHUNK_BYTES // (8 * max(2 * sum(sizes), 6 * y.shape[1] * y.shape[2])))
    for start in range(0, n, step):
        b = min(step, n - start)
        yield _disjoint(y, [resample_counts(rng, b, size) for rng, size in zip(streams, sizes, strict=True)], member)


def resample_counts(rng: np.random.Generator, b: int, size: int) -> FloatArray:
    """Return how often each of `size` subjects is drawn in `b` resamples, (b, size)."""
    if size == 0:
        return np.zeros((b, 0))
    drawn = rng.integers(0, size, (b, size)) + size * np.arange(b)[:, None]
    return np.bincount(drawn.reshape(-1), minlength=b * size).reshape(b, size).astype(np.float64)


def _disjoint(y: FloatArray, counts: list[FloatArray], member: BoolArray) -> Sums:
    sums = []
    for g, count in enumerate(counts):
        y_group = y[member[:, g], g]
        present = np.isfinite(y_group)
        y_group = np.where(present, y_group, 0.0)
        sums.append([count @ table for table in (present.astype(np.float64), y_group, y_group * y_group)])
    n, s, q = (np.stack([p[i] for p in sums]) for i in range(3))
    return Sums(n, s, q, None)


def _weighted_draws(y: FloatArray, n: int, seed: int) -> Iterator[Sums]:
    rng = stream(seed, 0, 1)
    subjects, groups, m = y.shape
    step = max(1, CHUNK_BYTES // (8 * max(subjects, 6 * groups * groups * m)))
    for start in range(0, n, step):
        weights = rng.standard_exponential((min(step, n - start), subjects))
        yield _stack([_weighted(y[:, :, j], weights) for j in range(m)])


def _stack(columns: list[Sums]) -> Sums:
    """Put the sums of single outcomes side by side on the last axis."""
    n, s, q = (np.concatenate([c[i] for c in columns], axis=-1) for i in range(3))
    crosses = [c.cross for c in columns if c.cross is not None]
    return Sums(n, s, q, Cross(*(np.concatenate(arrays, axis=-1) for arrays in zip(*crosses, strict=True))))


def _weighted(y: FloatArray, weights: FloatArray) -> Sums:
    """Return the sums of one outcome, y (N, G), under subject weights (b, N), scaled to each group's size.

    So scaled, mean and variance are those of the weighted sample, and the standard error that of n_g subjects.
    """
    groups, b = y.shape[1], len(weights)
    present = np.isfinite(y)
    filled, mask = np.where(present, y, 0.0), present.astype(np.float64)
    # pairs of groups without a common subject add nothing
    first, second = np.nonzero(mask.T @ mask)
    table = np.concatenate([a[:, first] * z[:, second] for a, z in ((mask, mask), (filled, mask), (filled, filled))], 1)
    sums = np.zeros((3, groups, groups, b))
    sums[:, first, second] = (weights @ table).T.reshape(3, len(first), b)
    n, s, q = sums
    diagonal = np.arange(groups)
    weight = n[diagonal, diagonal]
    size = np.broadcast_to(present.sum(axis=0)[:, None].astype(np.float64), weight.shape)
    scale = size / np.where(weight > 0, weight, 1.0)
    root = np.sqrt(scale[:, None] * scale[None])
    cross = Cross(*((term * root)[..., None] for term in (n, s, q)))
    scaled = (s[diagonal, diagonal] * scale, q[diagonal, diagonal] * scale)
    return Sums(size[..., None], scaled[0][..., None], scaled[1][..., None], cross)
