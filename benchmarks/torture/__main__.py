"""Run the faults and print a table: each fault, how often it was tried, what came of it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.torture import __doc__ as about
from benchmarks.torture.disks import disks
from benchmarks.torture.fuzz import fuzz
from benchmarks.torture.hostile import hostile
from benchmarks.torture.kills import kills
from benchmarks.torture.models import models
from benchmarks.torture.project import Row, Yard
from benchmarks.torture.servers import servers
from benchmarks.torture.together import together
from benchmarks.torture.withdrawals import withdrawals

PARTS = {
    "kills": kills,
    "disks": disks,
    "models": models,
    "servers": servers,
    "together": together,
    "withdrawals": withdrawals,
    "hostile": hostile,
    "fuzz": fuzz,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a few of each")
    parser.add_argument("--share", type=float, default=1.0, help="the share of the attempts that is made")
    parser.add_argument("--only", default=",".join(PARTS), help="which parts, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    given = parser.parse_args()
    rows = torture([PARTS[name] for name in given.only.split(",")], given.seed, short=given.short, share=given.share)
    if given.json:
        print(
            json.dumps(
                {"benchmark": "torture", "rows": [{**vars(row), "outcomes": dict(row.outcomes)} for row in rows]}
            )
        )
    else:
        print("| fault | tried | what came of it |\n|---|--:|---|")
        for row in rows:
            outcomes = ", ".join(f"{name}: {count}" for name, count in sorted(row.outcomes.items()))
            print(f"| {row.fault} | {row.tries} | {outcomes or 'nothing'} |")
    return 1 if any(row.broken for row in rows) else 0


def torture(parts: list[object], seed: int, *, short: bool = False, share: float = 1.0) -> list[Row]:
    """Return the rows of all parts; what must not have happened is printed as it happens."""
    import mlflow  # noqa: F401  (a forked run does not import it again)
    import pandas  # noqa: F401

    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="fp2-torture-") as folder:
        yard = Yard(Path(folder), seed, short=short, share=share)
        for part in parts:
            started = time.monotonic()
            for row in part(yard):  # type: ignore[operator]
                if row.tries:
                    found.append(row)
                for line in row.broken[:5]:
                    print(f"BROKEN: {row.fault}: {line}", file=sys.stderr)
                print(f"{row.fault}: {row.tries} tried, {len(row.broken)} broken", file=sys.stderr)
            print(f"{part.__name__}: {time.monotonic() - started:.0f} s", file=sys.stderr)  # type: ignore[attr-defined]
    return found


if __name__ == "__main__":
    sys.exit(main())
