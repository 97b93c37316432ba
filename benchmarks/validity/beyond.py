"""Worlds of the methods around the row: sample size, two samples, adjusted disparities, repeated looks.

Each function measures one chunk of data sets, as those in `studies` do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from benchmarks.validity.measure import Arrays, p_values
from benchmarks.validity.worlds import IMAGES, RATES, SIZES, Data, World, answer_sd, draw
from fp2.methods.adjusted.model import AdjustedGroup, Design, adjusted_panel, interaction_panel
from fp2.methods.planning.power import Spread, detection_power, spread_of, subjects_needed
from fp2.methods.several_runs.distance import FingerprintDistance, fingerprint_distance
from fp2.methods.several_runs.two_samples import ModelOutcomes, independent_distance
from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.moments import max_t_squared
from fp2.stats.core.resampling import permuted_moments
from fp2.stats.core.units import prepare
from fp2.stats.rows import PanelSettings

FAMILY = 24
LEVEL = 0.05 / FAMILY
"""Level of the first step of Holm's correction in the default run: six probes by four cuts."""
PLANNING_WORLDS = tuple(
    World(outcome, sizes=(0,) * groups, gap=gap, where="two smallest")
    for outcome, groups, gap in (
        ("normal", 2, 0.5), ("normal", 5, 0.8), ("normal", 5, 0.3), ("normal", 12, 0.8), ("zero-heavy", 5, 0.5),
        ("yes/no", 5, 0.4), ("rare", 4, 0.25),
    )
)  # fmt: skip
"""The sizes say only how many groups there are: the plan says how large they have to be."""
PILOT_WORLDS = (World("normal"), World("zero-heavy"), World("yes/no"))


@cache
def true_spread(outcome: str) -> Spread:
    """Return the spread of an outcome without a gap, from 40,000 subjects."""
    data = draw(World(outcome, sizes=(20_000, 20_000)), np.random.default_rng(7), 1)
    found = spread_of(data.values[:, 0], data.groups, data.subjects)
    assert found is not None
    return Spread(found.sd, found.icc)


def planned(world: World, n: int, seed: int, n_permutations: int = 4_999) -> Arrays:
    """Whether the gap is found after correction with exactly as many subjects as the plan prints for 80 % power."""
    gap, groups = world.true_gap, len(world.sizes)
    subjects = subjects_needed(gap, true_spread(world.outcome), groups=groups, images=IMAGES, level=LEVEL)
    assert subjects is not None
    data = draw(replace(world, sizes=(subjects,) * groups), np.random.default_rng(seed), n)
    entries = read_entries(data.values, data.groups, data.subjects, data.images)
    p = prepare(entries, cell_means(entries), 2)
    assert p is not None
    observed, batches = permuted_moments(p, np.full(n, world.yes_no), n_permutations, seed)
    permuted = np.concatenate([np.sqrt(max_t_squared(found)) for found in batches])
    p_value = p_values(np.sqrt(max_t_squared(observed))[0], permuted)
    return {"found": (p_value <= LEVEL).astype(float), "subjects": np.full(n, float(subjects))}


def pilots(world: World, n: int, seed: int) -> Arrays:
    """Power at the number that a pilot of 149 subjects leads to, as estimated and with the upper limit of its SD."""
    data, truth = draw(world, np.random.default_rng(seed), n), true_spread(world.outcome)
    gap, out = 0.5 * truth.sd, {"power": np.empty(n), "cautious": np.empty(n)}
    for k in range(n):
        spread = spread_of(data.values[:, k], data.groups, data.subjects)
        assert spread is not None
        for name, used in (("power", spread), ("cautious", spread.cautious())):
            needed = subjects_needed(gap, used, groups=len(SIZES), images=IMAGES, level=LEVEL)
            assert needed is not None
            out[name][k] = detection_power(gap, truth, groups=len(SIZES), subjects=needed, images=IMAGES, level=LEVEL)
    return out


MANY = 100
"""Outcomes of a yes/no battery: its traits."""
SAME_SUBJECT_WORLDS = (
    World("normal"),
    World("normal", gap=0.8),
    World("normal", "triple spread"),
    World("normal", "triple spread", gap=0.8),
    World("skewed"),
    World("skewed", "spread"),
    World("skewed", sizes=(60, 10)),
    World("zero-heavy", "spread"),
    World("yes/no"),
)


