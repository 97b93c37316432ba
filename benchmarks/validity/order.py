"""Models of which the true order is known: equal gaps under unequal noise, and gaps that differ.

The first model is the quiet one. A world's `gap` is that of the quiet model, in SD of one of its answers; conditions
say how the others differ. Two outcomes each; a subject's answers to all models and outcomes correlate.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from benchmarks.validity.earlier import ordered
from benchmarks.validity.measure import Arrays
from benchmarks.validity.worlds import NORMAL_SD, RATES, SIZES, Data, World, answer_sd, draw, shifts
from fp2.methods.several_runs.profiles import rank_models

LARGE = (300, 200, 100, 40, 15)
OUTCOMES = 2
NOISE = {"noise": (1.0, 4.0), "five models": (1.0, 1.5, 2.0, 3.0, 4.0), "worse": (1.0, 4.0), "apart": (1.0, 4.0)}
"""SD of one answer of each model, in units of the quiet one's."""
GAPS = {"worse": (1.0, 1.2), "apart": (1.0, 3.0)}
"""Gap of each model, in units of the quiet one's; equal in other conditions."""
ORDER_WORLDS = (
    World("normal", "noise", LARGE, 1.5),
    World("normal", "noise", LARGE, 1.5, "steps"),
    World("normal", "noise", SIZES, 1.5),
    World("normal", "noise", (40, 40), 1.5),
    World("normal", "noise", LARGE),
    World("normal", "five models", LARGE, 1.5),
    World("yes/no", "noise", LARGE, 0.4),
    World("yes/no", "noise", SIZES, 0.2),
    World("normal", "worse", LARGE, 1.5),
    World("normal", "apart", LARGE, 0.5),
)


def order(world: World, n: int, seed: int) -> Arrays:
    """Whether any two models are ordered, a noisier one is called better, the quiet one is; the first two by 0.3.0."""
    rng = np.random.default_rng(seed)
    found = []
    for k in range(n):
        values, groups, subjects, images = _answers(world, rng)
        names = [str(model) for model in range(len(values))]
        table = rank_models(values, groups, subjects, names, images=images, n_bootstrap=399, seed=seed + k)
        model = np.array([int(row.name) for row in table.rows])
        noisier = table.better & (model[:, None] > model[None])
        before = ordered(values, Data(values[0], groups, subjects, images), 199, seed + k)
        found.append(
            (
                table.better.any(),
                noisier.any(),
                (table.better & ~noisier).any(),
                before.any(),
                np.tril(before).any(),
            )
        )
    names = ("ordered", "noisier_better", "quiet_better", "ordered_before", "noisier_before")
    return dict(zip(names, np.array(found, dtype=float).T, strict=True))


def _answers(world: World, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the answers (K, n, OUTCOMES) with groups, subjects and images; of yes/no models one is rarely yes."""
    noise = np.array(NOISE[world.condition])
    gaps = np.array(GAPS.get(world.condition, (1.0,) * len(noise)))
    data = draw(World("normal", sizes=world.sizes), rng, len(noise) * OUTCOMES, shared=0.5)
    z = np.moveaxis(data.values.reshape(len(data.values), len(noise), OUTCOMES), 1, 0) / NORMAL_SD
    shift = gaps[:, None] * shifts(world)[np.unique(data.groups, return_inverse=True)[1]]
    if world.yes_no:
        rates = np.array([RATES["rare"], RATES["yes/no"]])[:, None] + shift
        values = (ndtr(z) < rates[:, :, None]).astype(float)
    else:
        values = answer_sd(world.outcome) * noise[:, None, None] * z + shift[:, :, None]
    return values, data.groups, data.subjects, data.images
