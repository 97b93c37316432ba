"""Effect sizes and their intervals where resamples lack a test, and as groups shrink."""

from __future__ import annotations

import numpy as np
import pandas as pd
from simulated_answers import World, trait_tests

from fp2.methods.gras.analysis import analyse
from fp2.methods.gras.answers import GrasAnswers
from fp2.methods.gras.magnitude import ResampledMeans, magnitude
from fp2.methods.gras.options import GrasOptions


def few_against_many() -> tuple[GrasAnswers, pd.DataFrame, World]:
    """Ten subjects against ninety: some resamples hold fewer than two of the ten."""
    world = World(100, groups={"gender": 2}, traits=4, templates=2)
    people = world.people(np.random.default_rng(0))
    people["attr_gender"] = [["few" if k < 10 else "many"] for k in range(100)]
    return world.answers(people, np.random.default_rng(1)), people, world


def test_resamples_without_a_test_are_left_out_of_the_intervals() -> None:
    answers, people, world = few_against_many()
    found = [
        analyse(answers, people, world.cuts, GrasOptions(permutations=20, bootstrap=500, seed=seed))["units"]["images"]
        for seed in range(12)
    ]
    sizes = [unit["magnitude"] for unit in found]
    assert any(size["resamples_left_out"] for size in sizes)
    for size in sizes:
        for part in (size["omega_squared"], size["gap"]):
            assert part["low"] <= part["value"] <= part["high"]
        assert 0 <= size["gap"]["plain_low"] <= size["gap"]["plain_mean"] <= size["gap"]["plain_high"]
        assert size["resamples_left_out"] <= 5


def test_the_plain_gap_has_an_interval_and_grows_as_groups_shrink() -> None:
    """Intervals are for the expectation of the plain mean at this number of subjects: most of them cover it."""
    drawn: dict[int, list[dict[str, float]]] = {}
    for n in (60, 240):
        world = World(n, groups={"age": 4}, traits=6, templates=2)
        for seed in range(20):
            people = world.people(np.random.default_rng([seed, 1]))
            answers = world.answers(people, np.random.default_rng([seed, 2]))
            tests = trait_tests(answers, people, world.cuts, GrasOptions(seed=seed), "images")
            resampled = ResampledMeans()
            for sums in tests.resamples(60):
                resampled.add(tests.tests(sums))
            found = magnitude(tests.observed()[0], tests.null(20), resampled, ["age"])
            drawn.setdefault(n, []).append(found["gap"])
    mean = {n: float(np.mean([gap["plain_mean"] for gap in gaps])) for n, gaps in drawn.items()}
    assert mean[60] > 1.5 * mean[240]
    for n, gaps in drawn.items():
        assert sum(gap["plain_low"] <= mean[n] <= gap["plain_high"] for gap in gaps) >= 17
