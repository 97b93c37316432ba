"""What a row holds beside its test: shrunken gap, effect sizes, divergence, reference tests, intraclass correlation.

None of them decides a verdict.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.core.numeric import BoolArray, FloatArray, IntArray, finite
from fp2.stats.core.sums import group_histograms
from fp2.stats.core.units import Labels, Permuter, Prepared
from fp2.stats.rows import Outcome, PanelSettings

JS_PERMUTATIONS = 2_000


def join_ties(samples: Sequence[FloatArray]) -> list[FloatArray]:
    """Return the samples on [0, 1], rounded so that means that differ by rounding alone rank as ties."""
    everything = np.concatenate(list(samples))
    low, width = float(everything.min()), float(np.ptp(everything))
    if width <= 1e-12 * max(1.0, float(np.abs(everything).max())):
        return [np.zeros(len(sample)) for sample in samples]
    return [np.round((sample - low) / width, 9) for sample in samples]


def kruskal_wallis(groups: Sequence[FloatArray]) -> tuple[float | None, float | None, float | None]:
    """Return (H, p, epsilon^2 = H / (n - 1)) of the groups' subject means; None where all values tie."""
    from scipy.stats import kruskal

    samples = join_ties(groups)
    if not any(sample.any() for sample in samples):
        return None, None, None
    h, p = (float(x) for x in kruskal(*samples))
    return finite(h), finite(p), finite(h / (sum(len(sample) for sample in samples) - 1))


def welch(groups: Sequence[FloatArray]) -> tuple[float | None, float | None, float | None]:
    """Return (F, p, omega^2 = df1 (F - 1) / (df1 (F - 1) + N), at least 0) of Welch's analysis of variance.

    None where a group is constant: its weight would be infinite.
    """
    from scipy.stats import f_oneway

    if any(len(g) < 2 or np.ptp(g) == 0 for g in groups):
        return None, None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f, p = (float(x) for x in f_oneway(*groups, equal_var=False))
    if not math.isfinite(f):
        return None, None, None
    gain = (len(groups) - 1) * (f - 1)
    n = sum(len(g) for g in groups)
    return f, finite(p), max(0.0, gain / (gain + n))


