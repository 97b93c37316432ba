"""What is simulated: every study is a list of worlds, a function that measures one chunk, and how large a chunk is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from benchmarks.validity import earlier
from benchmarks.validity.beyond import (
    ADJUSTED_WORLDS,
    APART_WORLDS,
    INTERACTION_WORLDS,
    PILOT_WORLDS,
    PLANNING_WORLDS,
    SAME_SUBJECT_WORLDS,
    TWO_SAMPLE_WORLDS,
    adjusted,
    interaction,
    pilots,
    planned,
    same_subjects,
    two_samples,
    two_samples_apart,
)
from benchmarks.validity.composites import SEVERITY_WORLDS, composites
from benchmarks.validity.counts import COUNT_WORLDS, counts
from benchmarks.validity.families import family, missing, selected, step_down, whole_run
from benchmarks.validity.labelled import LABEL_WORLDS, labelled
from benchmarks.validity.looks import LOOKS_WORLDS, VERDICT_WORLDS, looks, looks_verdicts
from benchmarks.validity.measure import Arrays, measure
from benchmarks.validity.mixed_models import MIXED_WORLDS, beside_models
from benchmarks.validity.multiverse import MULTIVERSE_WORLDS, multiverse
from benchmarks.validity.naming import NAMING_WORLDS, naming
from benchmarks.validity.order import ORDER_WORLDS, order
from benchmarks.validity.paired_models import PAIRED_WORLDS, paired_models
from benchmarks.validity.random_factors import (
    COMPONENT_WORLDS,
    SAMPLE_WORLDS,
    WORDING_WORLDS,
    components,
    samples,
    wordings,
)
from benchmarks.validity.refusals import BOUNDS_WORLDS, REFUSAL_WORLDS, bounds, refusals
from benchmarks.validity.sampled import SAMPLED_WORLDS, sampled_shares
from benchmarks.validity.scorer_agreement import INTERVAL_WORLDS, SCORER_WORLDS, by_group, intervals
from benchmarks.validity.sets import matched, matched_equivalence
from benchmarks.validity.worlds import ALPHA, SIZES, World, answer_sd, draw
from fp2.methods.prompt_variation.templates import template_sensitivity
from fp2.methods.several_runs.distance import fingerprint_distance
from fp2.methods.several_runs.profiles import rank_models
from fp2.stats.rows import PanelSettings

GAPS = (0.0, 0.2, 0.8)
MULTIPLES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
FAMILY = 24
"""Tests in the family of which one row's power is measured; the others have no gap."""
FAMILY_PERMUTATIONS = 2399
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
    World("yes/no", "agreement"),
    World("yes/no", "milder agreement"),
    World("uncommon", "agreement"),
    World("uncommon", "many images"),
    World("very rare"),
    World("mostly zero"),
    World("normal", "triple spread", sizes=(60, 10)),
    World("skewed", sizes=(200, 10)),
    World("skewed", "spread", sizes=(200, 10)),
    World("skewed", "spread"),
    World("mostly zero", "many images"),
    World("very rare", "many images"),
    World("mostly zero", "images"),
    World("skewed", "many images"),
    World("skewed", "triple spread", sizes=(200, 10)),
)
ONE_YES = 0.05 / answer_sd("very rare")
"""A gap of .05 at a base rate of .5 %, in SD of one answer."""
COVERAGE_WORLDS = (
    *(
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
    ),
    *(World("very rare", gap=gap) for gap in (0.0, ONE_YES, 4 * ONE_YES)),
    *(World("uncommon", "many images", gap=gap) for gap in (0.0, 1.0)),
    *(World("mostly zero", gap=gap) for gap in (0.0, 1.0)),
    World("mostly zero", sizes=(200, 100), gap=1.0),
    *(World("mostly zero", "many images", gap=gap) for gap in (0.0, 1.0)),
    World("yes/no", "agreement", gap=0.8),
    *(World("skewed", sizes=(200, 10), gap=gap) for gap in (0.0, 0.8)),
    World("skewed", "spread", sizes=(200, 10), gap=0.8),
    World("normal", "triple spread", sizes=(60, 10), gap=0.8),
)
POWER_WORLDS = (
    World("normal", sizes=(40, 40), where="two smallest"),
    World("normal", where="two smallest"),
    World("yes/no", where="two smallest"),
    World("yes/no", sizes=(60, 60), where="two smallest"),
)
MATCHED_WORLDS = (
    *(World(outcome, sizes=(20,) * 3) for outcome in ("normal", "zero-heavy", "yes/no", "rare")),
    *(World(outcome, "missing", sizes=(30,) * 3) for outcome in ("normal", "zero-heavy", "yes/no")),
    *(World(outcome, "spread", sizes=(20,) * 3) for outcome in ("normal", "zero-heavy")),
)
MATCHED_EQUIVALENCE_WORLDS = tuple(
    World(outcome, sizes=(40,) * 2, gap=0.5) for outcome in ("normal", "zero-heavy", "yes/no", "rare")
)
MISSING_WORLDS = (World("rare"), World("yes/no"), World("yes/no", "missing"), World("rare", "images"))
EQUIVALENCE_WORLDS = (
    World("normal", sizes=(60, 60), gap=0.5),
    World("normal", gap=0.5),
    World("zero-heavy", gap=0.5),
    World("very rare", sizes=(60, 60), gap=ONE_YES),
    World("very rare", sizes=(150, 60), gap=ONE_YES),
    World("very rare", sizes=(600, 400, 200, 40, 20), gap=0.4 * ONE_YES),
    World("rare", sizes=(300, 100), gap=0.05 / answer_sd("rare")),
    World("mostly zero", sizes=(60, 60), gap=0.43),
    World("mostly zero", sizes=(200, 100), gap=0.43),
    World("mostly zero", sizes=(600, 400), gap=0.43),
    World("skewed", sizes=(200, 20), gap=0.4),
    World("yes/no", sizes=(200, 100), gap=0.33),
)
SAME_WORLDS = tuple(World("very rare", sizes=sizes) for sizes in ((200, 10), (200, 20), (60, 60), (200, 200)))
MINIMUM_EFFECT_WORLDS = (
    World("normal", sizes=(300, 300), gap=0.25),
    World("normal", sizes=(300, 200, 100), gap=0.25),
    World("yes/no", sizes=(300, 300), gap=0.25),
    World("rare", sizes=(300, 200, 100), gap=0.36),
    World("mostly zero", sizes=(200, 100), gap=0.43),
)
FAMILY_WORLDS = (World("normal", sizes=(30, 20, 12)), World("normal", sizes=(30, 20, 12), gap=4.0))


