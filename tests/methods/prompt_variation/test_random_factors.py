"""Intervals beyond the questions asked, samples, and variance components, against SciPy, statsmodels and plain sums."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from stats_data import clustered

from benchmarks.validity.random_factors import COMPONENTS, crossed_data
from benchmarks.validity.worlds import World
from fp2.methods.prompt_variation.components import variance_components
from fp2.methods.prompt_variation.random_factors import GroupTable, between_samples, beyond, group_table

RNG = np.random.default_rng


def table_of(means, own=None):
    means = np.asarray(means, dtype=float)
    own = own or tuple(np.full(50, row.mean()) for row in means)
    return GroupTable(tuple("abcdefgh"[: len(means)]), means, own)


def test_without_noise_of_subjects_it_is_the_paired_t_interval_over_questions():
    """Bonferroni's correction is for all pairs, of which two groups have one."""
    means = RNG(1).normal(size=(2, 6))
    found = beyond(table_of(means), 0.05)
    low, high = stats.ttest_rel(means[1], means[0]).confidence_interval(0.95)
    sign = np.sign(means[1].mean() - means[0].mean())
    assert sorted([found.low, found.high]) == pytest.approx(sorted([sign * low, sign * high]))
    assert found.gap_low == max(found.low, 0.0)
    assert found.gap_high == pytest.approx(found.high)


def test_without_variation_between_questions_it_is_welchs_interval():
    own = (RNG(2).normal(size=40), RNG(3).normal(1.0, 2.0, size=15))
    means = np.array([np.full(4, y.mean()) for y in own])
    found = beyond(table_of(means, own), 0.05)
    expected = stats.ttest_ind(own[1], own[0], equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(expected))


def test_one_group_that_depends_on_the_wording_widens_its_own_pairs():
    """Of five groups one varies: pooled over all of them, its variation would be a fifth."""
    means = np.zeros((5, 6))
    means[4] = RNG(4).normal(size=6) + 1.0
    found = beyond(table_of(means), 0.05)
    difference = means[4] - means[0]
    reach = stats.t.ppf(1 - 0.05 / 20, 5) * difference.std(ddof=1) / np.sqrt(6)
    assert found.best == "e"
    assert found.high - found.difference == pytest.approx(reach)


