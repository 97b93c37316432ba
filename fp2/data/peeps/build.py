"""The drawn people as a data set on disk, in the layout and byte format of FHIBE's downsampled release.

Not written, because a drawing does not have it or nothing reads it: rendered overlays, CelebAMask masks (the column
`CelebA` is an empty list), annotators' files, aggregated results and protocol files (their folders are empty).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from joblib import Parallel, cpu_count, delayed

from fp2.data.fhibe.vocab import DOWNSAMPLED_HEADER, FACE_HEADER
from fp2.data.peeps.annotate import cells
from fp2.data.peeps.cast import ImagePlan, plan_images
from fp2.data.peeps.spec import PeepsSpec
from fp2.data.peeps.write import Rows, write_image
from fp2.errors import Fp2Error

Progress = Callable[[int, int], None]  # (images done, images in total)

MANIFEST = "PEEPS.json"
_SET_COLUMNS = ("set_id", "set_attribute")
_EMPTY_FOLDERS = ("results/face_parsing", "results/face_verification", "data/protocol", "data/aggregated_results")
_CHUNK = 20
_MOST_WORKERS = 4
_IDLE_SECONDS = 1  # after which worker processes end: the run needs the memory for the model


def build_peeps(
    out_dir: Path, spec: PeepsSpec, progress: Progress | None = None, *, workers: int | None = None
) -> Path:
    """Draw the data set into `out_dir` and return the root folder of the release in it.

    Parameters
    ----------
    progress : callable, optional
        Called with (images done, images in total).
    workers : int, optional
        Number of processes; by default the cores of this machine, at most four, and one for a small data set. The
        bytes do not depend on it.

    Raises
    ------
    Fp2Error
        If the folder exists, it cannot be written, or a process dies.
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
    """Draw every image and return the rows in the order of the images."""
    todo = plan_images(spec)
    chunks = [todo[start : start + _CHUNK] for start in range(0, len(todo), _CHUNK)]
    usual = 1 if len(chunks) < 4 else min(cpu_count(), _MOST_WORKERS)
    pool = Parallel(workers or usual, backend="loky", return_as="generator", idle_worker_timeout=_IDLE_SECONDS)
    rows: list[Rows] = []
    try:
        for drawn in pool(delayed(_draw_chunk)(root, spec.size, chunk) for chunk in chunks):
            rows += drawn
            if progress is not None:
                progress(len(rows), len(todo))
    except BrokenProcessPool:
        fix = "Free some memory, or pass workers=1"
        raise Fp2Error("a process that draws people died, probably for lack of memory", fix=fix) from None
    return rows


def _draw_chunk(root: Path, size: int, chunk: list[ImagePlan]) -> list[Rows]:
    return [write_image(root, plan, size) for plan in chunk]


def _write_table(root: Path, name: str, header: tuple[str, ...], rows: Iterable[dict[str, Any]]) -> None:
    """Write one table in the format of the release: UTF-8, `\\n`, minimal quoting, no index, empty for missing."""
    folder = root / "data" / "processed" / name
    folder.mkdir(parents=True)
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(cells(header, row) for row in rows)
