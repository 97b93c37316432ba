"""One model in several processes: the same answers as in one, and how much faster, on CPU, on GPUs and on Ray.

    python benchmarks/workers.py                               # the bundled model, one process against two
    python benchmarks/workers.py --devices 0,1,2,3 --words model=qwen2_5_vl_3b data.limit=2000
    python benchmarks/workers.py --ray 2                       # on Ray as well (extra `ray`)

Each way asks the same questions into an empty store of its own, in a process of its own. Times are of whole runs, with
loading; ask enough questions that loading does not count. Exit status 1
if a text or a response key differs, or a number by more than 1e-4.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LEAST_DIFFERENCE = 1e-4
QUICK = ("report=none", "tracking=none", "analysis=quick", "probe.select=[trust,lifestyle]", "data.limit=96")


def run(folder: Path, words: list[str]) -> dict[str, Any]:
    """Run once on an empty store; return times and rates."""
    salt = folder.parent / "salt"
    (folder / "state").mkdir(parents=True)
    if salt.exists():
        shutil.copyfile(salt, folder / "state" / "salt")
    paths = [f"paths.root={folder}", f"paths.state={folder / 'state'}"]
    started = time.monotonic()
    subprocess.run([sys.executable, str(ROOT / "launch.py"), *words, *paths], check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - started
    if not salt.exists():
        shutil.copyfile(folder / "state" / "salt", salt)
    store = sqlite3.connect(folder / "state" / "responses.sqlite")
    n = store.execute("SELECT count(*) FROM answers").fetchone()[0]
    store.close()
    return {"answers": n, "seconds": round(seconds, 1), "answers_per_second": round(n / seconds, 2)}


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
    parser.add_argument("--words", nargs="*", default=[], help="overrides of every run")
    parser.add_argument("--json", action="store_true", help="(always)")
    given = parser.parse_args()
    words = [*QUICK, *given.words]
    ways = {"one": [], "devices": [f"engine.devices=[{given.devices}]"]}
    if given.ray:
        ways["ray"] = ["engine=ray", f"engine.ray.actors={given.ray}"]
    with tempfile.TemporaryDirectory() as root:
        found = {name: run(Path(root) / name, [*words, *own]) for name, own in ways.items()}
        wrong = False
        for name in [name for name in ways if name != "one"]:
            texts, numbers = difference(Path(root) / "one" / "outputs", Path(root) / name / "outputs")
            found[name] |= {"texts_that_differ": texts, "largest_difference": numbers}
            found[name]["speed"] = round(found["one"]["seconds"] / found[name]["seconds"], 2)
            wrong |= texts > 0 or numbers > LEAST_DIFFERENCE
    print(json.dumps({"benchmark": "workers", **found}))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
