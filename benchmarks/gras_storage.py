"""What a GRAS run of the paper's size takes: 5,010 images x 500 questions, from first answer to signed report.

A made-up engine answers at once with random numbers that look like a model's (log odds with effects of trait, template,
image and their mixture, the seven float32 numbers of a yes/no answer), so that what is measured is the harness:
planning, dense storage, the analysis with its permutations and resamples, Parquet shards, figures, dashboard and
passport; then the same run again, with every answer from the store.

The last line is one JSON object: bytes of the store (after a checkpoint) and of the shards, their sum against the
limit, seconds of each run, and the largest resident size of the process (`peak_rss_mb`), with that of the imports.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from fp2.ask.plan import Plan, make_plan
from fp2.compose import build_protocol, load_config
from fp2.config import Config
from fp2.cuts import resolve_cuts
from fp2.data.base import Dataset, people_table
from fp2.data.stimuli import Stimulus
from fp2.engines.base import BaseEngine
from fp2.methods.dense.trait_battery import asked_traits
from fp2.probes.battery import load_battery
from fp2.progress import Progress
from fp2.protocols.base import Inputs, Protocol
from fp2.protocols.requirements import for_battery, for_people
from fp2.run import run
from fp2.store.rows import ResponseStore
from fp2.tables import YES_NO_NUMBERS, Answer, ImageTask, Question, attribute_columns

ATTRIBUTES = {
    "gender": ("Female", "Male"),
    "race": ("Black", "East Asian", "Indian", "Latino_Hispanic", "Middle Eastern", "Southeast Asian", "White"),
    "age": ("20-29", "30-39", "40-49", "50-59", "60-69"),
    "skin_tone": tuple(str(k) for k in range(1, 11)),
}
DISK_LIMIT, MEMORY_LIMIT = 300e6, 2e9  # at the paper's size
ANSWERS = 2_505_000
DISK_BASE, MEMORY_BASE = 1e6, 0.5e9  # tables without rows; the program, its imports and figures


class Random(BaseEngine):
    """An engine whose answers are drawn: the same for the same image and question."""

    def __init__(self, questions: tuple[Question, ...]) -> None:
        self.model_calls = 0
        rng = np.random.default_rng(1)
        traits = {question.trait: rng.normal(0, 1.5) for question in questions}
        templates = {question.template: rng.normal(0, 0.8) for question in questions}
        self._base = np.array([traits[q.trait] + templates[q.template] for q in questions])
        self._place = {question.question_id: place for place, question in enumerate(questions)}

    def identity(self) -> dict[str, Any]:
        """Return who answers."""
        return {"engine": "random", "version": 1}

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """Return how it is asked."""
        return {"name": "random/1"}

    def runtime(self) -> dict[str, Any]:
        """Return nothing of interest."""
        return {"device": "none"}

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield the answers about one image at a time."""
        for task in tasks:
            self.model_calls += 1
            columns = self._draw(int(task.pixel_sha256, 16))
            rows = columns.T.tolist()
            yield [
                Answer(
                    task.image_id,
                    question.question_id,
                    "Yes",
                    seconds=0.001,
                    numbers=dict(zip(YES_NO_NUMBERS, rows[self._place[question.question_id]], strict=True)),
                )
                for question in task.questions
            ]

    def _draw(self, seed: int) -> np.ndarray:
        """Return (numbers, questions) float32."""
        rng = np.random.default_rng(seed)
        n = len(self._base)
        odds = self._base + rng.normal(0, 0.5) + rng.normal(0, 0.6, n)
        mass = 1 / (1 + np.exp(-rng.normal(4, 1, n)))
        yes, first = 1 / (1 + np.exp(-odds)), rng.beta(20, 2, (2, n))
        p_yes, p_no = mass * yes, mass * (1 - yes)
        return np.stack([p_yes, p_no, p_yes * first[0], p_no * first[1], yes, mass, odds]).astype(np.float32)