@given(st.integers(2, 6), st.integers(2, 5), st.floats(0.1, 9), st.floats(-3, 3), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_scale_shift_and_order_do_not_matter_and_the_interval_holds_the_estimate(
    n_levels, n_groups, scale, shift, seed
):
    rng = RNG(seed)
    values = rng.normal(size=(12 * n_groups, n_levels))
    groups = np.repeat(list("abcde"[:n_groups]), 12)
    people = np.arange(len(groups))
    found = beyond(group_table(values, groups, people, None, 10), 0.05)
    assert found.low < found.difference < found.high
    assert 0 <= found.gap_low <= found.gap_high
    assert found.holds == (found.low > 0)
    order = rng.permutation(len(groups))
    levels = rng.permutation(n_levels)
    moved = beyond(
        group_table((scale * values + shift)[order][:, levels], groups[order], people[order], None, 10), 0.05
    )
    assert moved.worst == found.worst
    for name in ("difference", "low", "high", "gap_low", "gap_high"):
        assert getattr(moved, name) == pytest.approx(scale * getattr(found, name), abs=1e-9)


def test_samples_are_compared_as_their_own_runs_would_be():
    values, groups, subjects, images = clustered(RNG(5), sizes=(30, 20), columns=4, gap=0.3)
    found = between_samples(values[:, None, :], groups, subjects, images=images)
    frame = pd.DataFrame(values).groupby([groups, subjects]).mean().groupby(level=0).mean()
    difference = (frame.loc["group B"] - frame.loc["group A"]).to_numpy()
    assert found.differences == pytest.approx(difference)
    assert found.gaps == pytest.approx(np.abs(difference))
    low, high = stats.t.interval(0.95, 3, difference.mean(), stats.sem(difference))
    assert (found.same_low, found.same_high) == pytest.approx((low, high))
    spread = np.sqrt(3 * difference.var(ddof=1) / stats.chi2.ppf([0.975, 0.025], 3))
    assert (found.sd_low, found.sd_high) == pytest.approx(tuple(spread))


def test_a_question_that_was_refused_in_one_sample_is_no_difference_between_samples():
    """Questions of different levels: leaving out one answer must not move the sample's mean by their difference."""
    values, groups, subjects, images = clustered(RNG(6), sizes=(30, 30), images=1, columns=6, sd=0.01)
    y = values.reshape(60, 2, 3) + np.array([5.0, -5.0])[None, :, None]
    y[::7, 0, 1] = np.nan
    found = between_samples(y, groups, subjects, images=images)
    assert found.n_left_out == 0
    assert found.sd < 0.01
    y[0] = np.nan
    y[1, :, 2] = np.nan
    assert between_samples(y, groups, subjects, images=images).n_left_out == 1


def by_name(found):
    return {part.name: part for part in found.components}


def crossed(rng, n_samples=1):
    truth = {name: sd**2 for name, sd in COMPONENTS.items()}
    return crossed_data(World("normal", "3 questions", (14, 12)), truth, n_samples, rng)


def test_components_of_a_balanced_nested_design_are_those_of_reml():
    """One question, two images, three samples: where all are positive, REML equals the method of moments."""
    import statsmodels.formula.api as smf

    rng = RNG(7)
    group, subject = np.repeat(["a", "b"], 48), np.repeat(np.arange(48), 2)
    person, image = 0.6 * rng.normal(size=48)[subject], 0.4 * rng.normal(size=96)
    y = (person + image + (group == "b"))[:, None] + 0.5 * rng.normal(size=(96, 3))
    found = by_name(variance_components(y[:, None, :], group, subject, images=np.arange(96)))
    long = pd.DataFrame(
        {"y": y.ravel(), "g": np.repeat(group, 3), "s": np.repeat(subject, 3), "i": np.repeat(np.arange(96), 3)}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = smf.mixedlm("y ~ g", long, groups="s", vc_formula={"i": "0 + C(i)"}, re_formula="1").fit(reml=True)
    assert found["subject"].variance == pytest.approx(float(fit.cov_re.iloc[0, 0]), rel=1e-3)
    assert found["image"].variance == pytest.approx(float(fit.vcomp[0]), rel=1e-3)
    assert found["sample"].variance == pytest.approx(fit.scale, rel=1e-3)
    difference, error = fit.params["g[T.b]"], fit.bse["g[T.b]"]
    assert found["group"].variance == pytest.approx((difference**2 - error**2) / 2, rel=1e-3)


@pytest.mark.parametrize("n_samples", [1, 2])
def test_components_of_a_crossed_design_are_those_of_its_anova_table(n_samples):
    """Balanced, by the textbook: sums of squares of every effect, mean squares, and their expectations."""
    rng, g, n, m, q = RNG(8), 2, 12, 2, 4
    group = np.repeat(["a", "b"], n * m)
    subject, image = np.repeat(np.arange(g * n), m), np.arange(g * n * m)
    y = (
        rng.normal(size=(g, n, m, q, n_samples))
        + rng.normal(size=(g, n, 1, q, 1))
        + 2 * rng.normal(size=(g, 1, 1, q, 1))
    )
    y = y + rng.normal(size=(g, n, m, 1, 1)) + 3 * rng.normal(size=(g, n, 1, 1, 1)) + rng.normal(size=(1, 1, 1, q, 1))
    flat = y.reshape(g * n * m, q, n_samples)
    found = by_name(variance_components(flat, group, subject, images=image))
    cell = y.mean(axis=4)
    by_question, by_image = cell.mean(axis=2), cell.mean(axis=3)
    rest = cell - by_question[:, :, None] - by_image[..., None] + cell.mean(axis=(2, 3), keepdims=True)
    ms_iq = n_samples * (rest**2).sum() / (g * n * (m - 1) * (q - 1))
    own = by_question - by_question.mean(axis=2, keepdims=True)
    ms_sq = n_samples * m * ((own - own.mean(axis=1, keepdims=True)) ** 2).sum() / (g * (n - 1) * (q - 1))
    table = by_question.mean(axis=1)
    inter = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    ms_gq = n_samples * m * n * (inter**2).sum() / ((g - 1) * (q - 1))
    expected = {
        "subject x question": (ms_sq - ms_iq) / m / n_samples,
        "group x question": (ms_gq - ms_sq) / n / m / n_samples,
        "question": table.mean(axis=0).var(ddof=1) - ms_gq / (n_samples * m * n * g),
    }
    if n_samples > 1:
        within = ((y - cell[..., None]) ** 2).sum() / (g * n * m * q * (n_samples - 1))
        expected |= {"sample": within, "image x question": (ms_iq - within) / n_samples}
    else:
        expected["residual"] = ms_iq
    for name, value in expected.items():
        assert found[name].variance == pytest.approx(max(value, 0.0)), name
    assert sum(part.share for part in found.values()) == pytest.approx(1)


def test_names_and_negative_estimates():
    values, groups, subjects, images = crossed(RNG(9))
    names = ["group", "question", "group x question", "subject", "subject x question", "image"]
    found = variance_components(values, groups, subjects, images=images)
    assert [part.name for part in found.components] == [*names, "residual"]
    several = variance_components(*crossed(RNG(9), n_samples=2)[:3], images=crossed(RNG(9), n_samples=2)[3])
    assert [part.name for part in several.components] == [*names, "image x question", "sample"]
    single = variance_components(values, groups, images, images=images, min_subjects=10)  # a subject of each image
    assert [part.name for part in single.components] == [*names[:4], "residual"]
    flat = RNG(10).normal(size=(60, 3, 1))
    flat -= flat.mean(axis=0)
    noise = variance_components(flat, np.repeat(["a", "b"], 30), np.arange(60), images=np.arange(60))
    assert any(part.negative and part.variance == 0 == part.share for part in noise.components)
    assert (
        variance_components(np.ones((60, 2, 1)), np.repeat(["a", "b"], 30), np.arange(60), images=np.arange(60)) is None
    )
    few = variance_components(flat, np.repeat(["a", "b"], [55, 5]), np.arange(60), images=np.arange(60))
    assert few is None
    with pytest.raises(ValueError, match="questions, samples"):
        variance_components(flat[:, :, 0], groups, subjects, images=images)


def test_shares_do_not_depend_on_units_or_on_missing_images():
    values, groups, subjects, images = crossed(RNG(11))
    plain = variance_components(values, groups, subjects, images=images)
    scaled = variance_components(40 * values + 3, groups, subjects, images=images)
    assert [part.share for part in scaled.components] == pytest.approx([part.share for part in plain.components])
    holes = np.concatenate([values, values[:1]])
    holes[-1, 0] = np.nan
    labels = [np.append(one, one[0]) for one in (groups, subjects)]
    again = variance_components(
        holes, *labels, images=np.append(images, "another" if images.dtype.kind == "U" else 10**6)
    )
    assert again.n_left_out == 1
    assert again.components == plain.components
