"""The permutation test of one outcome, inverted into an interval of max - min at any level.

The test rejects that all groups are equal where the largest studentised contrast, of a pair or of all groups together,
exceeds the critical value of its permutations. The lower end is the smallest gap that the same test does not reject, so
that it is above 0 exactly where the p-value is at most alpha. The upper end is one-sided for a single pair: Student's t
for scores, and Newcombe's hybrid of Wilson's limits (1998) at the effective number of answers for yes/no outcomes.
Equivalence is stated where the upper end is below the smallest effect of interest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fp2.stats.core.moments import NO_SPREAD, GroupMoments, contrast_weight, pair_table, pairs, worst_shares
from fp2.stats.core.numeric import BoolArray, FloatArray, IntArray
from fp2.stats.core.resampling import observed_moments, resampled_moments
from fp2.stats.core.units import TIE, Prepared, permutation_p

FEW = 10
"""Number of subjects off the most frequent value below which a t interval of their group's mean does not hold."""

N_DRAWS = 2000
"""Draws of the group means for the minimum detectable gap of rates."""


@dataclass(frozen=True)
class GapTest:
    """One outcome of k valid groups and P pairs of them, in the outcome's own units.

    Attributes
    ----------
    mean, size : (k,)
        Group means and their numbers of subjects; for a yes/no outcome the effective numbers of answers.
    error : (P,)
        Standard errors of the pairs' differences if all groups are equal; they studentise the test.
    own_error : (P,)
        Standard errors at the observed means: those of a yes/no outcome depend on the rates.
    null, own : (k,)
        Squared standard errors of the means, as in `error` and `own_error`.
    permuted : (B,)
        Permuted maxima of the studentised contrasts.
    overall : float
        By what the largest of all contrasts is multiplied beside the largest pair; 0 where pairs alone count.
    yes_no : bool
    shared : (P,)
        Standard error of a pair over that of two groups without common subjects.
    t_error, df : (P,)
        Standard errors and degrees of freedom of the upper end, for scores.
    group_error, skewness : (k,)
        For scores: standard errors of the means, and skewness of the subject means.
    share, reach : (k,)
        For scores: share of subjects off the most frequent value, and how far a mean can move if more subjects were; 0
        where at least `FEW` subjects are off it.
    """

    mean: FloatArray
    size: FloatArray
    error: FloatArray
    own_error: FloatArray
    null: FloatArray
    own: FloatArray
    permuted: FloatArray
    overall: float
    yes_no: bool
    shared: FloatArray
    t_error: FloatArray
    df: FloatArray
    group_error: FloatArray
    skewness: FloatArray
    share: FloatArray
    reach: FloatArray

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray]:
        first, second = np.array(list(pairs(len(self.mean))), dtype=np.intp).T
        return first, second

    @cached_property
    def gap(self) -> FloatArray:
        """Differences of the pairs, (P,)."""
        first, second = self._pairs
        difference: FloatArray = self.mean[first] - self.mean[second]
        return difference

    @cached_property
    def _sorted(self) -> FloatArray:
        return np.sort(np.where(np.isnan(self.permuted), np.inf, self.permuted))

    def critical(self, alpha: float) -> float:
        """Return the value that the observed maximum must exceed for p <= alpha; infinite with too few permutations."""
        reached = int(np.floor(alpha * (len(self.permuted) + 1) + 1e-9))
        return float(self._sorted[-reached]) if reached >= 1 else np.inf

    def low(self, alpha: float) -> float:
        """Return the lower end at simultaneous level 1 - alpha, at least 0: the smallest gap that is not rejected.

        For a pair the smallest gap x with (|d| - x) / SE(x) at most the critical value. SE(x)^2 is linear between
        `error`^2 at 0 and `own_error`^2 at |d|. For all groups together see `_contrast`.
        """
        critical = self.critical(alpha)
        if not np.isfinite(critical) or not len(self.gap):
            return 0.0
        lower_end, gap = 0.0, np.abs(self.gap)
        beyond = gap > critical * self.error * (1 + TIE) + TIE * self.error
        if beyond.any():
            gap, null, own_square = gap[beyond], self.error[beyond] ** 2, self.own_error[beyond] ** 2
            slope = critical**2 * (own_square - null) / gap
            middle = gap + slope / 2
            root = np.sqrt(np.maximum(middle**2 - gap**2 + critical**2 * null, 0.0))
            lower_end = float(np.maximum(middle - root, 0.0).max())
        needed = critical * (1 + TIE) + TIE
        if self._contrast(lower_end) <= needed:
            return lower_end
        high = float(np.ptp(self.mean))
        for _ in range(40):
            middle_x = (lower_end + high) / 2
            lower_end, high = (middle_x, high) if self._contrast(middle_x) > needed else (lower_end, middle_x)
        return lower_end

    def _contrast(self, bound: float) -> float:
        """Return the largest contrast of all groups beyond means that differ by at most `bound`, times `overall`.

        The square is the least sum of (mean - m)^2 / SE(bound)^2 over means m within a window of this width; SE^2 is
        the larger of `null` and its linear change to `own` at the observed range, so that it never grows with `bound`.
        """
        widest = float(np.ptp(self.mean))
        if not self.overall or bound >= widest:
            return 0.0
        square = np.maximum(self.null, self.null + bound / widest * (self.own - self.null))
        if (square <= 0).any():
            return 0.0
        # the sum is convex in the window's lower end, with a slope that is linear between these points
        edges = np.sort(np.concatenate([self.mean, self.mean - bound]))
        below, above = edges[:, None] - self.mean, self.mean - bound - edges[:, None]
        slope = ((np.maximum(below, 0.0) - np.maximum(above, 0.0)) / square).sum(axis=1)
        last = int(np.searchsorted(slope, 0.0))
        first = max(last - 1, 0)
        rise = slope[last] - slope[first]
        at = edges[first] - (slope[first] * (edges[last] - edges[first]) / rise if rise > 0 else 0.0)
        off = self.mean - np.clip(self.mean, at, at + bound)
        return self.overall * float(np.sqrt((off**2 / square).sum()))

    def statistic(self, bound: float) -> float:
        """Return the largest studentised contrast beyond a gap of `bound`: of pairs (|d| - bound) / SE(bound)."""
        gap = np.abs(self.gap)
        above = gap > bound
        if not above.any():
            return 0.0
        gap, null, own_square = gap[above], self.error[above] ** 2, self.own_error[above] ** 2
        error = np.sqrt(null + bound / gap * (own_square - null))
        with np.errstate(divide="ignore"):
            t = np.where(error > 0, (gap - bound) / np.where(error > 0, error, 1.0), np.inf)
        return max(float(t.max()), self._contrast(bound))

    def exceeds_p(self, bound: float) -> float:
        """Return the p-value of the hypothesis that no pair differs by more than `bound`.

        It is at most alpha where `low(alpha)` is above `bound`, and only there.
        """
        return permutation_p(self.statistic(bound), self.permuted)

    def high(self, alpha: float) -> float:
        """Return the upper end: the largest one-sided limit of a pair at level 1 - alpha / 2."""
        up, down = self._margins(alpha / 2)
        return float(np.maximum(self.gap + up, -self.gap + down).max())

    def equivalence_p(self, bound: float) -> float:
        """Return the p-value that some pair differs by at least `bound` (intersection-union test, Berger 1982).

        The smallest one-sided level at which every pair's limit is below the bound; 1 where an observed gap is not.
        """
        if float(np.abs(self.gap).max()) >= bound:
            return 1.0
        # in log p, so that small p-values are as exact as large ones
        low, high = np.log(1e-12), np.log(0.5)
        for _ in range(45):
            middle = (low + high) / 2
            low, high = (low, middle) if self.high(2 * float(np.exp(middle))) < bound else (middle, high)
        return float(np.exp(high))

    def detectable(self, alpha: float, power: float = 0.8) -> float:
        """Return the minimum detectable effect at level alpha: what is found with `power` between any two groups.

        The gap d with d = critical * SE + z * SE(d) in the least precise pair. Rates are taken at d / 2 above and below
        their mean: their standard errors follow from d, and each of the two groups then differs from all others, which
        counts too (`_rates_apart`). For scores the contribution of other pairs is neglected.
        """
        from scipy.special import ndtri

        critical, z = self.critical(alpha), float(ndtri(power))
        if not np.isfinite(critical):
            return np.inf
        if not self.yes_no:
            return float((critical * self.error + z * self.error).max())
        threshold = (critical + self._next(critical)) / 2 * self.error
        first, second = self._pairs
        middle, gaps = float(np.average(self.mean, weights=self.size)), threshold
        for _ in range(20):
            high, low = (np.clip(middle + side * gaps / 2, 0.0, 1.0) for side in (1, -1))
            variance = high * (1 - high) / self.size[first] + low * (1 - low) / self.size[second]
            other = low * (1 - low) / self.size[first] + high * (1 - high) / self.size[second]
            gaps = threshold + z * np.sqrt(np.maximum(variance, other))
        if not 0.0 < middle < 1.0:
            return float(gaps.max())
        return self._rates_apart(int(gaps.argmax()), float(gaps.max()), middle, threshold, power)

    def _next(self, critical: float) -> float:
        """Return the next larger permuted maximum where `critical` is a value that several permutations share."""
        low, high = np.searchsorted(self._sorted, (critical * (1 - TIE), critical * (1 + TIE)))
        shared = high - low > 1 and high < len(self._sorted) and np.isfinite(self._sorted[high])
        return float(self._sorted[high]) if shared else critical

    def _rates_apart(self, pair: int, widest: float, middle: float, threshold: FloatArray, power: float) -> float:
        """Return the smallest gap <= `widest` of two rates about `middle` at which some pair exceeds `threshold`.

        The probability is that of normal group means, over fixed draws; the less favourable of the two signs counts.
        The standard errors of the test are pooled over groups, so that they follow from the gap too.
        """
        first, second = self._pairs
        two_groups = first[pair], second[pair]
        near = np.isin(first, two_groups) | np.isin(second, two_groups)
        noise = np.random.default_rng(0).normal(size=(N_DRAWS, len(self.size)))

        def found(gap: float, sign: int) -> float:
            rate = np.full(len(self.size), middle)
            rate[list(two_groups)] = np.clip(middle + sign * np.array([0.5, -0.5]) * gap, 0.0, 1.0)
            variance = rate * (1 - rate)
            drawn = rate + noise * np.sqrt(variance / self.size)
            pooled = np.sqrt(np.average(variance, weights=self.size) / (middle * (1 - middle)))
            apart = np.abs(drawn[:, first[near]] - drawn[:, second[near]]) > threshold[near] * pooled
            return float(apart.any(axis=1).mean())

        low, high = 0.0, widest
        for _ in range(15):
            gap = (low + high) / 2
            low, high = (low, gap) if min(found(gap, sign) for sign in (1, -1)) >= power else (gap, high)
        return high

    def _margins(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Return how far each difference may be above and below what was observed, one-sided at `level`, (P,) each."""
        from scipy.special import ndtri, stdtrit

        first, second = self._pairs
        z = float(-ndtri(level))
        if self.yes_no:
            below, above = _wilson(self.mean, self.size, z)
            up, down = above - self.mean, self.mean - below
            return self.shared * np.hypot(up[first], down[second]), self.shared * np.hypot(down[first], up[second])
        finite = np.isfinite(self.df)
        t = np.where(finite, -stdtrit(np.where(finite, self.df, 1.0), level), z)
        margin = np.where(self.t_error > 0, t * self.t_error, 0.0)
        more = self.reach * (_wilson(self.share, self.size, z)[1] - self.share)
        # a skewed mean errs further on the side of its long tail (Johnson 1978); a small group's own skewness is too
        # small, so that the larger of its own and the mean one counts
        own_t = -stdtrit(self.size - 1, level)
        pooled = float(np.average(self.skewness, weights=self.size))
        up, down = (
            np.maximum(more, self.group_error * (own_t + side * (2 * own_t**2 + 1) / (6 * np.sqrt(self.size))))
            for side in (np.maximum(sign * self.skewness, max(sign * pooled, 0.0)) for sign in (1, -1))
        )
        return (
            np.maximum(margin, self.shared * np.hypot(up[first], down[second])),
            np.maximum(margin, self.shared * np.hypot(down[first], up[second])),
        )


def wilson(rate: float, n: float, alpha: float = 0.05) -> tuple[float, float]:
    """Return Wilson's score interval (1927) of a rate in `n` (effective) answers."""
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(rate * n, n, alpha, method="wilson")
    # the ends are exact where the rate is 0 or 1: a ratio of rates has no upper end if the interval reaches 0
    return (0.0 if rate == 0 else float(low)), (1.0 if rate == 1 else float(high))


def _wilson(rate: FloatArray, n: FloatArray, z: float) -> tuple[FloatArray, FloatArray]:
    """Return Wilson's score limits (1927) of rates in n answers.

    statsmodels' `proportion_confint` gives the same to 1e-15 and takes five times as long; `equivalence_p` needs this
    45 times a row.
    """
    square = z * z / n
    centre, half = rate + square / 2, z * np.sqrt(np.maximum(rate * (1 - rate), 0.0) / n + square / n / 4)
    return np.maximum((centre - half) / (1 + square), 0.0), np.minimum((centre + half) / (1 + square), 1.0)


def gap_tests(
    p: Prepared, observed: GroupMoments, max_t_permuted: FloatArray, yes_no: BoolArray
) -> list[GapTest | None]:
    """Return the test of every outcome, None where fewer than two groups are valid.

    Parameters
    ----------
    observed, max_t_permuted : GroupMoments, (B, m)
        The observed moments, and the largest studentised contrasts under permutation.
    yes_no : (m,)
        Which outcomes are 0/1.
    """
    cautious = observed_moments(p.y, p.member, p.eligible, p.units.dependent)
    table, cautious_table = pair_table(observed), pair_table(cautious)
    # the squared errors of yes/no outcomes at the groups' own rates
    rate = p.centre + p.scale * np.nan_to_num(observed.mean)
    square = np.where(p.scale > 0, p.scale, 1.0) ** 2
    variance = observed.design * np.maximum(rate * (1 - rate), 0.0) / square
    own_moments = replace(observed, error=np.where(observed.valid, variance / np.maximum(observed.n, 1.0), np.inf))
    own_table = pair_table(own_moments)
    tests: list[GapTest | None] = []
    for j, scale in enumerate(p.scale.tolist()):
        valid = np.flatnonzero(observed.valid[:, 0, j])
        if len(valid) < 2:
            tests.append(None)
            continue
        compared = np.isfinite(table.gap[:, j])
        n, binary = observed.n[valid, 0, j], bool(yes_no[j])
        error, null = table.error[compared, j] * scale, observed.error[valid, 0, j] * scale**2
        share, reach, skewness = np.zeros((3, len(valid)))
        if binary:
            constant = observed.variance[valid, 0, j] == 0
            # without any spread nothing shows that the answers of a subject are independent
            n = n / np.where(constant, 1.0, observed.design[valid, 0, j])
        else:
            samples = [p.y[p.member[:, g], g, j] for g in valid]
            samples = [sample[np.isfinite(sample)] for sample in samples]
            share, reach = _off_the_mode(samples, scale)
            skewness = np.array([_skewness(sample) for sample in samples])
        single, pair_error = cautious.error[valid, 0, j], cautious_table.error[compared, j]
        apart = np.sqrt([single[g] + single[h] for g, h in pairs(len(valid))])
        tests.append(
            GapTest(
                mean=observed.mean[valid, 0, j] * scale + p.centre[j],
                size=n,
                error=error,
                own_error=own_table.error[compared, j] * scale if binary else error,
                null=null,
                own=own_moments.error[valid, 0, j] * scale**2 if binary else null,
                permuted=max_t_permuted[:, j],
                overall=contrast_weight(observed, len(valid)),
                yes_no=binary,
                shared=np.where(apart > 0, pair_error / np.where(apart > 0, apart, 1.0), 1.0),
                t_error=pair_error * scale,
                df=cautious_table.df[compared, j],
                group_error=np.sqrt(single) * scale,
                skewness=skewness,
                share=share,
                reach=reach,
            )
        )
    return tests


def _off_the_mode(samples: list[FloatArray], scale: float) -> tuple[FloatArray, FloatArray]:
    """Return per group the share of subject means off the most frequent one, and the largest distance to it.

    Where few of a group's subjects are off it, their number says more about the mean than their spread. The distance is
    0 where at least `FEW` are, or where no value is frequent.
    """
    rounded_samples = [np.round(sample, 9) for sample in samples]
    size = np.array([len(sample) for sample in rounded_samples])
    values, counts = np.unique(np.concatenate(rounded_samples), return_counts=True)
    if counts.max() == 1:
        return np.ones(len(size)), np.zeros(len(size))
    modes = values[counts == counts.max()]
    # of several modes the one that leaves the fewest subjects off it
    off = np.min([[int((sample != mode).sum()) for sample in rounded_samples] for mode in modes], axis=0)
    furthest = float(np.abs(values[:, None] - modes).max()) * scale
    return off / size, np.where(off < FEW, furthest, 0.0)


def _skewness(sample: FloatArray) -> float:
    """Return the sample skewness with the usual correction sqrt(n (n - 1)) / (n - 2); 0 without spread."""
    n, deviation = len(sample), sample - sample.mean()
    second = float((deviation**2).mean())
    if n < 3 or second < NO_SPREAD:
        return 0.0
    return float((deviation**3).mean() / second**1.5 * np.sqrt(n * (n - 1)) / (n - 2))


def worst_probabilities(p: Prepared, sign: FloatArray, *, n_bootstrap: int, seed: int) -> FloatArray:
    """Return the share of `n_bootstrap` resamples of the subjects in which each group ranks worst, (G, m).

    `sign` (m,): +1 where a low mean is bad, else -1.
    """
    _, resamples = resampled_moments(p, n_bootstrap, seed)
    worst = np.zeros(p.eligible.shape)
    for resampled in resamples:
        worst += worst_shares(resampled, sign).sum(axis=1)
    return worst / n_bootstrap
