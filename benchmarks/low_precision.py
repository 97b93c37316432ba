"""What bfloat16 and int8 change: P(Yes) answer by answer, the verdicts, and the time.

The bundled model answers the words of `gras_embedded.py` (150 drawn people, 21 words in 5 templates, of which 11 cells
differ) in float32, in bfloat16 and with int8 weights; the runs are made one after the other in a temporary project,
each with its own answers. Reported for each precision against float32: the largest, the mean and the 99th percentile of
|change in P(Yes)|, the share of answers on the other side of 1/2, and the cells (word and attribute) that become or
cease to be significant after correction, and the tests of single
templates that do so at .05 without it. The time is that of scoring `--questions` questions about one
image with `qwen_like` of `prefix_sharing_parts/checkpoints.py`, in turns.
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
import pandas as pd
from gras_embedded import unit_of, word_overrides
from prefix_sharing_parts import checkpoints
from prefix_sharing_parts.questions import draw_people, task, yes_no_questions

import fp2
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.model import HfSpec
from fp2.tables import Decoding

PRECISIONS = {
    "float32": ["model.dtype=float32"],
    "bfloat16": ["model.dtype=bfloat16"],
    "int8": ["model.dtype=float32", "model.quantisation=int8"],
}


def run(root: Path, name: str, people: int) -> Any:
    """Return the run in one precision."""
    overrides = ["experiment=gras", *word_overrides(people), "report=none", "tracking=none", *PRECISIONS[name]]
    return fp2.evaluate(probes="gras", overrides=overrides, root=root)


def probabilities(found: Any) -> pd.Series:
    """Return P(Yes) by image and question."""
    table: pd.DataFrame = found.answers.set_index(["image_id", "template", "trait"]).sort_index()
    return table["p_yes"].astype(float)


def verdicts(found: Any) -> dict[str, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return what is significant: `cells` (attribute and word, corrected), `tests` (each template, p <= .05)."""
    tests = unit_of(found.results["gras"])["tests"].values()
    return {
        "cells": np.concatenate([np.array(test["significant"], dtype=bool) for test in tests]),
        "tests": np.concatenate([np.array(test["p_value"], dtype=float).ravel() <= 0.05 for test in tests]),
    }


def compare(base: Any, other: Any) -> dict[str, Any]:
    """Return what changed from `base` to `other`."""
    before, after = probabilities(base), probabilities(other)
    change = (after - before).abs().to_numpy()
    old, new = verdicts(base), verdicts(other)
    return {
        "answers": len(change),
        "largest_change": float(change.max()),
        "mean_change": float(change.mean()),
        "99th_percentile": float(np.quantile(change, 0.99)),
        "crossed_one_half": float(((before > 0.5) != (after > 0.5)).mean()),
        **{
            name: {
                "all": found.size,
                "significant": int(found.sum()),
                "become_significant": int((~found & new[name]).sum()),
                "no_longer_significant": int((found & ~new[name]).sum()),
            }
            for name, found in old.items()
        },
    }


def seconds(folder: Path, n_questions: int, turns: int = 3) -> dict[str, float]:
    """Return the ratio of float32's time to that of each other precision, the fastest of some turns of each."""
    questions = yes_no_questions()[:n_questions]
    checkpoint = checkpoints.save(folder / "qwen", [q.text for q in questions], checkpoints.SIZES["qwen_like"])
    pictures = draw_people(folder / "people", turns + 1)
    engines = {}
    for name, (dtype, *rest) in PRECISIONS.items():
        spec = HfSpec(str(checkpoint), dtype=dtype.partition("=")[2], quantisation="int8" if rest else None)
        engines[name] = HfEngine(spec, Decoding(), HfOptions(threads=1))
        list(engines[name].answer([task(pictures[-1], questions)]))
    spent: dict[str, list[float]] = {name: [] for name in engines}
    for picture in pictures[:turns]:
        for name, engine in engines.items():
            started = time.perf_counter()
            list(engine.answer([task(picture, questions)]))
            spent[name].append(time.perf_counter() - started)
    return {name: min(spent["float32"]) / min(times) for name, times in spent.items() if name != "float32"}


def main(words: Sequence[str] | None = None) -> int:
    """Print the comparison as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=150)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--json", action="store_true", help="print one line")
    chosen = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: run(Path(folder), name, chosen.people) for name in PRECISIONS}
        ratios = seconds(Path(folder) / "speed", chosen.questions)
        found = {
            name: {**compare(runs["float32"], other), "times_as_fast": ratios[name]}
            for name, other in runs.items()
            if name != "float32"
        }
    print(json.dumps(found, indent=None if chosen.json else 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
