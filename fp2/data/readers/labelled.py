"""Images of one person each, labelled by a list, by their file names or by their folders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.data.base import Dataset, people_table
from fp2.errors import Fp2Error

if TYPE_CHECKING:
    import pandas as pd

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})
_SAMPLED = 40  # images of a list whose files are looked for: a release is complete, or it is not there


@dataclass(frozen=True, slots=True)
class Labelled:
    """One image: its path below the image folder (with `/`), its attributes, and the subject's id if known."""

    path: str
    attributes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    subject: str | None = None


def labelled_people(images: Sequence[Labelled], folder: Path, where: Path) -> pd.DataFrame:
    """Return the people table of `images` below `folder`; an image without a subject is a subject of its own.

    An attribute that only some images have is empty for the others. `where` is the file or folder named in errors.

    Raises
    ------
    Fp2Error
        If there are no images, or a path leads out of the folder or occurs twice.
    """
    if not images:
        raise Fp2Error("no image is listed", where=str(where))
    seen: set[str] = set()
    for image in images:
        if Path(image.path).is_absolute() or ".." in Path(image.path).parts:
            raise Fp2Error(f"the path {image.path!r} leads out of the image folder", where=str(where))
        if image.path in seen:
            raise Fp2Error(f"the image {image.path!r} is listed twice", where=str(where))
        seen.add(image.path)
    names = list(dict.fromkeys(name for image in images for name in image.attributes))
    base = folder.absolute()
    return people_table(
        {
            "image_id": [image.path for image in images],
            "subject_id": [image.subject or image.path for image in images],
            "image_path": [str(base / image.path) for image in images],
            "is_primary": [True] * len(images),
            "n_people": [1] * len(images),
            **{f"attr_{name}": [list(image.attributes.get(name, ())) for image in images] for name in names},
        }
    )


def image_folder(root: Path, paths: Sequence[str], chosen: Path | None = None) -> Path:
    """Return the folder that `paths` start from: `chosen`, or else `root` or a folder at most two levels below it.

    Raises
    ------
    Fp2Error
        If none of a sample of the images is there.
    """
    sample = list(paths[:: max(1, len(paths) // _SAMPLED)])
    for folder in [chosen] if chosen else _nearby(root):
        if any((folder / path).is_file() for path in sample):
            return folder
    raise Fp2Error(
        f"the lists were found, but none of their images, such as {sample[0] if sample else '?'}",
        where=str(chosen or root),
        fix="Put the image folder beside the lists, or give data.image_root=PATH",
    )


def _nearby(root: Path) -> list[Path]:
    """Return `root`, its folders and theirs, nearest first."""
    first = _folders(root)
    return [root, *first, *(inner for folder in first for inner in _folders(folder))]


def _folders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def find_files(root: Path, pattern: str) -> list[Path]:
    """Return the files that match `pattern` in the first folder that has any: `root`, or at most two levels below.

    Raises
    ------
    Fp2Error
        If `root` is not a folder.
    """
    if not root.is_dir():
        raise Fp2Error("the folder of the data set does not exist", where=str(root), fix="Check data.root")
    for folder in _nearby(root):
        if found := sorted(folder.glob(pattern)):
            return found
    return []


def images_below(folder: Path) -> Iterable[Path]:
    """Yield the image files below `folder` in the order of their names, without hidden files and folders."""
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).parts
        hidden = any(part.startswith(".") for part in relative)
        if path.suffix.lower() in IMAGE_SUFFIXES and not hidden and path.is_file():
            yield path


def load_folders(root: Path, attribute: str = "group") -> Dataset:
    """Return the images below `root`: the first folder of the path is the value of `attribute`.

    An image directly in its group's folder is a subject of its own; images in a folder below it (`GROUP/PERSON/...`)
    are of one subject. Images directly in `root` belong to no group and are left out.

    Raises
    ------
    Fp2Error
        If the folder is missing, or has fewer than two groups with images.
    """
    if not root.is_dir():
        raise Fp2Error("the folder of the data set does not exist", where=str(root), fix="Check data.root")
    images, loose, alone = [], 0, 0
    for path in images_below(root):
        group, *between = path.relative_to(root).parts[:-1] or ("",)
        if not group:
            loose += 1
            continue
        alone += not between
        # the group is part of the id: folders named "1" in two groups are two subjects
        subject = f"{group}/{between[0]}" if between else None
        images.append(Labelled(path.relative_to(root).as_posix(), {attribute: [group]}, subject))
    groups = {image.attributes[attribute][0] for image in images}
    if len(groups) < 2:
        raise Fp2Error(
            f"{len(groups)} sub-folder(s) have images, and a comparison needs two",
            where=str(root),
            fix="Put the images into one sub-folder per group",
        )
    notes = []
    if alone:
        notes.append(f"{alone} picture(s) directly in their group's folder count as a person of their own each")
    if loose:
        notes.append(f"{loose} picture(s) outside the groups' folders were left out")
    return Dataset(root.name, None, labelled_people(images, root, root), tuple(notes))
