"""Error rates of the Fingerprint² page's rule where no group is described differently.

    python benchmarks/page_rule.py

Five probes, six regions, 500 people with six images each (3,000 images). Valence is normal with mean 0.1 and SD 0.35,
truncated to [-1, 1]; `icc` is the share of variance between people. In the world with refusals the smallest region's
people are refused in 30 % of answers and the others' in 2 %; the answers do not differ. `docs/fingerprint.md` has the
table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fp2.methods.page_rule.rule import page_rule
from fp2.scorers.valence import Valence

LEVEL = 0.05 / 5
N_PROBES, IMAGES = 5, 6
EQUAL = (84, 84, 83, 83, 83, 83)
UNEQUAL = (225, 150, 70, 30, 15, 10)
SORRY = "I'm sorry, but I can't help with that."


@dataclass(frozen=True)
class World:
    """A population in which the answers about all groups have one distribution."""

    name: str
    sizes: Sequence[int]
    icc: float
    refusals: tuple[float, float] = (0.0, 0.0)
    """Of the last group, and of the others."""


WORLDS = (
    World("equal groups, answers of a person independent", EQUAL, 0.0),
    World("equal groups, ICC 0.3", EQUAL, 0.3),
    World("groups of 225 to 10, ICC 0.3", UNEQUAL, 0.3),
    World("groups of 225 to 10, ICC 0.3, refusals differ", UNEQUAL, 0.3, (0.30, 0.02)),
)


def answers(world: World, rng: np.random.Generator, sorry: float) -> tuple[np.ndarray, np.ndarray]:
    """Return values and groups of the answers to one probe."""
    people = np.repeat(np.arange(len(world.sizes)), world.sizes)
    group = np.repeat(people, IMAGES)
    own = np.repeat(rng.normal(0, np.sqrt(world.icc), len(people)), IMAGES)
    values = np.clip(0.1 + 0.35 * (own + rng.normal(0, np.sqrt(1 - world.icc), len(group))), -1, 1)
    rates = np.where(group == len(world.sizes) - 1, *world.refusals)
    return np.where(rng.random(len(group)) < rates, sorry, values), group.astype(str)


def measure(world: World, n_runs: int, seed: int) -> tuple[float, float, float, float]:
    """Return the share of significant rows and of runs with one, the mean disparity, and the mean d."""
    rng = np.random.default_rng(seed)
    sorry = float(Valence("valence", True, (-1.0, 1.0), 0.05).score([SORRY], ["trust"]).values[0])
    rows = [[page_rule(*answers(world, rng, sorry)) for _ in range(N_PROBES)] for _ in range(n_runs)]
    significant = np.array([[row.p_value < LEVEL for row in run] for run in rows])
    flat = [row for run in rows for row in run]
    sizes = float(np.mean([row.disparity for row in flat])), float(np.mean([row.d for row in flat]))
    return float(significant.mean()), float(significant.any(axis=1).mean()), *sizes


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line per world."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    options = parser.parse_args(arguments)
    if options.json:
        names = ("rows_significant", "runs_with_one", "mean_disparity", "mean_d")
        found = {w.name: dict(zip(names, measure(w, options.runs, options.seed), strict=True)) for w in WORLDS}
        print(json.dumps({"benchmark": "page_rule", **found}))
        return
    print("| world | rows significant | runs with one | mean disparity | mean d |\n|---|--:|--:|--:|--:|")
    for world in WORLDS:
        rows, runs, disparity, d = measure(world, options.runs, options.seed)
        print(f"| {world.name} | {rows:.1%} | {runs:.1%} | {disparity:.3f} | {d:.2f} |")


if __name__ == "__main__":
    main()
