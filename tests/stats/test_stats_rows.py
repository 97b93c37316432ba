"""Edge cases, verdicts, bounds, diversity, composite and serialisation."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from stats_data import clustered, panel_of

from fp2.stats.adjustment import adjust
from fp2.stats.bounds import bounds_between, refusal_ends
from fp2.stats.composite import composite_test
from fp2.stats.disparities import disparity, disparity_panel
from fp2.stats.entropy import response_diversity
from fp2.stats.rows import Outcome, PanelSettings

FAST = {"n_permutations": 199, "n_bootstrap": 99, "seed": 3}


def refusal_bounds(values, refused, groups, subjects):
    return bounds_between(refusal_ends(values, refused, (-1.0, 1.0)), groups, subjects)[:2]


def test_all_missing_is_uninformative():
    _, groups, subjects, images = clustered(np.random.default_rng(0))
    row = adjust([disparity(np.full(len(groups), np.nan), groups, subjects, images=images, **FAST)])[0]
    assert (row.verdict, row.p_value, row.raw, row.significant) == ("uninformative", None, None, False)
    assert row.n_images == row.n_subjects == 0
    assert row.n_missing == len(groups)
    assert all(g.mean is None and g.n_subjects == 0 for g in row.groups)


def test_one_eligible_group_is_too_few_subjects():
    values, groups, subjects, images = clustered(np.random.default_rng(0), sizes=(30, 9, 4))
    row = adjust([disparity(values[:, 0], groups, subjects, images=images, **FAST)])[0]
    assert row.verdict == "too_few_subjects"
    assert row.p_value is row.raw is row.adjusted_p is None
    assert [g.n_subjects for g in row.groups] == [30, 9, 4]
    assert not any(g.eligible for g in row.groups)


def test_no_entries_at_all():
    panel = panel_of(np.empty((0, 2)), [], [], images=[], **FAST)
    assert [r.status for r in panel.rows] == ["too_few_subjects"] * 2
    assert panel.raw_permuted.shape == (199, 2)


def test_constant_answers_are_uninformative_with_p_one():
    _, groups, subjects, images = clustered(np.random.default_rng(0))
    row = adjust([disparity(np.full(len(groups), 0.1234), groups, subjects, images=images, **FAST)])[0]
    assert (row.verdict, row.p_value, row.raw) == ("uninformative", 1.0, 0.0)
    assert (row.ci_low, row.ci_high, row.shrunken, row.js_divergence) == (0.0, 0.0, 0.0, 0.0)
    assert row.worst_group is row.best_group is row.kruskal_h is row.welch_f is row.hedges_g is row.mde80 is None


def test_small_groups_are_listed_but_never_extreme_and_do_not_change_the_rest():
    rng = np.random.default_rng(1)
    values, groups, subjects, images = clustered(rng, sizes=(30, 20, 9))
    values[groups == "group C"] = 0.9
    row = disparity(values[:, 0], groups, subjects, images=images, **FAST)
    inside = groups != "group C"
    alone = disparity(values[inside, 0], groups[inside], subjects[inside], images=images[inside], **FAST)
    assert [g.eligible for g in row.groups] == [True, True, False]
    for name in ("raw", "p_value", "null_mean", "ci_low", "ci_high", "shrunken", "js_p", "welch_p"):
        assert getattr(row, name) == pytest.approx(getattr(alone, name)), name


def test_group_without_answers_leaves_the_column_but_not_the_panel():
    values, groups, subjects, images = clustered(np.random.default_rng(2), columns=2)
    values[groups == "group A", 0] = np.nan
    panel = panel_of(values, groups, subjects, images=images, **FAST)
    silent, full = panel.rows
    assert [g.eligible for g in silent.groups] == [False, True, True, True, True]
    assert (silent.groups[0].mean, silent.groups[0].n_subjects) == (None, 0)
    assert full.groups[0].eligible
    assert silent.status == "ok"
    assert np.isfinite(panel.max_t_permuted).all()
    values[groups != "group E", 0] = np.nan
    assert disparity(values[:, 0], groups, subjects, images=images, **FAST).status == "uninformative"


def test_permuted_group_with_fewer_than_two_answers_leaves_the_maximum():
    """With most answers missing some relabelling leaves a group of two with one answer; nothing may turn NaN or 0/0."""
    rng = np.random.default_rng(4)
    y = rng.normal(0, 0.2, 40)
    groups = np.repeat(["a", "b", "c"], [20, 17, 3])
    y[20:37] = np.where(rng.random(17) < 0.7, np.nan, y[20:37])
    panel = panel_of(y, groups, np.arange(40), **FAST, min_subjects=2)
    assert panel.rows[0].status == "ok"
    assert 0 < panel.rows[0].p_value <= 1
    assert np.isfinite(panel.raw_permuted).all()


def test_perfect_separation_is_found_though_no_group_has_spread():
    groups = np.repeat(["a", "b"], 15)
    row = adjust([disparity(np.repeat([0.0, 1.0], 15), groups, range(30), **FAST, value_range=(0, 1), yes_no=True)])[0]
    assert row.verdict == "biased"
    assert row.p_value == pytest.approx(1 / 200)
    assert (row.ci_low, row.ci_high, row.shrunken) == (1.0, 1.0, 1.0)
    assert row.js_divergence == pytest.approx(1.0)
    assert row.max_t is row.hedges_g is row.welch_f is None
    json.dumps(row.to_dict(), allow_nan=False)


def test_constant_small_group_does_not_destroy_power():
    rng = np.random.default_rng(5)
    y = np.concatenate([rng.normal(0, 0.1, 80), rng.normal(0.3, 0.1, 80), np.full(10, 0.0)])
    row = disparity(y, np.repeat(["a", "b", "c"], [80, 80, 10]), range(170), **FAST)
    assert row.p_value == pytest.approx(1 / 200)


def test_ties_count_as_reached():
    """Two subjects differ, all others are equal: many relabellings tie with the observed labels, and all count."""
    y = np.zeros(20)
    y[0] = 1.0
    row = disparity(y, np.repeat(["a", "b"], 10), range(20), **FAST, value_range=(0, 1))
    assert row.p_value == 1.0


def test_subjects_in_several_groups_are_flagged_and_share_their_noise():
    rng = np.random.default_rng(6)
    person = rng.normal(0, 0.3, 40)
    subjects = np.repeat(np.arange(40), 2)
    groups = np.tile(["young", "old"], 40)
    shift = np.where(groups == "old", 0.06, 0.0)
    values = np.clip(person[subjects] + shift + rng.normal(0, 0.02, 80), -1, 1)
    row = disparity(values, groups, subjects, **FAST)
    assert row.dependent_groups
    # the pair is compared within persons: a gap far below the spread between persons is found
    assert row.p_value == pytest.approx(1 / 200)
    assert 0 < row.ci_low <= row.raw <= row.ci_high < 0.12
    apart = disparity(values, groups, np.arange(80), **FAST)
    assert not apart.dependent_groups
    assert apart.p_value > 0.05


def test_multi_valued_answers_count_in_each_of_their_groups():
    values, groups, subjects, images = clustered(np.random.default_rng(7), sizes=(20, 20))
    both = subjects < 5
    args = (
        np.r_[values[:, 0], values[both, 0]],
        np.r_[groups, ["group B"] * both.sum()],
        np.r_[subjects, subjects[both]],
    )
    row = disparity(*args, images=np.r_[images, images[both]], **FAST)
    assert [g.n_subjects for g in row.groups] == [20, 25]
    assert row.dependent_groups
    assert (row.n_images, row.n_subjects) == (120, 40)
    everyone = np.ones(len(groups), dtype=bool)
    same = disparity(
        np.r_[values[:, 0], values[:, 0]],
        np.r_[np.full(len(groups), "x"), np.full(len(groups), "y")],
        np.r_[subjects, subjects],
        images=np.r_[images, images][np.r_[everyone, everyone]],
        **FAST,
    )
    assert (same.raw, same.p_value, same.ci_low) == (0.0, 1.0, 0.0)


def test_one_image_must_hold_one_value_in_all_its_groups():
    with pytest.raises(ValueError, match="same values"):
        disparity([0.1, 0.2], ["a", "b"], ["s", "s"], images=["i", "i"], **FAST)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [[0.1]]}, "one-dimensional"),
        ({"values": [0.1, np.inf]}, "infinite"),
        ({"values": [0.1, 1.5]}, "outside its range"),
        ({"groups": ["a"]}, "groups must be"),
        ({"groups": ["a", None]}, "missing label"),
        ({"subjects": [1.0, np.nan]}, "missing label"),
        ({"groups": pd.Series(["a", None], dtype="string")}, "missing label"),
        ({"groups": pd.Series(["a", None])}, "missing label"),
        ({"yes_no": True}, "yes/no"),
        ({"n_permutations": 0}, "n_permutations"),
        ({"alpha": 1.0}, "alpha"),
        ({"value_range": (1, -1)}, "low < high"),
        ({"smallest_effect": -0.1}, "smallest_effect >= 0"),
        ({"bins": 1}, "bins"),
    ],
)
def test_input_that_makes_no_sense_is_refused(change, message):
    args = {"values": [0.1, 0.2], "groups": ["a", "b"], "subjects": [1, 2], **FAST, **change}
    positional = [args.pop(name) for name in ("values", "groups", "subjects")]
    with pytest.raises(ValueError, match=message):
        disparity(*positional, **args)


def test_outcomes_must_fit_the_columns():
    with pytest.raises(ValueError, match="2 outcomes for 1"):
        disparity_panel([[0.1]], ["a"], ["s"], [Outcome(), Outcome(higher_is_better=False)], PanelSettings(**FAST))


def test_worst_group_is_at_the_bad_end():
    values, groups, subjects, images = clustered(np.random.default_rng(8), gap=0.6)
    values = np.clip(values[:, 0], -1, 1)
    good = disparity(values, groups, subjects, images=images, **FAST)
    bad = disparity(values, groups, subjects, images=images, higher_is_better=False, **FAST)
    assert good.best_group == bad.worst_group == "group E"
    assert good.worst_group == bad.best_group
    assert (good.p_value, good.raw, good.hedges_g) == (bad.p_value, bad.raw, bad.hedges_g)
    assert bad.p_worst == 1.0
    assert bad.p_worst_null < 0.95


def test_verdicts_and_their_order():
    values, groups, subjects, images = clustered(np.random.default_rng(9), sizes=(200, 200), gap=0.08)
    row = disparity(np.clip(values[:, 0], -1, 1), groups, subjects, images=images, **FAST)
    assert (row.adjusted_p, row.significant, row.verdict) == (None, None, None)
    assert adjust([row])[0].verdict == "biased"
    y = np.clip(values[:, 0], -1, 1)
    for bound, verdict in ((0.5, "significant_but_small"), (row.raw - 0.001, "significant_size_unclear")):
        other = disparity(y, groups, subjects, images=images, smallest_effect=bound, **FAST)
        assert adjust([other])[0].verdict == verdict
    assert adjust([replace(row, p_value=0.3, equivalence_p=0.01)])[0].verdict == "equivalent"
    assert adjust([replace(row, p_value=0.3, equivalence_p=0.2)])[0].verdict == "no_difference_found"
    family = adjust([row] + [replace(row, p_value=0.3)] * 19)
    assert family[0].adjusted_p == pytest.approx(20 * row.p_value)
    assert not family[0].significant
    with pytest.raises(ValueError, match="unknown correction"):
        adjust([row], method="hom")
    assert adjust([]) == []


def test_equivalence_is_shown_for_equal_large_groups_only_with_a_bound_beyond_the_noise():
    values, groups, subjects, images = clustered(np.random.default_rng(10), sizes=(300, 300, 300), sd=0.1)
    y = np.clip(values[:, 0], -1, 1)
    wide = disparity(y, groups, subjects, images=images, smallest_effect=0.05, **FAST)
    tight = disparity(y, groups, subjects, images=images, smallest_effect=0.001, **FAST)
    assert adjust([wide])[0].verdict == "equivalent"
    assert tight.equivalence_p > 0.05


def test_to_dict_is_strict_json_with_every_name():
    values, groups, subjects, images = clustered(np.random.default_rng(11))
    row = adjust([disparity(np.clip(values[:, 0], -1, 1), groups, subjects, images=images, **FAST)])[0]
    plain = json.loads(json.dumps(row.to_dict(), allow_nan=False))
    names = """raw null_mean null_p95 p_value adjusted_p significant verdict excess shrunken ci_low ci_high worst_group
        best_group p_worst p_worst_null hedges_g epsilon_squared omega_squared kruskal_h kruskal_p welch_f welch_p
        dependent_groups js_divergence js_null_mean js_p icc design_effect mde80 n_images n_subjects n_missing groups"""
    assert set(names.split()) <= set(plain)
    assert all(plain[name] is not None for name in names.split())
    assert set(plain["groups"][0]) == {"group", "n_subjects", "n_images", "mean", "sd", "eligible"}
    assert plain["excess"] == pytest.approx(plain["raw"] - plain["null_mean"])
    assert plain["null_mean"] < plain["null_p95"]


def test_panel_row_equals_disparity_alone():
    values, groups, subjects, images = clustered(np.random.default_rng(12), columns=3)
    values[np.random.default_rng(0).random(values.shape) < 0.2] = np.nan
    values[:, 1] = np.where(np.isnan(values[:, 1]), np.nan, values[:, 1] > 0)
    values = np.clip(values, -1, 1)
    settings = [(True, (-1, 1), False), (False, (0, 1), True), (True, (-2.0, 2.0), False)]
    panel = panel_of(
        values,
        groups,
        subjects,
        images=images,
        higher_is_better=[s[0] for s in settings],
        value_range=[s[1] for s in settings],
        yes_no=[s[2] for s in settings],
        **FAST,
    )
    for j, (better, scale, yes_no) in enumerate(settings):
        alone = disparity(
            values[:, j],
            groups,
            subjects,
            images=images,
            higher_is_better=better,
            value_range=scale,
            yes_no=yes_no,
            **FAST,
        )
        together = panel.rows[j].to_dict()
        for name, value in alone.to_dict().items():
            if isinstance(value, float):
                assert together[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name
            elif name != "groups":
                assert together[name] == value, name


def test_composite_is_the_mean_of_raws_with_the_joint_null():
    values, groups, subjects, images = clustered(np.random.default_rng(13), columns=4)
    values[:, 3] = np.nan
    panel = panel_of(values, groups, subjects, images=images, value_range=(-9, 9), **FAST)
    result = composite_test(panel, [0, 2, 3])
    raws = [panel.rows[0].raw, panel.rows[2].raw]
    assert result.value == pytest.approx(np.mean(raws))
    assert result.n_columns == 2
    null = [(a + b) / 2 for a, b in zip(panel.raw_permuted[:, 0], panel.raw_permuted[:, 2], strict=True)]
    assert (result.null_mean, result.null_p95) == pytest.approx((np.mean(null), np.quantile(null, 0.95)))
    assert result.excess == pytest.approx(result.value - np.mean(null))
    reached = sum(
        a + b >= panel.max_t[0] + panel.max_t[2] - 1e-9
        for a, b in zip(panel.max_t_permuted[:, 0], panel.max_t_permuted[:, 2], strict=True)
    )
    assert result.p_value == pytest.approx((1 + reached) / 200)
    assert composite_test(panel, [1]).p_value == panel.rows[1].p_value
    assert composite_test(panel, [3]).value is None
    with pytest.raises(ValueError, match="columns"):
        composite_test(panel, [4])


def test_joint_permutations_keep_the_correlation_of_outcomes():
    values, groups, subjects, images = clustered(np.random.default_rng(14), columns=1)
    twice = np.repeat(values, 2, axis=1)
    panel = panel_of(twice, groups, subjects, images=images, value_range=(-9, 9), **FAST)
    np.testing.assert_array_equal(panel.raw_permuted[:, 0], panel.raw_permuted[:, 1])
    assert composite_test(panel, [0, 1]).p_value == panel.rows[0].p_value


def test_refusal_bounds_contain_every_completion():
    rng = np.random.default_rng(15)
    values, groups, subjects, _ = clustered(rng, sizes=(12, 12, 12))
    y = np.clip(values[:, 0], -1, 1)
    refused = rng.random(len(y)) < 0.2
    low, high = refusal_bounds(np.where(refused, np.nan, y), refused, groups, subjects)
    for _ in range(20):
        filled = np.where(refused, rng.choice([-1.0, 1.0, 0.0], len(y)), y)
        means = [
            np.mean([filled[(groups == g) & (subjects == s)].mean() for s in np.unique(subjects[groups == g])])
            for g in np.unique(groups)
        ]
        assert low - 1e-12 <= max(means) - min(means) <= high + 1e-12
    none = refusal_bounds(y, np.zeros(len(y), dtype=bool), groups, subjects)
    assert none[0] == pytest.approx(none[1])
    assert refusal_bounds(y[:3], refused[:3], groups[:3], subjects[:3]) == (None, None)


def test_refusal_bounds_of_a_model_that_always_refuses_say_nothing():
    groups = np.repeat(["a", "b"], 10)
    assert refusal_bounds(np.full(20, np.nan), np.ones(20, dtype=bool), groups, range(20)) == (0.0, 2.0)


def test_response_diversity():
    result = response_diversity(["Yes", "yes ", "No", None, "no", "maybe", "x"])
    assert (result.n, result.distinct, result.uninformative) == (6, 4, False)
    assert result.entropy == pytest.approx(2 * (1 / 3) * math.log2(3) + 2 * (1 / 6) * math.log2(6))
    assert response_diversity(["I cannot."] * 5).uninformative
    assert response_diversity(["I cannot."] * 5).entropy == 0.0
    assert response_diversity([None, None]) == response_diversity([])
    assert response_diversity([]).uninformative
