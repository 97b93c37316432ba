"""Error rates and cost of runs that stop when their order is certain.

    python benchmarks/order_stopping.py --runs 2000 --csv docs/order_stopping_validity.csv

A run is compared with one to four finished runs about the same subjects, in one cut of three groups, by three probes.
Answers are simulated, those of a subject to all models are correlated; the waves, tests, corrections and decisions are
those of a run. All finished models have gaps of the same size, each of another group, so that their differences
(`fp2.methods.several_runs.profiles`) are equal. Cases, in minimum detectable differences (MDD: what a run that asks
everything orders in 80 %):

    none     no model has a gap
    equal    all models have the same difference, of different groups
    margin   the new run's is larger by the margin: to call them equivalent is false, and so is the other order
    2, 4     the new run's is larger by 2 or 4 MDD

The margin is one MDD in the case `margin`, else half of one. Where the difference is large there are three times the
subjects, so that it fits on the scale.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from stopping import write

from fp2.methods.several_runs.profiles import OrderTest, order_tests, resampled_profiles
from fp2.methods.stopping.looks import EQUIVALENT, FUTILE, OPEN, SPENDING, StoppingLooks
from fp2.methods.stopping.order import Waves, make_waves
from fp2.methods.stopping.standing import LARGER, SMALLER, Standing, is_tested, take_standings
from fp2.progress import Progress

PROBES, GROUPS, ALPHA, LEAST = 3, 3, 0.05, 10
SHARED = 0.5
"""Correlation of two models' noise."""
RESAMPLES = 499
"""For each finished run."""
TOGETHER = 10
"""Runs that share their resamples."""
MORE = 3
TO_DIFFERENCE = math.sqrt(2 / 3)
"""Of a gap of one group of three."""

Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class World:
    """Subjects of three groups; `spread` (models, groups): SD of a subject's mean; `base`: the finished models' gap."""

    sizes: tuple[int, int, int] = (60, 60, 60)
    images: int = 1
    kind: str = "normal"
    spread: tuple[tuple[float, float, float], ...] = ((0.2, 0.2, 0.2),)
    base: float = 0.15
    refused: tuple[float, float, float] = (0.0, 0.0, 0.0)
    finished: int = 1


QUIET, LOUD = (0.1, 0.1, 0.1), (0.3, 0.3, 0.3)
WORLDS: Mapping[str, World] = {
    "clustered": World(images=3, finished=1),
    "clustered, four finished": World(images=3, finished=4),
    "yes/no": World(kind="yes/no", base=0.15, finished=2),
    "unequal groups and noise": World(sizes=(40, 60, 120), spread=(LOUD, QUIET), base=0.15, finished=1),
    "skewed, unequal spread": World(sizes=(40, 60, 120), kind="exponential", spread=((0.2, 0.1, 0.1),), finished=2),
    "lognormal, unequal spread": World(sizes=(40, 60, 120), kind="lognormal", spread=((0.2, 0.1, 0.1),), finished=2),
    "refusals": World(images=3, refused=(0.4, 0.1, 0.1), finished=1),
}


def enlarged(world: World, more: int) -> World:
    """Return a world of so many times the subjects."""
    a, b, c = world.sizes
    return replace(world, sizes=(a * more, b * more, c * more))


CASES = ("none", "equal", "margin", "2", "4")


