"""Label files over pictures of several people each, with boxes: COCO, FACET, MIAP and WIDER FACE.

A box is a person, and a subject of their own: none of the data sets says who is in several of its images. Images are
found by their file names anywhere below the folder, so that a part of a release can be read; labels of images that are
not there are counted. Labels keep the data set's wording.

Sources of the formats: Lin et al. 2014 (COCO); Gustafson et al. 2023 (FACET); Schumann et al. 2021 (MIAP, an extension
of Open Images); Yang et al. 2016 (WIDER FACE), and the label files themselves.
"""

from __future__ import annotations

import ast
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.data.base import Dataset, people_table
from fp2.data.readers.labelled import EACH_ITS_OWN, find_files, images_below
from fp2.data.readers.table import read_rows
from fp2.errors import Fp2Error

if TYPE_CHECKING:
    import pandas as pd

Box = tuple[float, float, float, float]
"""Left edge, top edge, width and height in pixels."""
Report = Callable[[int, int], None]
"""Called with (done, total)."""
_NO_BOX: Box = (math.nan, math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Boxed:
    """One person: the file name of the image, an id within the data set, a box of the person or the face, labels."""

    image: str
    subject: str
    box: Box = _NO_BOX
    face: Box = _NO_BOX
    attributes: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Pictures:
    """The image files below a folder, by their names.

    Raises
    ------
    Fp2Error
        If there is none.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._paths = {path.name: path.relative_to(root).as_posix() for path in images_below(root)}
        if not self._paths:
            raise Fp2Error("there are no images", where=str(root), fix="Put the images below data.root")

    def find(self, name: str) -> str | None:
        """Return the path of an image below the folder; None if it is not there."""
        return self._paths.get(name)

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths.values())


def boxed_people(people: Sequence[Boxed], pictures: Pictures, where: Path) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the people table of all people whose image is there, and a note of how many others there are.

    The primary person of an image is the one with the largest box.

    Raises
    ------
    Fp2Error
        If none of the images is there.
    """
    found = [(person, path) for person in people if (path := pictures.find(person.image)) is not None]
    if not found:
        example = people[0].image if people else "?"
        what = f"labels were found, but none of their images, such as {example}"
        raise Fp2Error(what, where=str(where), fix="Put the images below data.root")
    per_image = Counter(path for _, path in found)
    largest: dict[str, tuple[float, int]] = {}
    for number, (person, path) in enumerate(found):
        area = max(_area(person.box), _area(person.face))
        if path not in largest or area > largest[path][0]:
            largest[path] = (area, number)
    primary = {number for _, number in largest.values()}
    names = list(dict.fromkeys(name for person, _ in found for name in person.attributes))
    columns: dict[str, list[object]] = {
        "image_id": [path for _, path in found],
        "subject_id": [person.subject for person, _ in found],
        "image_path": [str((pictures.root / path).absolute()) for _, path in found],
        "is_primary": [number in primary for number in range(len(found))],
        "n_people": [per_image[path] for _, path in found],
        **{f"box_{side}": [person.box[n] for person, _ in found] for n, side in enumerate("xywh")},
    }
    if any(not math.isnan(person.face[0]) for person, _ in found):
        columns |= {f"face_{side}": [person.face[n] for person, _ in found] for n, side in enumerate("xywh")}
    columns |= {f"attr_{name}": [list(person.attributes.get(name, ())) for person, _ in found] for name in names}
    n_out = len(people) - len(found)
    notes = (f"{n_out} labelled person(s) whose image is not there were left out",) if n_out else ()
    return people_table(columns), notes


def _area(box: Box) -> float:
    return 0.0 if math.isnan(box[2]) else box[2] * box[3]


def counted(left_out: Mapping[str, int]) -> tuple[str, ...]:
    """Return a note per reason for which people were left out."""
    return tuple(f"{n} {what} were left out" for what, n in left_out.items() if n)


def load_coco(root: Path) -> Dataset:
    """Return the people of COCO's `instances_*.json` files: boxes of the category person, without crowds.

    Attributes: `split`, and COCO's `size` of the person (`small` below 32 x 32 pixels of area, `large` from 96 x 96).

    Raises
    ------
    Fp2Error
        If no label file or image is found, or a file is malformed.
    """
    files = find_files(root, "instances_*.json")
    if not files:
        raise Fp2Error("there are no instances_*.json files", where=str(root), fix="data.root is COCO's folder")
    people, crowds = [], 0
    for file in files:
        split = file.stem.removeprefix("instances_")
        labels = read_json(file)
        try:
            names = {image["id"]: str(image["file_name"]) for image in labels["images"]}
            persons = {entry["id"] for entry in labels["categories"] if entry["name"] == "person"}
            for entry in labels["annotations"]:
                if entry["category_id"] not in persons:
                    continue
                if entry.get("iscrowd"):
                    crowds += 1
                    continue
                x, y, width, height = (float(value) for value in entry["bbox"])
                area = float(entry.get("area") or width * height)
                size = "small" if area < 32**2 else "large" if area >= 96**2 else "medium"
                attributes = {"split": [split], "size": [size]}
                name = Path(names[entry["image_id"]]).name
                people.append(Boxed(name, f"{split}/{entry['id']}", (x, y, width, height), attributes=attributes))
        except (KeyError, TypeError, ValueError) as error:
            raise _malformed(file, error) from None
    table, notes = boxed_people(people, Pictures(root), files[0])
    return Dataset("coco", None, table, (EACH_ITS_OWN, *notes, *counted({"crowd(s)": crowds})))


_FACET_GENDER = {"masc": "masculine", "fem": "feminine", "non_binary": "non-binary"}
_FACET_LISTS = {"age": "age_presentation_", "hair_type": "hairtype_", "hair_color": "haircolor_"}


def load_facet(root: Path) -> Dataset:
    """Return the people of FACET's `annotations.csv`.

    Attributes: `gender` and `age` (presentation), `skin_tone` (the tones of the Monk scale with the most annotators'
    votes, several if they tie), `occupation` (both classes), `hair_type` and `hair_color`, as far as the file has them.

    Raises
    ------
    Fp2Error
        If the file or its images are not found, or a box is malformed.
    """
    file = _one(root, "annotations.csv", "FACET's annotations.csv")
    people = []
    for number, row in read_rows(file, _needing(file, ("filename", "person_id", "bounding_box"))):
        where = f"{file}, row {number}"
        tones = {n: _count(row.get(f"skin_tone_{n}", "")) for n in range(1, 11)}
        most = max(tones.values())
        attributes = {
            "gender": [
                word for key, word in _FACET_GENDER.items() if _count(row.get(f"gender_presentation_{key}", ""))
            ],
            "skin_tone": [f"MST {n:02d}" for n, votes in tones.items() if votes == most and votes],
            "occupation": [cell for name in ("class1", "class2") if (cell := row.get(name, "").strip())],
            **{name: _listed(row, prefix) for name, prefix in _FACET_LISTS.items()},
        }
        box = _facet_box(row["bounding_box"], where)
        people.append(Boxed(row["filename"].strip(), row["person_id"].strip(), box, attributes=attributes))
    table, notes = boxed_people(people, Pictures(root), file)
    return Dataset("facet", None, table, (EACH_ITS_OWN, *notes))


def _listed(row: Mapping[str, str], prefix: str) -> list[str]:
    """Return the labels whose columns have this prefix and a vote; `na` is none."""
    names = (name.removeprefix(prefix) for name, cell in row.items() if name.startswith(prefix) and _count(cell))
    return [name.replace("_", " ") for name in names if name != "na"]


def _facet_box(cell: str, where: str) -> Box:
    for read in (json.loads, ast.literal_eval):
        try:
            box = read(cell)
            return (float(box["x"]), float(box["y"]), float(box["width"]), float(box["height"]))
        except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError):
            continue
    raise Fp2Error("bounding_box has no x, y, width, height", where=where)


