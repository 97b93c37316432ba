"""The inverted test against plain loops over its steps, and what the package offers at its top."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats
from stats_data import panel_of
from statsmodels.stats.proportion import proportion_confint

from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.numeric import stream
from fp2.stats.core.resampling import joint_permutations, observed_moments
from fp2.stats.core.units import prepare
from fp2.stats.disparities import disparity
from fp2.stats.interval import gap_tests


def test_interval_equals_plain_loops():
    """Three groups of scores: the lower end from the permutations, the upper one from every pair's t."""
    rng = np.random.default_rng(1)
    samples = [rng.normal(shift, 0.2, n) for shift, n in ((0.0, 20), (0.05, 14), (0.35, 10))]
    options = {"n_permutations": 199, "n_bootstrap": 150, "seed": 7}
    y, groups = np.concatenate(samples), np.repeat(["a", "b", "c"], [20, 14, 10])
    panel = panel_of(y[:, None], groups, range(44), **options)
    row = panel.rows[0]
    critical = np.sort(panel.max_t_permuted[:, 0])[-10]  # the tenth largest of 199: p <= .05 above it
    pairs = list(itertools.combinations(range(3), 2))
    pool = sum((len(x) - 1) * x.var(ddof=1) for x in samples) / 41
    null, error = (
        [((len(x) - 1) * x.var(ddof=1) + v0 * pool) / (len(x) - 1 + v0) / len(x) for x in samples] for v0 in (1, 3)
    )
    shape = [float(stats.skew(x, bias=False)) for x in samples]
    mean_shape = sum(len(x) * one for x, one in zip(samples, shape, strict=True)) / 44

    def side(x, sign):
        t, n = stats.t.ppf(0.975, len(samples[x]) - 1), len(samples[x])
        skew = max(sign * shape[x], sign * mean_shape, 0.0)
        return math.sqrt(error[x]) * (t + skew * (2 * t * t + 1) / 6 / math.sqrt(n))

    lows, highs = [0.0], []
    for g, h in pairs:
        gap = samples[g].mean() - samples[h].mean()
        lows.append(abs(gap) - critical * math.sqrt(null[g] + null[h]))
        parts = sum(error[x] ** 2 / (len(samples[x]) - 1) for x in (g, h))
        plain = stats.t.ppf(0.975, (error[g] + error[h]) ** 2 / parts) * math.sqrt(error[g] + error[h])
        highs.append(gap + max(plain, math.hypot(side(g, 1), side(h, -1))))
        highs.append(-gap + max(plain, math.hypot(side(g, -1), side(h, 1))))
    assert (row.ci_low, row.ci_high) == pytest.approx((max(lows), max(highs)))
    assert row.ci_low > 0
    draws = [stream(7, 0, 0, g).integers(0, len(x), (150, len(x))) for g, x in enumerate(samples)]
    again = [[x[d[b]].mean() for x, d in zip(samples, draws, strict=True)] for b in range(150)]
    assert row.worst_group == "a"
    assert row.p_worst == pytest.approx(np.mean([means[0] == min(means) for means in again]))


@pytest.mark.parametrize("yes_no", [False, True])
def test_the_interval_excludes_a_gap_exactly_where_the_test_rejects_it(yes_no):
    """At every level and bound, for scores and rare yes/no answers: one test, read in two ways."""
    rng = np.random.default_rng(5)
    groups, subjects = np.repeat(["a", "b", "c"], [60, 30, 24]), np.repeat(np.arange(38), 3)
    values = rng.normal(0, 0.2, (114, 40)) + np.linspace(0, 0.3, 40) * (groups == "c")[:, None]
    if yes_no:
        values = (rng.random((114, 40)) < 0.03 + np.linspace(0, 0.6, 40) * (groups == "c")[:, None]) * 1.0
    options = {"n_permutations": 199, "n_bootstrap": 0, "seed": 1, "min_subjects": 5, "value_range": (-2, 2)}
    if yes_no:
        options |= {"yes_no": True, "value_range": (0, 1)}
    rows = panel_of(values, groups, subjects, **options).rows
    seen = set()
    for row in rows:
        for alpha in (0.01, 0.05, 0.2):
            low, high = row.test.low(alpha), row.test.high(2 * alpha)
            assert (row.p_value <= alpha) == (low > 0)
            for bound in (0.02, 0.1, 0.3):
                assert (row.test.exceeds_p(bound) <= alpha) == (low > bound)
                assert (row.test.equivalence_p(bound) <= alpha) == (high < bound)
                seen.add((low > bound, high < bound))
    assert (True, False) in seen
    assert (False, True) in seen or yes_no


def test_yes_no_upper_ends_are_newcombes_at_the_effective_number_of_answers():
    """One image a subject: plain Wilson limits; in two groups that never say yes, of the number of subjects."""
    y = np.r_[np.ones(12), np.zeros(28), np.ones(3), np.zeros(27)]
    row = disparity(
        y,
        np.repeat(["a", "b"], [40, 30]),
        range(70),
        n_permutations=99,
        n_bootstrap=0,
        seed=0,
        value_range=(0, 1),
        yes_no=True,
    )
    (a, b), z = (proportion_confint(k, n, method="wilson") for k, n in ((12, 40), (3, 30))), 12 / 40 - 3 / 30
    assert row.ci_high == pytest.approx(z + math.hypot(a[1] - 12 / 40, 3 / 30 - b[0]))
    silent = disparity(
        np.r_[np.zeros(60), np.ones(2), np.zeros(58)],
        np.repeat(["a", "b"], 60),
        np.repeat(np.arange(40), 3),
        n_permutations=99,
        n_bootstrap=0,
        seed=0,
        value_range=(0, 1),
        yes_no=True,
    )
    assert silent.ci_high > proportion_confint(0, 20, method="wilson")[1]


