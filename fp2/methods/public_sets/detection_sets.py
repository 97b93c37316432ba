"""COCO, FACET, MIAP, Phase and WIDER FACE: label files over pictures of several people each, with boxes.

A box is a person, and a subject of their own: none of the data sets says who is in several of its images. Labels keep
the data set's wording.

Sources of the formats: Lin et al. 2014 (COCO); Gustafson et al. 2023 (FACET); Schumann et al. 2021 (MIAP, an extension
of Open Images); Garcia et al. 2023 (Phase), as `setup/process_phase.py` of ExplainableML/vla-gender-bias reads it; Yang
et al. 2016 (WIDER FACE), and the label files themselves.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from fp2.extension import EACH_ITS_OWN, Dataset, Fp2Error, find_files, needing, read_json, read_rows
from fp2.methods.public_sets.boxed import Box, Boxed, Pictures, boxed_people, counted, read_lines

Report = Callable[[int, int], None]
"""Called with (done, total)."""


def load_coco(root: Path) -> Dataset:
    """Return the people of COCO's `instances_*.json` files: boxes of the category person, without crowds.

    Attributes: `split`, and COCO's `size` of the person (`small` below 32 x 32 pixels of area, `large` from 96 x 96).
    """
    files = find_files(root, "instances_*.json")
    if not files:
        raise Fp2Error("there are no instances_*.json files", where=str(root), fix="data.root is COCO's folder")
    people: list[Boxed] = []
    crowds: list[str] = []
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
                    crowds.append(Path(names[entry["image_id"]]).name)
                    continue
                x, y, width, height = (float(value) for value in entry["bbox"])
                area = float(entry.get("area") or width * height)
                size = "small" if area < 32**2 else "large" if area >= 96**2 else "medium"
                attributes = {"split": [split], "size": [size]}
                name = Path(names[entry["image_id"]]).name
                people.append(Boxed(name, f"{split}/{entry['id']}", (x, y, width, height), attributes=attributes))
        except (KeyError, TypeError, ValueError) as error:
            raise Fp2Error(f"the labels are malformed: {type(error).__name__}: {error}", where=str(file)) from None
    table, notes = boxed_people(people, Pictures(root), files[0], crowds)
    return Dataset("coco", None, table, (EACH_ITS_OWN, *notes, *counted({"[crowd|crowds]": len(crowds)})))


_FACET_GENDER = {"masc": "masculine", "fem": "feminine", "non_binary": "non-binary"}
_FACET_LISTS = {"age": "age_presentation_", "hair_type": "hairtype_", "hair_color": "haircolor_"}


def load_facet(root: Path) -> Dataset:
    """Return the people of FACET's `annotations.csv`.

    Attributes: `gender` and `age` (presentation), `skin_tone` (the tones of the Monk scale with the most annotators'
    votes, several if they tie), `occupation` (both classes), `hair_type` and `hair_color`, as far as the file has them.
    """
    file = next(iter(find_files(root, "annotations.csv")), None)
    if file is None:
        fix = "data.root is the folder of the data set"
        raise Fp2Error("FACET's annotations.csv was not found", where=str(root), fix=fix)
    people = []
    for number, row in read_rows(file, needing(("filename", "person_id", "bounding_box"), file, "the labels lack")):
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
    """
    files = find_files(root, _MIAP)
    if not files:
        raise Fp2Error(f"there are no {_MIAP} files", where=str(root), fix="data.root is the folder of MIAP")
    pictures, sizes = Pictures(root), dict[str, tuple[int, int]]()
    people: list[Boxed] = []
    left_out: Counter[str] = Counter()
    others: list[str] = []
    needed = ("ImageID", "XMin", "XMax", "YMin", "YMax", "GenderPresentation", "AgePresentation")
    for file in files:
        split = file.stem.rpartition("_")[2]
        for number, row in read_rows(file, needing(needed, file, "the labels lack")):
            name = f"{row['ImageID'].strip()}.jpg"
            if row.get("IsGroupOf") == "1" or row.get("IsDepictionOf") == "1":
                left_out["[box|boxes] of groups or depictions"] += 1
                others.append(name)
                continue
            if row["AgePresentation"] == "Young":
                left_out["[person|persons] labelled as young"] += 1
                others.append(name)
                continue
            if (path := pictures.find(name)) is not None and name not in sizes:
                sizes[name] = _image_size(root / path)
                report(len(sizes), len(pictures))
            box = _share_box(row, sizes.get(name, (0, 0)), f"{file}, row {number}")
            attributes = {
                "gender": _known(row["GenderPresentation"]),
                "age": _known(row["AgePresentation"]),
                "split": [split],
            }
            people.append(Boxed(name, f"{split}/{number}", box, attributes=attributes))
    table, notes = boxed_people(people, pictures, files[0], others)
    return Dataset("miap", None, table, (EACH_ITS_OWN, *notes, *counted(left_out)))


