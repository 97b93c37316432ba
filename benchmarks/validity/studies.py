"""What is simulated: every study is a list of worlds, a function that measures one chunk, and how large a chunk is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from benchmarks.validity.measure import Arrays, measure, p_values
from benchmarks.validity.worlds import IMAGES, SIZES, World, answer_sd, draw
from fp2.stats import (
    adjust_p_values,
    fingerprint_distance,
    matched_test,
    rank_models,
    template_sensitivity,
)
from fp2.stats.joint import permute
from fp2.stats.layout import make_cells, read_entries
from fp2.stats.options import make_options
from fp2.stats.prepare import prepare

ALPHA = 0.05
GAPS = (0.0, 0.2, 0.8)
MULTIPLES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
Chunk = Callable[[World, int, int], Arrays]


@dataclass(frozen=True)
class Study:
    """`run(world, data_sets, seed)` gives arrays with one entry per data set; `share` of the full number is enough."""

    name: str
    worlds: tuple[World, ...]
    run: Chunk
    chunk: int
    share: float = 1.0


NULL_WORLDS = (
    World("normal"),
    World("zero-heavy"),
    World("yes/no"),
    World("rare"),
    World("normal", "straddling"),
    World("normal", "multi-valued"),
    World("normal", "missing"),
    World("normal", "spread"),
    World("zero-heavy", "spread"),
    World("normal", "images"),
    World("zero-heavy", "images"),
    World("yes/no", "images"),
)
COVERAGE_WORLDS = tuple(
    World(outcome, gap=gap, sizes=sizes, where=where)
    for outcome, sizes, where in (
        ("normal", SIZES, "smallest"),
        ("normal", (40,) * 5, "smallest"),
        ("normal", SIZES, "steps"),
        ("zero-heavy", SIZES, "smallest"),
        ("yes/no", SIZES, "smallest"),
    )
    for gap in GAPS
    if gap or where == "smallest"
)
POWER_WORLDS = (
    World("normal", sizes=(40, 40), where="two smallest"),
    World("normal", where="two smallest"),
    World("yes/no", where="two smallest"),
)
EQUIVALENCE_WORLDS = (World("normal", sizes=(60, 60), gap=0.5), World("normal", gap=0.5), World("zero-heavy", gap=0.5))


def null(world: World, n: int, seed: int, n_permutations: int = 999) -> Arrays:
    """p-values where no group differs."""
    data = draw(world, np.random.default_rng(seed), n)
    found = measure(world, data, n_permutations=n_permutations, n_bootstrap=0, seed=seed)
    return {name: found[name] for name in ("p", "js_p", "kruskal_p", "welch_p")}


def coverage(world: World, n: int, seed: int) -> Arrays:
    """The interval and the three estimates at a known gap."""
    data = draw(world, np.random.default_rng(seed), n)
    found = measure(world, data, n_permutations=199, n_bootstrap=999, seed=seed)
    return {name: found[name] for name in ("low", "high", "raw", "excess", "shrunken")}


def images_as_units(world: World, n: int, seed: int) -> Arrays:
    """Trap 1: the same test with every image as a subject of its own."""
    data = draw(world, np.random.default_rng(seed), n)
    return {"p": measure(world, replace(data, subjects=data.images), n_permutations=399, n_bootstrap=0, seed=seed)["p"]}


@cache
def reference_mde(world: World) -> float:
    """Mean `mde80` of 200 data sets without a gap: what the report would print beside such data."""
    quiet = replace(world, gap=0.0)
    data = draw(quiet, np.random.default_rng(12345), 200)
    return float(measure(quiet, data, n_permutations=999, n_bootstrap=0, seed=12345)["mde80"].mean())


def power(world: World, n: int, seed: int) -> Arrays:
    """Whether the gap is found, at multiples of the printed MDE between the two smallest groups."""
    unit, found = reference_mde(world) / answer_sd(world.outcome), {}
    for multiple in MULTIPLES:
        here = replace(world, gap=multiple * unit)
        data = draw(here, np.random.default_rng([seed, round(multiple * 100)]), n)
        found[f"p_{multiple:g}"] = measure(here, data, n_permutations=999, n_bootstrap=0, seed=seed)["p"]
    return found


def equivalence(world: World, n: int, seed: int) -> Arrays:
    """Equivalence p where the true gap is exactly the bound: the statement is just false."""
    data = draw(world, np.random.default_rng(seed), n)
    found = measure(world, data, n_permutations=9, n_bootstrap=0, seed=seed, bound=world.true_gap)
    return {"p": found["equivalence_p"]}


PROBES = 6


def family(world: World, n: int, seed: int) -> Arrays:
    """Six correlated probes by four cuts of the same people: smallest Holm-adjusted p, and the composite's p."""
    rng = np.random.default_rng(seed)
    # every family is drawn by itself: its probes share people's leanings, and families share nothing
    parts = [draw(world, rng, PROBES, shared=0.5) for _ in range(n)]
    values = np.concatenate([part.values for part in parts], axis=1)
    region, subjects, images = parts[0].groups, parts[0].subjects, parts[0].images
    people = int(subjects.max()) + 1
    pronoun = np.array(["he", "she", "they"])[rng.choice(3, people, p=[0.46, 0.44, 0.1])]
    tone = np.array([f"tone {k}" for k in range(6)])[rng.permutation(np.arange(people) % 6)]
    age = rng.integers(0, 4, people)[subjects]
    later = (rng.random(people) < 0.25)[subjects] & (images % IMAGES == IMAGES - 1)
    ages = np.array([f"age {k}" for k in range(4)])[np.where(later, (age + 1) % 4, age)]
    table, composite = [], np.full(n, np.nan)
    for cut in (region, pronoun[subjects], ages, tone[subjects]):
        p, together = _cut(values, cut, subjects, images, seed)
        table.append(p.reshape(n, PROBES))
        composite = together if cut is region else composite
    pooled = np.concatenate(table, axis=1)
    holm = np.array([min(x for x in adjust_p_values(list(row), "holm") if x is not None) for row in pooled])
    return {"smallest_adjusted": holm, "composite_p": composite}