def test_upper_end_is_clipped_to_the_width_of_the_scale():
    rng = np.random.default_rng(2)
    y = np.concatenate([rng.choice([0.0, 1.0], 12, p=[0.9, 0.1]), rng.choice([0.0, 1.0], 12, p=[0.1, 0.9])])
    row = disparity(
        y, np.repeat(["a", "b"], 12), range(24), n_permutations=9, n_bootstrap=99, seed=0, value_range=(0, 1)
    )
    assert row.ci_high == 1.0


def test_without_a_bootstrap_there_is_an_interval_and_no_probability_of_ranking_worst():
    y = np.random.default_rng(3).normal(0, 0.1, 24)
    row = disparity(y, np.repeat(["a", "b"], 12), range(24), n_permutations=99, n_bootstrap=0, seed=0)
    assert row.p_worst is None
    assert row.ci_low <= row.raw < row.ci_high


def test_weighted_form_agrees_with_the_plain_one_where_groups_share_nobody():
    rng = np.random.default_rng(4)
    y, member = np.full((40, 3, 2), np.nan), np.zeros((40, 3), dtype=bool)
    for s in range(40):
        y[s, s % 3] = rng.normal(size=2)
        member[s, s % 3] = True
    y[5, 2, 0] = np.nan
    everywhere = np.ones((3, 2), dtype=bool)
    plain = observed_moments(y, member, everywhere, dependent=False)
    weighted = observed_moments(y, member, everywhere, dependent=True)
    for name in ("mean", "error", "variance", "n"):
        np.testing.assert_allclose(getattr(plain, name), getattr(weighted, name))
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(weighted.correlation[off], 0.0, atol=1e-12)


def test_the_minimum_detectable_gap_of_rates_is_found_with_its_power():
    """Five groups, the two smallest apart at the gap that is printed where no group differs: power 80 %, within 6."""
    sizes, rng = [60, 40, 25, 20, 16], np.random.default_rng(5)
    groups = np.repeat(list("abcde"), sizes)

    def rows(gap, columns):
        rate = np.repeat([0.4, 0.4, 0.4, 0.4 - gap / 2, 0.4 + gap / 2], sizes)
        y = (rng.random((len(groups), columns)) < rate[:, None]).astype(float)
        return panel_of(
            y, groups, range(len(groups)), yes_no=True, value_range=(0, 1), n_permutations=299, n_bootstrap=0, seed=1
        ).rows

    gap = np.mean([row.mde80 for row in rows(0.0, 60)])
    assert 0.74 < np.mean([row.p_value <= 0.05 for row in rows(gap, 400)]) < 0.86


def test_the_contrast_of_all_groups_is_the_least_distance_to_means_within_the_bound():
    """Against a numerical minimum; the lower end is where the test of a gap above it starts to reject."""
    rng = np.random.default_rng(3)
    sizes = [24, 22, 20, 18, 16]
    samples = [rng.normal(0.3 * (k > 1), 0.2, n) for k, n in enumerate(sizes)]
    y, groups = np.concatenate(samples), np.repeat(list("abcde"), sizes)
    test = _only_test(y, groups)
    pool = sum((n - 1) * x.var(ddof=1) for x, n in zip(samples, sizes, strict=True)) / (sum(sizes) - 5)
    square = np.array([((len(x) - 1) * x.var(ddof=1) + pool) / len(x) / len(x) for x in samples])
    mean = np.array([x.mean() for x in samples])

    def least(bound):
        def off(a):
            return ((mean - np.clip(mean, a, a + bound)) ** 2 / square).sum()

        return optimize.minimize_scalar(
            off, bounds=(mean.min() - 1, mean.max()), method="bounded", options={"xatol": 1e-12}
        )

    ratio = stats.studentized_range.ppf(0.95, 5, np.inf) / math.sqrt(2 * stats.chi2.ppf(0.95, 4))
    pair = max(
        abs(mean[g] - mean[h]) / math.sqrt(square[g] + square[h]) for g, h in itertools.combinations(range(5), 2)
    )
    assert test.statistic(0.0) == pytest.approx(max(ratio * math.sqrt(least(0.0).fun), pair))
    assert ratio * math.sqrt(least(0.0).fun) > pair, "all groups together decide here"
    for bound in (0.05, 0.1, 0.2):
        assert test._contrast(bound) == pytest.approx(ratio * math.sqrt(least(bound).fun), rel=1e-6)
    low = test.low(0.05)
    assert 0 < low < np.ptp(mean)
    assert test.exceeds_p(low - 1e-6) <= 0.05 < test.exceeds_p(low + 1e-6)


def _only_test(y, groups):
    entries = read_entries(y[:, None], groups, range(len(y)), None)
    p = prepare(entries, cell_means(entries), 10)
    joint = joint_permutations(p, np.array([False]), np.ones(1), 999, seed=1)
    (test,) = gap_tests(p, joint.observed, joint.max_t_permuted, np.array([False]))
    return test