def null(world: World, n: int, seed: int, n_permutations: int = 999) -> Arrays:
    """p-values where no group differs; `p_before` by 0.3.0."""
    data = draw(world, np.random.default_rng(seed), n)
    found = measure(world, data, n_permutations=n_permutations, seed=seed, inverted=())
    found["p_before"] = earlier.p_value(world, data, n_permutations, seed)
    return {name: found[name] for name in ("p", "js_p", "kruskal_p", "welch_p", "p_before")}


def coverage(world: World, n: int, seed: int) -> Arrays:
    """The interval, the three estimates and the p-value at a known gap."""
    data = draw(world, np.random.default_rng(seed), n)
    found = measure(world, data, n_permutations=599, seed=seed, inverted=("low", "high"))
    found["low_before"], found["high_before"] = earlier.interval(data, 399, seed)
    found["p_before"] = earlier.p_value(world, data, 599, seed)
    names = ("low", "high", "p", "low_before", "high_before", "p_before", "raw", "excess", "shrunken")
    return {name: found[name] for name in names}


def images_as_units(world: World, n: int, seed: int) -> Arrays:
    """Trap 1: the same test with every image as a subject of its own."""
    data = draw(world, np.random.default_rng(seed), n)
    return {"p": measure(world, replace(data, subjects=data.images), n_permutations=399, seed=seed, inverted=())["p"]}


