"""Matched panels against plain loops and SciPy; equivalence within sets by hand, and under a planted truth."""

from __future__ import annotations

import itertools

import numpy as np
import pingouin
import pytest
from scipy import stats

from fp2.methods.matched.panel import matched_equivalence, matched_panel, tost_p
from fp2.stats.disparities import disparity

FAST = {"n_permutations": 299, "n_bootstrap": 100, "seed": 1}


def matched_test(values, groups, sets, *, higher_is_better=True, **options):
    """One outcome."""
    return matched_panel(np.reshape(values, (-1, 1)), groups, sets, higher_is_better=[higher_is_better], **options)[0]


def twins(rng, n=30, shifts=(0.0, 0.0, 0.05), scene=0.4, noise=0.05):
    """Values (n, k): scenes that differ a lot, versions that differ little."""
    return scene * rng.normal(size=(n, 1)) + np.array(shifts) + noise * rng.normal(size=(n, len(shifts)))


def long(columns):
    """Tables (sets, versions) as entries: values (n, m), groups, sets."""
    sets, versions = np.indices(columns[0].shape)
    values = np.stack([table.ravel() for table in columns], axis=1)
    return values, versions.ravel().astype(str), sets.ravel()


def test_two_versions_are_the_paired_t_interval_and_scipys_sign_flip_p():
    table = twins(np.random.default_rng(1), shifts=(0.0, 0.03))
    found = matched_test(*long([table]), n_permutations=4999, seed=0)
    t = stats.ttest_rel(table[:, 0], table[:, 1])
    pair = found.pairs[0]
    assert pair.difference == pytest.approx((table[:, 0] - table[:, 1]).mean())
    assert (pair.ci_low, pair.ci_high) == pytest.approx(tuple(t.confidence_interval()))
    flips = stats.permutation_test((table[:, 0] - table[:, 1],), np.mean, permutation_type="samples", rng=1)
    assert found.p_value == pytest.approx(flips.pvalue, abs=0.02)
    assert (found.worst_group, found.best_group) == ("0", "1")
    assert matched_test(*long([table]), higher_is_better=False, n_permutations=9, seed=0).worst_group == "1"


def test_sets_find_what_subjects_cannot():
    table = twins(np.random.default_rng(2))
    values, groups, sets = long([table])
    found = matched_test(values, groups, sets, n_permutations=999, seed=0)
    assert found.p_value <= 0.01
    means = table.mean(axis=0)
    assert found.raw == pytest.approx(np.ptp(means))
    assert found.null_mean < found.null_p95 < found.raw
    apart = disparity(values[:, 0], groups, range(len(values)), value_range=(-9, 9), **FAST)
    assert apart.p_value > 0.1


def test_matched_permutation_equals_a_plain_loop_with_missing_versions():
    rng = np.random.default_rng(3)
    table = twins(rng, n=14, shifts=(0.0, 0.02, 0.03))
    table[0, 1] = table[3, 0] = np.nan
    table[5, :2] = np.nan
    found = matched_test(*long([table]), n_permutations=2999, seed=0, min_sets=5)

    def largest(y):
        ts = []
        for g, h in itertools.combinations(range(3), 2):
            d = (y[:, g] - y[:, h])[np.isfinite(y[:, g] - y[:, h])]
            ts.append(abs(d.mean()) / (d.std(ddof=1) / np.sqrt(len(d))))
        return max(ts)

    used = table[np.isfinite(table).sum(axis=1) >= 2]
    seen, reached = largest(used), 0
    for _ in range(2999):
        again = used.copy()
        for row in again:
            known = np.isfinite(row)
            row[known] = rng.permutation(row[known])
        reached += largest(again) >= seen
    assert found.p_value == pytest.approx((1 + reached) / 3000, abs=0.03)
    assert found.n_sets == 13


def test_matched_designs_that_say_nothing():
    table = np.tile(np.random.default_rng(5).normal(size=(12, 1)), 3)
    same = matched_test(*long([table]), n_permutations=99, seed=0)
    assert (same.raw, same.p_value, same.worst_group) == (pytest.approx(0.0), 1.0, None)
    assert matched_test(*long([table[:4]]), n_permutations=99, seed=0).p_value is None


def test_a_panel_gives_what_each_outcome_gives_alone():
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(18, 4)), rng.normal(size=(18, 4)), rng.normal(size=(18, 4))]
    tables[1][2, 1] = np.nan
    values, groups, sets = long(tables)
    options = {"n_permutations": 299, "seed": 3}
    panel = matched_panel(values, groups, sets, higher_is_better=[True, True, False], **options)
    for j, better in enumerate((True, True, False)):
        alone = matched_test(values[:, j], groups, sets, higher_is_better=better, **options)
        assert panel[j] == alone
    assert panel[0].n_sets == panel[1].n_sets == 18
    assert [version.n_sets for version in panel[1].versions] == [18, 17, 18, 18]
    levels = {version.name: version.level for version in panel[0].versions}
    centred = (tables[0] - tables[0].mean(axis=1, keepdims=True)).mean(axis=0)
    assert list(levels.values()) == pytest.approx(centred.tolist())
    assert 1.5 < panel[0].critical(0.05) < 5


