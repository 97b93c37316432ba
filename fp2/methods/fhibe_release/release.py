"""A FHIBE release on disk, found by its contents whatever its folder is named, and its annotations in full resolution.

The full-resolution release is a list of files and one annotation JSON file per image. Multi-valued fields are lists in
the JSON files, and reprs of lists in the CSV of the downsampled release: values are converted to cells of the CSV, so
that one reader reads both. Fields that the annotations lack are taken from a processed CSV, if there is one, by image
and subject.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from fp2.extension import Fp2Error, in_number, normal_id

_VERSION = re.compile(r"fhibe\.\d{8}\.[A-Za-z]\.[A-Za-z0-9_]{8}")
_SEARCH_DEPTH = 3
_SEARCH_FOLDERS = 5_000

Form = Literal["auto", "downsampled", "fullres", "face_aligned", "face_unaligned"]
"""What of a release is read: whole images (downsampled, or in full resolution) or face crops."""
FORMS: tuple[Form, ...] = get_args(Form)
AUTO, DOWNSAMPLED, FULLRES, FACE_ALIGNED, FACE_UNALIGNED = FORMS
WHOLE_IMAGES = (AUTO, DOWNSAMPLED, FULLRES)
LOOKED_FOR: dict[str, str] = {
    DOWNSAMPLED: "data/processed/fhibe_downsampled/fhibe_downsampled.csv",
    FULLRES: "data/raw/fhibe_fullres/filepaths.csv",
    FACE_ALIGNED: "data/processed/fhibe_face_crop_align/fhibe_face_crop_align.csv",
}


@dataclass(frozen=True)
class Release:
    """One release in one form.

    `table` is the list of its images: a processed CSV, with paths relative to `root`, or (`lists_files`) a
    `filepaths.csv`, with paths relative to its own folder. Face crops that are not aligned have no table of their own:
    they are beside the images of the release's table.
    """

    root: Path
    version: str | None
    table: Path
    form: str = DOWNSAMPLED

    @property
    def lists_files(self) -> bool:
        """Whether `table` lists files only, so that the annotations are read."""
        return self.table.name == "filepaths.csv"


def find_release(root: Path, form: str = AUTO) -> Release:
    """Return the release at `root`, or at most three folders above or below it.

    The form `auto` is whole images: downsampled if there are any, else in full resolution.
    """
    root = root.expanduser().absolute()
    if not root.is_dir():
        state = "is not a folder" if root.exists() else "does not exist"
        raise Fp2Error(
            f"the FHIBE folder {state}", where=str(root), fix=f"data.root is the folder with {_looked_for(form)}"
        )
    try:
        below = list(_folders(root))
    except PermissionError as error:
        raise Fp2Error("the FHIBE folder cannot be read", where=str(error.filename or root)) from None
    wanted = (DOWNSAMPLED, FULLRES) if form == AUTO else (form,)
    for folders in (below, root.parents[:_SEARCH_DEPTH]):
        for kind in wanted:
            releases = _releases(folders, kind)
            if len(releases) > 1:
                names = ", ".join(str(release.root) for release in releases)
                fix = "Set data.root to one of them"
                raise Fp2Error(f"found {len(releases)} FHIBE releases: {names}", where=str(root), fix=fix)
            if releases:
                return releases[0]
    raise _nothing_found(root, below, form)


def _nothing_found(root: Path, below: list[Path], form: str) -> Fp2Error:
    """Return the error, with the forms of FHIBE that were found instead."""
    other_forms = [kind for kind in FORMS[1:] if kind != form and _releases(below, kind)]
    if other_forms:
        wanted = "whole images" if form == AUTO else f"form {form!r}"
        fix = f"Add data.form={other_forms[0]}" + (f" (or {', '.join(other_forms[1:])})" if other_forms[1:] else "")
        return Fp2Error(f"found FHIBE as {' and '.join(other_forms)}, not {wanted}", where=str(root), fix=fix)
    return Fp2Error(
        f"no FHIBE release was found: looked for {_looked_for(form)} here, {_SEARCH_DEPTH} folders down and "
        f"{_SEARCH_DEPTH} up",
        where=str(root),
        fix="Unpack the archive without changes and set data.root to its folder",
    )


def _looked_for(form: str) -> str:
    return LOOKED_FOR.get(form, f"{LOOKED_FOR[DOWNSAMPLED]} or {LOOKED_FOR[FULLRES]}")


def _folders(root: Path) -> Iterator[Path]:
    """Yield `root` and the folders below it, nearest first; the `data` folder of a release is not searched."""
    layer, count = [root], 0
    for _ in range(_SEARCH_DEPTH + 1):
        deeper: list[Path] = []
        for folder in layer:
            yield folder
            count += 1
            if count > _SEARCH_FOLDERS:
                return
            if (folder / "data" / "processed").is_dir() or (folder / "data" / "raw").is_dir():
                continue
            try:
                deeper += sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
            except PermissionError:
                if folder == root:
                    raise
        layer = deeper


def _releases(folders: Iterable[Path], form: str) -> list[Release]:
    """Return the releases of that form whose top folder is one of `folders`."""
    return [
        Release(folder, _version(folder), table, form)
        for folder in folders
        if (table := _FINDERS[form](folder)) is not None
    ]


def _downsampled(folder: Path) -> Path | None:
    tables = [path for path in _processed(folder) if "face" not in path.stem]
    preferred = [path for path in tables if path.stem == "fhibe_downsampled"] or tables
    return preferred[0] if preferred else None


def _fullres(folder: Path) -> Path | None:
    return next(iter(sorted(folder.glob("data/raw/*/filepaths.csv"))), None)


def _face_aligned(folder: Path) -> Path | None:
    return next((path for path in _processed(folder) if "face" in path.stem and "align" in path.stem), None)


def _face_unaligned(folder: Path) -> Path | None:
    """Return the table of the crops (Sony's code has a name for it, no release has the file), or of whole images."""
    tables = (path for path in _processed(folder) if "face" in path.stem and "align" not in path.stem)
    return next(tables, None) or _downsampled(folder) or _fullres(folder)


_FINDERS: dict[str, Callable[[Path], Path | None]] = {
    DOWNSAMPLED: _downsampled,
    FULLRES: _fullres,
    FACE_ALIGNED: _face_aligned,
    FACE_UNALIGNED: _face_unaligned,
}


def _processed(folder: Path) -> list[Path]:
    """Return the processed tables: `data/processed/<set>/<set>.csv`."""
    return [path for path in sorted(folder.glob("data/processed/*/*.csv")) if path.stem == path.parent.name]


def _version(folder: Path) -> str | None:
    """Return the version in the name of `folder` or its parent (`fhibe.<date>.<letter>.<8 characters>`)."""
    for name in (folder.name, folder.parent.name):
        if match := _VERSION.search(name):
            return match[0]
    return None


Cells = dict[str, str]
FILE_COLUMNS = ("uid", "img", "json")
BULK = ("keypoints", "segments")  # most of a file; read on demand only (see `geometry`)


def listed_rows(
    release: Release,
    needed: tuple[str, ...],
    fallback: Path | None,
    oddities: Counter[str],
    tick: Callable[[], None] = lambda: None,
) -> Iterator[tuple[str, Cells]]:
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
    """
    from fp2.extension import needing, read_rows

    rows: list[tuple[str, Cells]] = []
    n_unreadable = 0
    for number, listed in read_rows(release.table, needing(FILE_COLUMNS, release.table, "the list of files lacks")):
        where = f"{release.table}, row {number}"
        try:
            rows += [(where, cells) for cells in _subjects(release, listed, where)]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            n_unreadable += 1
        tick()
    if n_unreadable:
        oddities["annotation [file|files] could not be read: [its image was|their images were] left out"] += (
            n_unreadable
        )
    if n_unreadable and not rows:
        raise Fp2Error("none of the annotations can be read", where=str(release.table), fix="Unpack the whole archive")
    lacking = {name for _, cells in rows for name in needed if not cells.get(name)}
    if lacking and rows:
        _complete(rows, lacking, fallback, release.table, oddities)
    columns = list(dict.fromkeys(name for _, cells in rows for name in cells))
    for where, cells in rows:
        yield where, {name: cells.get(name, "") for name in columns}


def _subjects(release: Release, listed: Mapping[str, str], where: str) -> list[Cells]:
    base = release.table.parent
    for name in ("img", "json"):
        relative = PurePosixPath(listed[name])
        if not listed[name] or relative.is_absolute() or ".." in relative.parts:
            raise Fp2Error(f"{name} {listed[name]!r} leads out of the release folder", where=where)
    annotation = json.loads((base / listed["json"]).read_text(encoding="utf-8"))
    image = {name: cell(value) for name, value in annotation["image_annotation"].items()}
    folder = base.relative_to(release.root)
    files = {
        "image_id": normal_id(listed["uid"]),
        "filepath": (folder / listed["img"]).as_posix(),
        "json_path": (folder / listed["json"]).as_posix(),
    }
    subjects = annotation["subject_annotation"]
    if not isinstance(subjects, list) or not subjects:
        raise ValueError("no subjects")
    small_tables = [{name: cell(value) for name, value in subject.items() if name not in BULK} for subject in subjects]
    return [image | subject | files for subject in small_tables]


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
        for name, value in table.get((cells["image_id"], normal_id(cells.get("subject_id", ""))), {}).items():
            if not cells.get(name):
                cells[name] = value
    nowhere = sorted(name for name in lacking if not any(cells.get(name) for _, cells in rows))
    if nowhere:
        raise Fp2Error(
            in_number(len(nowhere), f"the FHIBE annotations lack the [field|fields] {', '.join(nowhere)}"),
            where=str(path),
            fix="" if fallback else "Give the CSV of the downsampled release, which has them: data.path=FILE",
        )
    n_incomplete = sum(any(not cells.get(name) for name in lacking) for _, cells in rows)
    if n_incomplete:
        oddities["[annotation lacks|annotations lack] some of the required fields"] += n_incomplete


def _by_pair(path: Path) -> dict[tuple[str, str], Cells]:
    """Return the processed table by (image, subject), without its paths, which are those of another release."""
    from fp2.extension import needing, read_rows

    skip = {*BULK, "filepath", "json_path", "image_width", "image_height", "person_bbox", "face_bbox"}
    return {
        (normal_id(cells["image_id"]), normal_id(cells["subject_id"])): cells
        for _, cells in read_rows(path, needing(("image_id", "subject_id"), path), skip=skip)
    }
