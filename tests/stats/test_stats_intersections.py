"""The test of what combinations of attributes add to their parts."""

from __future__ import annotations

import numpy as np
import pytest

from fp2.stats.intersections import interaction


def crossed(rng, n=240, shift=0.0, spread=1.0):
    """Two attributes with main effects; the last combination has `shift` and `spread` of its own."""
    first, second = rng.integers(0, 3, n), rng.integers(0, 2, n)
    last = (first == 2) & (second == 1)
    subject = np.repeat(np.arange(n), 2)
    y = 0.4 * first + 0.7 * second + rng.normal(size=n) * np.where(last, spread, 1.0) + shift * last
    attributes = {"first": [f"f{k}" for k in first[subject]], "second": [f"s{k}" for k in second[subject]]}
    return y[subject] + 0.3 * rng.normal(size=2 * n), attributes, subject


@pytest.mark.parametrize("spread", [1.0, 2.0])
def test_main_effects_are_no_interaction(spread):
    """The level is 5 %; at most 6 % here, with the error of 300 data sets."""
    rng, rejected = np.random.default_rng(1), 0
    for k in range(300):
        rejected += interaction(*crossed(rng, spread=spread), n_permutations=99, seed=k).p_value <= 0.05
    assert rejected <= 27


def test_an_effect_of_one_combination_is_found_and_named():
    found = interaction(*crossed(np.random.default_rng(2), shift=2.0), n_permutations=199, seed=1)
    assert (found.p_value, found.largest) == (pytest.approx(1 / 200), "f2 × s1")


def test_subjects_in_several_combinations_exchange_their_residuals_together():
    """A subject's two ages have answers that agree: taken as two independent ones they would be found to differ."""
    rng, rejected = np.random.default_rng(3), 0
    for k in range(300):
        person = rng.normal(size=120)
        gender = [f"g{x}" for x in rng.integers(0, 2, 120)]
        attributes = {"gender": gender * 2, "age": ["young"] * 120 + ["old"] * 120}
        values = np.tile(person, 2) + 0.2 * rng.normal(size=240)
        rejected += (
            interaction(values, attributes, np.tile(np.arange(120), 2), n_permutations=99, seed=k).p_value <= 0.05
        )
    assert rejected <= 27


def test_no_test_without_degrees_of_freedom_or_spread():
    values, attributes, subjects = crossed(np.random.default_rng(4))
    alone = {"first": attributes["first"]}
    assert interaction(values, alone, subjects, n_permutations=19, seed=1).p_value is None
    flat = interaction(np.zeros(len(values)), attributes, subjects, n_permutations=19, seed=1)
    assert flat.p_value is None
    assert list(flat.beyond.values()) == pytest.approx([0.0] * 6)
