"""Which groups are worst and best over many outcomes of the same subjects, where no group differs."""

from __future__ import annotations

import numpy as np

from benchmarks.validity.measure import Arrays
from benchmarks.validity.worlds import World, draw
from fp2.methods.several_runs.tallies import tally_extremes

OUTCOMES, SHARED = 12, 0.6
"""Outcomes of one data set, such as 3 models x 4 probes, and the correlation of their people."""
COUNT_WORLDS = (
    World("normal"),
    World("normal", "spread"),
    World("normal", "triple spread"),
    World("normal", "images"),
    World("normal", "straddling"),
    World("normal", "multi-valued"),
    World("normal", "missing"),
    World("skewed"),
    World("zero-heavy"),
    World("yes/no"),
    World("yes/no", "images"),
    World("rare"),
)


def counts(world: World, n: int, seed: int) -> Arrays:
    """Of each data set: the smallest p of any group at the bad and the good end, and the largest count."""
    rng, found = np.random.default_rng(seed), []
    for k in range(n):
        data = draw(world, rng, OUTCOMES, shared=SHARED)
        tally = tally_extremes(
            data.values,
            data.groups,
            data.subjects,
            images=data.images,
            higher_is_better=[True] * OUTCOMES,
            yes_no=[world.yes_no] * OUTCOMES,
            n_permutations=199,
            seed=seed + k,
        )
        if tally is None:
            found.append((1.0, 1.0, 0.0))
            continue
        ends = (min(one.p_value for one in end) for end in (tally.worst, tally.best))
        found.append((*ends, max(one.count for one in tally.worst) / tally.n))
    return dict(zip(("worst", "best", "largest"), np.array(found, dtype=float).T, strict=True))
