"""FHIBE's full-resolution release: a list of files and one annotation JSON file per image, read as rows of cells.

Multi-valued fields are lists in the JSON files, and reprs of lists in the CSV of the downsampled release. Values are
converted to cells of the CSV, so that one reader reads both. Fields that the annotations lack are taken from a
processed CSV, if there is one, by image and subject.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from fp2.data.fhibe.release import Release
from fp2.data.readers.delimited import read_rows
from fp2.errors import Fp2Error

Cells = dict[str, str]
FILE_COLUMNS = ("uid", "img", "json")
BULK = ("keypoints", "segments")  # most of a file; read on demand only (see `geometry`)


def listed_rows(
    release: Release, needed: tuple[str, ...], fallback: Path | None, oddities: Counter[str],
    tick: Callable[[], None] = lambda: None,
) -> Iterator[tuple[str, Cells]]:  # fmt: skip
    """Yield `(where, cells)` per subject of every image in `filepaths.csv`; paths are relative to the root.

    Every row has the fields of all rows; a field that an annotation lacks is an empty cell.

    Parameters
    ----------
    needed : tuple of str
        Required fields. If the annotations lack one, every row is completed from `fallback`.
    fallback : Path, optional
        A processed CSV (`image_id`, `subject_id` and attributes).
    oddities : Counter
        Counts of files that cannot be read and of rows that remain incomplete.
    tick : callable
        Called after each annotation.

    Raises
    ------
    Fp2Error
        If the list lacks a column, a path leads out of the release, no annotation can be read, or a required field is
        found nowhere.
    """
    rows: list[tuple[str, Cells]] = []
    n_unreadable = 0
    for number, listed in read_rows(release.table, _check_files(release.table)):
        where = f"{release.table}, row {number}"
        try:
            rows += [(where, cells) for cells in _subjects(release, listed, where)]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            n_unreadable += 1
        tick()
    if n_unreadable:
        oddities["annotation file(s) could not be read, their pictures were left out"] += n_unreadable
    if n_unreadable and not rows:
        raise Fp2Error("none of the annotations can be read", where=str(release.table), fix="Unpack the whole archive")
    lacking = {name for _, cells in rows for name in needed if not cells.get(name)}
    if lacking and rows:
        _complete(rows, lacking, fallback, release.table, oddities)
    every = list(dict.fromkeys(name for _, cells in rows for name in cells))
    for where, cells in rows:
        yield where, {name: cells.get(name, "") for name in every}


def _check_files(path: Path) -> Callable[[list[str]], None]:
    def check(header: list[str]) -> None:
        missing = [name for name in FILE_COLUMNS if name not in header]
        if missing:
            raise Fp2Error(f"the list of files lacks the column(s) {', '.join(missing)}", where=str(path))

    return check


def _subjects(release: Release, listed: Mapping[str, str], where: str) -> list[Cells]:
    """Return the cells of each subject of one image."""
    base = release.table.parent
    for name in ("img", "json"):
        relative = PurePosixPath(listed[name])
        if not listed[name] or relative.is_absolute() or ".." in relative.parts:
            raise Fp2Error(f"{name} {listed[name]!r} leads out of the release folder", where=where)
    annotation = json.loads((base / listed["json"]).read_text(encoding="utf-8"))
    image = {name: cell(value) for name, value in annotation["image_annotation"].items()}
    place = base.relative_to(release.root)
    files = {
        "image_id": listed["uid"].strip(),
        "filepath": (place / listed["img"]).as_posix(),
        "json_path": (place / listed["json"]).as_posix(),
    }
    subjects = annotation["subject_annotation"]
    if not isinstance(subjects, list) or not subjects:
        raise ValueError("no subjects")
    own = [{name: cell(value) for name, value in subject.items() if name not in BULK} for subject in subjects]
    return [image | subject | files for subject in own]


def cell(value: Any) -> str:
    """Return a JSON value as a cell of the processed CSV: reprs of lists, empty for null, without NUL characters."""
    if value is None:
        return ""
    return str(value).replace("\x00", "")


def _complete(
    rows: list[tuple[str, Cells]], lacking: set[str], fallback: Path | None, path: Path, oddities: Counter[str]
) -> None:
    """Fill empty fields of the annotations from the processed table."""
    table = _by_pair(fallback) if fallback else {}
    for _, cells in rows:
        for name, value in table.get((cells["image_id"], cells.get("subject_id", "")), {}).items():
            if not cells.get(name):
                cells[name] = value
    nowhere = sorted(name for name in lacking if not any(cells.get(name) for _, cells in rows))
    if nowhere:
        raise Fp2Error(
            f"the FHIBE annotations lack the field(s) {', '.join(nowhere)}",
            where=str(path),
            fix="" if fallback else "Give the CSV of the downsampled release, which has them: data.path=FILE",
        )
    left = sum(any(not cells.get(name) for name in lacking) for _, cells in rows)
    if left:
        oddities["annotation(s) lack some of the required fields"] += left


def _by_pair(path: Path) -> dict[tuple[str, str], Cells]:
    """Return the processed table by (image, subject), without its paths, which are those of another release."""

    def check(header: list[str]) -> None:
        missing = [name for name in ("image_id", "subject_id") if name not in header]
        if missing:
            raise Fp2Error(f"the table lacks the column(s) {', '.join(missing)}", where=str(path))

    skip = {*BULK, "filepath", "json_path", "image_width", "image_height", "person_bbox", "face_bbox"}
    return {
        (cells["image_id"].strip(), cells["subject_id"].strip()): cells
        for _, cells in read_rows(path, check, skip=skip)
    }