def same_subjects(world: World, n: int, seed: int, n_permutations: int = 199) -> Arrays:
    """Two models with parallel profiles, asked about the same people: six outcomes, one of them, and one hundred.

    `constant`, in worlds without a gap: the second model gives one value to everything, so that differences are as
    skewed as the answers of the first. Every fifth data set has one hundred outcomes.
    """
    rng = np.random.default_rng(seed)
    found: dict[str, list[float | None]] = {"six": [], "single": [], "constant": [], "many": []}
    for k in range(n):
        data = draw(world, rng, 12, shared=0.3)
        compared = {"six": data.values[:, 6:] + 0.3}
        if not world.gap:
            compared["constant"] = np.zeros_like(data.values[:, 6:])
        for name, second in compared.items():
            one = _compared(data, data.values[:, :6], second, n_permutations, seed + k)
            found[name].append(one.p_value)
            if name == "six" and one.by_outcome[0]:
                found["single"].append(one.by_outcome[0].p_value)
        if k % 5 == 0:
            data = draw(world, rng, 2 * MANY, shared=0.3)
            one = _compared(data, data.values[:, :MANY], data.values[:, MANY:] + 0.3, n_permutations, seed + k)
            found["many"].append(one.p_value)
    return {name: np.array(p, dtype=float) for name, p in found.items() if p}


def _compared(data: Data, first: np.ndarray, second: np.ndarray, n: int, seed: int) -> FingerprintDistance:
    return fingerprint_distance(
        first, second, data.groups, data.subjects, images=data.images, n_permutations=n, n_bootstrap=0, seed=seed
    )


SECOND = (12, 14, 25, 40, 30)
"""Sizes of the second sample, whose small groups are the large ones of the first."""
TWO_SAMPLE_WORLDS = (
    World("normal"),
    World("normal", gap=0.8),
    World("normal", "spread", gap=0.8),
    World("normal", "images"),
    World("normal", "straddling"),
    World("normal", "multi-valued"),
    World("normal", "missing"),
    World("zero-heavy", "spread"),
    World("yes/no"),
    World("rare"),
    World("normal", sizes=(60, 10)),
)
APART_WORLDS = (World("normal", gap=0.2), World("normal", gap=0.8))


def two_samples(world: World, n: int, seed: int, n_permutations: int = 199, n_bootstrap: int = 199) -> Arrays:
    """Two models with parallel profiles, each asked about people of its own; truth of the distance: 0.

    Subjects vary 2.5 times as much with the second model, but in yes/no outcomes.
    """
    rng, found = np.random.default_rng(seed), []
    other = replace(world, sizes=SECOND[: len(world.sizes)])
    for k in range(n):
        one, two = draw(world, rng, 3), draw(other, rng, 3)
        values = two.values
        if not world.yes_no:
            people = int(two.subjects.max()) + 1
            noise = np.sqrt(2.5**2 - 1) * 0.14 * rng.normal(size=(people, 3))[two.subjects]
            values = values + 0.3 + noise
        first = ModelOutcomes(one.values, one.groups, one.subjects, one.images)
        second = ModelOutcomes(values, two.groups, two.subjects + 1_000_000, two.images + 1_000_000)
        found.append(
            independent_distance(first, second, n_permutations=n_permutations, n_bootstrap=n_bootstrap, seed=seed + k)
        )
    return {
        "p": np.array([f.p_value for f in found], dtype=float),
        "low": np.array([f.ci_low for f in found], dtype=float),
        "single": np.array([f.by_outcome[0].p_value for f in found if f.by_outcome[0]], dtype=float),
    }


def two_samples_apart(world: World, n: int, seed: int) -> Arrays:
    """Coverage of the interval where the profiles differ: the smallest group is `gap` lower with the second model."""
    rng, low, high, p = np.random.default_rng(seed), [], [], []
    still = replace(world, gap=0.0)
    centred = np.zeros(len(world.sizes))
    centred[-1] = world.true_gap
    truth = float(np.sqrt(((centred - centred.mean()) ** 2).mean()))
    for k in range(n):
        one, two = draw(world, rng, 1), draw(replace(still, sizes=SECOND), rng, 1)
        found = independent_distance(
            ModelOutcomes(one.values, one.groups, one.subjects, one.images),
            ModelOutcomes(two.values, two.groups, two.subjects + 1_000_000, two.images + 1_000_000),
            n_permutations=199,
            n_bootstrap=399,
            seed=seed + k,
        )
        low.append(found.ci_low)
        high.append(found.ci_high)
        p.append(found.p_value)
    inside = (np.array(low, dtype=float) <= truth) & (truth <= np.array(high, dtype=float))
    return {"covered": inside.astype(float), "p": np.array(p, dtype=float)}


