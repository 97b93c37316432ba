"""Error rates and cost of runs that stop when certain, and of the designs that it could have had.

    python benchmarks/stopping.py --runs 2000 --csv docs/methods/stopping_validity.csv
    python benchmarks/stopping.py --designs 2000 --csv docs/methods/stopping_designs.csv

A run has three probes, one scorer, one cut of three groups and a composite: a family of four. Scores are simulated; the
waves, tests, corrections and decisions are those of a run. Where the gap is large, a tenth of the runs is made. Gaps
are of one group in all probes, in units of the minimum detectable effect of a run that asks everything (MDE); the
smallest effect of interest is a quarter of it. The gap `bound` is the smallest effect of interest: a claim that it is
larger is false, and so is that it is smaller.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import fp2.stats.disparities
from fp2.methods.stopping.decisions import FUTILITY, take_look
from fp2.methods.stopping.looks import SPENDING, StoppingLooks
from fp2.methods.stopping.order import Waves, make_waves
from fp2.methods.stopping.sequential import nominal_levels
from fp2.progress import Progress
from fp2.protocols.fingerprint.family import corrected
from fp2.protocols.fingerprint.settings import ComparisonSettings
from fp2.stats.composite import composite_test
from fp2.stats.disparities import disparity_panel
from fp2.stats.interval import GapTest
from fp2.stats.rows import DisparityRow, Outcome, Panel

PROBES = ("a", "b", "c")
ALPHA, LEAST, IMAGES, PERMUTATIONS = 0.05, 10, 3, 999


DETECTABLE = GapTest.detectable


@dataclass(frozen=True)
class World:
    """Subjects of three groups: `draw` returns the values (images, probes), given group and subject of each image."""

    sizes: tuple[int, ...]
    images: int
    yes_no: bool
    draw: Callable[[np.random.Generator, np.ndarray, np.ndarray, float], np.ndarray]


def clustered(rng: np.random.Generator, group: np.ndarray, subject: np.ndarray, gap: float) -> np.ndarray:
    """Return scores of images whose subjects agree (intraclass correlation 0.3)."""
    shape = (len(group), len(PROBES))
    own = rng.normal(0, math.sqrt(0.3), (subject.max() + 1, len(PROBES)))[subject]
    return np.clip(0.2 * (own + rng.normal(0, math.sqrt(0.7), shape)) + gap * ((group == 0)[:, None] - 0.5), -1, 1)


def unequal(rng: np.random.Generator, group: np.ndarray, subject: np.ndarray, gap: float) -> np.ndarray:
    """Return scores with twice the spread in the smallest group."""
    spread = np.where(group == 0, 0.2, 0.1)[:, None]
    noise = rng.normal(0, 1, (len(group), len(PROBES)))
    return np.clip(spread * noise + gap * ((group == 0)[:, None] - 0.5), -1, 1)


def yes_no(rng: np.random.Generator, group: np.ndarray, subject: np.ndarray, gap: float) -> np.ndarray:
    """Return yes/no answers about one image of each subject."""
    rate = np.clip(0.5 + gap * ((group == 0) - 0.5), 0, 1)[:, None]
    return (rng.random((len(group), len(PROBES))) < rate).astype(np.float64)


def skewed(rng: np.random.Generator, group: np.ndarray, subject: np.ndarray, gap: float) -> np.ndarray:
    """Return exponential scores with twice the spread in the smallest group."""
    spread = np.where(group == 0, 0.2, 0.1)[:, None]
    noise = rng.standard_exponential((len(group), len(PROBES))) - 1
    return np.clip(spread * noise + gap * ((group == 0)[:, None] - 0.5), -1, 1)


def refusals(rng: np.random.Generator, group: np.ndarray, subject: np.ndarray, gap: float) -> np.ndarray:
    """Return clustered scores of which more are refused about one group."""
    values = clustered(rng, group, subject, gap)
    values[rng.random(values.shape) < np.where(group == 0, 0.4, 0.1)[:, None]] = np.nan
    return values


WORLDS: Mapping[str, World] = {
    "clustered": World((60, 60, 60), IMAGES, False, clustered),
    "yes/no": World((60, 60, 60), 1, True, yes_no),
    "unequal groups": World((40, 60, 120), 1, False, unequal),
    "skewed, unequal spread": World((40, 60, 120), 1, False, skewed),
    "refusals": World((60, 60, 60), IMAGES, False, refusals),
}
GAPS: Mapping[str, float] = {"0": 0.0, "2 MDE": 2.0, "4 MDE": 4.0, "bound": 0.25}
TOGETHER = 25
"""Runs that share their relabellings."""
MORE = 3
"""Times the subjects where a gap is large: an MDE is then so small that several fit on the scale."""


@dataclass(frozen=True)
class Study:
    """A world with its people, waves and the sizes that follow from its minimum detectable effect."""

    world: World
    group: np.ndarray
    subject: np.ndarray
    wave: np.ndarray
    waves: Waves
    outcome: Outcome

    @classmethod
    def of(cls, world: World, mde: float = 1.0) -> Study:
        """Return the study, given the minimum detectable effect."""
        of_subject = np.repeat(np.arange(3), world.sizes)
        groups_of = {f"{s:04}": {"cut": [str(g)]} for s, g in enumerate(of_subject)}
        images_of = {subject: [f"{subject}-{i}" for i in range(world.images)] for subject in groups_of}
        waves = make_waves(groups_of, images_of, 1, LEAST)
        subject = np.repeat(np.arange(len(of_subject)), world.images)
        wave = np.array([waves.wave[s, image] for s, images in images_of.items() for image in images])
        scale = (0.0, 1.0) if world.yes_no else (-1.0, 1.0)
        outcome = Outcome(value_range=scale, yes_no=world.yes_no, smallest_effect=mde / 4)
        return cls(world, of_subject[subject], subject, wave, waves, outcome)

    def panel(self, values: np.ndarray, asked: np.ndarray, seed: int) -> Panel:
        """Return the comparison; asked (images, probes) says which values are known."""
        shown = asked.any(axis=1)
        known, groups = np.where(asked, values, np.nan)[shown], self.group[shown].astype(str).astype(object)
        return disparity_panel(known, groups, self.subject[shown], self.outcome, settings(seed))


def correct(panel: Panel, comparison: ComparisonSettings) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the corrected rows and composites."""
    test = composite_test(panel, range(len(PROBES)), ALPHA)
    composites: dict[str, dict[str, Any]] = {"cut": {"p_value": test.p_value, "adjusted_p": None}}
    rows = [(probe, "score", "cut", row) for probe, row in zip(PROBES, panel.rows, strict=True)]
    return corrected(rows, [panel], composites, comparison), composites


