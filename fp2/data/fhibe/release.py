"""Locating a FHIBE release on disk by its contents, whatever its folder is named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from fp2.errors import Fp2Error

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

    Raises
    ------
    Fp2Error
        If `root` is missing or cannot be read, or has no release of that form, or several.
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
        for one in wanted:
            found = _releases(folders, one)
            if len(found) > 1:
                names = ", ".join(str(release.root) for release in found)
                fix = "Set data.root to one of them"
                raise Fp2Error(f"found {len(found)} FHIBE releases: {names}", where=str(root), fix=fix)
            if found:
                return found[0]
    raise _nothing_found(root, below, form)


def _nothing_found(root: Path, below: list[Path], form: str) -> Fp2Error:
    """Return the error, with the forms of FHIBE that were found instead."""
    others = [one for one in FORMS[1:] if one != form and _releases(below, one)]
    if others:
        what = "whole images" if form == AUTO else f"form {form!r}"
        fix = f"Add data.form={others[0]}" + (f" (or {', '.join(others[1:])})" if others[1:] else "")
        return Fp2Error(f"found FHIBE as {' and '.join(others)}, not {what}", where=str(root), fix=fix)
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
    own = (path for path in _processed(folder) if "face" in path.stem and "align" not in path.stem)
    return next(own, None) or _downsampled(folder) or _fullres(folder)


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
