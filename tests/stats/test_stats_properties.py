"""What must hold whatever the numbers: invariances, bounds, and the order of the interval's ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stats_data import clustered, jensen_shannon, tangled

from fp2.stats.adjustment import adjust_p_values
from fp2.stats.disparities import disparity
from fp2.stats.effects import shrunken_range

FAST = {"n_permutations": 59, "n_bootstrap": 39, "min_subjects": 3}
WIDE = (-100.0, 100.0)

seeds = st.integers(0, 10_000)


@st.composite
def cases(draw):
    """Clustered or tangled data, with missing answers, some of it coarse enough to tie."""
    rng = np.random.default_rng(draw(seeds))
    if draw(st.booleans()):
        sizes = draw(st.lists(st.integers(3, 12), min_size=2, max_size=4))
        values, groups, subjects, images = clustered(rng, sizes, images=draw(st.integers(1, 3)))
        values[rng.random(len(values)) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    else:
        values, groups, subjects, images = tangled(rng, n_subjects=draw(st.integers(12, 20)))
    column = values[:, 0]
    if draw(st.booleans()):
        column = np.round(column * 4) / 4
    return column, groups, subjects, images, draw(seeds)


def run(column, groups, subjects, images, seed, **more):
    return disparity(column, groups, subjects, images=images, seed=seed, **{**FAST, "value_range": WIDE, **more})


def same(a, b, names, scale=1.0):
    for name in names:
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None), name
        if x is not None:
            assert y == pytest.approx(x * scale, rel=1e-6, abs=1e-9), name


SIZES = ("raw", "null_mean", "null_p95", "excess", "shrunken", "ci_low", "ci_high", "mde80")
PURE = ("p_value", "max_t", "p_worst", "p_worst_null", "hedges_g", "epsilon_squared", "icc", "design_effect")


@settings(max_examples=40, deadline=None)
@given(cases())
def test_numbers_stay_in_their_bounds(case):
    row = run(*case)
    if row.p_value is None:
        assert row.raw is row.ci_low is row.js_divergence is None
        return
    assert 0 < row.p_value <= 1
    assert 0 <= row.ci_low <= row.raw <= row.ci_high <= 200
    assert 0 <= row.shrunken <= row.raw + 1e-9
    assert 0 <= row.js_divergence <= 1
    assert 0 <= row.js_null_mean <= 1
    assert 0 < row.js_p <= 1
    assert all(share is None or 0 <= share <= 1 for share in (row.p_worst, row.p_worst_null, row.omega_squared))
    assert row.icc is None or row.icc <= 1 + 1e-9


@settings(max_examples=25, deadline=None)
@given(cases(), seeds)
def test_row_order_does_not_matter(case, shuffle):
    column, groups, subjects, images, seed = case
    order = np.random.default_rng(shuffle).permutation(len(column))
    again = run(column[order], groups[order], subjects[order], images[order], seed)
    first = run(*case)
    assert first.groups == again.groups or [g.group for g in first.groups] == [g.group for g in again.groups]
    same(first, again, SIZES + PURE)
    assert first.extreme_pair == again.extreme_pair


@settings(max_examples=25, deadline=None)
@given(cases())
def test_names_of_groups_do_not_matter(case):
    column, groups, subjects, images, seed = case
    rename = {g: f"{chr(122 - i)}{g}" for i, g in enumerate(sorted(set(groups)))}
    again = run(column, np.array([rename[g] for g in groups]), subjects, images, seed)
    first = run(*case)
    same(first, again, (*SIZES, "p_value", "max_t", "hedges_g", "epsilon_squared", "icc", "js_divergence"))
    assert (first.worst_group is None) == (again.worst_group is None)
    if first.worst_group is not None:
        means = {g.group: g.mean for g in again.groups}
        assert means[rename[first.worst_group]] == pytest.approx(means[again.worst_group])


@settings(max_examples=25, deadline=None)
@given(cases(), st.floats(-5, 5))
def test_a_shift_changes_nothing(case, shift):
    column, *rest = case
    same(run(column, *rest), run(column + shift, *rest), SIZES + PURE)


@settings(max_examples=25, deadline=None)
@given(cases(), st.floats(0.1, 10))
def test_a_change_of_unit_scales_sizes_and_nothing_else(case, factor):
    column, *rest = case
    first, again = run(column, *rest), run(column * factor, *rest, value_range=(-1000.0, 1000.0))
    same(first, again, PURE)
    same(first, again, [name for name in SIZES if name != "ci_high"], scale=factor)


@settings(max_examples=25, deadline=None)
@given(cases())
def test_turning_the_scale_round_swaps_worst_and_best(case):
    column, *rest = case
    first, again = run(column, *rest), run(-column, *rest, higher_is_better=False)
    same(first, again, SIZES + PURE)
    assert (first.worst_group, first.best_group) == (again.worst_group, again.best_group)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.integers(2, 12), seeds)
def test_divergence_lies_between_zero_and_one(k, bins, seed):
    p = np.random.default_rng(seed).dirichlet(np.full(bins, 0.2), size=k)
    assert 0 <= jensen_shannon(p) <= 1
    assert jensen_shannon(p[::-1]) == pytest.approx(jensen_shannon(p))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8), seeds)
def test_shrinking_never_widens(means, seed):
    variances = np.random.default_rng(seed).uniform(0.001, 0.5, len(means))
    assert 0 <= shrunken_range(means, variances) <= np.ptp(means) + 1e-9


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.sampled_from(["holm", "bh", "by", "bonferroni"]))
def test_corrections_only_raise_and_keep_the_order(p, method):
    adjusted = adjust_p_values(p, method)
    assert all(a >= x - 1e-12 and a <= 1 for a, x in zip(adjusted, p, strict=True))
    order = np.argsort(p, kind="stable")
    assert (np.diff(np.array(adjusted)[order]) >= -1e-12).all()


@pytest.mark.parametrize("shift", [0.0, 0.1, 1.0, -7.3])
def test_tied_worst_groups_are_named_by_name_not_by_rounding(shift):
    a, b = [0.25, 0, -0.25, 0.25, 0, -0.25], [-0.25, 0.25, 0, -0.25, 0, 0.25]
    c = [0.25, 0, 0.5, 0, 0.25, 0]
    groups = ["group A"] * len(a) + ["group B"] * len(b) + ["group C"] * len(c)
    row = run(np.array(a + b + c) + shift, groups, np.arange(len(groups)), np.arange(len(groups)), 0)
    plain = run(np.array(a + b + c), groups, np.arange(len(groups)), np.arange(len(groups)), 0)
    assert row.worst_group == "group A"
    assert row.p_worst == pytest.approx(plain.p_worst)
