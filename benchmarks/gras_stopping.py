"""Error rates and cost of GRAS runs that stop when certain.

    python benchmarks/gras_stopping.py --runs 1000 --csv docs/methods/gras_stopping_validity.csv

A run asks four traits in two templates about people with two attributes, of three groups (those of `sizes`) and of two:
16 rows and a composite. Answers are simulated; waves, tests and decisions are those of a run. Gaps are of one group of
each attribute in all questions, in units of the minimum detectable effect of a run that asks everything (MDE). `bound`
is the smallest difference of interest: where the gap equals it, a claim that it is larger is false, and one that it is
smaller. Where the gap or the bound is large, a tenth of the runs is made.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fp2.cuts import Cut
from fp2.methods.dense.traits import Trait
from fp2.methods.gras import decisions
from fp2.methods.gras.answers import GrasAnswers
from fp2.methods.gras.decisions import DIFFERENT, EQUIVALENT, TraitLooks
from fp2.methods.gras.grouping import group_images
from fp2.methods.gras.options import GrasOptions
from fp2.methods.gras.pairs import PairTests
from fp2.methods.gras.resampling import TraitTests
from fp2.methods.stopping.order import Waves, make_waves
from fp2.progress import Progress

TRAITS, TEMPLATES, ALPHA, LEAST, OUTCOME = 4, 2, 0.05, 10, "p_yes_first_token"
WORDS, NAMES = tuple(f"trait {k}" for k in range(TRAITS)), tuple(f"T{k + 1}" for k in range(TEMPLATES))
QUESTIONS = tuple((word, name) for word in WORDS for name in NAMES)
CUTS = [Cut("age", ("age",)), Cut("gender", ("gender",))]
TOGETHER = 25
"""Runs that share their permutations."""


@dataclass(frozen=True)
class World:
    """How P(Yes) comes about.

    sizes: subjects of the groups of the first attribute; images: of each subject, whose answers correlate 0.3. logit:
    (a, b), P(Yes) = expit(a + b z), z normal; None: 0.5 + 0.1 z. Answers correlate `between` between the templates of a
    trait, 0.1 between traits; a template shifts a trait by up to `shift` log odds. In the smallest group, answers have
    `spread` times the distance from the mean, and a share `missing` of them fails.
    """

    sizes: tuple[int, ...] = (60, 60, 60)
    images: int = 1
    logit: tuple[float, float] | None = None
    between: float = 0.5
    shift: float = 0.0
    spread: float = 1.0
    missing: float = 0.0


WORLDS: Mapping[str, World] = {
    "clustered": World(images=3),
    "near 0 and 1": World(logit=(-6.0, 8.0)),
    "rarely near 1": World((40, 60, 120), logit=(-7.0, 4.0)),
    "unequal groups, skewed": World((40, 60, 120), logit=(-3.0, 2.0)),
    "twice the spread in the smallest group": World((40, 60, 120), spread=2.0),
    "skewed, twice the spread": World((40, 60, 120), logit=(-2.0, 1.0), spread=2.0),
    "template effects, missing answers": World((40, 60, 120), between=0.9, shift=1.5, logit=(-1.0, 2.0), missing=0.3),
}
CASES: Mapping[str, tuple[float, float, int]] = {
    "0": (0.0, 0.25, 1), "bound": (0.25, 0.25, 1), "bound of 2 MDE": (2.0, 2.0, 3), "2 MDE": (2.0, 0.25, 3),
    "4 MDE": (4.0, 0.25, 8), "0, bound of 2 MDE": (0.0, 2.0, 3),
}  # fmt: skip
"""Name -> gap and smallest difference of interest, in MDE, and times the subjects: of more, an MDE is smaller, so that
several fit between 0 and 1."""


class Study:
    """A world with its people and waves."""

    def __init__(self, world: World, times: int) -> None:
        self.world = world
        sizes = tuple(times * n for n in world.sizes)
        rng = np.random.default_rng(5)
        age = np.repeat(np.arange(3), sizes)
        gender = rng.permutation(np.arange(len(age)) % 2)
        names = [f"s{k:04}" for k in range(len(age))]
        groups_of = {
            name: {"age": [f"a{a}"], "gender": [f"g{g}"]} for name, a, g in zip(names, age, gender, strict=True)
        }
        images_of = {name: [f"{name}-{i}" for i in range(world.images)] for name in names}
        self.waves: Waves = make_waves(groups_of, images_of, 1, LEAST)
        self.subject = np.repeat(np.arange(len(age)), world.images)
        self.groups = np.stack([age[self.subject], gender[self.subject]])
        self.image_ids = np.array([image for images in images_of.values() for image in images], dtype=object)
        self.subject_ids = np.array(names, dtype=object)[self.subject]
        self.wave = np.array([self.waves.wave[s, i] for s, i in zip(self.subject_ids, self.image_ids, strict=True)])
        self.people = pd.DataFrame(
            {
                "image_id": self.image_ids,
                "subject_id": self.subject_ids,
                "attr_age": [[f"a{a}"] for a in self.groups[0]],
                "attr_gender": [[f"g{g}"] for g in self.groups[1]],
            }
        )
        self.planned = self.tests(np.zeros((len(self.wave), 1, 1)), 0).grouping

    def draw(self, rng: np.random.Generator, gap: float) -> np.ndarray:
        """Return the answers of a run (images, traits, templates), with `gap` in the first group of each attribute."""
        world = self.world

        def part(n: int) -> np.ndarray:
            own = np.sqrt(world.between) * rng.normal(size=(n, TRAITS, 1))
            own = own + np.sqrt(1 - world.between) * rng.normal(size=(n, TRAITS, TEMPLATES))
            return np.asarray(np.sqrt(0.1) * rng.normal(size=(n, 1, 1)) + np.sqrt(0.9) * own)

        z = part(len(self.subject))
        if world.images > 1:
            z = np.sqrt(0.7) * z + np.sqrt(0.3) * part(self.subject.max() + 1)[self.subject]
        y, mean = self._answers(z)
        first = (self.groups[0] == 0)[:, None, None]
        y = np.where(first, mean + world.spread * (y - mean), y)
        times = (self.groups == 0).sum(axis=0)[:, None, None]
        if world.logit is None or world.spread > 1:
            y = y + gap * times
        else:  # becomes almost 1, as often as needed
            y = np.where(rng.random(y.shape) < times * gap / (1 - mean), 1.0, y)
        return np.where(first & (rng.random(y.shape) < world.missing), np.nan, y)

    def _answers(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the answers and their expectation (traits, templates)."""
        if self.world.logit is None:
            return 0.5 + 0.1 * z, np.full(z.shape[1:], 0.5)
        shift = self.world.shift * np.linspace(-1, 1, TEMPLATES) * np.where(np.arange(TRAITS) % 2, 1, -1)[:, None]
        a, b = self.world.logit
        nodes, weight = np.polynomial.hermite_e.hermegauss(80)
        expit = 1 / (1 + np.exp(-(a + shift[..., None] + b * nodes)))
        return 1 / (1 + np.exp(-(a + shift + b * z))), (expit * weight).sum(axis=-1) / weight.sum()

    def tests(self, values: np.ndarray, seed: int) -> TraitTests:
        """Return the tests of `values` (images, traits, templates), of the images that have any."""
        shown = np.isfinite(values).any(axis=(1, 2))
        ids, subjects = self.image_ids[shown], self.subject_ids[shown]
        words = tuple(Trait(f"trait {k}", "positive") for k in range(values.shape[1]))
        templates = tuple(f"T{k}" for k in range(values.shape[2]))
        people = self.people[shown]
        answers = GrasAnswers(ids, subjects, words, templates, {OUTCOME: values[shown].astype(np.float32)})
        options = GrasOptions(seed=seed, min_subjects=LEAST, alpha=ALPHA)
        grouping = group_images(ids, subjects, people, CUTS, LEAST)
        return TraitTests(answers, grouping, options, "images" if self.world.images == 1 else "subjects")