def make_people(images: int) -> pd.DataFrame:
    """Return a people table as the official lists give: the last part with a skin tone only, every file a subject."""
    k = np.arange(images)
    n_faces = round(images * 3570 / 5010)
    columns: dict[str, Any] = {
        "image_id": [f"FairFace/train/{i}.jpg" for i in k],
        "subject_id": [f"FairFace/train/{i}.jpg" for i in k],
        "image_path": [f"/pictures/{i}.jpg" for i in k],
        "is_primary": [True] * images,
        "n_people": [1] * images,
    }
    for step, (name, values) in zip((1, 2, 14, 1), ATTRIBUTES.items(), strict=True):
        there = k >= n_faces if name == "skin_tone" else k < n_faces
        columns[f"attr_{name}"] = [
            [values[i // step % len(values)]] if has else [] for i, has in zip(k, there, strict=True)
        ]
    return people_table(columns)


class MadeUp:
    """What stands in for what a run loads: people whose images are nowhere, and the engine that answers at once."""

    def __init__(self, images: int, traits: int) -> None:
        self.images, self.traits = images, traits

    def load(
        self, config: Config, store: ResponseStore, progress: Progress, given: None = None
    ) -> tuple[Protocol, Inputs]:
        """Return what `fp2.runs.inputs.load_inputs` does."""
        battery = load_battery(asdict(config.probe))
        kept = {trait.word for trait in asked_traits(battery)[: self.traits]}
        questions = tuple(question for question in battery.questions if question.trait in kept)
        battery = replace(battery, questions=questions)
        people = make_people(self.images)
        inputs = Inputs(
            config,
            resolve_cuts(asdict(config.cut), attribute_columns(people)),
            battery,
            progress=progress,
            dataset=Dataset("made-up", None, people),
            store=store,
            dataset_digest="0" * 64,
            engine=Random(questions),
        )
        protocol = for_people(for_battery(build_protocol(config), battery), people)
        protocol.check(inputs)
        return protocol, inputs

    def plan(self, protocol: Protocol, inputs: Inputs) -> Plan:
        """Return what `fp2.runs.inputs.plan_answers` does."""
        assert inputs.battery is not None
        shown = [Stimulus(i, i, Path(i), f"{k:064x}") for k, i in enumerate(inputs.people["image_id"])]
        return make_plan([(inputs.people, "original", shown)], inputs.battery.questions)


def configured(root: Path, words: list[str]) -> Config:
    """Return the config of the run."""
    return load_config(
        [
            "probe=gras",
            "model=planted",
            "cut.each=[gender,race,age,skin_tone]",
            f"paths.root={root}",
            f"paths.state={root / 'state'}",
            "tracking=none",
            *words,
        ]
    )


def size_of(path: Path) -> int:
    """Return the bytes below a folder, or of a file."""
    return path.stat().st_size if path.is_file() else sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def peak_mb() -> float:
    """Return the largest resident size of this program so far, in MB (1e6 bytes).

    Linux counts what the starting process held into `ru_maxrss`; its own high-water mark starts with the program.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def limits(answers: int) -> tuple[float, float]:
    """Return the limits of disk and memory in bytes: what any run takes, and the rest in proportion to the answers."""
    scale = answers / ANSWERS
    return DISK_BASE + (DISK_LIMIT - DISK_BASE) * scale, MEMORY_BASE + (MEMORY_LIMIT - MEMORY_BASE) * scale


def measure(images: int, traits: int, words: list[str]) -> dict[str, Any]:
    """Run twice and return what it took."""
    found: dict[str, Any] = {"images": images, "imports_rss_mb": round(peak_mb(), 1)}
    made_up = MadeUp(images, traits)
    with (
        tempfile.TemporaryDirectory() as scratch,
        patch("fp2.run.load_inputs", made_up.load),
        patch("fp2.run.plan_answers", made_up.plan),
    ):
        root = Path(scratch)
        config = configured(root, words)
        store_path = Path(config.paths.store)
        for name in ("first", "again"):
            started, cpu = time.perf_counter(), time.process_time()
            outcome = run(config, root / name, [], Progress())
            found[f"{name}_seconds"] = round(time.perf_counter() - started, 2)
            found[f"{name}_cpu_seconds"] = round(time.process_time() - cpu, 2)
            found[f"{name}_cached"] = outcome.results["answers"]["cached"]
            found[f"{name}_peak_rss_mb"] = round(peak_mb(), 1)
        with closing(sqlite3.connect(store_path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        found |= {
            "questions": outcome.results["answers"]["planned"] // images,
            "answers": outcome.results["answers"]["answered"],
            "store_bytes": size_of(store_path),
            "shard_bytes": size_of(root / "first" / "responses"),
            "run_bytes": size_of(root / "first"),
        }
    found["disk_bytes"] = found["store_bytes"] + found["shard_bytes"]
    found["bytes_per_answer"] = round(found["disk_bytes"] / max(1, found["answers"]), 2)
    found["peak_rss_mb"] = round(peak_mb(), 1)
    disk, memory = limits(found["answers"])
    found["within_limits"] = bool(found["disk_bytes"] < disk and peak_mb() * 1e6 < memory)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Measure; return 1 if disk or memory went over the limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=5010)
    parser.add_argument("--traits", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="(always)")
    parser.add_argument("words", nargs="*", help="overrides of the config")
    given = parser.parse_args(arguments)
    found = measure(given.images, given.traits, given.words)
    print(json.dumps({"benchmark": "gras_storage", **found}))
    return 0 if found["within_limits"] else 1


if __name__ == "__main__":
    sys.exit(main())