_MIAP = "open_images_extended_miap_boxes_*.csv"


def load_miap(root: Path, report: Report = lambda done, total: None) -> Dataset:
    """Return the people of MIAP's box files; boxes are shares of the image there, and pixels here.

    Attributes: `gender`, `age` (presentation; `Unknown` is none) and `split`. Groups, drawings and people who were
    labelled as young, who may be children, are left out.

    Raises
    ------
    Fp2Error
        If no label file or image is found, an image cannot be read, or a coordinate is no number.
    """
    files = find_files(root, _MIAP)
    if not files:
        raise Fp2Error(f"there are no {_MIAP} files", where=str(root), fix="data.root is the folder of MIAP")
    pictures, sizes = Pictures(root), dict[str, tuple[int, int]]()
    people: list[Boxed] = []
    left_out: Counter[str] = Counter()
    needed = ("ImageID", "XMin", "XMax", "YMin", "YMax", "GenderPresentation", "AgePresentation")
    for file in files:
        split = file.stem.rpartition("_")[2]
        for number, row in read_rows(file, _needing(file, needed)):
            if row.get("IsGroupOf") == "1" or row.get("IsDepictionOf") == "1":
                left_out["box(es) of groups or depictions"] += 1
                continue
            if row["AgePresentation"] == "Young":
                left_out["person(s) labelled as young"] += 1
                continue
            name = f"{row['ImageID'].strip()}.jpg"
            if (path := pictures.find(name)) is not None and name not in sizes:
                sizes[name] = _image_size(root / path)
                report(len(sizes), len(pictures))
            box = _share_box(row, sizes.get(name, (0, 0)), f"{file}, row {number}")
            attributes = {
                "gender": _known(row["GenderPresentation"]), "age": _known(row["AgePresentation"]), "split": [split]
            }  # fmt: skip
            people.append(Boxed(name, f"{split}/{number}", box, attributes=attributes))
    table, notes = boxed_people(people, pictures, files[0])
    return Dataset("miap", None, table, (EACH_ITS_OWN, *notes, *counted(left_out)))