def _cut(
    values: np.ndarray, cut: np.ndarray, subjects: np.ndarray, images: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    entries = read_entries(values, cut, subjects, images)
    options = make_options(
        values.shape[1], higher_is_better=True, value_ranges=(-np.inf, np.inf), bins=None, yes_no=False,
        smallest_effects=0.05, n_permutations=1439, n_bootstrap=0, seed=seed, alpha=ALPHA, min_subjects=10,
    )  # fmt: skip
    p = prepare(entries, make_cells(entries), 10)
    assert p is not None, "two large groups"
    joint = permute(p, options)
    mean = joint.max_t.reshape(-1, PROBES).mean(axis=1)
    permuted = joint.max_t_permuted.reshape(len(joint.max_t_permuted), -1, PROBES).mean(axis=2)
    return p_values(joint.max_t, joint.max_t_permuted), p_values(mean, permuted)


def matched(world: World, n: int, seed: int) -> Arrays:
    """Twenty sets of three versions, one of which varies twice as much; no version differs on average."""
    rng, out = np.random.default_rng(seed), []
    wide = 2.0 if world.condition == "spread" else 1.0
    names, sets = np.tile(["a", "b", "c"], 20), np.repeat(np.arange(20), 3)
    for k in range(n):
        table = rng.normal(size=(20, 1)) + np.array([1.0, 1.0, wide]) * rng.normal(size=(20, 3))
        out.append(matched_test(table.ravel(), names, sets, n_permutations=199, seed=seed + k).p_value)
    return {"p": np.array(out, dtype=float)}


def distance(world: World, n: int, seed: int) -> Arrays:
    """Two models of different level and noise that describe no group differently; truth of the distance: 0."""
    rng, p, low = np.random.default_rng(seed), [], []
    for k in range(n):
        shared = draw(world, rng, 3)
        second = shared.values + 0.3 + 0.1 * rng.normal(size=shared.values.shape)
        first = shared.values + 0.05 * rng.normal(size=shared.values.shape)
        found = fingerprint_distance(
            first, second, shared.groups, shared.subjects, images=shared.images, n_permutations=199, n_bootstrap=199,
            seed=seed + k,
        )  # fmt: skip
        p.append(found.p_value)
        low.append(found.ci_low)
    return {"p": np.array(p, dtype=float), "low": np.array(low, dtype=float)}


def wording(world: World, n: int, seed: int) -> Arrays:
    """Three templates that shift every group alike: p of the interaction."""
    rng, out = np.random.default_rng(seed), []
    for k in range(n):
        data = draw(world, rng, 3, shared=0.5)
        values = data.values + np.array([0.0, 0.2, -0.1])
        found = template_sensitivity(
            values, data.groups, data.subjects, images=data.images, n_permutations=199, seed=seed + k
        )
        out.append(found.interaction_p)
    return {"p": np.array(out, dtype=float)}


def ranks(world: World, n: int, seed: int) -> Arrays:
    """Five models without any gap whose noise differs up to fourfold: whether any two are called different."""
    rng, false = np.random.default_rng(seed), []
    noise = np.array([1.0, 1.5, 2.0, 3.0, 4.0])
    for k in range(n):
        data = draw(world, rng, 5 * 2)
        values = np.moveaxis(data.values.reshape(len(data.values), 5, 2), 1, 0) * noise[:, None, None]
        table = rank_models(
            values, data.groups, data.subjects, list("abcde"), images=data.images, n_bootstrap=299, seed=seed + k
        )
        false.append(bool(table.better.any()))
    return {"false_order": np.array(false, dtype=float)}


STUDIES = (
    Study("null", NULL_WORLDS, null, 100),
    Study("images_as_units", (World("normal"),), images_as_units, 100, 0.25),
    Study("family", (World("normal"),), family, 20),
    Study("coverage", COVERAGE_WORLDS, coverage, 100),
    Study("power", POWER_WORLDS, power, 100, 0.25),
    Study("equivalence", EQUIVALENCE_WORLDS, equivalence, 100),
    Study("matched", (World("normal"), World("normal", "spread")), matched, 200),
    Study("distance", (World("normal"),), distance, 100, 0.25),
    Study("wording", (World("normal"),), wording, 100, 0.25),
    Study("ranks", (World("normal"),), ranks, 100, 0.25),
)
