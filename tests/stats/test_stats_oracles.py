"""Effect sizes, reference tests, corrections and derived numbers against independent libraries."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pingouin
import pytest
from fairlearn.metrics import MetricFrame
from scipy import optimize, stats
from scipy.spatial.distance import jensenshannon
from stats_data import clustered, jensen_shannon
from statsmodels.formula.api import gee, mixedlm
from statsmodels.genmod.cov_struct import Exchangeable
from statsmodels.stats.meta_analysis import combine_effects
from statsmodels.stats.oneway import anova_oneway

from fp2.stats.disparities import disparity
from fp2.stats.effects import hedges_g, icc_oneway, paule_mandel, shrunken_range


@pytest.fixture(scope="module")
def case():
    values, groups, subjects, images = clustered(np.random.default_rng(21), gap=0.15)
    values = np.clip(values[:, 0], -1, 1)
    values[::11] = np.nan
    frame = pd.DataFrame({"y": values, "group": groups, "subject": subjects})
    means = frame.dropna().groupby(["group", "subject"], as_index=False).y.mean()
    row = disparity(values, groups, subjects, images=images, n_permutations=999, n_bootstrap=300, seed=1)
    return row, frame, means


def parts(means):
    return [part.y.to_numpy() for _, part in means.groupby("group")]


def test_group_means_and_raw_equal_fairlearn_on_subject_means(case):
    row, _, means = case
    frame = MetricFrame(
        metrics=lambda y_true, y_pred: float(np.mean(y_pred)),
        y_true=means.y,
        y_pred=means.y,
        sensitive_features=means.group,
    )
    assert {g.group: g.mean for g in row.groups} == pytest.approx(frame.by_group.to_dict())
    assert row.raw == pytest.approx(frame.difference(method="between_groups"))
    gap = frame.by_group.astype(float)[row.best_group] - frame.by_group.astype(float)[row.worst_group]
    assert 0 < row.pair_gap == pytest.approx(gap)


def test_kruskal_and_epsilon_squared(case):
    row, _, means = case
    h, p = stats.kruskal(*parts(means))
    assert (row.kruskal_h, row.kruskal_p) == pytest.approx((h, p))
    assert row.epsilon_squared == pytest.approx(h / (len(means) - 1))


def test_welch_against_three_libraries(case):
    row, _, means = case
    scipy_result = stats.f_oneway(*parts(means), equal_var=False)
    assert (row.welch_f, row.welch_p) == pytest.approx((scipy_result.statistic, scipy_result.pvalue))
    table = pingouin.welch_anova(data=means, dv="y", between="group")
    assert row.welch_f == pytest.approx(float(table["F"].iloc[0]), rel=1e-6)
    statsmodels_result = anova_oneway(means.y, means.group, use_var="unequal")
    assert row.welch_p == pytest.approx(statsmodels_result.pvalue)
    gain = (len(row.groups) - 1) * (row.welch_f - 1)
    assert row.omega_squared == pytest.approx(gain / (gain + len(means)))


def test_hedges_g_of_the_extreme_pair(case):
    row, _, means = case
    worst, best = (means.y[means.group == g] for g in row.extreme_pair)
    assert row.hedges_g == pytest.approx(pingouin.compute_effsize(best, worst, eftype="hedges"))
    assert row.extreme_pair == (row.worst_group, row.best_group)


def test_pooled_sd_uses_ddof_one():
    assert hedges_g([1.0, 3.0], [0.0, 2.0]) == pytest.approx((1 / np.sqrt(2)) * (1 - 3 / 7))
    assert hedges_g([1.0, 1.0], [0.0, 0.0]) is None


@pytest.mark.parametrize("noise", [0.2, 2.0])
def test_icc_equals_pingouin_on_one_group(noise):
    rng = np.random.default_rng(4)
    y = rng.normal(size=(30, 1)) + noise * rng.normal(size=(30, 4))
    frame = pd.DataFrame({"y": y.ravel(), "s": np.repeat(range(30), 4), "i": np.tile(range(4), 30)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = pingouin.intraclass_corr(frame, targets="s", raters="i", ratings="y")
    expected = float(table["ICC"].iloc[0])
    icc, effect = icc_oneway(y.ravel(), frame.s.to_numpy(), np.zeros(120, dtype=int))
    assert icc == pytest.approx(expected, abs=1e-6)
    assert effect == pytest.approx(1 + 3 * max(expected, 0))


def test_icc_ignores_gaps_between_groups_and_recovers_the_planted_value():
    values, groups, subjects, _ = clustered(np.random.default_rng(5), sizes=(400, 400), images=4, icc=0.3, gap=3.0)
    cell, group = subjects, (groups == groups[0]).astype(int)
    icc, effect = icc_oneway(values[:, 0], cell, group)
    assert icc == pytest.approx(0.3, abs=0.04)
    options = {"n_permutations": 9, "n_bootstrap": 0, "seed": 0, "value_range": (-9, 9)}
    row = disparity(values[:, 0], groups, subjects, **options)
    assert (row.icc, row.design_effect) == pytest.approx((icc, effect))


def test_equivalence_of_a_row_equals_pingouin_without_shrinkage():
    rng = np.random.default_rng(10)
    x, y = rng.normal(0, 0.2, 400), rng.normal(0.02, 0.2, 400)
    options = {"n_permutations": 9, "n_bootstrap": 0, "seed": 0}
    row = disparity(np.r_[x, y], np.repeat(["a", "b"], 400), range(800), smallest_effect=0.06, **options)
    theirs = pingouin.tost(x, y, bound=0.06, correction=True)
    # equal sizes: the shrunken variances have the same sum
    assert row.equivalence_p == pytest.approx(float(theirs.filter(regex="^p").iloc[0, 0]), rel=2e-2)


def test_jensen_shannon_equals_scipy_for_two_and_the_formula_for_many():
    rng = np.random.default_rng(8)
    p = rng.dirichlet(np.ones(11), size=2)
    assert jensen_shannon(p) == pytest.approx(jensenshannon(p[0], p[1], base=2) ** 2)
    many = rng.dirichlet(np.full(10, 0.3), size=6)
    expected = (stats.entropy(many.mean(axis=0), base=2) - np.mean(stats.entropy(many, base=2, axis=1))) / np.log2(6)
    assert jensen_shannon(many) == pytest.approx(expected)
    assert jensen_shannon(np.eye(4)) == pytest.approx(1.0)
    assert jensen_shannon(np.tile(many[0], (3, 1))) == pytest.approx(0.0, abs=1e-12)


def test_row_divergence_equals_weighted_histograms(case):
    row, frame, _ = case
    known = frame.dropna()
    weight = 1 / known.groupby(["group", "subject"]).y.transform("size")
    shares = [
        np.histogram(part.y, bins=np.linspace(-1, 1, 12), weights=weight[part.index])[0]
        for _, part in known.groupby("group")
    ]
    assert row.js_divergence == pytest.approx(jensen_shannon([s / s.sum() for s in shares]))


def test_paule_mandel_equals_statsmodels():
    rng = np.random.default_rng(9)
    for spread in (0.05, 0.3, 1.0):
        y, v = rng.normal(0, spread, 7), rng.uniform(0.01, 0.2, 7)
        tau2, mu = paule_mandel(y, v)
        theirs = combine_effects(y, v, method_re="iterated", atol=1e-12, maxiter=2000)
        assert tau2 == pytest.approx(max(theirs.tau2, 0), abs=1e-6)
        assert mu == pytest.approx(theirs.mean_effect_re if theirs.tau2 > 0 else theirs.mean_effect_fe, abs=1e-5)


def test_shrunken_range_limits():
    y = np.array([0.0, 0.1, 0.9])
    assert shrunken_range(y, [1e-9] * 3) == pytest.approx(0.9, abs=1e-6)
    assert shrunken_range(y, [50.0] * 3) == 0.0
    assert shrunken_range(y, [0.0] * 3) == pytest.approx(0.9)
    # k = 2 with equal variances: tau^2 = d^2 / 2 - v, and each mean keeps the share tau^2 / (tau^2 + v)
    assert shrunken_range([0.0, 1.0], [0.1, 0.1]) == pytest.approx(0.4 / 0.5)
    with pytest.raises(ValueError):
        shrunken_range([1.0], [1.0])


@pytest.mark.parametrize("gap", [0.0, 0.1])
def test_mixed_model_and_gee_agree_where_they_can_be_trusted(gap):
    """With 80 people a group the usual models of repeated answers give our gap and about our p."""
    values, groups, subjects, images = clustered(np.random.default_rng(23), sizes=(80, 80), gap=gap)
    row = disparity(
        values[:, 0], groups, subjects, images=images, value_range=(-9, 9), n_permutations=4999, n_bootstrap=0, seed=1
    )
    frame = pd.DataFrame({"y": values[:, 0], "group": groups, "subject": subjects})
    mixed = mixedlm("y ~ group", frame, groups=frame.subject).fit()
    marginal = gee("y ~ group", "subject", frame, cov_struct=Exchangeable()).fit()
    for model in (mixed, marginal):
        assert abs(model.params["group[T.group B]"]) == pytest.approx(row.raw)
        assert model.pvalues["group[T.group B]"] == pytest.approx(row.p_value, abs=0.03)


def test_the_shrunken_range_follows_from_a_root_finder():
    rng = np.random.default_rng(5)
    means, variances = rng.normal(0, 0.3, (5, 40, 2)), rng.uniform(0.001, 0.2, (5, 40, 2))
    valid = rng.random((5, 40, 2)) < 0.8
    for b, j in itertools.product(range(40), range(2)):
        ok = valid[:, b, j]
        if ok.sum() < 2:
            with pytest.raises(ValueError, match="at least two groups"):
                shrunken_range(means[ok, b, j], variances[ok, b, j])
            continue
        y, v = means[ok, b, j], variances[ok, b, j]

        def excess(t, y=y, v=v):
            w = 1 / (v + t)
            return (w * (y - (w * y).sum() / w.sum()) ** 2).sum() - (len(y) - 1)

        t = optimize.brentq(excess, 0, 10) if excess(0) > 0 else 0.0
        w = 1 / (v + t)
        mu = (w * y).sum() / w.sum()
        assert shrunken_range(y, v) == pytest.approx(np.ptp(mu + t / (t + v) * (y - mu)), abs=1e-8)
    assert shrunken_range(np.zeros(3), np.zeros(3)) == 0