@dataclass(frozen=True)
class Study:
    """A world with its people and waves."""

    world: World
    group: np.ndarray
    subject: np.ndarray
    wave: np.ndarray
    waves: Waves

    @classmethod
    def of(cls, world: World) -> Study:
        """Return the study."""
        of_subject = np.repeat(np.arange(GROUPS), world.sizes)
        groups_of = {f"{s:04}": {"cut": [str(g)]} for s, g in enumerate(of_subject)}
        images_of = {subject: [f"{subject}-{i}" for i in range(world.images)] for subject in groups_of}
        waves = make_waves(groups_of, images_of, 1, LEAST)
        subject = np.repeat(np.arange(len(of_subject)), world.images)
        wave = np.array([waves.wave[s, image] for s, images in images_of.items() for image in images])
        return cls(world, of_subject[subject], subject, wave, waves)

    def draw(self, rng: np.random.Generator, gaps: Sequence[float]) -> np.ndarray:
        """Return answers (models, images, probes) with these gaps, each of another group."""
        world, n_models = self.world, len(gaps)
        shape = (n_models, len(self.group), PROBES)

        def correlated(n: int) -> np.ndarray:
            own, common = rng.standard_normal((n_models, n, PROBES)), rng.standard_normal((1, n, PROBES))
            return math.sqrt(1 - SHARED) * own + math.sqrt(SHARED) * common

        noise = correlated(shape[1])
        if world.images > 1:  # intraclass correlation 0.3
            noise = math.sqrt(0.7) * noise + math.sqrt(0.3) * correlated(int(self.subject.max()) + 1)[:, self.subject]
        shift = np.array(gaps)[:, None] * (self.group[None] == np.arange(n_models)[:, None] % GROUPS)
        if world.kind == "yes/no":
            from scipy.special import ndtr

            return (ndtr(noise) < (0.3 + shift)[:, :, None]).astype(float)
        if world.kind == "exponential":
            from scipy.special import log_ndtr

            noise = -log_ndtr(noise) - 1
        if world.kind == "lognormal":
            noise = (np.exp(noise) - math.exp(0.5)) / math.sqrt(math.e * (math.e - 1))
        spread = np.array([world.spread[k % len(world.spread)] for k in range(n_models)])[:, self.group]
        values = spread[:, :, None] * noise + shift[:, :, None]
        if any(world.refused):
            values[rng.random(shape) < np.array(world.refused)[self.group][None, :, None]] = np.nan
        return values


def is_ready(study: Study, values: np.ndarray, now: int) -> bool:
    """Whether all groups of a run and the finished ones (models, images, probes) can be compared: else a look waits."""
    shape = (len(values), -1, study.world.images, PROBES)
    known = (np.isfinite(values) & (study.wave <= now)[None, :, None]).reshape(shape).any(axis=2)
    group = study.group[:: study.world.images]
    return all((known[:, group == g].sum(axis=1) >= LEAST).all() for g in range(GROUPS))


def tests_of(
    study: Study, values: np.ndarray, looks: StoppingLooks, pairs: Sequence[tuple[int, int]], margin: float, seed: int
) -> list[OrderTest]:
    """Return the tests of pairs of models (models, images, probes) at a look."""
    shown = study.wave <= looks.now
    groups = study.group[shown].astype(str).astype(object)
    n = RESAMPLES * study.world.finished
    observed, batches, sizes = resampled_profiles(values[:, shown], groups, study.subject[shown], None, n, seed, LEAST)
    return order_tests(observed, batches, sizes, pairs, margin)


