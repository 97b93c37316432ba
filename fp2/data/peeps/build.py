"""The drawn people as a data set on disk, in the layout and byte format of FHIBE's downsampled release.

What is left out, because a drawing has no such thing or nothing reads it: rendered overlays, CelebAMask masks (the
`CelebA` column is an empty list), annotators' files, aggregated results and protocol files (their folders are empty).
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from fp2.data.fhibe.vocab import DOWNSAMPLED_HEADER, FACE_HEADER
from fp2.data.peeps.annotate import cells
from fp2.data.peeps.cast import Picture, pictures
from fp2.data.peeps.spec import PeepsSpec
from fp2.data.peeps.write import Rows, write_picture
from fp2.errors import Fp2Error

Progress = Callable[[int, int], None]  # (pictures done, pictures in all)

MANIFEST = "PEEPS.json"
_SET_COLUMNS = ("set_id", "set_attribute")
_EMPTY_FOLDERS = ("results/face_parsing", "results/face_verification", "data/protocol", "data/aggregated_results")
_CHUNK = 20
_MOST_WORKERS = 4


def build_peeps(
    out_dir: Path, spec: PeepsSpec, progress: Progress | None = None, *, workers: int | None = None
) -> Path:
    """Draw the data set into `out_dir` and return the release's root folder inside it.

    Parameters
    ----------
    progress : callable, optional
        Called with (pictures done, pictures in all) as they are written.
    workers : int, optional
        Processes that draw; by default the cores of this machine, at most four. Small sets are drawn in this process.
        The bytes do not depend on it.

    Raises
    ------
    Fp2Error
        If the folder is already there, cannot be written, or a drawing process dies.
    """
    root = out_dir / f"{spec.release}_downsampled_public"
    try:
        root.mkdir(parents=True)
        for folder in _EMPTY_FOLDERS:
            (root / folder).mkdir(parents=True)
        rows = _draw_all(root, spec, progress, workers)
        extra = _SET_COLUMNS if spec.kind == "twins" else ()
        _write_table(root, "fhibe_downsampled", (*DOWNSAMPLED_HEADER, *extra), (r for row in rows for r in row.main))
        _write_table(root, "fhibe_face_crop_align", (*FACE_HEADER, *extra), (r for row in rows for r in row.faces))
        manifest = {**spec.record(), "n_pictures": len(rows), "n_rows": sum(len(row.main) for row in rows)}
        (root / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    except FileExistsError as error:
        raise Fp2Error("the folder for the drawn people exists already", where=str(error.filename)) from None
    except OSError as error:
        raise Fp2Error(f"the drawn people cannot be written: {error.strerror}", where=str(error.filename)) from error
    return root


def _draw_all(root: Path, spec: PeepsSpec, progress: Progress | None, workers: int | None) -> list[Rows]:
    """Draw every picture and return the rows in the order of the pictures."""
    todo = pictures(spec)
    chunks = [todo[start : start + _CHUNK] for start in range(0, len(todo), _CHUNK)]
    wanted = min(_cores(), _MOST_WORKERS) if workers is None else workers
    in_process = wanted < 2 or (workers is None and len(chunks) < 4)
    rows: list[Rows] = []
    for drawn in _here(root, spec, chunks) if in_process else _in_pool(root, spec, chunks, wanted):
        rows += drawn
        if progress is not None:
            progress(len(rows), len(todo))
    return rows


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _draw_chunk(root: Path, size: int, chunk: list[Picture]) -> list[Rows]:
    return [write_picture(root, picture, size) for picture in chunk]


def _here(root: Path, spec: PeepsSpec, chunks: list[list[Picture]]) -> Iterator[list[Rows]]:
    for chunk in chunks:
        yield _draw_chunk(root, spec.size, chunk)


def _in_pool(root: Path, spec: PeepsSpec, chunks: list[list[Picture]], workers: int) -> Iterator[list[Rows]]:
    """Draw chunks in fresh processes (never forked: threads of other libraries may be running here)."""
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        futures = [pool.submit(_draw_chunk, root, spec.size, chunk) for chunk in chunks]
        for future in futures:
            yield future.result()
    except BrokenProcessPool:
        raise Fp2Error(
            "a process that draws people died (no memory, or a script without `if __name__ == '__main__':`)",
            fix="Free some memory, put the script's calls under that line, or pass workers=1.",
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _write_table(root: Path, name: str, header: tuple[str, ...], rows: Iterable[dict[str, Any]]) -> None:
    """Write one table as the release writes them: UTF-8, `\\n`, minimal quoting, no index, empty for missing."""
    folder = root / "data" / "processed" / name
    folder.mkdir(parents=True)
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(cells(header, row) for row in rows)
