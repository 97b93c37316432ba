"""Differences between groups for questions, or samples, like those asked: these count as a random factor.

A row of the fingerprint is about the questions asked. Here they are a sample of questions, and so are the repeated
answers of a model: to the variance between subjects, that of the interaction of group and question is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import FloatArray, cell_means, count_and_sum, read_entries


@dataclass(frozen=True)
class GroupTable:
    """The groups that are large enough: means by level of the factor (G, L), and per group each subject's mean."""

    names: tuple[str, ...]
    means: FloatArray
    own: tuple[FloatArray, ...]


def group_table(
    values: ArrayLike, groups: ArrayLike, subjects: ArrayLike, images: ArrayLike | None, min_subjects: int
) -> GroupTable:
    """Return the group means of `values` (n, L) without missing values: images are averaged first, then subjects."""
    entries = read_entries(values, groups, subjects, images)
    cells = cell_means(entries)
    size, total = count_and_sum(cells.group, len(entries.names), cells.mean)
    large = np.flatnonzero((size >= max(min_subjects, 2)).all(axis=1))
    own = tuple(cells.mean[cells.group == g].mean(axis=1) for g in large)
    return GroupTable(tuple(entries.names[g] for g in large), total[large] / size[large], own)


@dataclass(frozen=True)
class Beyond:
    """The clearest pair of groups, with an interval of its difference for levels of the factor like those observed.

    Attributes
    ----------
    worst, best : str
        The pair with the largest difference over the margin of its interval; `worst` has the smaller mean.
    difference, low, high : float
        Its difference, with an interval that is corrected for all pairs (Bonferroni).
    holds : bool
        Whether the interval does not contain 0.
    gap_low, gap_high : float
        Interval of the largest difference of any two groups, in the manner of a row's `ci_low` and `ci_high`: the
        lower end is the largest one of a pair, corrected, and at least 0; the upper end the largest of any pair.
    """

    worst: str
    best: str
    difference: float
    low: float
    high: float
    holds: bool
    gap_low: float
    gap_high: float


def beyond(table: GroupTable, alpha: float) -> Beyond | None:
    """Return the interval beyond the levels observed; None without any spread.

    The variance of a difference is that of subjects in each group, plus the interaction of group and factor over the
    number of levels: its mean square over all groups, or the pair's own where that is larger (one group may react to
    a wording that leaves the others as they are). It includes the interaction of subject and factor, which is so
    counted twice. Degrees of freedom by Satterthwaite (1946). With two levels, or three and two groups, they are too
    few for his approximation: the pair's own are taken, and the margins of both parts are added in squares (as in
    Graybill and Wang 1980).

    Parameters
    ----------
    table : GroupTable
        Of two groups or more, and two levels or more.
    alpha : float
    """
    names, subject_means, means = table.names, table.own, table.means
    levels = means.shape[1]
    error = np.array([y.var(ddof=1) / len(y) for y in subject_means])
    rest = means - means.mean(axis=0) - means.mean(axis=1, keepdims=True) + means.mean()
    df_pooled = (len(names) - 1) * (levels - 1)
    pooled = 2 * float((rest**2).sum()) / df_pooled / levels
    few = levels == 2 or df_pooled <= 2
    corrected = 1 - alpha / (len(names) * (len(names) - 1))
    clearest, ends = [], []
    for g, h in combinations(range(len(names)), 2):
        by_level = means[g] - means[h]
        single = float(by_level.var(ddof=1)) / levels
        df = df_pooled if pooled >= single and not few else levels - 1
        between = max(pooled, single)
        variances = np.array([between, error[g], error[h]])
        if variances.sum() <= 0:
            continue
        dfs = np.array([df, len(subject_means[g]) - 1, len(subject_means[h]) - 1])
        size, margin = abs(float(by_level.mean())), _margin(variances, dfs, corrected, few)
        clearest.append((size / margin, size - margin, g, h, margin))
        ends.append(size + _margin(variances, dfs, 1 - alpha / 2, few))
    if not clearest:
        return None
    _, _, g, h, margin = max(clearest)
    if means[g].mean() > means[h].mean():
        g, h = h, g
    difference = float(means[h].mean() - means[g].mean())
    low, high = difference - margin, difference + margin
    lower_end = max(0.0, *(pair[1] for pair in clearest))
    return Beyond(names[g], names[h], difference, low, high, bool(low > 0), lower_end, max(ends))


