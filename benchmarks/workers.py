"""One model in several processes or shards: the same answers as in one, and how much faster, on CPU, GPUs and Ray.

    python benchmarks/workers.py                               # the bundled model, one process against two
    python benchmarks/workers.py --devices 0,1,2,3 --words model=qwen2_5_vl_3b data.limit=2000
    python benchmarks/workers.py --ray 2                       # on Ray as well (extra `ray`)

Each way asks the same questions into an empty store of its own, in a process of its own. Times are of whole runs, with
loading, by the clock and of the processor; ask enough questions that loading does not count. `shards` runs the shards
one after the other, merges their stores and runs once more from the merged store; its time by the clock is that of
machines that run the shards at once: the longest shard, the merge and the last run. Exit status 1 if a text or a
response key differs, or a number by more than 1e-4.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LEAST_DIFFERENCE = 1e-4
QUICK = ("report=none", "tracking=none", "analysis=quick", "probe.select=[trust,lifestyle]", "data.limit=96")


def timed(*command: str) -> dict[str, float]:
    """Run a command to its end; return its seconds by the clock and of the processor."""

    def spent() -> tuple[float, float]:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.monotonic(), used.ru_utime + used.ru_stime

    started = spent()
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    return dict(
        zip(("seconds", "processor_seconds"), (b - a for a, b in zip(started, spent(), strict=True)), strict=True)
    )


def run(folder: Path, words: list[str], store: Path | None = None) -> dict[str, Any]:
    """Run once, on an empty store unless one is given; return answers and times."""
    salt = folder.parent / "salt"
    (folder / "state").mkdir(parents=True)
    if salt.exists():
        shutil.copyfile(salt, folder / "state" / "salt")
    paths = [f"paths.root={folder}", f"paths.state={folder / 'state'}"]
    store = store or folder / "state" / "responses.sqlite"
    found = timed(str(ROOT / "launch.py"), *words, *paths, f"paths.store={store}")
    if not salt.exists():
        shutil.copyfile(folder / "state" / "salt", salt)
    with closing(sqlite3.connect(store)) as opened:
        return {"answers": opened.execute("SELECT count(*) FROM answers").fetchone()[0], **found}


def sharded(folder: Path, words: list[str], n: int) -> dict[str, Any]:
    """Run the shards, merge their stores, run from the merged one; return as `run`."""
    parts = [run(folder.parent / f"shard{k}", [*words, f"shard={k}/{n}"]) for k in range(1, n + 1)]
    stores = [str(folder.parent / f"shard{k}" / "state" / "responses.sqlite") for k in range(1, n + 1)]
    store = folder.parent / "merged.sqlite"
    merging = timed("-m", "fp2.cli", "store", "merge", *stores, "--into", str(store))
    last = run(folder, words, store)
    stages = [max(parts, key=lambda part: float(part["seconds"])), merging, last]
    return {
        "answers": last["answers"],
        "seconds": sum(stage["seconds"] for stage in stages),
        "processor_seconds": sum(part["processor_seconds"] for part in (*parts, merging, last)),
        "merge_seconds": merging["seconds"],
        "last_run_seconds": last["seconds"],
    }


def difference(one: Path, two: Path) -> tuple[int, float]:
    """Return how many texts differ between two runs, and the largest difference of a number."""
    import pandas as pd

    frames = []
    for folder in (one, two):
        (path,) = folder.rglob("responses.parquet")
        frames.append(pd.read_parquet(path).sort_values("response_key").reset_index(drop=True))
    old, new = frames
    if list(old["response_key"]) != list(new["response_key"]):
        return len(old), float("inf")
    numbers = [
        abs(a - b)
        for left, right in zip(old["numbers"], new["numbers"], strict=True)
        if left is not None
        for a, b in zip(json.loads(left).values(), json.loads(right).values(), strict=True)
        if isinstance(a, float)
    ]
    return int((old["text"].fillna("") != new["text"].fillna("")).sum()), max(numbers, default=0.0)


def main() -> int:
    """Compare the ways; print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", default="cpu,cpu", help="devices of the workers")
    parser.add_argument("--ray", type=int, default=0, help="actors of Ray")
    parser.add_argument("--shards", type=int, default=2, help="0: none")
    parser.add_argument("--words", nargs="*", default=[], help="overrides of every run")
    parser.add_argument("--json", action="store_true", help="(always)")
    given = parser.parse_args()
    words = [*QUICK, *given.words]
    ways = {"one": [], "devices": [f"engine.devices=[{given.devices}]"]}
    if given.ray:
        ways["ray"] = ["engine=ray", f"engine.ray.actors={given.ray}"]
    with tempfile.TemporaryDirectory() as root:
        found = {name: run(Path(root) / name, [*words, *own]) for name, own in ways.items()}
        if given.shards:
            found["shards"] = sharded(Path(root) / "shards", words, given.shards)
        wrong = False
        for name in [name for name in found if name != "one"]:
            texts, numbers = difference(Path(root) / "one" / "outputs", Path(root) / name / "outputs")
            found[name] |= {"texts_that_differ": texts, "largest_difference": numbers}
            found[name]["speed"] = round(found["one"]["seconds"] / found[name]["seconds"], 2)
            wrong |= texts > 0 or numbers > LEAST_DIFFERENCE
    print(json.dumps({"benchmark": "workers", **found}))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
