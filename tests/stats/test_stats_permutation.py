"""The permutation test against plain loops over the definition, exact enumeration, and SciPy's permutation test."""

from __future__ import annotations

import itertools
import math
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import permutation_test
from stats_data import clustered, panel_of, tangled

from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.moments import YesNo, max_t_squared, moments, range_of_means
from fp2.stats.core.sums import group_sums
from fp2.stats.core.units import Permuter, prepare
from fp2.stats.disparities import disparity


def loop_statistics(people, v0=1.0, rate=None, least=2):
    """(raw, max|T|) from the definition. people: units [(labels, [values])] per subject, NaN dropped.

    `rate`: overall rate of a yes/no outcome, at which the variance of every group is taken, times its own design ratio.
    """
    means = {}
    for s, units in enumerate(people):
        seen = {}
        for labels, values in units:
            for g in labels:
                seen.setdefault(g, []).extend(values)
        for g, values in seen.items():
            if values:
                means.setdefault(g, {})[s] = fmean(values)
    means = {g: y for g, y in means.items() if len(y) >= least}
    centre = {g: fmean(y.values()) for g, y in means.items()}
    squares = {g: sum((v - centre[g]) ** 2 for v in y.values()) for g, y in means.items()}
    pool = sum(squares.values()) / sum(len(y) - 1 for y in means.values())
    largest = 0.0
    for g, h in itertools.combinations(sorted(means), 2):
        error, n = {}, {x: len(means[x]) for x in (g, h)}
        for x in (g, h):
            error[x] = (squares[x] + v0 * pool) / (n[x] - 1 + v0) / n[x]
            if rate is not None:
                single = centre[x] * (1 - centre[x])
                design = min(squares[x] / n[x] / single, 1.0) if squares[x] > 1e-12 else 0.0
                error[x] = max(pool, rate * (1 - rate) * design) / n[x]
        # influences, scaled so that each group's sum of squares is its regularised squared error
        weight = {x: math.sqrt(error[x] / squares[x]) if squares[x] > 1e-12 else 0.0 for x in (g, h)}
        u = {x: {s: (v - centre[x]) * weight[x] for s, v in means[x].items()} for x in (g, h)}
        own = sum(error.values()) - 2 * sum(u[g][s] * u[h][s] for s in set(u[g]) & set(u[h]))
        largest = max(largest, abs(centre[g] - centre[h]) / math.sqrt(own))
    return max(centre.values()) - min(centre.values()), largest


def relabelled_people(units, labels, batch, column, values_by_unit):
    people = []
    for members, drawn in zip(units.classes, labels, strict=True):
        for subject, row in enumerate(members):
            people.append(
                [
                    (np.flatnonzero(units.label_sets[drawn[batch, subject, k]]).tolist(), values_by_unit[unit][column])
                    for k, unit in enumerate(row)
                ]
            )
    return people


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("yes_no", [False, True])
@pytest.mark.parametrize("most", [1, 2])
def test_group_sums_and_t_equal_plain_loops_even_for_tangled_labels(seed, yes_no, most):
    values, groups, subjects, images = tangled(np.random.default_rng(seed), most=most)
    values = np.where(np.isnan(values), np.nan, values > 0.3) if yes_no else values
    entries = read_entries(values, groups, subjects, images)
    prepared = prepare(entries, cell_means(entries), 2)
    units = prepared.units
    assert len(units.classes) > 1
    assert (units.label_sets.sum(axis=1) > 1).any() == (most == 2)
    assert all(prepared.data.disjoint(c) for c in units.classes) == (most == 1)
    values_by_unit = [
        [[v for v in prepared.image_values[prepared.image_unit == c, j] if np.isfinite(v)] for j in range(3)]
        for c in range(len(units.label_set))
    ]
    permuter = Permuter(units, seed)
    rates = prepared.centre if yes_no else [None] * 3
    kind = YesNo(np.full(3, yes_no), prepared.centre, prepared.scale)
    for labels, batch in ((permuter.observed(), 1), (permuter.draw(25), 25)):
        found = moments(group_sums(prepared.data, labels), prepared.eligible, kind, 1.0)
        raw, t2 = range_of_means(found) * prepared.scale, max_t_squared(found)
        for b, j in itertools.product(range(batch), range(3)):
            expected = loop_statistics(relabelled_people(units, labels, b, j, values_by_unit), rate=rates[j])
            assert (raw[b, j], math.sqrt(t2[b, j])) == pytest.approx(expected, rel=1e-9)


def test_observed_group_means_follow_subject_group_averages():
    values, groups, subjects, images = tangled(np.random.default_rng(9))
    row = disparity(
        values[:, 0],
        groups,
        subjects,
        images=images,
        n_permutations=9,
        n_bootstrap=0,
        seed=0,
        min_subjects=2,
        value_range=(-9, 9),
    )
    for summary in row.groups:
        per_subject = [
            np.nanmean(values[(groups == summary.group) & (subjects == s), 0])
            for s in np.unique(subjects)
            if np.isfinite(values[(groups == summary.group) & (subjects == s), 0]).any()
        ]
        assert summary.mean == pytest.approx(np.mean(per_subject))
        assert summary.sd == pytest.approx(np.std(per_subject, ddof=1))
        assert summary.n_subjects == len(per_subject)