def _margin(variances: FloatArray, dfs: FloatArray, level: float, few: bool) -> float:
    """Return the margin of a difference whose variance is the sum of `parts`, at a one-sided level.

    few: whether the first part has too few degrees of freedom for one t quantile of the sum.
    """
    from scipy.special import stdtrit

    if few:
        error, df = variances[1:].sum(), _satterthwaite(variances[1:], dfs[1:])
        return float(np.sqrt(stdtrit(dfs[0], level) ** 2 * variances[0] + stdtrit(df, level) ** 2 * error))
    return float(stdtrit(_satterthwaite(variances, dfs), level) * np.sqrt(variances.sum()))


def _satterthwaite(variances: FloatArray, dfs: FloatArray) -> float:
    """Return the degrees of freedom of a sum of estimated variances; 1 without any variance."""
    squares = float((variances**2 / dfs).sum())
    return float(variances.sum() ** 2) / squares if squares > 0 else 1.0


@dataclass(frozen=True)
class BetweenSamples:
    """How the comparison of groups varies between S samples of every answer.

    Attributes
    ----------
    gaps : tuple of float
        Largest less smallest group mean in each sample.
    differences : tuple of float
        Of the pair in `others`, in each sample.
    sd, sd_low, sd_high : float
        Standard deviation of `differences` with a chi-square interval: what one run would differ from another by.
    same_low, same_high : float
        Interval of the mean of `differences` over further samples from the same subjects (Student's t).
    others : Beyond
        The same for other subjects too: the samples count as a random factor.
    n_left_out : int
        Images without an answer in some sample.
    """

    groups: tuple[str, ...]
    gaps: tuple[float, ...]
    differences: tuple[float, ...]
    sd: float
    sd_low: float
    sd_high: float
    same_low: float
    same_high: float
    others: Beyond
    n_left_out: int


def between_samples(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    *,
    images: ArrayLike | None = None,
    min_subjects: int = 10,
    alpha: float = 0.05,
) -> BetweenSamples | None:
    """Compare the samples of every answer; None without two groups, or any spread.

    values (n, Q, S): per (image, group) the S >= 2 samples of the answers to Q questions, NaN = missing. Each answer is
    taken less the mean of its question, so that missing answers to one question are no difference between samples.
    """
    from scipy.special import chdtri, stdtrit

    y = np.asarray(values, dtype=np.float64)
    answered = np.isfinite(y)
    level = np.nansum(y, axis=(0, 2)) / np.maximum(answered.sum(axis=(0, 2)), 1)
    by_sample = np.nansum(y - level[:, None], axis=1) / np.where(answered.any(axis=1), answered.sum(axis=1), np.nan)
    complete = np.isfinite(by_sample).all(axis=1)
    left_out = int((answered.any(axis=(1, 2)) & ~complete).sum())
    if not complete.any():
        return None
    image_labels = None if images is None else np.asarray(images)[complete]
    people = np.asarray(subjects)[complete]
    table = group_table(by_sample[complete], np.asarray(groups)[complete], people, image_labels, min_subjects)
    others = beyond(table, alpha) if len(table.names) > 1 else None
    if others is None:
        return None
    best, worst = (table.names.index(name) for name in (others.best, others.worst))
    differences = table.means[best] - table.means[worst]
    n = len(differences)
    sd = float(differences.std(ddof=1))
    reach = float(stdtrit(n - 1, 1 - alpha / 2)) * sd / np.sqrt(n)
    low, high = (float(sd * np.sqrt((n - 1) / chdtri(n - 1, tail))) for tail in (alpha / 2, 1 - alpha / 2))
    mean = float(differences.mean())
    return BetweenSamples(
        groups=table.names,
        gaps=tuple(np.ptp(table.means, axis=0).tolist()),
        differences=tuple(differences.tolist()),
        sd=sd,
        sd_low=low,
        sd_high=high,
        same_low=mean - reach,
        same_high=mean + reach,
        others=others,
        n_left_out=left_out,
    )
