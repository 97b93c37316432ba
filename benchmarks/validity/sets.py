"""Counterfactual sets of which the truth is known: one latent scene per set, one answer to each of its versions.

A world's `sizes` are one number of sets per version. `missing`: 40 % of the sets lack the last version, 15 % the
second, the same ones in every data set of a chunk. `spread`: the last version varies twice as much.
"""

from __future__ import annotations

import numpy as np

from benchmarks.validity.measure import Arrays
from benchmarks.validity.worlds import World, scores
from fp2.methods.matched.panel import MatchedTest, matched_panel
from fp2.methods.matched.panel import matched_equivalence as equivalence_of

SCENE = 0.5
"""How alike the answers to two versions of one scene are (correlation of the latent scores)."""
LACKING = {1: 0.15, 2: 0.4}
WIDTH = 2.0
"""Width of the scale of scores that are not yes or no: [-1, 1], as of a sentiment."""


def matched(world: World, n: int, seed: int, n_permutations: int = 399) -> Arrays:
    """p-values where no version differs on average."""
    return {"p": np.array([test.p_value for test in _tests(world, n, seed, n_permutations)], dtype=float)}


def matched_equivalence(world: World, n: int, seed: int) -> Arrays:
    """Equivalence p of two versions whose true difference is exactly the bound: the statement is just false."""
    width = 1.0 if world.yes_no else WIDTH
    found = [equivalence_of(test, world.true_gap, width) for test in _tests(world, n, seed, 1)]
    return {"p": np.array(found, dtype=float)}


def _tests(world: World, n: int, seed: int, n_permutations: int) -> list[MatchedTest]:
    rng, n_sets, versions = np.random.default_rng(seed), world.sizes[0], len(world.sizes)
    version, sets = np.tile(np.arange(versions), n_sets), np.repeat(np.arange(n_sets), versions)
    scene, answer = rng.normal(size=(n_sets, n)), rng.normal(size=(n_sets * versions, n))
    values = scores(world, np.sqrt(SCENE) * scene[sets] + np.sqrt(1 - SCENE) * answer, version)
    if world.condition == "missing":
        share = np.array([LACKING.get(k, 0.0) for k in range(versions)])[version]
        values[rng.random(len(values)) < share] = np.nan
    return matched_panel(values, version, sets, higher_is_better=[True] * n, n_permutations=n_permutations, seed=seed)
