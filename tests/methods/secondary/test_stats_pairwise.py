"""Pairwise comparisons against SciPy, pingouin and the disparity row's own test."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pingouin
import pytest
from scipy import stats
from stats_data import clustered, tangled
from statsmodels.stats.multitest import multipletests

from fp2.methods.secondary.pair_tests import correct_family, pairwise_mann_whitney, pairwise_permutation_panel
from fp2.stats.disparities import disparity
from fp2.stats.effects import rank_biserial


def pairwise_permutation(values, groups, subjects, **options):
    """One outcome."""
    return pairwise_permutation_panel(values[:, None], groups, subjects, yes_no=[False], **options)[0]


@pytest.fixture(scope="module")
def case():
    values, groups, subjects, _ = clustered(np.random.default_rng(31), gap=0.15)
    y = np.round(values[:, 0], 1)
    means = pd.DataFrame({"y": y, "group": groups, "subject": subjects}).groupby(["group", "subject"], as_index=False).y
    return (y, groups, subjects), means.mean()


def test_mann_whitney_equals_scipy_on_subject_means(case):
    data, means = case
    parts = {name: part.y.to_numpy().round(9) for name, part in means.groupby("group")}
    rows = correct_family(pairwise_mann_whitney(*data))
    assert [(r.first, r.second) for r in rows] == list(itertools.combinations(sorted(parts), 2))
    for row in rows:
        expected = stats.mannwhitneyu(parts[row.first], parts[row.second])
        assert (row.statistic, row.p_value) == pytest.approx((expected.statistic, expected.pvalue))
        assert row.difference == pytest.approx(parts[row.first].mean() - parts[row.second].mean())
    adjusted = multipletests([r.p_value for r in rows], method="holm")[1]
    assert [r.adjusted_p for r in rows] == pytest.approx(adjusted.tolist())


def test_rank_biserial_equals_pingouin(case):
    _, means = case
    x, y = (means.y[means.group == g].to_numpy().round(9) for g in ("group A", "group E"))
    assert abs(rank_biserial(x, y)) == pytest.approx(abs(pingouin.mwu(x, y)["RBC"].iloc[0]))
    assert rank_biserial([2, 3], [0, 1]) == 1.0
    assert rank_biserial([0.1 + 0.2], [0.3]) == 0.0


def test_families_may_be_larger_than_one_outcome(case):
    data, _ = case
    rows = pairwise_mann_whitney(*data)
    assert rows[0].adjusted_p is None
    both = correct_family([*rows, *rows], "bonferroni")
    assert both[0].adjusted_p == pytest.approx(min(1, 20 * rows[0].p_value))


def test_constant_outcomes_and_perfect_separation():
    groups = np.repeat(["a", "b"], 12)
    assert pairwise_mann_whitney(np.full(24, 0.3), groups, range(24))[0].p_value == 1.0
    apart = pairwise_mann_whitney(np.r_[np.arange(12) / 100, 1 + np.arange(12) / 100], groups, range(24))[0]
    assert apart.p_value < 1e-3
    assert apart.effect == -1.0
    assert pairwise_mann_whitney([0.1, 0.2], ["a", "b"], [1, 2]) == []


def test_pairwise_permutation_has_the_rows_own_p_value(monkeypatch):
    """Where pairs alone count, as with common subjects (the second data set)."""
    monkeypatch.setattr("fp2.stats.core.moments.all_contrasts", lambda n_groups: 0.0)
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