def mde_of(study: Study, permutations: int) -> float:
    """Return the minimum detectable effect of a run that asks everything, the median over some runs without a gap."""
    effects = []
    for seed in range(8):
        values = study.draw(np.random.default_rng([seed, 3]), 0.0)
        found = PairTests.of(study.tests(values, seed), permutations)
        critical = decisions.critical_value(found.permuted.max(axis=2), ALPHA / len(CUTS))
        effects += [(critical[a] + 0.84) * error.min(axis=0) for a, error in enumerate(found.error)]
    return float(np.median(effects))


@dataclass
class Run:
    """What one run has asked and decided so far; `low` and `high` (rows) are of the last look at each question."""

    values: np.ndarray
    looks: TraitLooks
    low: np.ndarray
    high: np.ndarray


def runs_of(study: Study, gap: float, bound: float, seeds: Sequence[int], permutations: int) -> list[Run]:
    """Return the runs; they have answers of their own and share the permutations of a look."""
    first = TraitLooks(
        at=study.waves.at,
        alpha=ALPHA,
        smallest_effect=bound,
        width=1.0,
        questions=QUESTIONS,
        groups=tuple(len(attribute.groups) for attribute in study.planned.attributes),
        subjects=tuple(min(n for _, n in attribute.sizes.values()) for attribute in study.planned.attributes),
    )
    nothing = np.zeros((len(CUTS), len(QUESTIONS)))
    runs = [Run(study.draw(np.random.default_rng([seed, 7]), gap), first, nothing, nothing) for seed in seeds]
    for look in range(1, len(first.at) + 1):
        if not (active := [run for run in runs if len(run.looks.last) < len(QUESTIONS)]):
            break
        for run in active:
            run.looks = replace(run.looks, now=look)
        limits = [run.looks.limits.reshape(TRAITS, TEMPLATES) for run in active]
        values = [
            np.where(study.wave[:, None, None] <= limit, run.values, np.nan)
            for run, limit in zip(active, limits, strict=True)
        ]
        together = PairTests.of(study.tests(np.concatenate(values, axis=1), seeds[0] * 100 + look), permutations)
        for number, run in enumerate(active):
            found = part_of(together, slice(number * len(QUESTIONS), (number + 1) * len(QUESTIONS)))
            asked = [question not in run.looks.last for question in QUESTIONS]
            rows, run.looks = run.looks.intervals(found), run.looks.after(found)
            run.low, run.high = np.where(asked, rows.low, run.low), np.where(asked, rows.high, run.high)
    return runs