def settings(seed: int) -> ComparisonSettings:
    """Return the settings of a run."""
    return ComparisonSettings(
        n_permutations=PERMUTATIONS,
        n_bootstrap=0,
        seed=seed,
        alpha=ALPHA,
        min_subjects=LEAST,
        correction="holm",
        family="run",
        primary="score",
    )


def mde_of(world: World) -> float:
    """Return the minimum detectable effect of a run that asks everything, the median of some runs without a gap."""
    study, found = Study.of(world), []
    for seed in range(12):
        values = world.draw(np.random.default_rng(seed), study.group, study.subject, 0.0)
        panel = study.panel(values, np.ones(values.shape, dtype=bool), seed)
        found += [DETECTABLE(row.test, ALPHA / (len(PROBES) + 1)) for row in panel.rows if row.test is not None]
    return float(np.median(found))


def runs_of(study: Study, gap: float, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return what each run claims, its intervals and estimates, and the share of the answers that it asked for.

    The runs have data of their own and share the relabellings: one comparison a look serves those that go on.
    """
    first = StoppingLooks(
        at=study.waves.at,
        asked=study.waves.asked,
        now=1,
        spending=SPENDING,
        alpha=ALPHA,
        smallest_share=1 / (len(PROBES) + 1),
        primary="score",
        groups=study.waves.groups,
    )
    values = {
        seed: study.world.draw(np.random.default_rng([seed, 7]), study.group, study.subject, gap) for seed in seeds
    }
    comparison, looks_of = settings(seeds[0]), dict.fromkeys(seeds, first)
    outcomes: dict[int, dict[str, Any]] = {}
    while looks_of:
        asked = {
            seed: np.stack([study.wave <= looks.at_probe(probe).now for probe in PROBES], axis=1)
            for seed, looks in looks_of.items()
        }
        together = study.panel(
            np.concatenate([values[seed] for seed in asked], axis=1),
            np.concatenate([*asked.values()], axis=1),
            seeds[0],
        )
        for number, (seed, looks) in enumerate([*looks_of.items()]):
            panel = part_of(together, slice(number * len(PROBES), (number + 1) * len(PROBES)))
            rows, composites = correct(panel, replace(looks, running=True).settings(comparison, PERMUTATIONS))
            looks = take_look(looks, rows, composites, PROBES)
            looks_of[seed] = replace(looks, now=looks.now + 1)
            if len(looks.last) == len(PROBES):
                rows, composites = correct(panel, looks.settings(comparison, PERMUTATIONS))
                share = asked[seed].mean()
                outcomes[seed] = {"rows": rows, "composite": composites["cut"]["adjusted_p"], "share": share}
                del looks_of[seed]
    return [outcomes[seed] for seed in seeds]


def part_of(panel: Panel, columns: slice) -> Panel:
    """Return some outcomes of a panel."""
    permuted = panel.raw_permuted[:, columns], panel.max_t_permuted[:, columns]
    return Panel(panel.rows[columns], panel.max_t[columns], *permuted, panel.influence[:, columns])


def summary(outcomes: Sequence[dict[str, Any]], gap: float, mde: float) -> dict[str, Any]:
    """Return the rates of false claims, coverage, cost and bias over the runs."""
    rows = [row for outcome in outcomes for row in outcome["rows"]]
    verdicts = [[row["verdict"] for row in outcome["rows"]] for outcome in outcomes]
    bound = rows[0]["smallest_effect"]
    if gap == 0:
        claims = [
            any(row["significant"] for row in outcome["rows"]) or (outcome["composite"] or 1.0) <= ALPHA
            for outcome in outcomes
        ]
    else:
        claims = ["biased" in of_run and gap <= bound * (1 + 1e-9) for of_run in verdicts]
    small = ["equivalent" in of_run and gap >= bound * (1 - 1e-9) for of_run in verdicts]
    inside = [
        row["repeated_ci_low"] - 1e-12 <= gap <= row["repeated_ci_high"] + 1e-12
        for row in rows
        if row["raw"] is not None
    ]
    pairs = np.array([[row["pair_gap"] or 0.0, row["corrected_gap"] or 0.0] for row in rows])
    off = (pairs - gap) / mde
    share = [outcome["share"] for outcome in outcomes]
    return {
        "runs": len(outcomes),
        "false claims %": round(100 * float(np.mean(claims)), 2) if gap <= bound * (1 + 1e-9) else "",
        "false equivalents %": round(100 * float(np.mean(small)), 2) if gap > 0 else "",
        "repeated intervals cover %": round(100 * float(np.mean(inside)), 2),
        "decided biased %": round(100 * float(np.mean([v == "biased" for of_run in verdicts for v in of_run])), 1),
        "asked %, median": round(100 * float(np.median(share)), 1),
        "asked %, 90 %": round(100 * float(np.quantile(share, 0.9)), 1),
        "bias, observed (MDE)": round(float(off[:, 0].mean()), 3) if gap > bound * 1.01 else "",
        "bias, corrected (MDE)": round(float(off[:, 1].mean()), 3) if gap > bound * 1.01 else "",
        "median bias, corrected (MDE)": round(float(np.median(off[:, 1])), 3) if gap > bound * 1.01 else "",
    }


DESIGNS: Mapping[str, tuple[str, int, float]] = {
    f"{spending}, {looks} looks{', futility' if futility else ''}": (spending, looks, futility)
    for spending in ("obrien_fleming", "pocock")
    for looks in (5, 7, 12, 20)
    for futility in (0.0, FUTILITY)
}
SEQUENCE = "confidence sequence, every subject"
STEPS = 500


def sequence_bounds(level: float, at: np.ndarray, tuned_to: float) -> np.ndarray:
    """Return the bounds of the studentised mean of `at` subjects: a confidence sequence from a normal mixture.

    It is narrowest at about `tuned_to` subjects (Howard et al. 2021).
    """
    rho = (-2 * math.log(level) + math.log(-2 * math.log(level) + 1)) / tuned_to
    bounds: np.ndarray = np.sqrt((at * rho + 1) / (at * rho) * np.log((at * rho + 1) / level**2))
    return bounds


def design_row(name: str, runs: int, level: float = ALPHA / 4) -> dict[str, Any]:
    """Return false claims at `level` and the median share of the subjects until a difference is found.

    The studentised difference of two groups is a normal random walk, and 1 MDE what a test of all subjects at the level
    finds with 80 % power. With futility, a test ends where a run would take it for futile. A confidence sequence is the
    asymptotic one of Waudby-Smith et al. (2024), tuned to a tenth of the subjects.
    """
    from scipy.special import ndtri

    rng = np.random.default_rng(20260101)
    mde = float(-ndtri(level / 2) + ndtri(0.8))
    steps = np.arange(1, STEPS + 1)
    if name == SEQUENCE:
        at, futility = steps, 0.0
        bounds = np.where(at < 0.06 * STEPS, np.inf, sequence_bounds(level, at, 0.1 * STEPS))
    else:
        spending, looks, futility = DESIGNS[name]
        at = np.unique(np.ceil(STEPS * 0.06 ** (1 - np.arange(looks) / (looks - 1))).astype(int))
        bounds = -ndtri(np.array(nominal_levels(level, (at / STEPS).tolist(), spending)) / 2)
    fraction = np.minimum(at / STEPS, 1 - 1e-12)
    lower = bounds[-1] * np.sqrt(fraction) + (ndtri(futility) if futility else -np.inf) * np.sqrt(1 - fraction)
    row: dict[str, Any] = {"design": name, "runs": runs}
    for gap in (0.0, 1.0, 2.0, 4.0):
        walk = rng.normal(0, 1, (runs, STEPS)).cumsum(axis=1)[:, at - 1] / np.sqrt(at)
        z = walk + gap * mde * np.sqrt(at / STEPS)
        ends = (np.abs(z) > bounds) | (np.abs(z) < lower)
        ends[:, -1] = True
        last = ends.argmax(axis=1)
        rate = float((np.abs(z) > bounds)[np.arange(runs), last].mean())
        share = at[last] / STEPS
        if gap == 0:
            row[f"false claims %, of {100 * level:g}"] = round(100 * rate, 2)
            row["asked % without a gap"] = round(100 * float(share.mean()), 1)
        else:
            row[f"found at {gap:g} MDE %"] = round(100 * rate, 1)
            row[f"asked % at {gap:g} MDE"] = round(100 * float(np.median(share)), 1)
    return row


def without_references() -> None:
    """Leave out what takes half of the time and decides nothing: divergences, asymptotic tests, shrinkage and more."""

    def nothing(p: Any, outcomes: Any, comparison: ComparisonSettings) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(outcomes), np.nan), np.full((comparison.n_permutations, len(outcomes)), np.nan)

    fp2.stats.disparities.permuted_divergences = nothing
    fp2.stats.disparities._reference_numbers = lambda *_: {}
    fp2.stats.disparities.shrunken_range = lambda *_: 0.0
    GapTest.detectable = lambda *_: math.nan
    DisparityRow.to_dict = lambda row: {column.name: getattr(row, column.name) for column in fields(row)}
    fp2.stats.disparities.range_influence = lambda p, mean: np.zeros((len(p.y), mean.shape[1]))


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--short", action="store_true", help="one world, ten runs a gap")
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS))
    parser.add_argument("--designs", type=int, help="so many runs of the designs instead")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    given = parser.parse_args()
    without_references()
    rows: list[dict[str, Any]] = []
    if given.designs:
        rows = [design_row(name, given.designs) for name in (*DESIGNS, SEQUENCE)]
    else:
        names, runs = (["yes/no"], 10) if given.short else (given.worlds, given.runs)
        cases = [(gap, name) for gap in GAPS for name in names]
        with Progress(quiet=given.json).steps("Simulating", len(cases)) as step:
            for gap, name in cases:
                world, size = WORLDS[name], GAPS[gap]
                if size > 1:
                    world = replace(world, sizes=tuple(MORE * n for n in world.sizes))
                mde = mde_of(world)
                study, n = Study.of(world, mde), max(5, runs // 10) if size > 1 else runs
                batches = [range(start, min(n, start + TOGETHER)) for start in range(0, n, TOGETHER)]
                outcomes = [outcome for seeds in batches for outcome in runs_of(study, size * mde, seeds)]
                rows.append({"world": name, "gap": gap, **summary(outcomes, size * mde, mde)})
                step()
                if given.csv is not None:
                    write(given.csv, rows)
    if given.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            print("; ".join(f"{name} {value}" for name, value in row.items()))
    if given.csv is not None:
        write(given.csv, rows)


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
