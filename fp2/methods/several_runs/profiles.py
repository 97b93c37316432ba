"""The mean squared difference between groups, free of the bias of noise, and a test that two models have the same.

The squared difference of two group means, less its squared standard error, averaged over pairs of groups and outcomes,
is unbiased whatever the noise. Its own standard error depends on the size of the differences: where they are
underestimated, so is the standard error, and a Wald test calls a noisy model better than an equal one. The test
therefore takes the standard error and the null distribution under the hypothesis of equality: the bootstrap resamples
subjects around group means that are rescaled to the common size of the two models (Hall and Wilson 1991 give the
reasons for resampling under the hypothesis).

Models are ranked by that number (`rank_models`): simultaneous confidence sets for the ranks, and groups of models that
do not differ significantly, follow from all pairs of models at once (Mogstad, Romano, Shaikh and Wilhelm 2024); every
bootstrap resample has the same subjects for all models.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from string import ascii_lowercase
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import BoolArray, FloatArray, GroupMoments, cell_means, prepare, read_entries, resampled_moments

UPPER = 1.645
"""Standard normal quantile of the one-sided 95 % bound of the linear part of the variance."""
_TINY = 1e-200


@dataclass(frozen=True)
class Profiles:
    """Group means of K models and m outcomes in b resamples, scaled so that their squares sum to the mean squares.

    means (G, b, K, m): deviation of each group from the unweighted mean of the outcome's groups. noise (G, b, K, m):
    squared standard error. bias, quadratic (b, K): what the noise adds to the sum of squares, and the variance of that
    sum where no group differs. largest (b, K): largest squared standard error.
    """

    means: FloatArray
    noise: FloatArray
    bias: FloatArray
    quadratic: FloatArray
    largest: FloatArray

    def squares(self) -> FloatArray:
        """Return the unbiased mean squared difference of two groups, (b, K); negative by chance where there is none."""
        mean_squares: FloatArray = (self.means**2).sum(axis=(0, 3)) - self.bias
        return mean_squares


class _Sizes(NamedTuple):
    """One model: theta, and the parts of its variance."""

    theta: FloatArray
    quadratic: FloatArray
    largest: FloatArray
    linear: FloatArray
    linear_error: FloatArray


def profiles(group_moments: GroupMoments, valid: BoolArray, scale: FloatArray, n_models: int) -> Profiles:
    """Return the profiles of group moments (G, b, K m) on a scale (K m,).

    `valid` (G, K m): groups that count. A group that a resample has lost (fewer than two answers) has no noise there.
    """
    n_groups = valid.sum(axis=0)
    n_outcomes = len(scale) // n_models
    # mean over pairs of squared differences = 2 / (G - 1) times the sum of squared deviations
    root = np.sqrt(2.0 / (n_groups - 1) / n_outcomes) * scale
    counts = valid[:, None] & group_moments.valid
    mean = np.where(counts, group_moments.mean, 0.0) * root
    centred = np.where(counts, mean - mean.sum(axis=0) / np.maximum(counts.sum(axis=0), 1), 0.0)
    variance = np.where(counts, group_moments.variance / np.where(counts, group_moments.n, 1.0), 0.0) * root**2
    noise = np.where(counts, group_moments.error, 0.0) * root**2
    total, square = noise.sum(axis=0), (noise**2).sum(axis=0)
    inverse = 1.0 / n_groups
    bias = variance.sum(axis=0) * (1 - inverse)
    if group_moments.correlation is not None:
        error = np.sqrt(variance)
        between = np.einsum("ghbc,gbc,hbc->bc", group_moments.correlation, error, error)
        bias = bias - inverse * (between - variance.sum(axis=0))
    # twice the sum over g, h of C_gh^2 v_g v_h, C the centring matrix
    quadratic = 2 * (square * ((1 - inverse) ** 2 - inverse**2) + total**2 * inverse**2)

    def split(table: FloatArray) -> FloatArray:
        return table.reshape(*table.shape[:-1], n_models, n_outcomes)

    return Profiles(
        split(centred),
        split(noise),
        split(bias).sum(axis=-1),
        split(quadratic).sum(axis=-1),
        split(noise.max(axis=0)).max(axis=-1),
    )


def smaller_profiles(
    observed: Profiles, batches: Iterable[Profiles], sizes: FloatArray, alpha: float
) -> tuple[BoolArray, float]:
    """Return (K, K) whether a row's mean squared difference is smaller than a column's, and the critical value.

    Simultaneous at alpha over all pairs of models: the maximum over pairs of |T*|, each divided by its own (1 - alpha)
    quantile, so that the critical value is 1 for two models. The direction of a noisy profile is itself uncertain; the
    null distribution is taken both in the estimated direction and with each outcome's differences in its noisiest
    group, and both must reject.

    Parameters
    ----------
    observed
        With b = 1.
    batches
        Joint resamples of the subjects of all models.
    sizes
        Number of subjects of each group, (G,). Covariances between models and outcomes are resampled but not
        studentised; Student's t in place of the normal distribution, with the degrees of freedom of the pair's
        differences (Satterthwaite 1946), makes up for a small group.
    """
    from scipy.special import ndtri, stdtrit

    k = observed.means.shape[2]
    smaller, critical = np.ones((k, k), dtype=bool), 0.0
    pairs = list(combinations(range(k), 2))
    for tests in _pair_tests(observed, batches, pairs):
        t, null = np.zeros((k, k)), []
        for (a, b), test in zip(pairs, tests, strict=True):
            unit = max(float(np.quantile(test.draws, 1 - alpha, method="higher")), _TINY)
            t[a, b] = test.t / unit
            null.append(test.draws / unit)
            df = _degrees_of_freedom(test.variance, sizes)
            t[a, b] /= 1.0 if math.isinf(df) else float(stdtrit(df, 1 - alpha / 2) / ndtri(1 - alpha / 2))
        level = float(np.quantile(np.max(null, axis=0), 1 - alpha, method="higher"))
        smaller &= t - t.T < -level
        critical = max(critical, level)
    return smaller, critical


class _PairTest(NamedTuple):
    """The statistic of two models, |T| of the resamples under equality (b,), and the variance by group (G,)."""

    t: float
    draws: FloatArray
    variance: FloatArray


def _pair_tests(
    observed: Profiles, batches: Iterable[Profiles], pairs: Sequence[tuple[int, int]]
) -> Iterator[list[_PairTest]]:
    """Yield the tests of `pairs` of models, under each of the two null distributions of `smaller_profiles`."""
    around_observed = _around(observed.means[:, 0], np.zeros_like(observed.means), observed)
    directions = _directions(observed)
    around = [
        [_around(direction_vector, batch.means - observed.means, batch) for direction_vector in directions]
        for batch in batches
    ]
    for direction, terms in zip(directions, zip(*around, strict=True), strict=True):
        drawn = _Around(*(np.concatenate(arrays, axis=-2) for arrays in zip(*terms, strict=True)))
        by_group = (direction**2 * observed.noise[:, 0]).sum(axis=-1)
        tests = []
        for a, b in pairs:
            statistic, common = _statistic(around_observed.sizes(a, 1.0), around_observed.sizes(b, 1.0))
            root = float(np.sqrt(common[0]))
            draws = np.abs(_statistic(drawn.sizes(a, root), drawn.sizes(b, root))[0])
            tests.append(_PairTest(float(statistic[0]), draws, by_group[:, a] + by_group[:, b]))
        yield tests


@dataclass(frozen=True)
class OrderTest:
    """How the differences between groups of two models compare.

    `differences`: of the first and the second (`Ranked`). `p_value`: two-sided, of the same difference.
    `equivalence_p`: of differences that are at least the margin apart.
    """

    differences: tuple[float, float]
    p_value: float
    equivalence_p: float


def order_tests(
    observed: Profiles, batches: Iterable[Profiles], sizes: FloatArray, pairs: Sequence[tuple[int, int]], margin: float
) -> list[OrderTest]:
    """Test the order of pairs of models, each pair by itself; parameters as in `smaller_profiles`.

    The p-value of the order is the larger one under the two null distributions. Equivalence is tested from both sides
    at the margin, with the other model's difference as the nuisance parameter (`_margin_p`).
    """
    from scipy.special import ndtri, stdtr

    p_values, resampled = np.zeros(len(pairs)), []

    def kept() -> Iterator[Profiles]:
        for batch in batches:
            resampled.append(batch.squares())
            yield batch

    for tests in _pair_tests(observed, kept(), pairs):
        for k, test in enumerate(tests):
            df = _degrees_of_freedom(test.variance, sizes)
            t = abs(test.t) if math.isinf(df) else -float(ndtri(stdtr(df, -abs(test.t))))
            p_values[k] = max(p_values[k], (1 + int((test.draws >= t - 1e-12).sum())) / (len(test.draws) + 1))
    roots = np.sqrt(np.maximum(observed.squares()[0], 0.0))
    together = np.concatenate(resampled)
    out = []
    for (a, b), p in zip(pairs, p_values.tolist(), strict=True):
        df = min(_degrees_of_freedom(observed.noise[:, 0, k].sum(axis=-1), sizes) for k in (a, b))
        with np.errstate(divide="ignore", invalid="ignore"):
            opposite = max(0.0, -float(np.nan_to_num(np.corrcoef(together[:, a], together[:, b])[0, 1])))
        sides = (_margin_p(observed, one, other, margin, opposite, df) for one, other in ((a, b), (b, a)))
        out.append(OrderTest((float(roots[a]), float(roots[b])), p, max(sides)))
    return out


def _margin_p(observed: Profiles, a: int, b: int, margin: float, opposite: float, df: float) -> float:
    """Return the one-sided p-value of the hypothesis that the difference of a exceeds that of b by the margin or more.

    The squared length of a noisy profile is taken as noncentral chi-square, with the largest squared standard error as
    its unit (Abdel-Aty 1954). For each difference s of b, a has s + margin: how far the two observed lengths are from
    both, in normal statistics, is their Mahalanobis distance, where a negative correlation of the two is `opposite` and
    a positive one does not count; the nearest s counts.
    """
    from scipy.special import ndtr, stdtr

    unit, bias, squares = observed.largest[0], observed.bias[0], observed.squares()[0]
    if min(unit[a], unit[b]) <= 0:
        return 1.0
    reach = math.sqrt(max(squares[b], 0.0)) + 8 * math.sqrt(unit[b])
    s = np.linspace(0.0, reach, 400)

    def z(model: int, size: FloatArray) -> FloatArray:
        freedom, noncentral = max(bias[model] / unit[model], 0.5), size**2 / unit[model]
        length, total = max(squares[model] + bias[model], 0.0) / unit[model], freedom + noncentral
        spread = 2 / 9 * (1 + noncentral / total) / total
        value: FloatArray = ((length / total) ** (1 / 3) - (1 - spread)) / np.sqrt(spread)
        return value

    below, above = np.maximum(-z(a, s + margin), 0.0), np.maximum(z(b, s), 0.0)
    square = (below**2 - 2 * opposite * below * above + above**2) / max(1 - opposite**2, 1e-9)
    nearest = math.sqrt(max(float(square.min()), 0.0))
    return float(ndtr(-nearest) if math.isinf(df) else stdtr(df, -nearest))


def _degrees_of_freedom(variance: FloatArray, sizes: FloatArray) -> float:
    squares = float((variance**2 / np.maximum(sizes - 1, 1)).sum())
    return float(variance.sum() ** 2 / squares) if squares > 0 else math.inf


def _directions(observed: Profiles) -> tuple[FloatArray, FloatArray]:
    """Return unit profiles (G, K, m): the estimated one, and its size per outcome put into the noisiest group."""
    means, noise = observed.means[:, 0], observed.noise[:, 0]
    by_outcome = (means**2).sum(axis=0)
    total = by_outcome.sum(axis=-1, keepdims=True)
    share = np.where(total > 0, by_outcome / np.where(total > 0, total, 1.0), 1.0 / by_outcome.shape[-1])
    is_used = observed.noise[:, 0] > 0
    size = np.maximum(is_used.sum(axis=0), 2)
    spike = (np.arange(len(noise))[:, None, None] == noise.argmax(axis=0)).astype(np.float64)
    spike = np.where(is_used | (spike > 0), spike - 1.0 / size, 0.0)
    spike *= np.sqrt(share / np.maximum((spike**2).sum(axis=0), _TINY))
    estimated = np.where(total > 0, means / np.sqrt(np.where(total > 0, total, 1.0)), spike)
    return estimated, spike


class _Around(NamedTuple):
    """The sizes of profiles of s times a direction plus noise, as polynomials in s.

    theta, linear, cubic (3, b, K): the coefficients of s^2, s and 1 of the mean square and of the parts of its
    variance. The rest (b, K) does not depend on s.
    """

    theta: FloatArray
    linear: FloatArray
    cubic: FloatArray
    fourth: FloatArray
    quadratic: FloatArray
    largest: FloatArray

    def sizes(self, model: int, s: float) -> _Sizes:
        """Return the sizes of one model, (b,)."""
        powers = np.array([s * s, s, 1.0])
        theta, linear, cubic = (powers @ term[:, :, model] for term in (self.theta, self.linear, self.cubic))
        error = np.sqrt(np.maximum(4 * cubic, 0.0) + 2 * self.fourth[:, model])
        return _Sizes(theta, self.quadratic[:, model], self.largest[:, model], linear, error)


def _around(direction: FloatArray, noise: FloatArray, p: Profiles) -> _Around:
    """Return the sizes around `direction` (G, K, m), with deviations `noise` (G, b, K, m) and the errors of `p`."""
    centre, v = direction[:, None], p.noise
    size = np.maximum((v > 0).sum(axis=0), 2)
    less = ((v**2).sum(axis=0) * (1 - 1.0 / size)).sum(axis=-1)

    def total(x: FloatArray, weight: FloatArray, y: FloatArray) -> FloatArray:
        summed: FloatArray = (x * weight * y).sum(axis=(0, 3))
        return summed

    def polynomial(weight: FloatArray, bias: FloatArray) -> FloatArray:
        square = total(noise, weight, noise) - bias
        return np.stack([total(centre, weight, centre), 2 * total(centre, weight, noise), square])

    return _Around(
        polynomial(np.ones_like(v), p.bias),
        polynomial(v, less),
        polynomial(v**3, np.zeros_like(less)),
        (v**4).sum(axis=(0, 3)),
        p.quadratic,
        p.largest,
    )


def _statistic(a: _Sizes, b: _Sizes) -> tuple[FloatArray, FloatArray]:
    """Return (theta_a - theta_b) over its standard error under equality, and the common theta, each (b,).

    The variance of theta is 4 mu' V mu + 2 tr(V^2). Its linear part is bounded from above by the estimate and by what
    the common size can reach in the noisiest group. Common subjects of two models are accounted for by the resamples.
    """
    top = np.maximum(np.maximum(a.theta, b.theta), 0.0)
    weight = [1.0 / np.maximum(4 * model.largest * top + model.quadratic, _TINY) for model in (a, b)]
    common = np.maximum((weight[0] * a.theta + weight[1] * b.theta) / (weight[0] + weight[1]), 0.0)
    variance = np.zeros_like(top)
    for model in (a, b):
        shrink = np.where(model.theta > common, common / np.where(model.theta > common, model.theta, 1.0), 1.0)
        estimate = np.maximum(model.linear + UPPER * model.linear_error, 0.0) * shrink
        variance = variance + 4 * np.minimum(model.largest * common, estimate) + model.quadratic
    gap = a.theta - b.theta
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(np.abs(gap) <= 1e-12 * np.maximum(top, _TINY), 0.0, gap / np.sqrt(variance))
    return t, common


@dataclass(frozen=True)
class Ranked:
    """One model: its `difference` (lower is better), the interval of its rank, and its letters.

    `difference`: root mean square over outcomes and pairs of groups of the difference of two group means, less its
    squared standard error; 0 where that is negative. Of two groups and one outcome it is the gap, and it is less than
    max - min of more groups. Models that share a letter do not differ significantly (compact letter display).
    """

    name: str
    difference: float
    rank_low: int
    rank_high: int
    letters: str


@dataclass(frozen=True)
class RankTable:
    """Models by difference, best first.

    `critical`: simultaneous critical value, in units of a single pair's own. better (K, K), in the table's order:
    better[a, b] if a is significantly better than b.
    """

    rows: tuple[Ranked, ...]
    critical: float
    better: BoolArray


def rank_models(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    names: Sequence[str],
    *,
    images: ArrayLike | None = None,
    n_bootstrap: int,
    seed: int,
    alpha: float = 0.05,
    min_subjects: int = 10,
) -> RankTable:
    """Rank K models that answered the same m questions about the same subjects.

    Parameters
    ----------
    values
        (K, n, m): model, (image, group) line, outcome; NaN = missing. Outcomes count alike, in their own units.
    groups, subjects, images
        (n,), as in `disparity`.
    names
        The K models' names, all different.

    Raises
    ------
    ValueError
        If shapes differ, a name repeats, or some outcome of some model has fewer than two groups with enough subjects.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 3 or len(names) != len(table) or len(set(names)) != len(names) or n_bootstrap < 2:
        raise ValueError("need values (models, lines, outcomes), one unique name per model, and n_bootstrap >= 2")
    observed, batches, sizes = resampled_profiles(table, groups, subjects, images, n_bootstrap, seed, min_subjects)
    better, critical = smaller_profiles(observed, batches, sizes, alpha)
    return rank_table(names, observed.squares()[0], better, critical)