def _share_box(row: Mapping[str, str], size: tuple[int, int], where: str) -> Box:
    try:
        left, right, top, bottom = (float(row[name]) for name in ("XMin", "XMax", "YMin", "YMax"))
    except ValueError:
        raise Fp2Error("a coordinate of the box is not a number", where=where) from None
    width, height = size
    return (left * width, top * height, (right - left) * width, (bottom - top) * height)


def _image_size(path: Path) -> tuple[int, int]:
    from fp2.data.image_files import image_file

    try:
        with image_file(path) as image:
            return image.size
    except (OSError, ValueError) as error:
        raise Fp2Error(f"an image cannot be read: {type(error).__name__}", where=str(path)) from None


def _known(label: str) -> list[str]:
    text = label.strip()
    return [] if text in ("", "Unknown") else [text]


_WIDER: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("blur", ("clear", "normal blur", "heavy blur")),
    ("expression", ("typical", "exaggerated")),
    ("illumination", ("normal", "extreme")),
    ("invalid", ("no", "yes")),
    ("occlusion", ("none", "partial", "heavy")),
    ("pose", ("typical", "atypical")),
)


def load_wider_face(root: Path) -> Dataset:
    """Return the faces of WIDER FACE's `wider_face_*_bbx_gt.txt` files; people have a face box and no other.

    Attributes: `event`, `split`, `blur`, `expression`, `illumination`, `occlusion`, `pose`. Faces that are marked as
    invalid, or have no area, are left out.

    Raises
    ------
    Fp2Error
        If no label file or image is found, or a file is malformed.
    """
    files = find_files(root, "wider_face_*_bbx_gt.txt")
    if not files:
        raise Fp2Error("there are no wider_face_*_bbx_gt.txt files", where=str(root), fix="data.root is its folder")
    people: list[Boxed] = []
    invalid = 0
    for file in files:
        split = file.stem.split("_")[2]
        for name, faces in _wider_images(file):
            event = Path(name).parts[0].partition("--")[2].replace("_", " ") if "/" in name else ""
            for n, numbers in enumerate(faces):
                codes = {key: words[code] for (key, words), code in zip(_WIDER, numbers[4:10], strict=True)}
                if codes.pop("invalid") == "yes" or min(numbers[2:4]) <= 0:
                    invalid += 1
                    continue
                x, y, width, height = map(float, numbers[:4])
                attributes = {key: [value] for key, value in codes.items()} | {"split": [split]}
                attributes |= {"event": [event]} if event else {}
                image = Path(name).name
                people.append(Boxed(image, f"{Path(name).stem}/{n}", face=(x, y, width, height), attributes=attributes))
    table, notes = boxed_people(people, Pictures(root), files[0])
    return Dataset("wider_face", None, table, (EACH_ITS_OWN, *notes, *counted({"invalid face(s)": invalid})))


def _wider_images(file: Path) -> Iterator[tuple[str, list[list[int]]]]:
    """Yield the name of each image and its faces; an image without faces has one line of zeros."""
    lines = iter(read_lines(file))
    for number, name in enumerate(lines, start=1):
        try:
            n_faces = int(next(lines))
            rows = [[int(cell) for cell in next(lines).split()] for _ in range(max(1, n_faces))]
            if any(
                len(row) < 10 or not all(c < len(w) for (_, w), c in zip(_WIDER, row[4:10], strict=True))
                for row in rows
            ):
                raise ValueError("a face needs 10 numbers")
        except (ValueError, StopIteration) as error:
            raise Fp2Error(f"image {number} is malformed: {str(error) or 'the file ends'}", where=str(file)) from None
        yield name.strip(), rows[:n_faces]


def read_lines(file: Path) -> list[str]:
    """Return the lines of a text file that are not blank.

    Raises
    ------
    Fp2Error
        If it cannot be read.
    """
    try:
        return [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeError) as error:
        raise Fp2Error(f"the labels cannot be read: {type(error).__name__}", where=str(file)) from None


def read_json(file: Path) -> Any:
    """Return what a JSON file holds.

    Raises
    ------
    Fp2Error
        If it cannot be read.
    """
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Fp2Error(f"the labels cannot be read: {type(error).__name__}", where=str(file)) from None


def _malformed(file: Path, error: Exception) -> Fp2Error:
    return Fp2Error(f"the labels are malformed: {type(error).__name__}: {error}", where=str(file))


def _one(root: Path, name: str, what: str) -> Path:
    found = find_files(root, name)
    if not found:
        raise Fp2Error(f"{what} was not found", where=str(root), fix="data.root is the folder of the data set")
    return found[0]


def _needing(file: Path, columns: Sequence[str]) -> Callable[[list[str]], None]:
    def check(header: list[str]) -> None:
        if missing := [name for name in columns if name not in header]:
            raise Fp2Error(f"the labels lack the column(s) {', '.join(missing)}", where=str(file))

    return check


def _count(cell: str) -> int:
    text = cell.strip().removesuffix(".0")
    return int(text) if text.isdecimal() else 0