def test_equivalence_is_two_one_sided_t_tests_of_the_worst_pair():
    rng = np.random.default_rng(1)
    table = rng.normal(size=(40, 1)) + 0.05 * rng.normal(size=(40, 3))
    values, groups, sets = long([table])
    found = matched_equivalence(matched_test(values, groups, sets, n_permutations=9, seed=0), 0.05, 2.0)
    worst = []
    for a, b in ((0, 1), (0, 2), (1, 2)):
        d = table[:, a] - table[:, b]
        low = stats.ttest_1samp(d, -0.05, alternative="greater").pvalue
        high = stats.ttest_1samp(d, 0.05, alternative="less").pvalue
        worst.append(max(low, high))
    assert found == pytest.approx(max(worst))


def test_without_any_difference_the_bound_is_the_chance_to_see_none():
    flat = np.repeat(np.random.default_rng(2).normal(size=(40, 1)), 2, axis=1)
    test = matched_test(*long([flat]), n_permutations=9, seed=0)
    assert matched_equivalence(test, 0.05, 2.0) == pytest.approx((1 - 0.025) ** 40)
    large = matched_test(*long([np.repeat(flat, 4, axis=0)]), n_permutations=9, seed=0)
    assert matched_equivalence(large, 0.05, 2.0) == pytest.approx((1 - 0.025) ** 160)
    assert matched_equivalence(matched_test([], [], [], n_permutations=9, seed=0), 0.05, 2.0) is None
    with pytest.raises(ValueError):
        matched_equivalence(test, 0.0, 2.0)


@pytest.mark.parametrize(("share", "size"), [(0.05, 1.0), (0.5, 0.1)])
def test_rare_differences_whose_mean_is_the_bound_are_seldom_called_equivalent(share, size):
    """Most sets show nothing and some a lot: where a t test alone takes 18 of 100 for equivalent."""
    rng = np.random.default_rng(3)
    wrong = 0
    for k in range(400):
        differs = rng.random(60) < share  # the mean difference is 0.05, the bound
        table = np.stack([np.zeros(60), size * differs], axis=1)
        found = matched_equivalence(matched_test(*long([table]), n_permutations=1, seed=k), 0.05, 1.0)
        wrong += found <= 0.05
    assert wrong / 400 <= 0.08  # 0.05, 3 standard errors of 400, and rounding to whole sets


@pytest.mark.parametrize("better", [True, False])
def test_worst_and_best_are_the_pair_that_the_difference_is_of(better):
    """Incomplete sets: the largest pair difference is another pair's than that of the extreme levels."""
    rng = np.random.default_rng(4)
    table = np.full((60, 3), np.nan)
    table[:20, :2] = [0.0, 0.5]  # a, b in sets of their own
    table[20:40, 1:] = [0.0, 0.3]  # b, c
    table[40:, ::2] = [0.0, 0.2]  # a, c
    table += 0.01 * rng.normal(size=table.shape)
    found = matched_test(*long([table]), higher_is_better=better, n_permutations=99, seed=0)
    levels = {version.name: version.level for version in found.versions}
    largest = max(found.pairs, key=lambda pair: abs(pair.difference))
    assert {found.worst_group, found.best_group} == {largest.first, largest.second} == {"0", "1"}
    assert max(levels, key=lambda name: levels[name]) == "2"  # the levels alone would name another version
    assert found.raw == pytest.approx(abs(largest.difference))
    assert found.worst_group == ("0" if better else "1")


@pytest.mark.parametrize(("shift", "bound"), [(0.0, 0.1), (0.05, 0.1), (0.3, 0.1)])
def test_tost_equals_pingouin(shift, bound):
    rng = np.random.default_rng(6)
    x, y = rng.normal(0, 0.2, 60), rng.normal(shift, 0.3, 45)
    vx, vy = x.var(ddof=1) / 60, y.var(ddof=1) / 45
    df = (vx + vy) ** 2 / (vx**2 / 59 + vy**2 / 44)
    mine = tost_p(x.mean() - y.mean(), np.sqrt(vx + vy), df, bound)
    theirs = pingouin.tost(x, y, bound=bound, correction=True)
    assert mine == pytest.approx(float(theirs.filter(regex="^p").iloc[0, 0]), rel=1e-6)