def hedges_g(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return (mean x - mean y) / pooled SD (ddof 1) times Hedges' correction 1 - 3 / (4 df - 1).

    None where it does not exist: fewer than three values in all, or no spread within either group.
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    df = len(a) + len(b) - 2
    if min(len(a), len(b)) < 1 or df < 1:
        return None
    squares = float(((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum())
    if squares <= 1e-24 * max(1.0, float(np.abs(a).max()), float(np.abs(b).max())) ** 2:
        return None
    return float((a.mean() - b.mean()) / math.sqrt(squares / df) * (1 - 3 / (4 * df - 1)))


def cohens_d(g: float, n_x: int, n_y: int) -> float:
    """Return Cohen's d, with the pooled SD, from Hedges' g of groups of `n_x` and `n_y`: g without its correction."""
    return g / (1 - 3 / (4 * (n_x + n_y - 2) - 1))


def answer_d(x: ArrayLike, y: ArrayLike, x_subjects: ArrayLike, y_subjects: ArrayLike) -> float | None:
    """Return the difference of two group means over subjects, in SD of one answer.

    Hedges' g divides by the SD of subject means, which falls with the number of answers per subject; this SD does not.
    The variance is that of a single answer about its group's mean, every subject counting once: the mean squared
    deviation plus the squared standard error of the mean, pooled over both groups by their numbers of subjects. None
    without spread.

    Parameters
    ----------
    x, y
        Finite answers of the two groups.
    x_subjects, y_subjects
        Their subjects.
    """
    means, variances, sizes = [], [], []
    for answers, subjects in ((x, x_subjects), (y, y_subjects)):
        values = np.asarray(answers, dtype=np.float64)
        code = np.unique(np.asarray(subjects), return_inverse=True)[1]
        if len(values) == 0 or code.max() < 1:
            return None
        count = np.bincount(code)
        subject_means = np.bincount(code, weights=values) / count
        square = np.bincount(code, weights=(values - subject_means.mean()) ** 2) / count
        means.append(float(subject_means.mean()))
        variances.append(float(square.mean() + subject_means.var(ddof=1) / len(subject_means)))
        sizes.append(len(subject_means))
    pooled = float(np.average(variances, weights=sizes))
    if pooled <= 1e-24 * max(1.0, *(abs(mean) for mean in means)) ** 2:
        return None
    return (means[0] - means[1]) / math.sqrt(pooled)


def rank_biserial(x: ArrayLike, y: ArrayLike) -> float:
    """Return 2 U / (n1 n2) - 1 in [-1, 1], Cliff's delta: P(x > y) - P(x < y)."""
    from scipy.stats import rankdata

    a, b = join_ties([np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)])
    ranks = rankdata(np.concatenate([a, b]))
    u = float(ranks[: len(a)].sum()) - len(a) * (len(a) + 1) / 2
    return 2 * u / (len(a) * len(b)) - 1


def icc_oneway(values: FloatArray, cell: IntArray, group: IntArray) -> tuple[float | None, float | None]:
    """Return (ICC(1), design effect 1 + (k0 - 1) ICC), by one-way analysis of variance within groups.

    Group means are removed first, so that a gap between groups does not count as agreement within a subject: mean
    squares are between subjects within groups, and within subjects. k0 is the mean number of images per subject,
    corrected for unequal numbers. With one group it is ICC(1,1) of Shrout and Fleiss (1979); it can be negative, and
    counts as 0 in the design effect (Kish 1965).

    Parameters
    ----------
    values : (n,)
        Finite, one per (image, group).
    cell, group : (n,)
        Codes of the (subject, group) pair and of the group.

    Returns
    -------
    tuple
        None where a number does not exist: one image per subject (design effect 1), one subject per group, no spread.
    """
    cells, cell = np.unique(cell, return_inverse=True)
    groups, group = np.unique(group, return_inverse=True)
    size = np.bincount(cell)
    group_of = np.zeros(len(cells), dtype=np.intp)
    group_of[cell] = group
    group_size = np.bincount(group)
    df_between, df_within = len(cells) - len(groups), len(values) - len(cells)
    if df_within < 1:
        return None, 1.0
    if df_between < 1:
        return None, None
    mean = np.bincount(cell, weights=values) / size
    group_mean = np.bincount(group, weights=values) / group_size
    between = float((size * (mean - group_mean[group_of]) ** 2).sum()) / df_between
    within = float(((values - mean[cell]) ** 2).sum()) / df_within
    squares = np.bincount(group_of, weights=size.astype(np.float64) ** 2)
    k0 = (len(values) - float((squares / group_size).sum())) / df_between
    denominator = between + (k0 - 1) * within
    if denominator <= 1e-24:
        return None, None
    icc = (between - within) / denominator
    return icc, 1 + (k0 - 1) * max(icc, 0.0)


def paule_mandel(means: ArrayLike, variances: ArrayLike) -> tuple[float, float]:
    """Return (tau^2, mu): the between-group variance by Paule and Mandel (1982), and the weighted mean.

    tau^2 makes the weighted sum of squares equal its expectation k - 1 (DerSimonian and Kacker 2007), and is 0 if the
    sum is below that without it. The sum falls with tau^2, so that bisection finds the root.

    Parameters
    ----------
    means, variances : (k,)
        Group means and their squared standard errors (> 0).
    """
    y, v = np.asarray(means, dtype=np.float64), np.asarray(variances, dtype=np.float64)

    def at(tau2: float) -> tuple[float, float]:
        weight = 1.0 / (v + tau2)
        mu = float((weight * y).sum() / weight.sum())
        return float((weight * (y - mu) ** 2).sum()) - (len(y) - 1), mu

    over, mu = at(0.0)
    if over <= 0:
        return 0.0, mu
    low, high = 0.0, float(np.ptp(y)) ** 2 + float(v.max())
    while at(high)[0] > 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[0] > 0 else (low, middle)
        if high - low <= 1e-14 * high:
            break
    return high, at(high)[1]


def shrunken_range(means: ArrayLike, variances: ArrayLike) -> float:
    """Return the estimate of the gap: max - min of the means, each shrunken by tau^2 / (tau^2 + v_g) towards mu.

    means, variances (k,) as in `paule_mandel`. Where some v_g is 0 nothing is shrunken. Raises ValueError for fewer
    than two groups.
    """
    y, v = np.asarray(means, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if len(y) < 2:
        raise ValueError("a range needs at least two groups")
    if not (v > 0).all():
        return float(np.ptp(y))
    tau2, mu = paule_mandel(y, v)
    theta: FloatArray = mu + tau2 / (tau2 + v) * (y - mu)
    return float(np.ptp(theta))


def divergence(totals: FloatArray, valid: BoolArray) -> FloatArray:
    """Return the generalised Jensen-Shannon divergence [H(mean of P_g) - mean of H(P_g)] / log2 k, in [0, 1].

    Parameters
    ----------
    totals : (G, ..., bins)
        Unnormalised histograms of the groups.
    valid : (G, ...)
        The k groups that count.

    Returns
    -------
    (...)
        NaN with fewer than two groups. For k = 2 the square of the Jensen-Shannon distance in base 2 (Lin 1991).
    """
    weight = totals.sum(axis=-1, keepdims=True)
    p = np.where(valid[..., None], totals / np.where(weight > 0, weight, 1.0), 0.0)
    k = valid.sum(axis=0)
    safe = np.maximum(k, 2)

    def entropy(share: FloatArray) -> FloatArray:
        bits: FloatArray = -np.sum(share * np.log2(np.where(share > 0, share, 1.0)), axis=-1)
        return bits

    mixture, mean_entropy = entropy(p.sum(axis=0) / safe[..., None]), (entropy(p) * valid).sum(axis=0) / safe
    return np.where(k >= 2, np.clip((mixture - mean_entropy) / np.log2(safe), 0.0, 1.0), np.nan)


def permuted_divergences(
    p: Prepared, outcomes: Sequence[Outcome], settings: PanelSettings
) -> tuple[FloatArray, FloatArray]:
    """Return the observed divergence (m,) and those of the first permutations (min(B, 2000), m); NaN if unbounded.

    Each subject has weight 1, spread over its images. The relabellings are those of the panel's other statistics: the
    same streams from their beginning.
    """
    table = _unit_histograms(p, outcomes)
    # a bin without any answer adds nothing
    table = table[:, :, table.any(axis=(0, 1))]
    permuter, total = Permuter(p.units, settings.seed), min(settings.n_permutations, JS_PERMUTATIONS)
    step = p.data.chunk(max(1, total // max(1, table.shape[2])))
    bounded = np.array([outcome.n_bins is not None for outcome in outcomes])

    def batch(labels: Labels) -> FloatArray:
        sums = group_histograms(p.data, labels, table)
        valid = (sums.sum(axis=-1) >= 2 - 1e-6) & p.eligible[:, None, :]
        return np.where(bounded, divergence(sums, valid), np.nan)

    permuted = [batch(permuter.draw(min(step, total - start))) for start in range(0, total, step)]
    return batch(permuter.observed())[0], np.concatenate(permuted)


def _unit_histograms(p: Prepared, outcomes: Sequence[Outcome]) -> FloatArray:
    """Return each unit's shares of its answered images per bin, (C, m, most bins); zeros where a unit is not used."""
    n_bins = max((outcome.n_bins or 1 for outcome in outcomes), default=1)
    table = np.zeros((*p.data.count.shape, n_bins))
    for j, outcome in enumerate(outcomes):
        if (bins := outcome.n_bins) is None:
            continue
        low, high = outcome.value_range
        present = np.isfinite(p.image_values[:, j])
        scaled = (p.image_values[present, j] - low) / (high - low)
        bin_of = np.clip(np.floor(scaled * bins + 1e-9).astype(np.intp), 0, bins - 1)
        counts = np.bincount(p.image_unit[present] * bins + bin_of, minlength=len(table) * bins)
        counts = counts.reshape(-1, bins).astype(np.float64)
        table[:, j, :bins] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    table[p.data.count == 0] = 0.0
    return table
