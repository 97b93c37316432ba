"""Images of one person each, labelled by a list, by their file names or by their folders; published face data sets.

Each image of a published data set (GRAS's image lists, FairFace's label files, UTKFace's file names) is a subject of
its own, because none of them says which of its images show the same person. Labels keep the data set's wording.

Sources of the formats: FairFace (Karkkainen & Joo, WACV 2021) and its label files; UTKFace's page
(susanqq.github.io/UTKFace); GRAS (EACL 2026 Findings), section on data: FairFace for gender, race and age, and the real
part of AI-Face for the Monk Skin Tone.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.data.base import Dataset, people_table
from fp2.data.readers.table import age_group, read_rows
from fp2.errors import Fp2Error
from fp2.text import plural

if TYPE_CHECKING:
    import pandas as pd

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"})
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


GRAS_FACES, GRAS_TONES = "selected_images_fairface.csv", "selected_images_aiface.csv"
FAIRFACE_LABELS = "fairface_label*.csv"
_OLDEST = {"more than 70": "70+"}
_TONES = 10
EACH_ITS_OWN = "each image counts as a subject of its own: the data set does not identify who is in several of them"
TONES_ALONE = (
    "skin tone is known for the AI-Face images only, which were not balanced for gender, age or race and have no "
    "other labels: a difference between skin tones may be confounded with these, which cannot be checked"
)

_UTK_NAME = re.compile(r"(\d{1,3})_([01])_([0-4])_\d{8,}")
_UTK_GENDERS = ("Male", "Female")
_UTK_RACES = ("White", "Black", "Asian", "Indian", "Others")


def load_gras(root: Path, image_root: Path | None = None, *, needs_images: bool = True) -> Dataset:
    """Return GRAS's images by the official lists, from the user's own copy.

    The attribute `subset` separates two sources: `fairface` has gender, race and age; `aiface` has the skin tone only,
    as `MST 01` to `MST 10`. Unless `needs_images`, the files are not looked for.
    """
    faces, tones = (_only(root, name) for name in (GRAS_FACES, GRAS_TONES))
    images = [
        LabelledImages(row["file"].strip(), {"subset": ["fairface"], **_fairface(row)})
        for _, row in _rows(faces, ("file", "age", "gender", "race"))
    ]
    images += [
        LabelledImages(
            row["file"].strip(), {"subset": ["aiface"], "skin_tone": [_monk(row["Skin Tone"], tones, number)]}
        )
        for number, row in _rows(tones, ("file", "Skin Tone"))
    ]
    paths = [image.path for image in images]
    folder = image_folder(faces.parent, paths, image_root) if needs_images else image_root or faces.parent
    notes = (EACH_ITS_OWN, TONES_ALONE, *_uneven(images, ("gender", "race", "age")), *_uneven(images, ("skin_tone",)))
    return Dataset("gras", None, labelled_people(images, folder, faces), notes)


def load_fairface(root: Path, image_root: Path | None = None) -> Dataset:
    """Return FairFace's images by its label files (`fairface_label_train.csv`, `fairface_label_val.csv`).

    Attributes: gender, race, age and `split` (`train` or `val`).
    """
    files = find_files(root, FAIRFACE_LABELS)
    if not files:
        fix = "data.root is the folder with fairface_label_train.csv"
        raise Fp2Error("there are no FairFace label files", where=str(root), fix=fix)
    images = []
    for file in files:
        for _, row in _rows(file, ("file", "age", "gender", "race")):
            path = row["file"].strip()
            images.append(LabelledImages(path, {**_fairface(row), "split": [Path(path).parts[0]]}))
    folder = image_folder(files[0].parent, [image.path for image in images], image_root)
    return Dataset("fairface", None, labelled_people(images, folder, files[0]), (EACH_ITS_OWN,))


def load_utkface(root: Path) -> Dataset:
    """Return UTKFace's images; gender, race and age (as age groups) are read from the file names.

    A name is `[age]_[gender]_[race]_[date and time]`, gender 0 male and 1 female, race 0 White, 1 Black, 2 Asian,
    3 Indian, 4 Others; images with another name are left out and counted.
    """
    if not root.is_dir():
        raise Fp2Error("the folder of the data set does not exist", where=str(root), fix="Check data.root")
    images: list[LabelledImages] = []
    odd = 0
    for path in images_below(root):
        match = _UTK_NAME.match(path.name)
        if match is None:
            odd += 1
            continue
        attributes = {
            "gender": [_UTK_GENDERS[int(match.group(2))]],
            "race": [_UTK_RACES[int(match.group(3))]],
            "age": [age_group(int(match.group(1)))],
        }
        images.append(LabelledImages(path.relative_to(root).as_posix(), attributes))
    if not images:
        fix = "An image of UTKFace is named age_gender_race_date.jpg"
        raise Fp2Error("no image is named like UTKFace's", where=str(root), fix=fix)
    odd_note = (f"{plural(odd, 'image')} without a label in the name left out",) if odd else ()
    notes = (EACH_ITS_OWN, *odd_note)
    return Dataset("utkface", None, labelled_people(images, root, root), notes)


def _uneven(images: Sequence[LabelledImages], names: Sequence[str]) -> Iterator[str]:
    """Yield a note if the images with these attributes are not spread evenly over the combinations of values."""
    values = [[image.attributes.get(name, []) for name in names] for image in images]
    cells = Counter(tuple(value[0] for value in row) for row in values if all(row))
    every = math.prod(len({cell[place] for cell in cells}) for place in range(len(names)))
    if len(set(cells.values())) > 1 or len(cells) < every:
        least = min(cells.values()) if len(cells) == every else 0
        attributes = " x ".join(name.replace("_", " ") for name in names)
        most = max(cells.values())
        yield f"the images are not distributed evenly over {attributes}: {least} to {most} in each of {every} cells"


def _fairface(row: Mapping[str, str]) -> dict[str, list[str]]:
    age = row["age"].strip()
    labels = {"gender": row["gender"].strip(), "race": row["race"].strip(), "age": _OLDEST.get(age, age)}
    return {name: [label] if label else [] for name, label in labels.items()}


def _monk(cell: str, where: Path, number: int) -> str:
    """Return a tone of the Monk Skin Tone scale, with two digits so that names sort as numbers."""
    digits = re.sub(r"(?i)mst|[\s_-]", "", cell)
    tone = digits.removesuffix(".0")
    if not tone.isdecimal() or not 1 <= int(tone) <= _TONES:
        raise Fp2Error(f"row {number} has the skin tone {cell!r}, not one from 1 to {_TONES}", where=str(where))
    return f"MST {int(tone):02d}"


def _only(root: Path, name: str) -> Path:
    files = find_files(root, name)
    if not files:
        raise Fp2Error(
            f"GRAS's list {name} was not found",
            where=str(root),
            fix="data.root is the folder with both lists and the image folder beside them",
        )
    return files[0]


def _rows(path: Path, needed: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a list with their numbers; raise Fp2Error if it lacks a column of `needed`."""

    def check(header: list[str]) -> None:
        missing = [name for name in needed if name not in header]
        if missing:
            raise Fp2Error(f"the list lacks a column: {', '.join(missing)}", where=str(path))

    return list(read_rows(path, check))