@cache
def reference_mde(world: World, tests: int) -> float:
    """Mean `mde80` of 200 data sets without a gap: what the report would print beside such data in a family."""
    quiet = replace(world, gap=0.0)
    data = draw(quiet, np.random.default_rng(12345), 200)
    found = measure(
        quiet, data, n_permutations=FAMILY_PERMUTATIONS, seed=12345, alpha=ALPHA / tests, inverted=("mde80",)
    )
    return float(found["mde80"].mean())


def power(world: World, n: int, seed: int) -> Arrays:
    """p at multiples of the printed MDE between the two smallest groups, times the size of the family (Holm).

    `p_before`: at the MDE of 0.3.0, which left the family out (of scores; that of rates had other errors, too).
    """
    unit = answer_sd(world.outcome)
    gaps = {f"p_{multiple:g}": multiple * reference_mde(world, FAMILY) / unit for multiple in MULTIPLES}
    if not world.yes_no:
        gaps["p_before"] = reference_mde(world, 1) / unit
    found = {}
    for k, (name, gap) in enumerate(gaps.items()):
        here = replace(world, gap=gap)
        data = draw(here, np.random.default_rng([seed, k]), n)
        p = measure(here, data, n_permutations=FAMILY_PERMUTATIONS, seed=seed, inverted=())["p"]
        found[name] = np.minimum(FAMILY * p, 1.0)
    return found


def equivalence(world: World, n: int, seed: int) -> Arrays:
    """Equivalence p where the true gap is exactly the bound: the statement is just false."""
    data = draw(world, np.random.default_rng(seed), n)
    found = measure(world, data, n_permutations=9, seed=seed, bound=world.true_gap, inverted=("equivalence_p",))
    return {"p": found["equivalence_p"], "p_before": earlier.equivalence_p(data, world.true_gap)}


def same(world: World, n: int, seed: int) -> Arrays:
    """Equivalence p with a bound of .05 where no group differs."""
    data = draw(world, np.random.default_rng(seed), n)
    return {"p": measure(world, data, n_permutations=9, seed=seed, inverted=("equivalence_p",))["equivalence_p"]}


def minimum_effect(world: World, n: int, seed: int) -> Arrays:
    """p of a gap above the bound where the true gap is exactly the bound, and where it is nine tenths of it.

    `before`: whether 0.3.0 called it biased: significant, and the observed gap at least the bound.
    """
    found = {}
    for name, share in (("p", 1.0), ("p_below", 0.9)):
        here = replace(world, gap=share * world.gap)
        data = draw(here, np.random.default_rng([seed, round(10 * share)]), n)
        one = measure(here, data, n_permutations=499, seed=seed, bound=world.true_gap, inverted=("exceeds_p",))
        found[name] = one["exceeds_p"]
        found[f"before_{name}"] = ((one["p"] <= ALPHA) & (one["raw"] >= world.true_gap)).astype(float)
    return found


def distance(world: World, n: int, seed: int, n_permutations: int = 199, n_bootstrap: int = 199) -> Arrays:
    """Two models of different level and noise that describe no group differently; truth of the distance: 0."""
    rng, p, low = np.random.default_rng(seed), [], []
    for k in range(n):
        shared = draw(world, rng, 3)
        second = shared.values + 0.3 + 0.1 * rng.normal(size=shared.values.shape)
        first = shared.values + 0.05 * rng.normal(size=shared.values.shape)
        found = fingerprint_distance(
            first,
            second,
            shared.groups,
            shared.subjects,
            images=shared.images,
            n_permutations=n_permutations,
            n_bootstrap=n_bootstrap,
            seed=seed + k,
        )
        p.append(found.p_value)
        low.append(found.ci_low)
    return {"p": np.array(p, dtype=float), "low": np.array(low, dtype=float)}


