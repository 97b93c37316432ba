"""Agreement of two scorers by group, and the intervals of rho and kappa: the second scorer reads the first with noise.

The second value is the first one plus noise of the answer and of its subject, in steps (of yes/no answers: some are
turned round), by the same law in every group. With a gap, both scorers see it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from benchmarks.validity.measure import Arrays, measure
from benchmarks.validity.worlds import Data, World, answer_sd, draw
from fp2.methods.secondary.agreement import clustered_agreement

SCORER_WORLDS = (
    World("normal"),
    World("zero-heavy"),
    World("yes/no"),
    World("rare"),
    World("normal", "images"),
    World("zero-heavy", "images"),
    World("yes/no", "agreement"),
    World("normal", "straddling"),
    World("normal", "multi-valued"),
    World("zero-heavy", "missing"),
    World("skewed", sizes=(200, 10)),
    World("normal", gap=0.8),
)
INTERVAL_WORLDS = (
    World("normal"),
    World("zero-heavy"),
    World("yes/no"),
    World("zero-heavy", "images"),
    World("skewed", sizes=(20, 20)),
    World("uncommon", sizes=(150, 100)),
    World("rare"),
)
STEPS, NOISE, TURNED = 0.5, 0.7, 1.3
"""Steps and SD of the noise, in SD of one answer; noise above `TURNED` of its SD turns a yes/no answer round."""


def by_group(world: World, n: int, seed: int) -> Arrays:
    """p of a difference between groups of the same class, and of the first value minus the second."""
    first, second, data = _values(world, n, np.random.default_rng(seed))
    out = {}
    for name, values, kind in (
        ("same", np.where(np.isnan(first), np.nan, _sign(first, world) == _sign(second, world)), "yes/no"),
        ("difference", first - second, "normal"),
    ):
        here = replace(world, outcome=kind, gap=0.8)  # a gap widens the scale
        found = measure(here, replace(data, values=values), n_permutations=399, seed=seed, inverted=())
        out[name] = found["p"]
    return out


def intervals(world: World, n: int, seed: int) -> Arrays:
    """Whether the intervals of rho and kappa hold the truth; NaN where there is none."""
    first, second, data = _values(world, n, np.random.default_rng(seed))
    truth, found = _truth(world), []
    for k in range(n):
        one = clustered_agreement(
            first[:, k],
            second[:, k],
            data.subjects,
            classes=(_sign(first[:, k], world), _sign(second[:, k], world)),
            n_bootstrap=200,
            seed=seed + k,
        )
        assert one.kappa is not None
        pairs = ((one.rho, truth[0]), (one.kappa, truth[1]))
        found.append([np.nan if e.low is None or e.high is None else e.low <= t <= e.high for e, t in pairs])
    return dict(zip(("rho", "kappa"), np.array(found, dtype=float).T, strict=True))


@cache
def _truth(world: World) -> tuple[float, float]:
    """Return rho and kappa of a very large sample of the same groups."""
    large = replace(world, sizes=tuple(1_500 * size for size in world.sizes))
    first, second, data = _values(large, 1, np.random.default_rng(7))
    classes = (_sign(first[:, 0], world), _sign(second[:, 0], world))
    found = clustered_agreement(first[:, 0], second[:, 0], data.subjects, classes=classes, n_bootstrap=0, seed=1)
    assert found.rho.value is not None
    assert found.kappa is not None
    assert found.kappa.value is not None
    return found.rho.value, found.kappa.value


def _values(world: World, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Data]:
    """Return the values of both scorers, (lines, data sets), and the people."""
    data = draw(world, rng, n)
    # drawn as the answers are, so that an image in two groups has one value, and subjects have noise of their own
    noise = draw(World("normal", world.condition, world.sizes), rng, n).values / answer_sd("normal")
    if world.yes_no:
        second = np.where(noise > TURNED, 1.0 - data.values, data.values)
    else:
        step = STEPS * answer_sd(world.outcome)
        second = np.round((data.values + NOISE * answer_sd(world.outcome) * noise) / step) * step
    known = np.isfinite(data.values) & np.isfinite(second)
    return np.where(known, data.values, np.nan), np.where(known, second, np.nan), data


def _sign(values: np.ndarray, world: World) -> np.ndarray:
    least = 0.25 * answer_sd(world.outcome)
    return values if world.yes_no else np.where(np.abs(values) >= least, np.sign(values), 0.0)
