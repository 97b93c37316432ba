"""The pair of groups that is named, the confidence set of the worst group, and the effect size in SD of one answer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from stats_data import clustered, panel_of

from fp2.stats.effects import answer_d

SIZES = (60, 40, 12)
OPTIONS = {"n_permutations": 19, "seed": 1}


@pytest.mark.package(name="secondary")
def test_the_pair_named_is_that_of_the_largest_t():
    from fp2.methods.secondary.pair_tests import pairwise_permutation_panel

    rng = np.random.default_rng(1)
    values, groups, subjects, images = clustered(rng, SIZES, columns=30)
    panel = panel_of(values, groups, subjects, images=images, n_bootstrap=0, value_range=(-9.0, 9.0), **OPTIONS)
    pairs = pairwise_permutation_panel(values, groups, subjects, images=images, yes_no=[False] * 30, **OPTIONS)
    by_means = 0
    for row, tests in zip(panel.rows, pairs, strict=True):
        clearest = max(tests, key=lambda test: abs(test.statistic))
        assert {row.worst_group, row.best_group} == {clearest.first, clearest.second} == set(row.extreme_pair)
        assert row.pair_gap == pytest.approx(abs(clearest.difference))
        assert row.hedges_g == pytest.approx(abs(clearest.effect))
        means = {group.group: group.mean for group in row.groups}
        assert means[row.worst_group] < means[row.best_group]
        by_means += row.pair_gap == pytest.approx(row.raw)
    assert 0 < by_means < 30, "the pair with the largest |T| is not always that with the extreme means"


def test_worst_set_equals_welch_tests_against_every_other_group():
    """With groups of one size and spread the regularisation changes no variance, so that SciPy's tests apply."""
    rng = np.random.default_rng(2)
    base = rng.normal(size=40)
    base = (base - base.mean()) / base.std(ddof=1)
    values = np.concatenate([base, base + 0.3, base + 0.8])
    groups, people = np.repeat(["a", "b", "c"], 40), np.arange(120)
    panel = panel_of(values[:, None], groups, people, n_bootstrap=0, value_range=(-9.0, 9.0), **OPTIONS)
    expected = {"a", "b", "c"}
    for g, h in itertools.permutations("abc", 2):
        test = stats.ttest_ind(values[groups == g], values[groups == h], equal_var=False, alternative="greater")
        if test.pvalue < 0.05 / 2:
            expected.discard(g)
    assert set(panel.rows[0].worst_set) == expected == {"a", "b"}


@pytest.mark.parametrize("images", [1, 20])
def test_answer_d_does_not_grow_with_images_and_hedges_g_does(images):
    rng = np.random.default_rng(3)
    subject = np.repeat(np.arange(400), images)
    answers = [
        gap + np.sqrt(0.3) * rng.normal(size=400)[subject] + np.sqrt(0.7) * rng.normal(size=len(subject))
        for gap in (0.5, 0.0)
    ]
    assert answer_d(*answers, subject, subject) == pytest.approx(0.5, abs=0.15)
    assert answer_d(np.ones(4), np.zeros(4), np.arange(4), np.arange(4)) is None


def test_answer_d_of_one_answer_each_is_cohens_d():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=30), rng.normal(0.5, 1, size=30)
    pooled = np.sqrt((x.var(ddof=1) + y.var(ddof=1)) / 2)
    assert answer_d(x, y, np.arange(30), np.arange(30)) == pytest.approx((x.mean() - y.mean()) / pooled)
