"""The response store at millions of answers: insertion, resume index, look-up, merging; a process each.

    python benchmarks/store_scale.py                    # 5 M answers, about 3 GB in a temporary folder
    python benchmarks/store_scale.py --answers 1000000

A plan of `--answers` questions (500 an image) about images that do not exist is stored with texts of 100 characters, as
an engine would in batches of 64. Then a new process makes the same plan and finds out what is stored (the resume
index), looks up single answers, and asks nothing. A third merges two stores of at most 200,000 answers each, and two of
at most 400 arrays, each of the 500 answers about an image. Times are processor time, since other work may run on the
machine; memory is the peak resident size of that process. Exit status 1 above the limits: 10 s for the index, 1 GB of
memory beyond the imports, 20,000 answers inserted a second, 20 us for a look-up.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

PER_IMAGE, BATCH = 500, 64
LIMITS = {"index_seconds": 10.0, "index_mb": 1000.0, "look_up_us": 20.0}
LEAST_RATE = 20_000


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Silent:
    """An engine that is never asked."""

    model_calls = 0

    def identity(self) -> dict[str, Any]:
        """Return what enters the keys."""
        return {"engine": "silent", "model": "m" * 60, "dtype": "float32", "processor": {"class": "None", "size": 224}}

    def method(self, question: Any, blind: bool = False) -> dict[str, Any]:
        """Return how a question is asked."""
        return {"name": "generate/1", "prompt": "chat"}

    def task_identity(self, task: Any) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded."""
        return {"device": "none"}