def part_of(tests: PairTests, columns: slice) -> PairTests:
    """Return the tests of one run."""
    return PairTests(
        [gap[:, columns] for gap in tests.gap],
        [error[:, columns] for error in tests.error],
        tests.groups[:, columns],
        tests.fewest[:, columns],
        tests.permuted[:, :, columns],
    )


def summary(study: Study, runs: Sequence[Run], gap: float, bound: float, mde: float) -> dict[str, Any]:
    """Return the rates of false claims, coverage and cost over the runs."""
    decided = np.stack([np.asarray(run.looks.decided) for run in runs])
    low, high = (np.stack([getattr(run, end) for run in runs]) for end in ("low", "high"))
    inside = (low <= gap + 1e-12) & (gap - 1e-12 <= high)
    at_bound = abs(gap - bound) < 1e-12
    any_claim = np.array([run.looks.composite == DIFFERENT for run in runs])
    different = (decided == DIFFERENT).any(axis=(1, 2)) | (low > gap).any(axis=(1, 2))
    shares = np.array([0.0, *np.cumsum(np.bincount(study.wave)[1:]) / len(study.wave)])
    cost = [float(shares[run.looks.limits].mean()) for run in runs]

    def percent(share: Any, digits: int = 2) -> float:
        return round(100 * float(share), digits)

    return {
        "runs": len(runs),
        "MDE": round(mde, 4),
        "false differences %": percent(different.mean()) if gap == 0 or at_bound else "",
        "with the composite %": percent((different | any_claim).mean()) if gap == 0 else "",
        "false equivalents %": percent((decided == EQUIVALENT).any(axis=(1, 2)).mean()) if gap >= bound else "",
        "rows covered %": percent(inside.mean()),
        "all rows covered %": percent(inside.all(axis=(1, 2)).mean()),
        "rows different %": percent((decided == DIFFERENT).mean(), 1),
        "rows equivalent %": percent((decided == EQUIVALENT).mean(), 1),
        "asked %, median": percent(np.median(cost), 1),
        "asked %, 90 %": percent(np.quantile(cost, 0.9), 1),
    }


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--permutations", type=int, default=1999)
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS))
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    cases = [(case, world) for case in given.cases for world in given.worlds]
    with Progress(quiet=given.json).steps("Simulating", len(cases)) as step:
        for case, name in cases:
            gap, bound, times = CASES[case]
            study = Study(WORLDS[name], times)
            mde, n = mde_of(study, given.permutations), max(5, given.runs // 10) if times > 1 else given.runs
            batches = [range(start, min(n, start + TOGETHER)) for start in range(0, n, TOGETHER)]
            runs = [
                run for seeds in batches for run in runs_of(study, gap * mde, bound * mde, seeds, given.permutations)
            ]
            rows.append({"world": name, "gap": case, **summary(study, runs, gap * mde, bound * mde, mde)})
            step()
            if given.csv is not None:
                write(given.csv, rows)
    if given.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            print("; ".join(f"{name} {value}" for name, value in row.items()))


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
