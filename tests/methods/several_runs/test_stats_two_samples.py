"""Two models on two samples of subjects: against formulas written out, and what must not matter."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fp2.methods.several_runs.two_samples import ModelOutcomes, independent_distance

QUICK = {"n_permutations": 299, "n_bootstrap": 99, "seed": 4}


def sample(
    sizes: dict[str, int], seed: int, start: int = 0, m: int = 2, images: int = 2, sd: float = 0.3
) -> ModelOutcomes:
    rng = np.random.default_rng(seed)
    groups = np.repeat(list(sizes), list(sizes.values()))
    subjects = np.repeat(np.arange(start, start + len(groups)), images)
    values = sd * rng.normal(size=(len(groups), m)).repeat(images, axis=0) + 0.1 * rng.normal(size=(len(subjects), m))
    return ModelOutcomes(values, groups.repeat(images), subjects, np.arange(len(subjects)) + 10_000 * start)


A, B = {"x": 30, "y": 20, "z": 12}, {"x": 15, "y": 25, "z": 11}


def test_the_distance_and_its_test_follow_from_the_cell_means() -> None:
    """Distance: RMS of the centred mean differences. Two groups, one outcome: Welch's contrast of four cells."""
    first, second = sample({"x": 30, "y": 20}, 1, m=1), sample({"x": 15, "y": 25}, 2, start=500, m=1)
    found = independent_distance(first, second, **QUICK)
    means, errors, pools = {}, {}, {}
    for name, one in (("a", first), ("b", second)):
        squares = {}
        for g in ("x", "y"):
            here = np.asarray(one.groups) == g
            people = np.asarray(one.values)[here, 0].reshape(-1, 2).mean(axis=1)
            means[name, g], squares[g] = people.mean(), (people.var(ddof=1), len(people))
        pools[name] = sum((n - 1) * v for v, n in squares.values()) / sum(n - 1 for _, n in squares.values())
        for g, (v, n) in squares.items():
            errors[name, g] = ((n - 1) * v + pools[name]) / n / n
    d = {g: means["a", g] - means["b", g] for g in ("x", "y")}
    assert found.distance == pytest.approx(abs(d["x"] - d["y"]) / 2)
    t = abs(d["x"] - d["y"]) / math.sqrt(sum(errors.values()))
    p = math.erfc(t / math.sqrt(2))
    assert found.p_value == pytest.approx(p, abs=0.1)  # the normal approximation of the permutation test
    assert found.n_subjects == 90
    assert found.groups == ("x", "y")


def test_a_models_level_the_order_and_the_names_do_not_matter() -> None:
    first, second = sample(A, 1), sample(B, 2, start=500)
    found = independent_distance(first, second, **QUICK)
    shifted = replace(second, values=np.asarray(second.values) + np.array([0.4, -3.0]))
    again = independent_distance(first, shifted, **QUICK)
    assert again.distance == pytest.approx(found.distance)
    assert again.p_value == pytest.approx(found.p_value)
    assert again.ci_high == pytest.approx(found.ci_high)
    order = np.random.default_rng(0).permutation(len(np.asarray(first.groups)))
    mixed = ModelOutcomes(
        *(np.asarray(part)[order] for part in (first.values, first.groups, first.subjects, first.images))
    )
    assert independent_distance(mixed, second, **QUICK).p_value == pytest.approx(found.p_value)
    swapped = independent_distance(second, first, **QUICK)
    assert swapped.distance == pytest.approx(found.distance)
    assert swapped.p_value == pytest.approx(found.p_value, abs=0.08)


def test_a_difference_of_one_group_in_one_outcome_is_found_there() -> None:
    first, second = sample(A, 1), sample(B, 2, start=500)
    values = np.asarray(second.values).copy()
    values[np.asarray(second.groups) == "z", 1] += 0.6
    found = independent_distance(first, replace(second, values=values), **QUICK)
    one, two = found.by_outcome
    assert one is not None
    assert two is not None
    assert two.p_value <= 0.01 < one.p_value
    assert found.p_value is not None
    assert found.p_value <= 0.05
    assert found.ci_low is not None
    assert found.distance is not None
    assert found.ci_high is not None
    assert 0 < found.ci_low < found.distance < found.ci_high


def test_subjects_in_several_groups_count_once_in_each_standard_error() -> None:
    """A subject in both groups moves both means alike, and no contrast between them."""
    rng = np.random.default_rng(3)
    parts = []
    for start in (0, 500):
        subjects = np.arange(start, start + 40)
        values = rng.normal(size=(40, 1))
        parts.append(
            ModelOutcomes(
                np.r_[values, values], np.repeat(["x", "y"], 40), np.r_[subjects, subjects], np.r_[subjects, subjects]
            )
        )
    found = independent_distance(*parts, **QUICK)
    assert found.distance == pytest.approx(0.0, abs=1e-12)
    assert found.p_value == 1.0


def test_what_cannot_be_compared_is_none_or_refused() -> None:
    first, second = sample(A, 1), sample(B, 2, start=500)
    with pytest.raises(ValueError, match="in both samples"):
        independent_distance(first, first, **QUICK)
    with pytest.raises(ValueError, match="outcomes"):
        independent_distance(first, replace(second, values=np.asarray(second.values)[:, :1]), **QUICK)
    small = independent_distance(sample({"x": 30, "y": 5}, 1), second, **QUICK)
    assert (small.distance, small.p_value, small.by_outcome) == (None, None, (None, None))
    gone = np.asarray(second.values).copy()
    gone[:, 0] = np.nan
    part = independent_distance(first, replace(second, values=gone), **QUICK)
    assert part.by_outcome[0] is None
    assert part.n_outcomes == 1