def wording(world: World, n: int, seed: int, n_permutations: int = 199) -> Arrays:
    """Three templates that shift every group alike: p of the interaction."""
    rng, out = np.random.default_rng(seed), []
    for k in range(n):
        data = draw(world, rng, 3, shared=0.5)
        values = data.values + np.array([0.0, 0.2, -0.1])
        settings = PanelSettings(n_permutations=n_permutations, seed=seed + k)
        found = template_sensitivity(values, data.groups, data.subjects, settings, images=data.images)
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
    Study("images_as_units", (World("normal"),), images_as_units, 100, 0.5),
    Study("family", (World("normal"),), family, 20),
    Study("coverage", COVERAGE_WORLDS, coverage, 100),
    Study("power", POWER_WORLDS, power, 100, 0.5),
    Study("equivalence", EQUIVALENCE_WORLDS, equivalence, 100, 0.5),
    Study("same", SAME_WORLDS, same, 100, 0.5),
    Study("minimum_effect", MINIMUM_EFFECT_WORLDS, minimum_effect, 100, 0.5),
    Study("mixed_models", MIXED_WORLDS, beside_models, 100, 0.5),
    Study("whole_run", FAMILY_WORLDS, whole_run, 20, 0.5),
    Study("selected", (World("normal", gap=0.8),), selected, 10, 0.5),
    Study("step_down", (World("normal"), World("zero-heavy")), step_down, 20, 0.5),
    Study("missing", MISSING_WORLDS, missing, 20, 0.5),
    Study("matched", MATCHED_WORLDS, matched, 200),
    Study("matched_equivalence", MATCHED_EQUIVALENCE_WORLDS, matched_equivalence, 200),
    Study("distance", (World("normal"),), distance, 100, 0.5),
    Study("wording", (World("normal"),), wording, 100, 0.5),
    Study("wordings", WORDING_WORLDS, wordings, 100, 0.5),
    Study("samples", SAMPLE_WORLDS, samples, 200, 0.5),
    Study("sampled", SAMPLED_WORLDS, sampled_shares, 100, 0.5),
    Study("components", COMPONENT_WORLDS, components, 100, 0.5),
    Study("ranks", (World("normal"),), ranks, 100, 0.5),
    Study("refusals", REFUSAL_WORLDS, refusals, 50, 0.5),
    Study("bounds", BOUNDS_WORLDS, bounds, 100, 0.5),
    Study("severity", SEVERITY_WORLDS, composites, 20, 0.5),
    Study("naming", NAMING_WORLDS, naming, 100, 0.5),
    Study("order", ORDER_WORLDS, order, 100, 0.5),
    Study("planning", PLANNING_WORLDS, planned, 200, 0.5),
    Study("pilots", PILOT_WORLDS, pilots, 100, 0.5),
    Study("same_subjects", SAME_SUBJECT_WORLDS, same_subjects, 100, 0.25),
    Study("two_samples", TWO_SAMPLE_WORLDS, two_samples, 100, 0.5),
    Study("two_samples_apart", APART_WORLDS, two_samples_apart, 100, 0.5),
    Study("adjusted", ADJUSTED_WORLDS, adjusted, 100, 0.5),
    Study("interaction", INTERACTION_WORLDS, interaction, 100, 0.5),
    Study("looks", LOOKS_WORLDS, looks, 200, 0.5),
    Study("looks_verdicts", VERDICT_WORLDS, looks_verdicts, 20, 0.25),
    Study("multiverse", MULTIVERSE_WORLDS, multiverse, 50, 0.5),
    Study("counts", COUNT_WORLDS, counts, 50, 0.5),
    Study("paired_models", PAIRED_WORLDS, paired_models, 100, 0.25),
    Study("scorers_by_group", SCORER_WORLDS, by_group, 100, 0.5),
    Study("scorer_intervals", INTERVAL_WORLDS, intervals, 100, 0.5),
    Study("labelled", LABEL_WORLDS, labelled, 200, 0.5),
)
