"""Pictures of one person each, with labels from a list or from a name: what such sets have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.data.base import Dataset, people_table
from fp2.errors import Fp2Error

if TYPE_CHECKING:
    import pandas as pd

PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})
_LOOKED_AT = 40  # pictures of a list that are looked for: a release is there as a whole, or it is not


@dataclass(frozen=True, slots=True)
class Labelled:
    """One picture: its path below the image folder (with `/`), its person's attributes, and who it is if known."""

    path: str
    attributes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    subject: str | None = None


def labelled_people(pictures: Sequence[Labelled], folder: Path, where: Path) -> pd.DataFrame:
    """Return the people table of `pictures` below `folder`; without a subject, each picture is a person of its own.

    An attribute that only some pictures have is empty for the others. `where` is what an error names.

    Raises
    ------
    Fp2Error
        If there are no pictures, a path leads out of the folder or occurs twice.
    """
    if not pictures:
        raise Fp2Error("no picture is listed", where=str(where))
    seen: set[str] = set()
    for picture in pictures:
        if Path(picture.path).is_absolute() or ".." in Path(picture.path).parts:
            raise Fp2Error(f"the path {picture.path!r} leads out of the image folder", where=str(where))
        if picture.path in seen:
            raise Fp2Error(f"the picture {picture.path!r} is listed twice", where=str(where))
        seen.add(picture.path)
    names = list(dict.fromkeys(name for picture in pictures for name in picture.attributes))
    base = folder.absolute()
    return people_table(
        {
            "image_id": [picture.path for picture in pictures],
            "subject_id": [picture.subject or picture.path for picture in pictures],
            "image_path": [str(base / picture.path) for picture in pictures],
            "is_primary": [True] * len(pictures),
            "n_people": [1] * len(pictures),
            **{f"attr_{name}": [list(picture.attributes.get(name, ())) for picture in pictures] for name in names},
        }
    )


def image_folder(root: Path, paths: Sequence[str], chosen: Path | None = None) -> Path:
    """Return the folder that `paths` start from: `chosen`, or `root` or a folder at most two levels below it.

    Raises
    ------
    Fp2Error
        If none of a spread of the pictures lies there.
    """
    sample = list(paths[:: max(1, len(paths) // _LOOKED_AT)])
    for folder in [chosen] if chosen else _nearby(root):
        if any((folder / path).is_file() for path in sample):
            return folder
    raise Fp2Error(
        f"the lists are there, but none of their pictures, such as {sample[0] if sample else '?'}",
        where=str(chosen or root),
        fix="Put the image folder beside the lists, or name it: data.image_root=PATH",
    )


def _nearby(root: Path) -> list[Path]:
    """Return `root`, its folders and theirs, nearest first."""
    first = _folders(root)
    return [root, *first, *(inner for folder in first for inner in _folders(folder))]


def _folders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def find_files(root: Path, pattern: str) -> list[Path]:
    """Return the files that fit `pattern` in `root` or at most two levels below, the nearest folder's only.

    Raises
    ------
    Fp2Error
        If `root` is no folder.
    """
    if not root.is_dir():
        raise Fp2Error("the folder of the data set does not exist", where=str(root), fix="Check data.root")
    for folder in _nearby(root):
        if found := sorted(folder.glob(pattern)):
            return found
    return []


def pictures_below(folder: Path) -> Iterable[Path]:
    """Yield every picture file below `folder`, by name; hidden files and folders are passed over."""
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).parts
        hidden = any(part.startswith(".") for part in relative)
        if path.suffix.lower() in PICTURE_SUFFIXES and not hidden and path.is_file():
            yield path


def load_folders(root: Path, attribute: str = "group") -> Dataset:
    """Return the pictures below `root`: the first folder on the way is the value of `attribute`.

    A picture directly in its group's folder is a person of its own; pictures in one folder further down
    (`GROUP/PERSON/...`) are of one person. Pictures directly in `root` belong to no group and are left out.

    Raises
    ------
    Fp2Error
        If the folder is missing, or holds fewer than two groups with pictures.
    """
    if not root.is_dir():
        raise Fp2Error("the folder of the data set does not exist", where=str(root), fix="Check data.root")
    pictures, loose, alone = [], 0, 0
    for path in pictures_below(root):
        group, *between = path.relative_to(root).parts[:-1] or ("",)
        if not group:
            loose += 1
            continue
        alone += not between
        # the group is part of the name: folders called "1" in two groups are two people
        subject = f"{group}/{between[0]}" if between else None
        pictures.append(Labelled(path.relative_to(root).as_posix(), {attribute: [group]}, subject))
    groups = {picture.attributes[attribute][0] for picture in pictures}
    if len(groups) < 2:
        raise Fp2Error(
            f"{len(groups)} sub-folder(s) with pictures are there, and a comparison needs two",
            where=str(root),
            fix="Sort the pictures into one sub-folder per group",
        )
    notes = []
    if alone:
        notes.append(f"{alone} picture(s) directly in their group's folder count as a person of their own each")
    if loose:
        notes.append(f"{loose} picture(s) outside the groups' folders were left out")
    return Dataset(root.name, None, labelled_people(pictures, root, root), tuple(notes))