def resampled_profiles(
    table: FloatArray,
    groups: ArrayLike,
    subjects: ArrayLike,
    images: ArrayLike | None,
    n: int,
    seed: int,
    min_subjects: int,
) -> tuple[Profiles, Iterator[Profiles], FloatArray]:
    """Return the profiles of K models, those of `n` resamples of the subjects, and the sizes of the groups (G,).

    The other parameters are those of `rank_models`; so is the error where groups are too small.
    """
    k, n_lines, m = table.shape
    entries = read_entries(table.transpose(1, 0, 2).reshape(n_lines, k * m), groups, subjects, images)
    p = prepare(entries, cell_means(entries), min_subjects)
    if p is None or (p.eligible.sum(axis=0) < 2).any():
        raise ValueError("every outcome of every model needs two groups with enough subjects")
    drawn, resamples = resampled_moments(p, n, seed)
    valid = drawn.valid[:, 0]
    batches = (profiles(resampled, valid, p.scale, k) for resampled in resamples)
    return profiles(drawn, valid, p.scale, k), batches, p.member.sum(axis=0)


def rank_table(names: Sequence[str], squares: FloatArray, better: BoolArray, critical: float) -> RankTable:
    """Return models in the order of their mean squared differences `squares` (K,), with ranks from `better` (K, K).

    `better` and `critical` are those of `smaller_profiles`.
    """
    k = len(names)
    order = np.argsort(squares, kind="stable")
    better = better[np.ix_(order, order)]
    letters = compact_letters(better | better.T)
    rows = tuple(
        Ranked(
            str(names[model]),
            float(np.sqrt(max(squares[model], 0.0))),
            1 + int(better[:, position].sum()),
            k - int(better[position].sum()),
            letters[position],
        )
        for position, model in enumerate(order.tolist())
    )
    return RankTable(rows, critical, better)


def compact_letters(different: BoolArray) -> list[str]:
    """Return letters (K,) such that two items share one exactly where they are **not** different.

    Insert-and-absorb algorithm (Piepho 2004). different (K, K): symmetric, in the order of the table.
    """
    k = len(different)
    columns = [set(range(k))]
    for i in range(k):
        for j in range(i + 1, k):
            if not different[i, j]:
                continue
            split = [c for c in columns if not {i, j} <= c]
            for column in columns:
                if {i, j} <= column:
                    split += [column - {i}, column - {j}]
            columns = [
                c for x, c in enumerate(split) if not any(c < o or (c == o and y < x) for y, o in enumerate(split))
            ]
    columns.sort(key=sorted)
    # a ... z, then a1 ... z1, a2 ...
    letters = [ascii_lowercase[x % 26] + (str(x // 26) if x >= 26 else "") for x in range(len(columns))]
    return ["".join(x for x, column in zip(letters, columns, strict=True) if item in column) for item in range(k)]