_PHASE = "phase_gcc_*_all_*.json"
_PHASE_LABELS = ("gender", "ethnicity", "age", "activity", "emotion")
_PHASE_YOUNG = {"baby", "child", "young"}


def load_phase(root: Path) -> Dataset:
    """Return the people of Phase's files of all annotations; a label is that of most of a person's annotators.

    Attributes: `gender`, `ethnicity`, `age`, `activity`, `emotion` and `split`; none where annotators tie. People whom
    most annotators called young, or some where they tie, may be children, and are left out.
    """
    files = find_files(root, _PHASE)
    if not files:
        raise Fp2Error(f"there are no {_PHASE} files", where=str(root), fix="data.root is the folder of Phase")
    people: list[Boxed] = []
    left_out: Counter[str] = Counter()
    others: list[str] = []
    for file in files:
        split = file.stem.split("_")[2]
        try:
            for image, entries in read_json(file).items():
                for name, entry in entries.items():
                    if name == "caption" or not {"region", "annotations"} <= set(entry):
                        continue
                    given = {
                        label: [one[label] for one in entry["annotations"] if one.get(label)] for label in _PHASE_LABELS
                    }
                    voted = {label: _voted(values) for label, values in given.items()}
                    if _PHASE_YOUNG & set(voted["age"] or given["age"]):
                        left_out["[person|persons] labelled as young"] += 1
                        others.append(image)
                        continue
                    left, top, right, bottom = map(float, entry["region"])
                    box = (left, top, right - left, bottom - top)
                    people.append(Boxed(image, f"{split}/{image}/{name}", box, attributes={**voted, "split": [split]}))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise Fp2Error(f"the labels are malformed: {type(error).__name__}: {error}", where=str(file)) from None
    table, notes = boxed_people(people, Pictures(root), files[0], others)
    return Dataset("phase", None, table, (EACH_ITS_OWN, *notes, *counted(left_out)))


def _voted(values: Sequence[str]) -> list[str]:
    """Return the value that most annotators gave; none where two have as many."""
    first, *rest = Counter(values).most_common(2) or [("", 0)]
    return [str(first[0])] if first[1] and not (rest and rest[0][1] == first[1]) else []


def _share_box(row: Mapping[str, str], size: tuple[int, int], where: str) -> Box:
    try:
        left, right, top, bottom = (float(row[name]) for name in ("XMin", "XMax", "YMin", "YMax"))
    except ValueError:
        raise Fp2Error("a coordinate of the box is not a number", where=where) from None
    width, height = size
    return (left * width, top * height, (right - left) * width, (bottom - top) * height)


def _image_size(path: Path) -> tuple[int, int]:
    from fp2.extension import image_file

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
    """
    files = find_files(root, "wider_face_*_bbx_gt.txt")
    if not files:
        raise Fp2Error("there are no wider_face_*_bbx_gt.txt files", where=str(root), fix="data.root is its folder")
    people: list[Boxed] = []
    invalid: list[str] = []
    for file in files:
        split = file.stem.split("_")[2]
        for name, faces in _wider_images(file):
            event = Path(name).parts[0].partition("--")[2].replace("_", " ") if "/" in name else ""
            for n, numbers in enumerate(faces):
                codes = {key: words[code] for (key, words), code in zip(_WIDER, numbers[4:10], strict=True)}
                if codes.pop("invalid") == "yes" or min(numbers[2:4]) <= 0:
                    invalid.append(Path(name).name)
                    continue
                x, y, width, height = map(float, numbers[:4])
                attributes = {key: [value] for key, value in codes.items()} | {"split": [split]}
                attributes |= {"event": [event]} if event else {}
                image = Path(name).name
                people.append(Boxed(image, f"{Path(name).stem}/{n}", face=(x, y, width, height), attributes=attributes))
    table, notes = boxed_people(people, Pictures(root), files[0], invalid)
    return Dataset("wider_face", None, table, (EACH_ITS_OWN, *notes, *counted({"invalid [face|faces]": len(invalid)})))


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


def _count(cell: str) -> int:
    text = cell.strip().removesuffix(".0")
    return int(text) if text.isdecimal() else 0
