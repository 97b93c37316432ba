"""Matched sets, refusals, missing answers, wordings, intersections and entangled attributes."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pingouin
import pytest
from scipy import stats
from scipy.stats.contingency import association
from stats_data import clustered

from fp2.stats import (
    adjust,
    balance_table,
    beyond_additive,
    contingency,
    cramers_v,
    disparity,
    intersection_table,
    matched_test,
    missing_by_group,
    sign_flip,
    template_sensitivity,
    two_part_model,
    variance_shares,
)

FAST = {"n_permutations": 299, "n_bootstrap": 100, "seed": 1}


def twins(rng, n=30, shifts=(0.0, 0.0, 0.05), scene=0.4, noise=0.05):
    """Values (n, k): scenes that differ a lot, versions that differ little."""
    return scene * rng.normal(size=(n, 1)) + np.array(shifts) + noise * rng.normal(size=(n, len(shifts)))


def long(table, names="abc"):
    rows = [(table[s, g], names[g], s) for s in range(len(table)) for g in range(table.shape[1])]
    return [np.array(x) for x in zip(*rows, strict=True)]


def test_sign_flip_is_exact_for_few_and_equals_scipy():
    d = np.array([0.3, -0.1, 0.2, 0.25, 0.05, -0.02, 0.4, 0.11])
    expected = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf).pvalue
    assert sign_flip(d, n_permutations=1000, seed=0) == pytest.approx(expected)
    rough = sign_flip(d, n_permutations=255, seed=0)
    assert rough == pytest.approx(expected, abs=0.05)
    assert rough == pytest.approx(round(rough * 256) / 256)
    assert sign_flip([0.0, 0.0, np.nan], n_permutations=99, seed=0) == 1.0
    with pytest.raises(ValueError):
        sign_flip([np.nan], n_permutations=9, seed=0)


def test_two_versions_are_the_paired_t_interval_and_the_sign_flip_p():
    table = twins(np.random.default_rng(1), shifts=(0.0, 0.03))
    found = matched_test(*long(table), n_permutations=4999, seed=0)
    t = stats.ttest_rel(table[:, 0], table[:, 1])
    pair = found.pairs[0]
    assert pair.difference == pytest.approx((table[:, 0] - table[:, 1]).mean())
    assert (pair.ci_low, pair.ci_high) == pytest.approx(tuple(t.confidence_interval()))
    assert found.p_value == pytest.approx(sign_flip(table[:, 0] - table[:, 1], n_permutations=4999, seed=1), abs=0.02)
    assert (found.worst_group, found.best_group) == ("a", "b")
    assert matched_test(*long(table), higher_is_better=False, n_permutations=9, seed=0).worst_group == "b"


def test_sets_find_what_subjects_cannot():
    table = twins(np.random.default_rng(2))
    values, groups, sets = long(table)
    found = matched_test(values, groups, sets, n_permutations=999, seed=0)
    assert found.p_value <= 0.01
    means = table.mean(axis=0)
    assert found.raw == pytest.approx(np.ptp(means))
    assert found.null_mean < found.null_p95 < found.raw
    apart = disparity(values, groups, range(len(values)), value_range=(-9, 9), **FAST)
    assert apart.p_value > 0.1


def test_matched_permutation_equals_a_plain_loop_with_missing_versions():
    rng = np.random.default_rng(3)
    table = twins(rng, n=14, shifts=(0.0, 0.02, 0.03))
    table[0, 1] = table[3, 0] = np.nan
    table[5, :2] = np.nan
    found = matched_test(*long(table), n_permutations=2999, seed=0, min_sets=5)

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


def test_matched_sets_hold_the_level_with_unequal_spread():
    rng = np.random.default_rng(4)
    rejected = sum(
        matched_test(
            *long(rng.normal(size=(20, 1)) + np.array([1, 1, 2]) * rng.normal(size=(20, 3))),
            n_permutations=99,
            seed=k,
        ).p_value
        <= 0.05
        for k in range(400)
    )
    assert rejected / 400 < 0.085


def test_matched_designs_that_say_nothing():
    table = np.tile(np.random.default_rng(5).normal(size=(12, 1)), 3)
    same = matched_test(*long(table), n_permutations=99, seed=0)
    assert (same.raw, same.p_value, same.worst_group) == (pytest.approx(0.0), 1.0, None)
    assert matched_test(*long(table[:4]), n_permutations=99, seed=0).p_value is None


def test_two_part_separates_refusing_from_describing_worse():
    values, groups, subjects, images = clustered(np.random.default_rng(6), sizes=(60, 60), sd=0.1)
    y = np.clip(values[:, 0], -1, 1)
    refused = (groups == "group B") & (np.random.default_rng(0).random(len(y)) < 0.4)
    y[3] = np.nan
    found = two_part_model(y, refused, groups, subjects, images=images, **FAST)
    refusal, answered = adjust([found.refusal, found.answered])
    assert (refusal.verdict, refusal.worst_group) == ("biased", "group B")
    assert not answered.significant
    assert found.refusal.n_missing == 1
    assert found.answered.n_missing == 1 + refused.sum()
    assert found.bounds_low == 0.0
    assert found.bounds_high > 0.3
    with pytest.raises(ValueError):
        two_part_model(y, refused[:3], groups, subjects, **FAST)


def test_missing_answers_are_an_outcome():
    values, groups, subjects, images = clustered(np.random.default_rng(7), sizes=(60, 60))
    y = values[:, 0].copy()
    y[(groups == "group A") & (images % 3 == 0)] = np.nan
    row = missing_by_group(y, groups, subjects, images=images, **FAST)
    assert (row.worst_group, row.raw) == ("group A", pytest.approx(1 / 3))
    assert row.p_value < 0.01
    assert missing_by_group(values[:, 0], groups, subjects, **FAST).status == "uninformative"


def test_variance_shares_are_those_of_a_two_way_table():
    table = np.random.default_rng(8).normal(size=(4, 3))
    frame = pd.DataFrame([(g, t, table[g, t]) for g in range(4) for t in range(3)], columns=["group", "template", "y"])
    anova = pingouin.anova(frame, dv="y", between=["group", "template"], ss_type=1)
    squares = anova.set_index("Source")["SS"]
    total = ((table - table.mean()) ** 2).sum()
    shares = variance_shares(table)
    assert shares[:2] == pytest.approx((squares["group"] / total, squares["template"] / total))
    assert sum(shares) == pytest.approx(1)
    assert variance_shares(np.ones((3, 2))) == (None, None, None)


def test_templates_that_agree_and_one_that_turns_the_order_round():
    rng = np.random.default_rng(9)
    values, groups, subjects, images = clustered(rng, sizes=(40, 40, 40), columns=4, sd=0.1)
    step = {"group A": 0.0, "group B": 0.1, "group C": 0.2}
    effect = np.array([step[g] for g in groups])[:, None]
    person = rng.normal(size=(120, 1))[subjects] * 0.05
    agree = values + person + effect + np.array([0.0, 0.3, -0.2, 0.1])
    result = template_sensitivity(agree, groups, subjects, images=images, n_permutations=199, seed=1)
    assert (result.sign_flips, result.extreme_flips) == (0.0, 0)
    assert result.rank_correlation == result.kendalls_w == pytest.approx(1.0)
    assert result.interaction_p > 0.05
    assert result.share_interaction < 0.05
    turned = agree.copy()
    turned[:, 3] -= 2 * effect[:, 0]
    result = template_sensitivity(turned, groups, subjects, images=images, n_permutations=199, seed=1)
    assert result.sign_flips == pytest.approx(0.25)
    assert result.extreme_flips == 1
    assert result.rank_correlation == pytest.approx(0.0)
    assert result.interaction_p == pytest.approx(1 / 200)
    with pytest.raises(ValueError, match="two templates"):
        template_sensitivity(agree[:, :1], groups, subjects, n_permutations=9, seed=0)


def test_wordings_are_compared_on_the_same_complete_pictures():
    """One template misses most people of one group: means, shares and the test leave these pictures out together."""
    rng = np.random.default_rng(12)
    values, groups, subjects, images = clustered(rng, sizes=(40, 40), images=2, columns=3)
    holes = values.copy()
    low = (groups == "group A") & (values[:, 0] < np.median(values[groups == "group A", 0]))
    holes[low, 0] = np.nan
    options = {"n_permutations": 199, "seed": 1}
    found = template_sensitivity(holes, groups, subjects, images=images, **options)
    whole = ~low
    same = template_sensitivity(
        values[whole], groups[whole], subjects[whole], images=np.asarray(images)[whole], **options
    )
    assert found.n_left_out == low.sum() > 0
    assert same.n_left_out == 0
    assert found.means == same.means
    assert (found.share_interaction, found.interaction_p) == (same.share_interaction, same.interaction_p)


def test_kendalls_w_and_spearman_against_libraries():
    rng = np.random.default_rng(10)
    values, groups, subjects, images = clustered(rng, sizes=(12, 12, 12, 12, 12), columns=3)
    result = template_sensitivity(values, groups, subjects, images=images, n_permutations=9, seed=0)
    table = np.array(result.means)
    rho = stats.spearmanr(table).statistic
    assert result.rank_correlation == pytest.approx(rho[np.triu_indices(3, 1)].mean())
    # W = (mean rho (T - 1) + 1) / T
    assert result.kendalls_w == pytest.approx((2 * result.rank_correlation + 1) / 3)
    frame = pd.DataFrame({"g": groups, "s": subjects, "y": values[:, 1]})
    expected = frame.groupby(["g", "s"]).y.mean().groupby("g").mean()
    assert table[:, 1] == pytest.approx(expected.to_numpy())


def test_the_wording_test_holds_its_level():
    rng = np.random.default_rng(11)
    rejected = 0
    for k in range(100):
        values, groups, subjects, images = clustered(rng, sizes=(25, 15, 10), images=2, columns=3)
        rejected += (
            template_sensitivity(values, groups, subjects, images=images, n_permutations=99, seed=k).interaction_p
            <= 0.05
        )
    assert rejected / 100 < 0.12


def test_intersections_count_people_and_name_what_is_missing():
    attributes = {"gender": ["f", "f", "m", "m", "m"], "age": ["old", "old", "old", "old", "young"]}
    groups, table = intersection_table(attributes, ["p", "p", "q", "r", "r"], min_subjects=2)
    assert groups == ["f × old", "f × old", "m × old", "m × old", "m × young"]
    assert [(row.group, row.n_subjects, row.n_images, row.eligible) for row in table] == [
        ("m × old", 2, 2, True),
        ("f × old", 1, 2, False),
        ("m × young", 1, 1, False),
        ("f × young", 0, 0, False),
    ]
    with pytest.raises(ValueError):
        intersection_table({}, ["p"])


def test_beyond_additive_is_zero_for_sums_and_finds_what_is_left():
    rng = np.random.default_rng(12)
    n = 400
    first, second = rng.choice(["f", "m"], n), rng.choice(["x", "y", "z"], n)
    y = 0.1 * (first == "f") + 0.2 * (second == "z")
    attributes = {"a": first, "b": second}
    assert list(beyond_additive(y, attributes, range(n)).values()) == pytest.approx([0.0] * 6, abs=1e-12)
    y = y + 0.3 * ((first == "f") & (second == "z"))
    assert beyond_additive(y, attributes, range(n))["f × z"] > 0.05


def test_cramers_v_equals_scipy_and_its_correction_removes_chance():
    rng = np.random.default_rng(13)
    table = rng.integers(1, 40, (4, 3))
    assert cramers_v(table, corrected=False) == pytest.approx(association(table, method="cramer"))
    independent = [np.histogram2d(*rng.integers(0, 5, (2, 100)), bins=5)[0] for _ in range(200)]
    assert np.mean([cramers_v(t, corrected=False) for t in independent]) > 0.18
    assert np.mean([cramers_v(t) for t in independent]) < 0.07
    assert cramers_v(np.diag([30, 30, 30])) == pytest.approx(1.0)
    assert cramers_v([[3, 4], [0, 0]]) is None
    with pytest.raises(ValueError):
        cramers_v([[-1, 2], [3, 4]])


def test_balance_counts_people_not_pictures_and_shares_out_several_labels():
    rows, columns, table = contingency(["a", "a", {"a", "b"}, None], ["x", "x", "y", "y"], ["p", "p", "q", "r"])
    assert (rows, columns) == (("a", "b"), ("x", "y"))
    assert table.tolist() == [[1.0, 0.5], [0.0, 0.5]]
    rng = np.random.default_rng(14)
    region = rng.choice(["n", "s", "w"], 300)
    skin = np.where(rng.random(300) < 0.8, region, "n")
    result = balance_table({"region": region, "age": rng.choice(["1", "2"], 300), "skin": skin}, range(300))
    assert (result[0].first, result[0].second, result[0].confounded) == ("region", "skin", True)
    assert not any(r.confounded for r in result[1:])
    assert result[0].n_subjects == 300
    repeated = balance_table({"region": np.repeat(region, 5), "skin": np.repeat(skin, 5)}, np.repeat(range(300), 5))
    assert repeated[0].v_corrected == pytest.approx(result[0].v_corrected)
