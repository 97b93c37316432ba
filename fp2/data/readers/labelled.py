"""Images of one person each, labelled by a list or by their folders: what readers of published face data sets share.

Each image of a published data set (GRAS's image lists, FairFace's label files, UTKFace's file names) is a subject of
its own, because none of them says which of its images show the same person. Labels keep the data set's wording.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.data.base import Dataset, people_table
from fp2.data.readers.table import needing, read_rows
from fp2.errors import Fp2Error
from fp2.text import plural

if TYPE_CHECKING:
    import pandas as pd

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})
EACH_ITS_OWN = "each image counts as a subject of its own: the data set does not identify who is in several of them"
_OLDEST = {"more than 70": "70+"}
_SAMPLED = 40  # images of a list whose files are looked for: a release is complete, or it is not there


@dataclass(frozen=True, slots=True)
class LabelledImages:
    """One image: its path below the image folder (with `/`), its attributes, and the subject's id if known."""

    path: str
    attributes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    subject: str | None = None


def labelled_people(images: Sequence[LabelledImages], folder: Path, where: Path) -> pd.DataFrame:
    """Return the people table of `images` below `folder`; an image without a subject is a subject of its own.

    An attribute that only some images have is empty for the others. `where` is the file or folder named in errors.
    """
    if not images:
        raise Fp2Error("no image is listed", where=str(where))
    listed_paths: set[str] = set()
    for image in images:
        if Path(image.path).is_absolute() or ".." in Path(image.path).parts:
            raise Fp2Error(f"the path {image.path!r} leads out of the image folder", where=str(where))
        if image.path in listed_paths:
            raise Fp2Error(f"the image {image.path!r} is listed twice", where=str(where))
        listed_paths.add(image.path)
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
    """Return the folder that `paths` start from: `chosen`, or else `root` or a folder at most two levels below it."""
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
    first = _folders(root)
    return [root, *first, *(inner for folder in first for inner in _folders(folder))]


def _folders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def find_files(root: Path, pattern: str) -> list[Path]:
    """Return the files that match `pattern` in the first folder that has any: `root`, or at most two levels below."""
    if not root.is_dir():
        raise Fp2Error("the folder of the data set does not exist", where=str(root), fix="Check data.root")
    for folder in _nearby(root):
        if files := sorted(folder.glob(pattern)):
            return files
    return []


def images_below(folder: Path) -> Iterable[Path]:
    """Yield the image files below `folder` in the order of their names, without hidden files and folders."""
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).parts
        hidden = any(name.startswith(".") for name in relative)
        if path.suffix.lower() in IMAGE_SUFFIXES and not hidden and path.is_file():
            yield path


def load_folders(root: Path, attribute: str = "group") -> Dataset:
    """Return the images below `root`: the first folder of the path is the value of `attribute`.

    An image directly in its group's folder is a subject of its own; images in a folder below it (`GROUP/PERSON/...`)
    are of one subject. Images directly in `root` belong to no group and are left out.
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
        images.append(LabelledImages(path.relative_to(root).as_posix(), {attribute: [group]}, subject))
    groups = {image.attributes[attribute][0] for image in images}
    if len(groups) < 2:
        raise Fp2Error(
            f"{plural(len(groups), 'sub-folder has', 'sub-folders have')} images, and a comparison needs two",
            where=str(root),
            fix="Put the images into one sub-folder per group",
        )
    notes = []
    if alone:
        notes.append(f"{plural(alone, 'image')} directly in the folder of a group: each counts as a subject of its own")
    if loose:
        notes.append(f"{plural(loose, 'image')} outside the groups' folders left out")
    return Dataset(root.name, None, labelled_people(images, root, root), tuple(notes))


def label_rows(path: Path, needed: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a list with their numbers; raise Fp2Error if it lacks a column of `needed`."""
    return list(read_rows(path, needing(needed, path, "the list lacks")))


def fairface_labels(row: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the attributes of a row of FairFace's labels; GRAS's list of FairFace images has the same columns."""
    age = row["age"].strip()
    labels = {"gender": row["gender"].strip(), "race": row["race"].strip(), "age": _OLDEST.get(age, age)}
    return {name: [label] if label else [] for name, label in labels.items()}