def runs_of(study: Study, gap: float, base: float, margin: float, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return the standings of runs whose own gap is `gap` (finished ones: `base`), and the share asked for."""
    n_finished = study.world.finished
    n_models = n_finished + 1
    values = {seed: study.draw(np.random.default_rng([seed, 7]), (gap, *[base] * n_finished)) for seed in seeds}
    looks = StoppingLooks(
        at=study.waves.at,
        now=1,
        spending=SPENDING,
        alpha=ALPHA,
        smallest_share=1,
        primary="",
        groups=study.waves.groups,
    )
    keys = [(str(k), "cut") for k in range(1, n_models)]
    last = dict.fromkeys(keys, len(looks.at))
    standings = {seed: dict.fromkeys(keys, Standing()) for seed in seeds}
    outcomes: dict[int, dict[str, Any]] = {}
    for now in range(1, len(looks.at) + 1):
        looks = replace(looks, now=now)
        active = [seed for seed in seeds if seed not in outcomes]
        if not active:
            break
        ready = [seed for seed in active if is_ready(study, values[seed], now)]
        chosen = [
            (seed, key, (x * n_models, x * n_models + k))
            for x, seed in enumerate(ready)
            for k, key in enumerate(keys, 1)
            if is_tested(looks, standings[seed][key], last[key])
        ]
        tests = []
        if ready:
            stacked = np.concatenate([values[seed] for seed in ready])
            tests = tests_of(study, stacked, looks, [pair for *_, pair in chosen], margin, seeds[0])
        for seed in active:
            of_run = {key: (test, 1) for (run, key, _), test in zip(chosen, tests, strict=True) if run == seed}
            standings[seed] = take_standings(looks, standings[seed], of_run, last)
            if all(standing.decided != OPEN for standing in standings[seed].values()):
                share = float((study.wave <= now).mean())
                outcomes[seed] = {"share": share, "decided": [s.decided for s in standings[seed].values()]}
    return [outcomes[seed] for seed in seeds]


@cache
def detectable(name: str, more: int) -> float:
    """Return the gap beyond `base` that a run that asks everything orders in 80 %, at the corrected level."""
    study = Study.of(enlarged(WORLDS[name], more))
    world, n_runs = study.world, 60
    looks = StoppingLooks(
        at=study.waves.at,
        now=len(study.waves.at),
        spending=SPENDING,
        alpha=ALPHA,
        smallest_share=1,
        primary="",
        groups=study.waves.groups,
    )
    low, high = 0.0, 0.5
    for _ in range(8):
        gap = (low + high) / 2
        found = []
        for start in range(0, n_runs, TOGETHER):
            rngs = [np.random.default_rng([start + k, 9]) for k in range(TOGETHER)]
            stacked = np.concatenate([study.draw(rng, (world.base + gap, world.base)) for rng in rngs])
            pairs = [(2 * k, 2 * k + 1) for k in range(TOGETHER)]
            tests = tests_of(study, stacked, looks, pairs, 1.0, start)
            found += [test.p_value <= ALPHA / world.finished for test in tests]
        low, high = (gap, high) if np.mean(found) < 0.8 else (low, gap)
    return (low + high) / 2


def case_row(name: str, case: str, seeds: Sequence[int]) -> dict[str, Any]:
    """Return the rates of one case in one world, a run for each seed."""
    larger = MORE if case in ("2", "4") else 1
    world = enlarged(WORLDS[name], larger)
    study, mdd = Study.of(world), detectable(name, larger)
    base = 0.0 if case == "none" else world.base
    more = {"none": 0.0, "equal": 0.0, "margin": mdd}.get(case) if case not in ("2", "4") else float(case) * mdd
    assert more is not None
    margin = (mdd if case == "margin" else mdd / 2) * TO_DIFFERENCE
    outcomes = [
        outcome
        for start in range(0, len(seeds), TOGETHER)
        for outcome in runs_of(study, base + more, base, margin, seeds[start : start + TOGETHER])
    ]
    wrong = {SMALLER} if more else {SMALLER, LARGER}
    decided = [outcome["decided"] for outcome in outcomes]
    share = [outcome["share"] for outcome in outcomes]
    every = [d for of_run in decided for d in of_run]
    return {
        "world": name,
        "finished runs": world.finished,
        "case": case,
        "runs": len(seeds),
        "wrong order %": _percent(any(d in wrong for d in of_run) for of_run in decided),
        "false equivalent %": _percent(EQUIVALENT in of_run for of_run in decided) if more else "",
        "right order %": _percent(d == LARGER for d in every) if more else "",
        "equivalent %": "" if more else _percent(d == EQUIVALENT for d in every),
        "futile %": _percent(d == FUTILE for d in every),
        "asked %, median": round(100 * float(np.median(share)), 1),
        "asked %, 90 %": round(100 * float(np.quantile(share, 0.9)), 1),
        "MDD": round(mdd * TO_DIFFERENCE, 3),
    }


def _percent(claims: Any) -> float:
    return round(100 * float(np.mean(list(claims))), 2)


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS))
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    cases = [(case, name) for case in given.cases for name in given.worlds]
    with Progress(quiet=given.json).steps("Simulating", len(cases)) as step:
        for case, name in cases:
            n = max(5, given.runs // 5) if case in ("2", "4") else given.runs
            rows.append(case_row(name, case, range(given.first, given.first + n)))
            step()
            if given.csv is not None:
                write(given.csv, rows)
    if given.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print("; ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
