"""Run the studies and write the report.

Every finished chunk is a file, so that a run which was stopped goes on where it was; more data sets add chunks. The
default, 4,000 data sets, takes some 70 minutes of one core. `--runs` also runs the program itself on the planted model
and on the embedded one, and compares what it finds with what was planted. `--only` runs some of the studies again, or
new ones, and takes every other row from the report as it was written before. `--page` runs nothing: it writes the page
again from the numbers of the last report.
"""

from __future__ import annotations

import argparse
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.validity.limits import limits
from benchmarks.validity.measure import Arrays
from benchmarks.validity.report import write_report
from benchmarks.validity.rows import Row
from benchmarks.validity.studies import STUDIES, Study
from benchmarks.validity.summary import Results, summarise
from benchmarks.validity.worlds import World

SEED = 20260400


def jobs(data_sets: int, only: Sequence[str] = ()) -> list[tuple[Study, World, int, int]]:
    """Return (study, world, chunk number, data sets in it) of everything there is to do; `only`: names of studies."""
    out = []
    for study in STUDIES:
        if only and study.name not in only:
            continue
        wanted = max(1, round(data_sets * study.share))
        for world in study.worlds:
            for number, start in enumerate(range(0, wanted, study.chunk)):
                out.append((study, world, number, min(study.chunk, wanted - start)))
    return out


def seed_of(study: Study, world: World, number: int) -> int:
    """Return a chunk's own seed, whatever else is run."""
    key = [SEED, *f"{study.name}/{world.name}".encode(), number]
    return int(np.random.SeedSequence(key).generate_state(1)[0])


def chunk_file(folder: Path, study: Study, world: World, number: int, size: int) -> Path:
    """Return where a chunk is kept."""
    return folder / study.name / world.name / f"{number:04d}-{size}.npz"


def read_chunk(path: Path) -> Arrays | None:
    """Return what a chunk found, or None if it is not there, or broken."""
    try:
        with np.load(path) as found:
            return dict(found)
    except (FileNotFoundError, zipfile.BadZipFile, ValueError, EOFError):
        return None


def run_studies(folder: Path, data_sets: int, quiet: bool = False, only: Sequence[str] = ()) -> Results:
    """Run what is missing and return all arrays: (study, world) -> name -> one entry per data set."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    parts: dict[tuple[str, World], list[Arrays]] = {}
    columns = (TextColumn("{task.description:<18}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=quiet) as progress:
        everything = jobs(data_sets, only)
        task = progress.add_task("studies", total=len(everything))
        for study, world, number, size in everything:
            progress.update(task, description=study.name)
            path = chunk_file(folder, study, world, number, size)
            found = read_chunk(path)
            if found is None:
                found = study.run(world, size, seed_of(study, world, number))
                path.parent.mkdir(parents=True, exist_ok=True)
                partial = path.with_suffix(".tmp.npz")
                np.savez(partial, **found)
                partial.replace(path)
            parts.setdefault((study.name, world), []).append(found)
            progress.advance(task)
    return {
        key: {name: np.concatenate([c[name] for c in chunks]) for name in chunks[0]} for key, chunks in parts.items()
    }


def merged(rows: Sequence[Row], docs: Path) -> list[Row]:
    """Return `rows` behind those of the report in `docs`, of which the same claims on the same numbers are dropped."""
    kept = [Row(**row) for row in json.loads((docs / "validity.json").read_text(encoding="utf-8"))["rows"]]
    new = {(row.claim, row.quantity) for row in rows}
    return [*(row for row in kept if (row.claim, row.quantity) not in new), *rows]


def main() -> None:
    """Run, summarise, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validity", description=__doc__)
    parser.add_argument("--data-sets", type=int, default=4_000, help="simulated data sets per world")
    parser.add_argument("--work", type=Path, default=Path("outputs/validity"), help="where finished chunks are kept")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="where validity.md and its figures go")
    parser.add_argument("--runs", action="store_true", help="also run the planted and the embedded model")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.add_argument(
        "--only",
        nargs="+",
        default=(),
        metavar="STUDY",
        choices=[study.name for study in STUDIES],
        help="run these studies and keep every other row of the report as it is",
    )
    parser.add_argument("--page", action="store_true", help="write the page from validity.json, and run nothing")
    args = parser.parse_args()
    if args.page:
        report = json.loads((args.docs / "validity.json").read_text(encoding="utf-8"))
        write_report(args.docs, [Row(**row) for row in report["rows"]], [], report["data_sets"])
        return
    results = run_studies(args.work / "chunks", args.data_sets, args.quiet, args.only)
    truth = []
    if args.runs:
        from benchmarks.validity.truth import compare_runs

        truth = compare_runs(args.work)
    rows = [*summarise(results), *limits()]
    rows = merged(rows, args.docs) if args.only else rows
    path = write_report(args.docs, rows, truth, max(row.n for row in rows))
    failed = [row for row in [*rows, *truth] if row.verdict == "no"]
    print(f"{len(rows) + len(truth)} rows, {len(failed)} outside their bound; report {path}")
    for row in failed:
        print(f"  {row.claim} | {row.world} | {row.quantity}: {row.value:.4f} (bound {row.bound})")


if __name__ == "__main__":
    main()