ADJUSTED_WORLDS = (
    World("normal"),
    World("normal", gap=0.5),
    World("zero-heavy"),
    World("yes/no"),
    World("normal", "spread"),
    World("zero-heavy", "spread"),
    World("normal", "images"),
    World("yes/no", "images"),
)
SLOPE = 0.6
"""What a step of the covariate adds, in SD of one answer; four in five subjects of the later groups are at step 2."""


def adjusted(world: World, n: int, seed: int, n_permutations: int = 999) -> Arrays:
    """A covariate with an effect of its own that differs between the groups: p and gap with and without adjustment.

    The world's gap is that between the groups at the same covariate.
    """
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(world.sizes)), world.sizes)
    late = np.where(group >= 2, 0.8, 0.2)
    step = np.where(rng.random(len(group)) < late, 2, rng.integers(0, 2, len(group)))
    data = draw(world, rng, n)
    subjects = data.subjects
    effect = SLOPE * answer_sd(world.outcome) * (step - 1)
    if world.yes_no:
        # a subject's rate moves by the effect: some of the other answer are turned
        up = effect[subjects][:, None] / np.where(effect > 0, 1 - RATES["yes/no"], RATES["yes/no"])[subjects][:, None]
        turned = rng.random(data.values.shape) < np.abs(up)
        values = np.where(turned, (up > 0).astype(float), data.values)
    else:
        values = data.values + effect[subjects][:, None]
    size = np.bincount(subjects)
    means = np.stack([np.bincount(subjects, weights=values[:, k]) / size for k in range(n)], axis=1)
    names = tuple(f"group {g}" for g in range(len(world.sizes)))
    shares = np.eye(len(names))[group]
    levels = np.stack([step == 1, step == 2], axis=1).astype(float)
    settings = PanelSettings(n_permutations=n_permutations, seed=seed)
    held = adjusted_panel(means, Design(shares, names, levels, ("age", "age")), settings)
    naive = adjusted_panel(means, Design(shares, names, levels[:, :0], ()), settings)
    return {
        "p": np.array([one.p_value for one in held], dtype=float),
        "raw_p": np.array([one.p_value for one in naive], dtype=float),
        "estimate": np.array([_last_less_first(one.groups) for one in held]),
        "raw_estimate": np.array([_last_less_first(one.groups) for one in naive]),
    }


def _last_less_first(groups: Sequence[AdjustedGroup]) -> float:
    return groups[-1].adjusted - groups[0].adjusted


INTERACTION_WORLDS = (
    World("normal", sizes=(40, 30, 20, 12, 25, 10)),
    World("normal", "spread", sizes=(40, 30, 20, 12, 25, 10)),
    World("zero-heavy", sizes=(40, 30, 20, 12, 25, 10)),
    World("yes/no", sizes=(40, 30, 20, 12, 25, 10)),
    World("normal", sizes=(40, 30, 20, 12, 25, 10), gap=0.8),
)
"""Three by two intersections; a gap is an effect of the last combination alone, which is not additive."""


def interaction(world: World, n: int, seed: int, n_permutations: int = 999) -> Arrays:
    """Two attributes with effects of their own: p of the test that nothing goes beyond them."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(6), world.sizes)
    first, second = np.arange(6) // 2, np.arange(6) % 2
    additive = np.concatenate([np.eye(3)[first], np.eye(2)[second]], axis=1)
    data = draw(world, rng, n)
    size = np.bincount(data.subjects)
    means = np.stack([np.bincount(data.subjects, weights=data.values[:, k]) / size for k in range(n)], axis=1)
    if not world.yes_no:
        means += answer_sd(world.outcome) * (0.5 * first + 0.4 * second)[group][:, None]
    design = Design(np.eye(6)[group], tuple("abcdef"), np.zeros((len(group), 0)), (), additive)
    found = interaction_panel(means, design, PanelSettings(n_permutations=n_permutations, seed=seed))
    return {"p": np.array([one.p_value if one else np.nan for one in found])}
