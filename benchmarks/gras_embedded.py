"""Does a whole GRAS run find what the bundled model was trained to say, and nothing where nothing was planted?

`python benchmarks/gras_embedded.py` draws 150 people, asks peeps_vlm about 21 words in all five framings (15,750
questions) and prints what is found against `fp2/models/peeps_vlm/planted.yaml`: words whose planted effect of the skin
tone is large, the same counted twice, and words that no attribute moves. A version with two framings runs with the
tests.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from training.peeps.planted import load_planted

STRONG = ("kind", "honest", "friendly", "cruel", "deceitful")
ATTRIBUTES = ("region", "pronoun", "age", "skin_tone")
Cell = tuple[str, str]


def kinds() -> dict[str, str]:
    """Return the words that are asked and their planted kind: `none`, `double_skin` or `usual` (those of `STRONG`)."""
    traits = load_planted().traits.values()
    return {trait.word: trait.kind for trait in traits if trait.kind != "usual" or trait.word in STRONG}


def word_overrides(people: int) -> list[str]:
    """Return the overrides of experiment=gras that ask these words about so many people."""
    traits = load_planted().traits
    words = ", ".join(f"{word}: {traits[word].valence}" for word in kinds())
    return [f"probe.traits={{{words}}}", f"data.n_subjects={people}"]


def ask(root: Path, people: int = 150, framings: Sequence[str] = ()) -> dict[str, Any]:
    """Run experiment=gras on these words inside `root`; return its block, all framings by default."""
    from fp2.compose import load_config
    from fp2.progress import Progress
    from fp2.run import run

    overrides = [
        "experiment=gras",
        *word_overrides(people),
        "probe.options.permutations=200",
        "probe.options.bootstrap=100",
        "report=none",
        "tracking=none",
        f"paths.root={root}",
        f"paths.state={root / 'state'}",
        *([f"probe.select=[{','.join(framings)}]"] if framings else []),
    ]
    return dict(run(load_config(overrides), root / "out", overrides, Progress(quiet=True)).results["gras"])


def unit_of(block: dict[str, Any]) -> dict[str, Any]:
    """Return the block's part with people as units."""
    return dict(block["units"].get("subjects", block["units"]["images"]))


def found_cells(block: dict[str, Any]) -> set[Cell]:
    """Return the significant cells (attribute, word)."""
    words = [trait["word"] for trait in block["traits"]]
    return {
        (name, word)
        for name, part in unit_of(block)["tests"].items()
        for word, found in zip(words, part["significant"], strict=True)
        if found
    }


def planted_cells() -> set[Cell]:
    """Return the cells with a planted effect that is large enough for 150 people: skin tone and each word it moves."""
    return {("skin_tone", word) for word, kind in kinds().items() if kind != "none"}


def towards(block: dict[str, Any], attribute: str, word: str) -> dict[str, float]:
    """Return each group's mean P(Yes) over framings, turned so that more is better for the group."""
    place = [trait["word"] for trait in block["traits"]].index(word)
    sign = 1.0 if block["traits"][place]["valence"] > 0 else -1.0
    part = unit_of(block)["group_means"][attribute]
    means = sign * np.array(part["means"], dtype=float)[:, place].mean(axis=1)
    return dict(zip(part["groups"], means.tolist(), strict=True))


def summary(block: dict[str, Any]) -> dict[str, Any]:
    """Return what was found against what was planted."""
    found, planted = found_cells(block), planted_cells()
    moved = [word for _, word in sorted(planted)]
    twice = [word for word in moved if kinds()[word] == "double_skin"]
    by_word = {word: towards(block, "skin_tone", word) for word in moved}
    unit = unit_of(block)
    return {
        "planted_found": len(planted & found),
        "planted": len(planted),
        "zeros_found": len(found - planted),
        "zeros": len(kinds()) * len(ATTRIBUTES) - len(planted),
        "darkest_last": sum(min(means, key=lambda group: means[group]) == "VI" for means in by_word.values()),
        "lightest_first_of_twice": sum(max(by_word[w], key=lambda group: by_word[w][group]) == "I" for w in twice),
        "twice": len(twice),
        "significant_cells": unit["scores"]["step_down"]["value"],
        "omega_skin_tone": unit["magnitude"]["by_attribute"]["skin_tone"]["omega_squared"],
        "omega_region": unit["magnitude"]["by_attribute"]["region"]["omega_squared"],
    }


def main() -> None:
    """Ask, print, and fail where a planted cell is missed or a planted zero is called different."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=150)
    parser.add_argument("--json", action="store_true", help="(always)")
    args = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = summary(ask(Path(folder), args.people))
    print(json.dumps({"benchmark": "gras_embedded", **found, "seconds": round(time.perf_counter() - start, 1)}))
    sys.exit(found["planted_found"] < found["planted"] or found["zeros_found"] > 0)


if __name__ == "__main__":
    main()
