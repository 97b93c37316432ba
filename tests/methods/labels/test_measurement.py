"""Corrected means and errors against independent computations, and where they have to hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_ind

from benchmarks.validity.labelled import LabelWorld, draw, labelled
from fp2.methods.labels.agreement import labeller_agreement
from fp2.methods.labels.correction import OK, TOO_FEW_LABELS, Labelled, class_rates, corrected_gap, error_gap


def simple(n: int = 240, labels: int = 60, seed: int = 0, groups: int = 2, **changed: Any) -> Labelled:
    """One answer a subject, labels drawn with equal probability within each group, continuous scores."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % groups
    label = rng.normal(size=n) + 0.4 * group
    score = label + 0.5 * rng.normal(size=n) + 0.3 * group
    drawn = np.concatenate([rng.choice(np.flatnonzero(group == g), labels, replace=False) for g in range(groups)])
    seen = np.full(n, np.nan)
    seen[drawn] = label[drawn]
    data = Labelled(score, seen, np.full(n, labels * groups / n), group, np.arange(n), np.arange(n), step=0.0)
    return replace(data, **changed)


@pytest.mark.parametrize("power", [0.0, 0.6, 1.0])
def test_means_and_errors_are_those_of_prediction_powered_inference(power: float) -> None:
    data = simple()
    found = corrected_gap(data, power=power)
    score, label, group = (np.asarray(c, dtype=float) for c in (data.score, data.label, data.groups))
    for g, one in enumerate(found.groups):
        here = group == g
        seen = here & np.isfinite(label)
        rectifier = label[seen] - power * score[seen]
        assert one.mean == pytest.approx(power * score[here].mean() + rectifier.mean())
        # the published variance takes labelled and other answers as two samples; here the labelled are among all
        published = np.sqrt(rectifier.var(ddof=1) / seen.sum() + power**2 * score[here].var() / here.sum())
        width = (one.ci_high - one.ci_low) / 2 / 2.0
        assert width == pytest.approx(published, rel=0.25)
    assert found.scored == pytest.approx(abs(score[group == 1].mean() - score[group == 0].mean()))


def test_labels_of_everyone_give_welchs_test_whatever_the_scores() -> None:
    data = simple(labels=120)
    label, group = np.asarray(data.label), np.asarray(data.groups)
    reference = ttest_ind(label[group == 1], label[group == 0], equal_var=False)
    for power in (0.0, None, 1.0):
        found = corrected_gap(data, power=power)
        assert found.gap == pytest.approx(abs(label[group == 1].mean() - label[group == 0].mean()))
        assert found.p_value == pytest.approx(reference.pvalue, rel=0.05)
        low, high = reference.confidence_interval()
        assert (found.ci_low, found.ci_high) == pytest.approx((max(low, 0), high), abs=0.01)


def test_tuning_has_the_least_variance_and_ignores_a_useless_scorer() -> None:
    data = simple()
    widths = {power: corrected_gap(data, power=power) for power in (0.0, 0.25, 0.5, 0.75, 1.0)}
    tuned = corrected_gap(data)
    assert tuned.power is not None
    assert tuned.gain is not None
    assert max(one.gain or 0 for one in widths.values()) <= tuned.gain * 1.02
    noise = np.random.default_rng(5).normal(size=240)
    assert (corrected_gap(replace(data, score=noise)).power or 0) < 0.3


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 4))
def test_neither_the_order_of_answers_nor_a_constant_bias_of_the_scorer_matters(seed: int, groups: int) -> None:
    data = simple(240, 20, seed, groups)
    found = corrected_gap(data)
    order = np.random.default_rng(seed).permutation(240)
    columns = ("score", "label", "probability", "groups", "subjects", "images")
    shuffled = replace(data, **{name: np.asarray(getattr(data, name))[order] for name in columns})
    biased = replace(data, score=np.asarray(data.score) + 7.0)
    for other in (corrected_gap(shuffled), corrected_gap(biased)):
        assert (other.gap, other.p_value, other.ci_high) == pytest.approx(
            (found.gap, found.p_value, found.ci_high), abs=1e-6
        )
    assert (found.p_value <= 0.05) == (found.ci_low > 0)