def test_p_value_converges_to_full_enumeration():
    y = np.array([0.1, 0.5, 0.2, 0.9, 0.7, 0.8, 0.4])
    groups = list("AAABBBB")

    def statistic(labels):
        return loop_statistics([[([g], [v])] for g, v in zip(labels, y, strict=True)], v0=0.0)[1]

    arrangements = [["A" if i in chosen else "B" for i in range(7)] for chosen in itertools.combinations(range(7), 3)]
    observed = statistic(groups)
    exact = np.mean([statistic(a) >= observed - 1e-9 for a in arrangements])
    row = disparity(y, groups, range(7), n_permutations=20_000, n_bootstrap=0, seed=1, min_subjects=3)
    assert row.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000))
    assert row.max_t == pytest.approx(observed)


def test_two_groups_agree_with_scipy_permutation_test():
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 0.2, 15), rng.normal(0.12, 0.3, 22)

    def statistic(x, y, axis=-1):
        sx, sy = x.var(axis=axis, ddof=1), y.var(axis=axis, ddof=1)
        return np.abs(x.mean(axis=axis) - y.mean(axis=axis)) / np.sqrt(sx / 15 + sy / 22)

    theirs = permutation_test((a, b), statistic, n_resamples=9_999, alternative="greater", rng=4)
    row = disparity(
        np.concatenate([a, b]),
        ["a"] * 15 + ["b"] * 22,
        range(37),
        n_permutations=9_999,
        n_bootstrap=0,
        seed=5,
        value_range=(-3, 3),
    )
    assert row.max_t == pytest.approx(theirs.statistic)
    assert row.p_value == pytest.approx(theirs.pvalue, abs=0.015)


def test_tuples_stay_whole_and_exchange_only_among_subjects_with_as_many_units():
    values, groups, subjects, images = tangled(np.random.default_rng(2), n_subjects=30)
    entries = read_entries(values, groups, subjects, images)
    units = prepare(entries, cell_means(entries), 2).units
    own = Permuter(units, 0).observed()
    for before, after in zip(own, Permuter(units, 0).draw(50), strict=True):
        assert before.shape[1:] == after.shape[1:]
        expected = sorted(tuple(sorted(t)) for t in before[0].tolist())
        for batch in after.tolist():
            assert sorted(tuple(sorted(t)) for t in batch) == expected
        if before.shape[2] > 1:
            assert (after != before).any()


def test_result_does_not_depend_on_the_chunking(monkeypatch):
    values, groups, subjects, images = tangled(np.random.default_rng(6), n_subjects=40)
    args = {
        "n_permutations": 157,
        "n_bootstrap": 83,
        "seed": 11,
        "min_subjects": 3,
        "value_range": (-9, 9),
    }
    whole = panel_of(values, groups, subjects, images=images, **args)
    plain = clustered(np.random.default_rng(1), columns=2)
    plain_whole = panel_of(*plain[:3], images=plain[3], **{**args, "min_subjects": 10})
    for module in ("units", "resampling"):
        monkeypatch.setattr(f"fp2.stats.core.{module}.CHUNK_BYTES", 20_000)
    cut = panel_of(values, groups, subjects, images=images, **args)
    plain_cut = panel_of(*plain[:3], images=plain[3], **{**args, "min_subjects": 10})
    for one, other in ((whole, cut), (plain_whole, plain_cut)):
        np.testing.assert_allclose(one.raw_permuted, other.raw_permuted, rtol=1e-9)
        np.testing.assert_allclose(one.max_t_permuted, other.max_t_permuted, rtol=1e-6)
        for a, b in zip(one.rows, other.rows, strict=True):
            assert (a.p_value, a.p_worst, a.js_p) == (b.p_value, b.p_worst, b.js_p)
            assert (a.ci_low, a.ci_high, a.p_worst_null) == pytest.approx((b.ci_low, b.ci_high, b.p_worst_null))


def test_subjects_not_images_are_the_unit():
    """Six identical images of a subject are one observation: p must not fall as an image is repeated."""
    rng = np.random.default_rng(8)
    y = rng.normal(0, 0.2, 60)
    groups = np.repeat(["a", "b", "c"], 20)
    args = {"n_permutations": 999, "n_bootstrap": 0, "seed": 2}
    once = disparity(y, groups, range(60), **args)
    six = disparity(np.repeat(y, 6), np.repeat(groups, 6), np.repeat(range(60), 6), **args)
    assert (six.p_value, six.raw, six.n_subjects) == (once.p_value, pytest.approx(once.raw), once.n_subjects)
    assert six.icc == pytest.approx(1.0)
    assert six.design_effect == pytest.approx(6.0)
