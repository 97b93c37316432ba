"""Three questions of one probe of which one group refuses a single one more often: no gap within any question.

The questions' means differ; each image has an answer to every question that was not refused.
"""

from __future__ import annotations

import numpy as np

from benchmarks.validity.measure import Arrays, measure
from benchmarks.validity.worlds import WIDE_GAP, Data, World, answer_sd, draw
from fp2.scorers.outcomes import question_adjusted_means

LEVELS = (-0.75, 0.0, 0.75)
"""Means of the questions, in SD of one answer."""
REFUSED, OFTEN = 0.1, 0.5
"""Share of refused answers, and that of the largest group to the first question."""
REFUSAL_WORLDS = (World("normal"), World("zero-heavy"), World("normal", sizes=(40, 40)), World("normal", gap=0.8))


def refusals(world: World, n: int, seed: int) -> Arrays:
    """p with adjustment for the questions, and of the mean of what was answered."""
    rng = np.random.default_rng(seed)
    parts = [draw(world, rng, len(LEVELS), shared=0.5) for _ in range(n)]
    groups = parts[0].groups
    share = np.full((len(groups), len(LEVELS)), REFUSED)
    share[groups == groups[0], 0] = OFTEN
    adjusted, plain = [], []
    for part in parts:
        values = part.values + np.array(LEVELS) * answer_sd(world.outcome)
        values = np.where(rng.random(values.shape) < share, np.nan, values)
        known = np.isfinite(values).sum(axis=1)
        adjusted.append(question_adjusted_means(values))
        plain.append(np.where(known > 0, np.nansum(values, axis=1) / np.maximum(known, 1), np.nan))
    wide, found = World(world.outcome, sizes=world.sizes, gap=world.gap or WIDE_GAP), {}
    for name, columns in (("p_adjusted", adjusted), ("p_plain", plain)):
        data = Data(np.stack(columns, axis=1), groups, parts[0].subjects, parts[0].images)
        found[name] = measure(wide, data, n_permutations=399, seed=seed, inverted=())["p"]
    return found
