"""A simulated model that takes its time, and how many answers a run has stored so far."""

from __future__ import annotations

import sqlite3
import time

from bench import Bench

SLOW = """
import sys, time
from fp2.methods.peeps.planted.engine import PlantedEngine
class Slow(PlantedEngine):
    def answer(self, tasks):
        for batch in super().answer(tasks):
            time.sleep(0.05)
            yield batch
if __name__ == "__main__":
    from fp2.app import main
    sys.exit(main(sys.argv[1:]))
"""


def stored(bench: Bench) -> int:
    if not bench.store.is_file():
        return 0
    try:
        return int(sqlite3.connect(bench.store).execute("SELECT count(*) FROM answers").fetchone()[0])
    except sqlite3.Error:
        return 0


def wait_for(bench: Bench, n: int) -> None:
    until = time.monotonic() + 300  # a busy machine
    while stored(bench) < n:
        assert time.monotonic() < until
        time.sleep(0.05)