def make_plan(answers: int) -> Any:
    """Return a plan of that many answers about images that do not exist."""
    from fp2.ask.plan import Plan, PlannedRow
    from fp2.tables import ImageTask, Question

    questions = tuple(Question(f"q{k}", "p", f"What about {k}?") for k in range(PER_IMAGE))
    names = [f"i{k}" for k in range(answers // PER_IMAGE)]
    rows = tuple(PlannedRow(name, name, "original", k) for k, name in enumerate(names))
    tasks = tuple(ImageTask(name, name, Path(f"/{name}.png"), f"{k:064x}", ()) for k, name in enumerate(names))
    return Plan(questions, rows, tasks)


def storage_of(path: Path, answers: int) -> tuple[Any, Any, float]:
    """Return the open store, the storage of the plan, and the seconds that its keys took."""
    from fp2.ask.rows import RowStorage
    from fp2.store.rows import ResponseStore
    from fp2.tables import Decoding

    plan, store = make_plan(answers), ResponseStore(path)
    started = time.process_time()
    storage = RowStorage(plan, Silent(), Decoding(), store)
    return store, storage, time.process_time() - started


def write(path: Path, answers: int) -> dict[str, float]:
    """Store every answer in batches; return the rate of the first and the last part."""
    from fp2.tables import Answer

    store, storage, _ = storage_of(path, answers)
    keys = [key for _, _, key, _ in storage.planned()]
    rng = np.random.default_rng(1)
    words = ["".join(map(chr, rng.integers(97, 123, 100))) for _ in range(500)]
    rates, part = [], max(BATCH, min(100_000, answers // 10))
    rng.shuffle(keys)
    keys[part:-part] = sorted(keys[part:-part])  # in order, to be quicker: only the ends are timed
    for first in range(0, len(keys), part):
        rows = [
            (key, Answer("i", "q", words[k % 500], None, 0.01, 20)) for k, key in enumerate(keys[first : first + part])
        ]
        size = (
            BATCH if first < part or first + part >= len(keys) else part
        )  # the middle in large batches, to be quicker
        started = time.process_time()
        for start in range(0, len(rows), size):
            store.put_many(rows[start : start + size], {"device": "none"})
        if size == BATCH:
            rates.append(len(rows) / (time.process_time() - started))
    store.close()
    return {"insert_first": rates[0], "insert_last": rates[-1], "file_mb": path.stat().st_size / 1e6}


def resume(path: Path, answers: int) -> dict[str, float]:
    """Find what is stored of the plan; return times and memory."""
    import fp2.ask.rows
    import fp2.store.rows  # noqa: F401

    before = peak_mb()
    store, storage, keys = storage_of(path, answers)
    planned = peak_mb()
    wall, started = time.perf_counter(), time.process_time()
    found = storage.load()
    took, wall = time.process_time() - started, time.perf_counter() - wall
    assert found == answers, (found, answers)
    index_mb = peak_mb() - before
    some = [key for _, _, key, _ in islice(storage.planned(), 0, None, max(1, answers // 5000))]
    started = time.process_time()
    for key in some:
        store.get_many([key])
    look_up = (time.process_time() - started) / len(some) * 1e6
    return {
        "key_seconds": keys,
        "index_seconds": took,
        "index_wall_seconds": wall,
        "plan_mb": planned - before,
        "index_mb": index_mb,
        "look_up_us": look_up,
    }


def merge(path: Path, answers: int) -> dict[str, float]:
    """Merge two stores of answers, and two of arrays, with nothing in common; return the rows merged in a second."""
    from fp2.methods.dense.store import DenseStore, Piece, QuestionSet
    from fp2.store.merge import merge_stores
    from fp2.store.rows import ResponseStore
    from fp2.tables import YES_NO_NUMBERS, Answer

    rng = np.random.default_rng(2)
    keys = [rng.bytes(32).hex() for _ in range(min(answers, 400_000))]
    arrays = max(2, len(keys) // PER_IMAGE)
    wanted, answer = QuestionSet(tuple(rng.bytes(32).hex() for _ in range(PER_IMAGE))), Answer("i", "q", "a" * 100)
    stores = {kind: [path.with_name(f"{kind}{k}.sqlite") for k in range(2)] for kind in ("answers", "arrays")}
    for k, (texts, dense) in enumerate(zip(*stores.values(), strict=True)):
        with ResponseStore(texts) as store:
            store.put_many([(key, answer) for key in keys[k::2]], {"device": "none"})
        with ResponseStore(dense) as store:
            read = DenseStore(store.connection, store.path)
            read.register(wanted)
            for key in keys[k:arrays:2]:
                numbers = rng.random((len(YES_NO_NUMBERS), PER_IMAGE), dtype=np.float32)
                read.put([Piece(key, np.arange(PER_IMAGE), numbers, (), 1.0)], wanted, {"device": "none"})
    rates = {}
    for kind, sources in stores.items():
        started = time.process_time()
        counts = merge_stores(sources, path.with_name(f"{kind}.sqlite"))
        rates[f"merge_{kind}"] = max(counts.values()) / (time.process_time() - started)
    return rates


STAGES = {"write": write, "resume": resume, "merge": merge}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=5_000_000)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    parser.add_argument("--stage", choices=STAGES)
    parser.add_argument("--path", type=Path)
    given = parser.parse_args()
    if given.stage:
        print(json.dumps(STAGES[given.stage](given.path, given.answers)))
        return 0
    found: dict[str, Any] = {"benchmark": "store_scale", "answers": given.answers}
    with tempfile.TemporaryDirectory(prefix="fp2-scale-") as folder:
        for stage in STAGES:
            words = [sys.executable, __file__, "--stage", stage, "--answers", str(given.answers)]
            done = subprocess.run([*words, "--path", f"{folder}/s.sqlite"], check=True, capture_output=True, text=True)
            found |= {name: round(value, 1) for name, value in json.loads(done.stdout).items()}
    missed = [name for name, limit in LIMITS.items() if found[name] > limit]
    missed += [name for name in ("insert_first", "insert_last") if found[name] < LEAST_RATE]
    found["missed"] = missed
    print(json.dumps(found) if given.json else "\n".join(f"{name:<20} {value}" for name, value in found.items()))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
