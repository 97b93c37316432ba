"""Simulated answers that several tests of the GRAS analysis start from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from benchmarks.gras_worlds import World
from fp2.cuts import Cut
from fp2.methods.gras.answers import GrasAnswers
from fp2.methods.gras.grouping import group_answers
from fp2.methods.gras.options import GrasOptions
from fp2.methods.gras.resampling import TraitTests

QUICK = GrasOptions(permutations=40, bootstrap=40, min_subjects=5)
STRADDLING = World(60, images=3, groups={"gender": 2, "age": 4}, traits=6, templates=3)


def trait_tests(
    answers: GrasAnswers, people: pd.DataFrame, cuts: Sequence[Cut], options: GrasOptions, units: str
) -> TraitTests:
    """Return the tests of these answers in one unit."""
    return TraitTests(answers, group_answers(answers, people, cuts, options), options, units)


def world_with_changing_age(missing: bool) -> tuple[GrasAnswers, pd.DataFrame]:
    """The ages of some subjects differ between their images; one has two genders; some answers are missing."""
    rng = np.random.default_rng(3)
    people = STRADDLING.people(rng)
    answers = STRADDLING.answers(people, rng)
    ages = list(people["attr_age"])
    for row in range(0, 60, 4):
        ages[row] = [f"age {rng.integers(4)}"]
    genders = list(people["attr_gender"])
    genders[9:12] = [["gender 0", "gender 1"]] * 3
    people = people.assign(attr_age=ages, attr_gender=genders)
    if missing:
        answers.columns["p_yes_first_token"][rng.random((180, 6, 3)) < 0.1] = np.nan
    return answers, people
