"""Pairwise tests, corrections, proportions, equivalence and planning, against independent libraries."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pingouin
import pytest
import scikit_posthocs
from scipy import stats
from stats_data import clustered, tangled
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestIndPower
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from fp2.stats import (
    correct_family,
    design_effect,
    disparity,
    effective_n,
    equivalence_test,
    intraclass_correlation,
    minimum_detectable_gap,
    pairwise_permutation,
    pairwise_tests,
    power_of_gap,
    proportions_by_group,
    rank_biserial,
    step_down_max_t,
    step_down_panels,
    wilson,
    worst_group_probabilities,
)
from fp2.stats.panel import disparity_panel


@pytest.fixture(scope="module")
def case():
    values, groups, subjects, _ = clustered(np.random.default_rng(31), gap=0.15)
    y = np.round(values[:, 0], 1)
    means = pd.DataFrame({"y": y, "group": groups, "subject": subjects}).groupby(["group", "subject"], as_index=False).y
    return (y, groups, subjects), means.mean()


def test_mann_whitney_and_brunner_munzel_equal_scipy_on_subject_means(case):
    data, means = case
    parts = {name: part.y.to_numpy().round(9) for name, part in means.groupby("group")}
    for method, call in (("mann-whitney", stats.mannwhitneyu), ("brunner-munzel", stats.brunnermunzel)):
        rows = pairwise_tests(*data, method=method)
        assert [(r.first, r.second) for r in rows] == list(itertools.combinations(sorted(parts), 2))
        for row in rows:
            expected = call(parts[row.first], parts[row.second])
            assert (row.statistic, row.p_value) == pytest.approx((expected.statistic, expected.pvalue))
            assert row.difference == pytest.approx(parts[row.first].mean() - parts[row.second].mean())
        adjusted = multipletests([r.p_value for r in rows], method="holm")[1]
        assert [r.adjusted_p for r in rows] == pytest.approx(adjusted.tolist())
        assert {r.family_size for r in rows} == {10}


def test_rank_biserial_equals_pingouin(case):
    _, means = case
    x, y = (means.y[means.group == g].to_numpy().round(9) for g in ("group A", "group E"))
    assert abs(rank_biserial(x, y)) == pytest.approx(abs(pingouin.mwu(x, y)["RBC"].iloc[0]))
    assert rank_biserial([2, 3], [0, 1]) == 1.0
    assert rank_biserial([0.1 + 0.2], [0.3]) == 0.0


def test_dunn_equals_scikit_posthocs(case):
    data, means = case
    rounded = means.assign(y=means.y.round(9))
    for ours, theirs in (("holm", "holm"), ("bonferroni", "bonferroni"), ("bh", "fdr_bh")):
        table = scikit_posthocs.posthoc_dunn(rounded, val_col="y", group_col="group", p_adjust=theirs)
        for row in pairwise_tests(*data, method="dunn", correction=ours):
            assert row.adjusted_p == pytest.approx(table.loc[row.first, row.second])


def test_games_howell_equals_pingouin(case):
    data, means = case
    table = pingouin.pairwise_gameshowell(means, dv="y", between="group").set_index(["A", "B"])
    for row in pairwise_tests(*data, method="games-howell"):
        theirs = table.loc[(row.first, row.second)]
        assert (row.statistic, row.effect) == pytest.approx((theirs["T"], theirs["hedges"]), abs=1e-6)
        assert row.p_value == pytest.approx(theirs["pval"], abs=2e-3)
        assert row.adjusted_p == row.p_value
    with pytest.raises(ValueError, match="already"):
        correct_family(pairwise_tests(*data, method="games-howell"))


def test_families_may_be_larger_than_one_outcome(case):
    data, _ = case
    rows = pairwise_tests(*data, correction=None)
    assert rows[0].adjusted_p is None
    both = correct_family([*rows, *rows], "bonferroni")
    assert both[0].adjusted_p == pytest.approx(min(1, 20 * rows[0].p_value))
    assert both[0].family_size == 20


@pytest.mark.parametrize("method", ["mann-whitney", "brunner-munzel", "dunn", "games-howell"])
def test_constant_outcomes_and_perfect_separation(method):
    groups = np.repeat(["a", "b"], 12)
    same = pairwise_tests(np.full(24, 0.3), groups, range(24), method=method)[0]
    assert same.p_value in (1.0, None)
    apart = pairwise_tests(np.r_[np.arange(12) / 100, 1 + np.arange(12) / 100], groups, range(24), method=method)[0]
    assert apart.p_value < 1e-3
    if method != "games-howell":
        assert apart.effect == -1.0
    assert pairwise_tests([0.1, 0.2], ["a", "b"], [1, 2], method=method) == []
    with pytest.raises(ValueError, match="unknown test"):
        pairwise_tests([0.1], ["a"], [1], method="t")


def test_pairwise_permutation_has_the_rows_own_p_value():
    rng = np.random.default_rng(3)
    options = {"n_permutations": 299, "seed": 4}
    for make in (lambda: clustered(rng, gap=0.1), lambda: tangled(rng, 40, 1)):
        values, groups, subjects, images = make()
        pairs = pairwise_permutation(values[:, 0], groups, subjects, images=images, **options)
        row = disparity(values[:, 0], groups, subjects, images=images, value_range=(-9, 9), n_bootstrap=0, **options)
        assert min(p.adjusted_p for p in pairs) == pytest.approx(row.p_value)
        assert max(abs(p.statistic) for p in pairs) == pytest.approx(row.max_t)
        assert all(p.p_value <= p.adjusted_p for p in pairs)
        means = {g.group: g.mean for g in row.groups}
        assert all(p.difference == pytest.approx(means[p.first] - means[p.second]) for p in pairs)


def test_pairwise_permutation_finds_the_pair():
    values, groups, subjects, _ = clustered(np.random.default_rng(5), sizes=(40, 40, 40), gap=0.5)
    rows = pairwise_permutation(values[:, 0], groups, subjects, n_permutations=499, seed=1)
    assert [r.adjusted_p <= 0.05 for r in rows] == [False, True, True]


def test_step_down_max_t_equals_plain_loops():
    rng = np.random.default_rng(6)
    table = np.abs(rng.normal(size=(199, 7)))
    seen = np.array([4.0, 1.2, np.nan, 2.5, 0.1, 3.0, 1.2])
    got = step_down_max_t(seen, table)
    order = [j for j in np.argsort(-seen, kind="stable") if not np.isnan(seen[j])]
    largest = 0.0
    for place, j in enumerate(order):
        p = (1 + sum(max(line[order[place:]]) >= seen[j] for line in table)) / 200
        largest = max(largest, p)
        assert got[j] == pytest.approx(largest)
    assert np.isnan(got[2])
    with pytest.raises(ValueError):
        step_down_max_t([1.0], table)


def test_step_down_over_panels_is_no_stricter_than_single_steps_and_finds_the_gap():
    rng = np.random.default_rng(7)
    values, groups, subjects, images = clustered(rng, columns=5)
    values[:, 0] += 0.4 * (groups == "group E")
    other = np.where(subjects % 2 == 0, "x", "y")
    options = {"n_permutations": 499, "n_bootstrap": 0, "seed": 2, "value_ranges": (-9, 9)}
    panels = [disparity_panel(values, cut, subjects, images=images, **options) for cut in (groups, other)]
    adjusted = step_down_panels(panels)
    rows = [row for panel in panels for row in panel.rows]
    assert len(adjusted) == 10
    assert all(p >= row.p_value - 1e-12 for p, row in zip(adjusted, rows, strict=True))
    assert adjusted[0] <= 0.05 < min(adjusted[1:])


def test_proportions_equal_statsmodels_with_one_image_a_subject():
    rng = np.random.default_rng(8)
    groups = np.repeat(["a", "b", "c"], [40, 25, 12])
    y = (rng.random(77) < np.repeat([0.2, 0.5, 0.0], [40, 25, 12])).astype(float)
    found = proportions_by_group(y, groups, range(77))
    for row in found.groups:
        n, yes = int((groups == row.group).sum()), int(y[groups == row.group].sum())
        assert row.effective_n == pytest.approx(n)
        assert (row.ci_low, row.ci_high) == pytest.approx(proportion_confint(yes, n, method="wilson"), abs=1e-12)
    first = found.pairs[0]
    counts = [int(y[groups == g].sum()) for g in "ab"]
    theirs = confint_proportions_2indep(counts[0], 40, counts[1], 25, method="newcomb", compare="diff")
    assert (first.ci_low, first.ci_high) == pytest.approx(theirs)
    assert first.ratio == pytest.approx((counts[0] / 40) / (counts[1] / 25))
    assert found.pairs[1].ratio is None


def test_proportions_know_that_images_of_one_person_agree():
    subjects = np.repeat(np.arange(30), 4)
    same = np.repeat((np.arange(30) < 9).astype(float), 4)
    row = proportions_by_group(same, np.full(120, "a"), subjects).groups[0]
    assert (row.rate, row.n_images) == (0.3, 120)
    assert row.effective_n == pytest.approx(30)
    spread = np.tile([1.0, 0.0, 0.0, 1.0], 30)
    assert proportions_by_group(spread, np.full(120, "a"), subjects).groups[0].effective_n == 120
    with pytest.raises(ValueError, match="yes/no"):
        proportions_by_group([0.5], ["a"], [1])
    assert wilson(0.0, 10)[0] == 0.0


def test_wilson_with_effective_n_covers_clustered_rates():
    rng = np.random.default_rng(9)
    covered = 0
    for _ in range(300):
        rate = rng.beta(0.2 * 3, 0.8 * 3, 60)
        y = (rng.random((60, 4)) < rate[:, None]).astype(float)
        row = proportions_by_group(y.ravel(), np.full(240, "a"), np.repeat(np.arange(60), 4)).groups[0]
        covered += row.ci_low <= 0.2 <= row.ci_high
    assert covered / 300 > 0.91


def test_equivalence_equals_pingouin_without_shrinkage_and_the_row_always():
    rng = np.random.default_rng(10)
    x, y = rng.normal(0, 0.2, 400), rng.normal(0.02, 0.2, 400)
    values, groups = np.r_[x, y], np.repeat(["a", "b"], 400)
    found = equivalence_test(values, groups, range(800), bound=0.06)
    theirs = pingouin.tost(x, y, bound=0.06, correction=True)
    # equal sizes: the shrunken variances have the same sum
    assert found.p_value == pytest.approx(float(theirs.filter(regex="^p").iloc[0, 0]), rel=2e-2)
    row = disparity(values, groups, range(800), smallest_effect=0.06, n_permutations=9, n_bootstrap=0, seed=0)
    assert found.p_value == pytest.approx(row.equivalence_p)
    pair = found.pairs[0]
    assert pair.difference == pytest.approx(x.mean() - y.mean())
    assert (max(abs(pair.ci_low), abs(pair.ci_high)) < 0.06) == found.equivalent
    assert equivalence_test(values[:5], groups[:5], range(5), bound=0.1).equivalent is None


def test_planning_equals_statsmodels_for_two_groups():
    power = TTestIndPower()
    for sizes, gap in (((40, 40), 0.12), ((60, 25), 0.1)):
        expected = power.power(gap / 0.2, sizes[0], 0.05, ratio=sizes[1] / sizes[0])
        assert power_of_gap(gap, sizes, 0.2) == pytest.approx(expected, abs=1e-6)
    solved = power.solve_power(nobs1=40, alpha=0.05, power=0.8)
    assert minimum_detectable_gap((40, 40), 0.2) == pytest.approx(0.2 * solved, rel=1e-4)
    clustered_gap = minimum_detectable_gap((40, 40), 0.2, images_per_subject=6, icc=0.3)
    assert clustered_gap == pytest.approx(0.2 * solved * np.sqrt(design_effect(6, 0.3) / 6), rel=1e-4)
    assert design_effect(6, 0.3) == pytest.approx(2.5)
    assert effective_n(3000, 6, 0.3) == pytest.approx(1200)
    assert minimum_detectable_gap((40, 40, 40), 0.2, n_tests=24) > minimum_detectable_gap((40, 40, 40), 0.2)
    assert power_of_gap(0.0, (30, 30), 1.0) == pytest.approx(0.05, abs=1e-9)
    with pytest.raises(ValueError):
        minimum_detectable_gap((40,), 0.2)


def test_icc_of_labelled_data_is_the_rows():
    values, groups, subjects, images = clustered(np.random.default_rng(11))
    row = disparity(
        values[:, 0], groups, subjects, images=images, n_permutations=9, n_bootstrap=0, seed=0, value_range=(-9, 9)
    )
    assert intraclass_correlation(values[:, 0], groups, subjects) == pytest.approx((row.icc, row.design_effect))


def test_worst_probabilities_are_shares_and_agree_with_the_row():
    values, groups, subjects, images = clustered(np.random.default_rng(12), gap=-0.05)
    options = {"images": images, "n_permutations": 400, "n_bootstrap": 400, "seed": 3}
    table = worst_group_probabilities(values[:, 0], groups, subjects, **options)
    row = disparity(values[:, 0], groups, subjects, value_range=(-9, 9), **options)
    assert sum(w.p_worst for w in table) == pytest.approx(1)
    assert sum(w.p_chance for w in table) == pytest.approx(1)
    assert dict((w.group, w.p_worst) for w in table)[row.worst_group] == pytest.approx(row.p_worst)
    chance = {w.group: w.p_chance for w in table}
    assert chance["group E"] > 0.25 > 0.15 > chance["group A"]