def test_answers_drawn_more_often_count_less() -> None:
    rng = np.random.default_rng(2)
    n = 4000
    label = (rng.random(n) < 0.2).astype(float)
    chance = np.where(label == 1, 0.5, 0.05)  # a scorer that is right, and its rare class drawn ten times as often
    seen = np.where(rng.random(n) < chance, label, np.nan)
    group = np.arange(n) % 2
    data = Labelled(rng.random(n), seen, chance, group, np.arange(n), np.arange(n))
    found = corrected_gap(data, power=0.0)
    assert [one.mean for one in found.groups] == pytest.approx([0.2, 0.2], abs=0.04)
    assert np.nanmean(seen) > 0.6


def test_several_answers_of_a_subject_are_one_subject() -> None:
    data = simple(60, 30)
    columns = {name: np.repeat(np.asarray(getattr(data, name)), 5) for name in ("score", "label", "groups", "subjects")}
    many = Labelled(**columns, probability=np.ones(300), images=np.arange(300), step=0.0)
    once = corrected_gap(replace(data, probability=np.ones(60)))
    assert corrected_gap(many).p_value == pytest.approx(once.p_value, abs=1e-9)


def test_too_few_labels_are_refused_with_how_many_are_missing() -> None:
    data = simple(labels=6)
    found = corrected_gap(data)
    assert found.status == TOO_FEW_LABELS
    assert found.p_value is None
    assert [one.needed for one in found.groups] == [4, 4]
    assert corrected_gap(data, least=5).status == OK
    with pytest.raises(ValueError, match="probability"):
        corrected_gap(replace(data, probability=np.zeros(240)))


def test_a_scorer_without_an_error_in_few_labels_is_not_taken_for_perfect() -> None:
    data = simple(labels=15)
    label = np.where(np.isfinite(np.asarray(data.label)), np.sign(np.asarray(data.label)), np.nan)
    score = np.where(np.isfinite(label), label, 1.0)
    error = error_gap(replace(data, score=score, label=label, step=1.0))
    assert error.gap == 0
    assert error.p_value == pytest.approx(1.0)
    assert error.ci_high is not None
    assert error.ci_high > 0.05


def test_precision_and_recall_are_weighted_by_the_draw() -> None:
    score = np.array([1, 1, 1, 1, 0, 0, 0, 0] * 30, dtype=float)
    label = np.array([1, 1, 1, 0, 0, 0, 0, 1] * 30, dtype=float)
    n = len(score)
    chance = np.where(score == 1, 1.0, 0.5)
    seen = np.where((score == 1) | (np.arange(n) // 8 % 2 == 0), label, np.nan)
    found = class_rates(Labelled(score, seen, chance, np.arange(n) % 2, np.arange(n), np.arange(n)))
    every = {one.value: one for one in found if one.group is None}
    assert every[1.0].precision is not None
    assert every[1.0].recall is not None
    assert every[1.0].precision[0] == pytest.approx(0.75)
    assert every[1.0].recall[0] == pytest.approx(0.75)
    low, high = every[1.0].precision[1:]
    assert 0.6 < low < 0.75 < high < 0.9


def test_a_biased_scorer_makes_a_gap_that_the_correction_does_not() -> None:
    world = LabelWorld("biased", sizes=(60, 40), labels=40, down=0.4)
    found = labelled(world, 150, 3)
    assert (found["scores_p"] <= 0.05).mean() > 0.5
    assert (found["p"] <= 0.05).mean() < 0.11  # 5 % and three standard errors
    assert found["covered"].mean() > 0.89
    assert corrected_gap(draw(world, np.random.default_rng(1))).status == OK


def test_kappa_is_cohens() -> None:
    one, two = [1, 1, 0, 0, 1, 0, 1, 0, 1, 1], [1, 1, 0, 1, 1, 0, 0, 0, 1, 1]
    found = labeller_agreement(one, two)
    assert found is not None
    chance = 0.6 * 0.6 + 0.4 * 0.4
    assert found.kappa == pytest.approx((0.8 - chance) / (1 - chance))
    assert found.ci_low is not None
    assert found.ci_low < found.kappa
    assert labeller_agreement([], []) is None
    same = labeller_agreement([1, 1, 1], [1, 1, 1])
    assert same is not None
    assert (same.agree, same.kappa) == (1.0, None)
