"""Finding a FHIBE release on disk: by what it holds, never by what its folder is called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fp2.errors import Fp2Error

_VERSION = re.compile(r"fhibe\.\d{8}\.[A-Za-z]\.[A-Za-z0-9_]{8}")
_SEARCH_DEPTH = 3
_SEARCH_FOLDERS = 5_000
LOOKED_FOR = "data/processed/fhibe_downsampled/fhibe_downsampled.csv"


@dataclass(frozen=True)
class Release:
    """One downsampled release: every path in `csv_path` is relative to `root`."""

    root: Path
    version: str | None
    csv_path: Path


def find_release(root: Path) -> Release:
    """Return the downsampled release at, above or up to three folders below `root`.

    A release is a folder with `data/processed/<set>/<set>.csv` for the whole pictures (the face crops' CSV beside it
    is another table).

    Raises
    ------
    Fp2Error
        If `root` is missing or unreadable, holds no release, holds several, or only a full-resolution one.
    """
    root = root.expanduser().absolute()
    if not root.is_dir():
        state = "is not a folder" if root.exists() else "does not exist"
        raise Fp2Error(
            f"the FHIBE folder {state}", where=str(root), fix=f"data.root is the folder that holds {LOOKED_FOR}"
        )
    try:
        below = list(_folders(root))
    except PermissionError as error:
        raise Fp2Error("the FHIBE folder cannot be read", where=str(error.filename or root)) from None
    found = _releases(below) or _releases(root.parents[:_SEARCH_DEPTH])
    if len(found) > 1:
        names = ", ".join(str(release.root) for release in found)
        raise Fp2Error(
            f"found {len(found)} FHIBE releases: {names}", where=str(root), fix="Point data.root at one of them"
        )
    if found:
        return found[0]
    if any(next(folder.glob("data/raw/*/filepaths.csv"), None) for folder in below):
        raise Fp2Error(
            "this is FHIBE's full-resolution release; only the downsampled release is read so far", where=str(root)
        )
    if faces := next((path for folder in below for path in folder.glob("data/processed/*face*/*.csv")), None):
        raise Fp2Error(f"found only the face crops ({faces.name}), not the whole pictures' CSV", where=str(root))
    raise Fp2Error(
        f"no FHIBE release here: looked for {LOOKED_FOR} in it, {_SEARCH_DEPTH} folders down and {_SEARCH_DEPTH} up",
        where=str(root),
        fix="Unpack fhibe.<version>_downsampled_public and point data.root at it",
    )


def _folders(root: Path) -> Iterator[Path]:
    """Yield `root` and the folders below it, nearest first; a release's own `data` folder is not entered."""
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


def _releases(folders: Iterable[Path]) -> list[Release]:
    """Return the releases whose top folder is one of `folders`."""
    found = []
    for folder in folders:
        tables = [
            path
            for path in sorted(folder.glob("data/processed/*/*.csv"))
            if path.stem == path.parent.name and "face" not in path.stem
        ]
        if tables:
            preferred = [path for path in tables if path.stem == "fhibe_downsampled"] or tables
            found.append(Release(folder, _version(folder), preferred[0]))
    return found


def _version(folder: Path) -> str | None:
    """Return the version string in the names on the way to `folder` (`fhibe.<date>.<letter>.<8 characters>`)."""
    for name in (folder.name, folder.parent.name):
        if match := _VERSION.search(name):
            return match[0]
    return None
