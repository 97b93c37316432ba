"""Measurement error of a score, and group means corrected for it from labels of some answers.

The population is every answer with a score f; a sample with known inclusion probabilities has a label y. A group's mean
label is estimated by prediction-powered inference (Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023) with power
tuning (Angelopoulos, Duchi and Zrnic 2023):

    theta_g = lambda F_g + sum_i w_i (y_i - lambda f_i)

F_g is the mean over the group's subjects of their mean score, as in every disparity. w_i is proportional to the weight
of the answer in that mean over its inclusion probability, and sums to 1 over the labelled answers of the group (Hajek).
lambda, one number for all groups, minimises the estimated variance; 0 is the labels alone, 1 the score plus its mean
error. It is the difference estimator of survey sampling (Sarndal, Swensson and Wretman 1992, ch. 6). Variances are
linearised sums over subjects, so that several answers of a subject, and the sampling of subjects as well as that of
answers, count.

Differences of two groups are studentised with Welch-Satterthwaite degrees of freedom from the labelled subjects. The
test of all pairs compares the largest |T| with its distribution for equal means (the test of Games and Howell 1976,
drawn from its model, so that groups may share subjects).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import OK, BoolArray, FloatArray, IntArray, permutation_p, stream

LEAST_LABELLED = 10
"""Labelled subjects (Kish's effective number) that a group needs; below it no interval holds (docs/validity.md)."""
TOO_FEW_LABELS = "too_few_labels"
DRAWS = 20_000
"""The Monte-Carlo error of a p-value of 0.05 is 0.0015."""
V0 = 5.0
"""Degrees of freedom that the variance pooled over groups counts for in each group."""
_EMPTY = 1e-12
_POWER = 0.842  # normal quantile of 80 %
_STREAM = 12


@dataclass(frozen=True)
class Labelled:
    """Answers with a score, one entry per (answer, group); every array has one element per entry.

    Attributes
    ----------
    score, label
        On one scale; a score of NaN leaves the entry out, a label of NaN is an answer without one.
    probability
        The probability with which the answer was drawn for labelling; read where there is a label.
    groups, subjects, images
        Names. Several answers about one image are averaged first.
    step : float
        The smallest distance of two labels that differ.
    """

    score: ArrayLike
    label: ArrayLike
    probability: ArrayLike
    groups: ArrayLike
    subjects: ArrayLike
    images: ArrayLike
    step: float = 1.0


@dataclass(frozen=True)
class GroupEstimate:
    """One group; numbers are None where the group has too few labels.

    `n_labels` labels of `n_labelled` subjects, worth `effective` subjects of equal weight (Kish); `mean` with its
    interval; `score`: the mean score; `needed`: labelled subjects that are missing.
    """

    group: str
    n_subjects: int
    n_labels: int
    n_labelled: int
    effective: float
    needed: int
    score: float | None
    mean: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None


@dataclass(frozen=True)
class Gap:
    """Group means and the test that they are equal.

    Attributes
    ----------
    status
        `ok`; `too_few_labels`: fewer than two groups have enough.
    scored
        Largest less smallest mean score of these groups.
    gap, ci_low, ci_high
        Largest less smallest mean, and its interval: `ci_low` is above 0 exactly if p <= alpha.
    p_value, pair
        The smallest p over all pairs, corrected for their number, and that pair, the lower mean first.
    power
        lambda, the share of the score in the estimate.
    gain
        Labels that the estimate is worth, per label; 1 for the labels alone.
    more
        How many times the present labels would find `gap` with 80 % power; None if no number would.
    """

    status: str
    groups: tuple[GroupEstimate, ...]
    scored: float | None = None
    gap: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    p_value: float | None = None
    pair: tuple[str, str] | None = None
    power: float | None = None
    gain: float | None = None
    more: float | None = None


@dataclass(frozen=True)
class ClassRates:
    """Precision and recall of one class in one group (None for all groups), each (share, low, high), None without any.

    Wilson intervals at Kish's effective number of labelled subjects.
    """

    group: str | None
    value: float
    precision: tuple[float, float, float] | None
    recall: tuple[float, float, float] | None


@dataclass(frozen=True)
class _WeightedEntries:
    """Weights of the entries of the groups that are compared.

    `share` (n,): the answer's weight in the mean of its group; `weight` (n,): w above, 0 without a label.
    """

    score: FloatArray
    label: FloatArray
    share: FloatArray
    weight: FloatArray
    group: IntArray
    subject: IntArray
    shape: tuple[int, int]

    def by_subject(self, values: FloatArray) -> FloatArray:
        """Return the sums of `values` (n,) by subject and group, (S, G)."""
        line = self.subject * self.shape[1] + self.group
        sums: FloatArray = np.bincount(line, values, self.shape[0] * self.shape[1]).astype(np.float64)
        return sums.reshape(self.shape)

    def by_group(self, values: FloatArray) -> FloatArray:
        """Return the sums of `values` (n,) by group, (G,)."""
        sums: FloatArray = np.bincount(self.group, values, self.shape[1]).astype(np.float64)
        return sums


def corrected_gap(
    data: Labelled,
    *,
    power: float | None = None,
    alpha: float = 0.05,
    min_subjects: int = 10,
    least: float = LEAST_LABELLED,
    draws: int = DRAWS,
) -> Gap:
    """Return the prediction-powered means of the groups and the test that they are equal.

    `power` sets lambda; None tunes it. `draws` are made of the largest |T| of three groups or more.

    Raises
    ------
    ValueError
        If a label has no probability in (0, 1], or arrays differ in length.
    """
    entries, groups, kept = _weighted_entries(data, min_subjects, least)
    if kept.sum() < 2:
        return Gap(TOO_FEW_LABELS, groups)
    zero = np.where(entries.weight > 0, entries.label, 0.0)
    labels = entries.by_group(entries.weight * zero)
    scores = entries.by_group(entries.weight * entries.score)
    means = entries.by_group(entries.share * entries.score)
    first = entries.by_subject(entries.weight * (zero - labels[entries.group]))
    second = entries.by_subject(entries.weight * (entries.score - scores[entries.group]))
    second -= entries.by_subject(entries.share * (entries.score - means[entries.group]))
    if power is None:
        size = _effective(entries)
        power = _tuned(first, second, np.where(kept, size, 0.0))
    influence = first - power * second
    found = _compare(entries, labels + power * (means - scores), influence, groups, kept, data.step, alpha, draws)
    alone = _variance(entries, first, kept, data.step)[0]
    own = _variance(entries, influence, kept, data.step)[0]
    gain = float(alone[kept].sum() / own[kept].sum()) if own[kept].sum() > 0 else None
    return replace(found, power=power, gain=gain)


def error_gap(
    data: Labelled,
    *,
    absolute: bool = False,
    alpha: float = 0.05,
    min_subjects: int = 10,
    least: float = LEAST_LABELLED,
    draws: int = DRAWS,
) -> Gap:
    """Return the mean error (score - label, or its absolute value) of the groups and the test that it is equal."""
    score, label = np.asarray(data.score, dtype=np.float64), np.asarray(data.label, dtype=np.float64)
    error = score - label
    error = np.abs(error) if absolute else error
    known = np.where(np.isnan(score), np.nan, 0.0)
    return corrected_gap(
        replace(data, score=known, label=error),
        power=0.0,
        alpha=alpha,
        min_subjects=min_subjects,
        least=least,
        draws=draws,
    )


def class_rates(data: Labelled, *, min_subjects: int = 10) -> list[ClassRates]:
    """Return precision and recall of each class that occurs, of all answers and of every group with enough labels."""
    from fp2.extension import wilson

    entries, groups, kept = _weighted_entries(data, min_subjects, LEAST_LABELLED)
    everyone, _, _ = _weighted_entries(replace(data, groups=np.zeros(len(np.asarray(data.score)), dtype=int)), 1, 0)
    seen = everyone.weight > 0
    values = sorted({*everyone.score[seen].tolist(), *everyone.label[seen].tolist()})

    def share(d: _WeightedEntries, among: BoolArray, hit: BoolArray) -> tuple[float, float, float] | None:
        weight = d.weight * among
        if weight.sum() <= _EMPTY:
            return None
        by_subject = np.bincount(d.subject, weights=weight)
        effective = float(by_subject.sum() ** 2 / (by_subject**2).sum())
        rate = float((weight * hit).sum() / weight.sum())
        return (rate, *wilson(rate, effective))

    out = []
    for name, d, here in [
        (None, everyone, seen),
        *((g.group, entries, (entries.group == k) & (entries.weight > 0)) for k, g in enumerate(groups) if kept[k]),
    ]:
        for value in values:
            scored, labelled = d.score == value, d.label == value
            out.append(ClassRates(name, value, share(d, here & scored, labelled), share(d, here & labelled, scored)))
    return out


def _weighted_entries(
    data: Labelled, min_subjects: int, least: float
) -> tuple[_WeightedEntries, tuple[GroupEstimate, ...], BoolArray]:
    """Return weights, what is known of each group, and which groups have enough subjects and labels."""
    columns = [np.asarray(c, dtype=np.float64) for c in (data.score, data.label, data.probability)]
    coded = [
        np.unique(np.asarray(c).astype(str), return_inverse=True) for c in (data.groups, data.subjects, data.images)
    ]
    if len({len(c) for c in columns} | {len(code) for _, code in coded}) > 1:
        raise ValueError("the columns differ in length")
    used = np.isfinite(columns[0])
    score, label, probability = (c[used] for c in columns)
    (names, group), (people, subject), (_, image) = ((found, code[used]) for found, code in coded)
    drawn = np.isfinite(label)
    if not ((probability[drawn] > 0) & (probability[drawn] <= 1)).all():
        raise ValueError("every label needs a probability above 0 and at most 1")
    share = np.ones(len(score))
    shape = (len(people), len(names))
    by_person = subject * shape[1] + group
    by_image = np.unique(image * (shape[0] * shape[1]) + by_person, return_inverse=True)[1] if len(image) else image
    for code in (by_image, by_person, group):
        share /= np.bincount(code, weights=share)[code] if len(code) else 1.0
    raw = np.where(drawn, share / np.where(drawn, probability, 1.0), 0.0)
    total = np.bincount(group, weights=raw, minlength=shape[1])
    weight = raw / np.where(total > 0, total, 1.0)[group]
    entries = _WeightedEntries(score, label, share, weight, group, subject, shape)
    effective = _effective(entries)
    there = (entries.by_subject(np.ones(len(score))) > 0).sum(axis=0)
    labelled = (entries.by_subject(drawn.astype(float)) > 0).sum(axis=0)
    kept = (there >= max(min_subjects, 2)) & (effective >= least - 1e-9) & (labelled >= 2)
    mean = entries.by_group(share * score)
    found = tuple(
        GroupEstimate(
            str(name),
            int(there[g]),
            int(drawn[group == g].sum()),
            int(labelled[g]),
            float(effective[g]),
            max(0, math.ceil(least - effective[g] - 1e-9)),
            float(mean[g]) if there[g] else None,
        )
        for g, name in enumerate(names)
    )
    return entries, found, kept


def _effective(entries: _WeightedEntries) -> FloatArray:
    """Return Kish's effective number of labelled subjects of each group, (G,)."""
    squares = (entries.by_subject(entries.weight) ** 2).sum(axis=0)
    return np.where(squares > 0, 1 / np.where(squares > 0, squares, 1.0), 0.0)


def _tuned(first: FloatArray, second: FloatArray, size: FloatArray) -> float:
    """Return the lambda of least variance, in [0, 1]; groups count by their labelled subjects."""
    below = float((second**2).sum(axis=0) @ size**2)
    return float(np.clip((first * second).sum(axis=0) @ size**2 / below, 0.0, 1.0)) if below > _EMPTY else 0.0


def _variance(
    entries: _WeightedEntries, influence: FloatArray, kept: BoolArray, step: float
) -> tuple[FloatArray, FloatArray]:
    """Return the variance of each group's mean and its degrees of freedom, (G,) each.

    The part of labelled subjects is at least that of all groups pooled, and that of one label in the whole sample
    a step off: a few labels without an error do not show that there is none.
    """
    size = _effective(entries)
    has_label = entries.by_subject(entries.weight) > 0
    labelled = (influence**2 * has_label).sum(axis=0)
    free = np.where(kept, np.maximum(size - 1, 1e-9), 0.0)
    unit = np.where(kept, labelled * size * size / np.where(kept, free, 1.0), 0.0)
    everyone = float(size[kept].sum())
    floor = step**2 * (everyone + 1) / (everyone + 2) ** 2
    pooled = float(unit @ free) / max(float(free.sum()), 1e-9)
    unit = np.maximum((free * unit + V0 * pooled) / np.where(kept, free + V0, 1.0), floor)
    labelled = np.where(kept, unit / np.where(kept, size, 1.0), 0.0)
    there = entries.by_subject(entries.share) > 0
    others = (there & ~has_label).sum(axis=0)
    rest = (influence**2 * ~has_label).sum(axis=0)
    variance = labelled + rest
    parts = labelled**2 / np.where(free > 0, free, 1.0) + rest**2 / np.maximum(others - 1, 1)
    return variance, np.where(parts > 0, variance**2 / np.where(parts > 0, parts, 1.0), 1.0)


def _compare(
    entries: _WeightedEntries,
    mean: FloatArray,
    influence: FloatArray,
    groups: tuple[GroupEstimate, ...],
    kept: BoolArray,
    step: float,
    alpha: float,
    draws: int,
) -> Gap:
    """Return the means with their intervals, and the test of all pairs."""
    from scipy.special import stdtr, stdtrit

    variance, df = _variance(entries, influence, kept, step)
    reach = stdtrit(df, 1 - alpha / 2) * np.sqrt(variance)
    shown = tuple(
        replace(group, mean=float(mean[g]), ci_low=float(mean[g] - reach[g]), ci_high=float(mean[g] + reach[g]))
        if kept[g]
        else group
        for g, group in enumerate(groups)
    )
    at, out = np.flatnonzero(kept), influence[:, kept]
    tests = []
    for g, h in combinations(range(len(at)), 2):
        group, two = at[g], at[h]
        error = float(_squared_error(variance[[group]], variance[[two]], _shared(out, g, h))[0]) ** 0.5
        free = (variance[group] + variance[two]) ** 2 / (
            variance[group] ** 2 / df[group] + variance[two] ** 2 / df[two]
        )
        tests.append((group, two, float(mean[group] - mean[two]), error, float(free)))
    t = np.array([abs(d) / error for _, _, d, error, _ in tests])
    best = int(np.argmax(t))
    g, h, d, error, free = tests[best]
    if len(at) == 2:
        p, q = float(2 * stdtr(free, -t[best])), float(stdtrit(free, 1 - alpha / 2))
    else:
        null = _null_range(variance[kept], df[kept], out, draws)
        p = permutation_p(t[best], null)
        q = float(null[-math.floor(alpha * (draws + 1))])  # p <= alpha exactly if t exceeds it
    low = max((t[k] - q) * group[3] for k, group in enumerate(tests))
    high = max(abs(group[2]) + float(stdtrit(group[4], 1 - alpha / 2)) * group[3] for group in tests)
    lower, higher = (g, h) if d <= 0 else (h, g)
    drawn = entries.by_subject(entries.weight) > 0
    by_label = float(sum((influence[:, k] ** 2 * drawn[:, k]).sum() for k in (g, h)))
    wanted = (abs(d) / (q + _POWER)) ** 2 - max(error**2 - by_label, 0.0)
    return Gap(
        OK,
        shown,
        scored=float(np.ptp([group.score for group, here in zip(groups, kept, strict=True) if here])),
        gap=float(np.ptp(mean[kept])),
        ci_low=max(0.0, float(low)) if p <= alpha else 0.0,
        ci_high=float(high),
        p_value=p,
        pair=(groups[lower].group, groups[higher].group),
        more=by_label / wanted if wanted > 0 else None,
    )


def _null_range(variance: FloatArray, df: FloatArray, influence: FloatArray, draws: int) -> FloatArray:
    """Return draws of the largest |T| of all pairs, sorted, for groups with equal means, (draws,).

    Means are normal with the estimated covariance of the groups (which share subjects where an attribute has several
    values); variances are chi-squared with their degrees of freedom.
    """
    rng, n = stream(0, _STREAM), len(variance)
    means = rng.standard_normal((draws, n)) @ _root(variance, influence).T
    drawn = variance * rng.chisquare(df, (draws, n)) / df
    largest = np.zeros(draws)
    for g, h in combinations(range(n), 2):
        error = _squared_error(drawn[:, g], drawn[:, h], _shared(influence, g, h))
        np.maximum(largest, (means[:, g] - means[:, h]) ** 2 / error, out=largest)
    return np.sort(np.sqrt(largest))


def _root(variance: FloatArray, influence: FloatArray) -> FloatArray:
    """Return a matrix whose product with its transpose is the covariance of the group means, (G, G)."""
    scale = np.sqrt((influence**2).sum(axis=0))
    share = influence / np.where(scale > 0, scale, 1.0)
    correlation = share.T @ share
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    root: FloatArray = np.sqrt(variance)[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    return root


def _shared(influence: FloatArray, g: int, h: int) -> float:
    """Return the correlation of two group means through the subjects in both."""
    scale = float(np.sqrt((influence[:, g] ** 2).sum() * (influence[:, h] ** 2).sum()))
    return float(influence[:, g] @ influence[:, h]) / scale if scale > 0 else 0.0


def _squared_error(first: FloatArray, second: FloatArray, shared: float) -> FloatArray:
    """Return the squared standard error of the difference of two means."""
    total = first + second
    error: FloatArray = np.maximum(total - 2 * shared * np.sqrt(first * second), 1e-3 * total)
    return error
