"""Agreement of annotators: overlap of boxes and masks, similarity of keypoints, and of sets of labels.

The measures are the paper's ("Annotation QA"): intersection over union, object keypoint similarity, Sørensen-Dice and
Jaccard. The agreement about a person in an image is the mean over all pairs of annotators. For labels, Krippendorff's
alpha with the Jaccard distance stands beside it: 1 - observed / expected disagreement, where the expected one is that
of two labels drawn from all (Krippendorff 2011, "Computing Krippendorff's alpha-reliability"; 0 is chance).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fp2.extension import Fp2Error, check_names, normal_id, read_json, read_table
from fp2.methods.fhibe.narrow.detection import coco_points, oks, overlaps
from fp2.methods.fhibe.narrow.predictions import PARQUET, Prediction, encode_mask, parse, read_entries
from fp2.methods.fhibe.narrow.tasks import narrow_task
from fp2.methods.fhibe.narrow.truth import Person, image_size, people_by_image, person_mask

Labels = frozenset[str]
Unit = tuple[str, str]
"""Image and subject."""
Given = dict[Unit, dict[str, Any]]
"""What each annotator said about each person in an image."""
OWN = "the data set"


class Shape(NamedTuple):
    """A kind of shape: the narrow task whose form its entries have, its title, and how two of it are compared."""

    task: str
    title: str
    measure: str


SHAPES = {
    "person_box": Shape("person_detection", "Person boxes", "intersection over union"),
    "face_box": Shape("face_detection", "Face boxes", "intersection over union"),
    "person_mask": Shape("person_segmentation", "Person masks", "Sørensen-Dice coefficient"),
    "keypoints": Shape("pose_estimation", "Keypoints", "object keypoint similarity"),
}
"""Name of a file of shapes -> its kind."""
JACCARD = "Jaccard similarity of the labels"


def jaccard(a: Collection[str], b: Collection[str]) -> float:
    """Return the size of the intersection of two sets divided by that of their union; 1 of two empty ones."""
    first, second = set(a), set(b)
    union = first | second
    return len(first & second) / len(union) if union else 1.0


def agreement(given: Sequence[Any], similarity: Callable[[Any, Any], float]) -> float | None:
    """Return the mean similarity over all pairs; None of fewer than two."""
    pairs = [similarity(a, b) for a, b in combinations(given, 2)]
    return float(np.mean(pairs)) if pairs else None


def krippendorff(units: Iterable[Sequence[Labels]]) -> float | None:
    """Return Krippendorff's alpha with the Jaccard distance of sets (nominal alpha, if each has one label).

    units : the labels of each person in an image, one set per annotator; those with fewer than two do not count.
    None where all labels are equal, or there is no pair.
    """
    paired = [list(unit) for unit in units if len(unit) > 1]
    total = sum(len(unit) for unit in paired)
    if total < 2:
        return None
    observed = (
        sum(2 * sum(1 - jaccard(a, b) for a, b in combinations(unit, 2)) / (len(unit) - 1) for unit in paired) / total
    )
    counts: dict[Labels, int] = defaultdict(int)
    for unit in paired:
        for labels in unit:
            counts[labels] += 1
    expected = sum(2 * counts[a] * counts[b] * (1 - jaccard(a, b)) for a, b in combinations(counts, 2)) / (
        total * (total - 1)
    )
    return 1 - observed / expected if expected else None


def read_shapes(path: Path, kind: str, people: Sequence[Person], *, with_data: bool) -> Given:
    """Return the shapes of a file, and those of the data set, by person and annotator."""
    task = narrow_task(SHAPES[kind].task)
    content = None if path.suffix.lower() in PARQUET else read_json(path, "annotations")
    entries = read_entries(path, task, content)
    images = people_by_image(people)
    given: Given = defaultdict(dict)
    for number, entry in enumerate(entries, start=1):
        where = f"{path}, entry {number}"
        said = parse(entry, task, where, path.parent)
        person = _person(images, said.image_id, said.subject_id, where)
        _add(given, person, entry.get("annotator"), said, where)
    for person in people if with_data else ():
        unit = (person.image_id, person.subject_id)
        if unit in given and (shape := _own_shape(person, kind)) is not None:
            given[unit][OWN] = shape
    return dict(given)


def read_labels(path: Path, people: Sequence[Person], own: Mapping[str, Mapping[Unit, Labels]]) -> dict[str, Given]:
    """Return attribute -> the labels by person and annotator.

    Parameters
    ----------
    path : Path
        A table with `image_id`, `annotator` and a column per attribute, and `subject_id` if images show two people.
        A cell may hold several labels, separated by ";"; an empty cell is no annotation.
    own : mapping
        Attribute -> unit -> the data set's own labels; empty: it is no annotator.
    """
    table = read_table(path)
    columns = [str(name) for name in table.columns]
    check_names(("image_id", "annotator"), columns, "the table has no column", str(path))
    attributes = [name for name in columns if name not in ("image_id", "subject_id", "annotator")]
    if not attributes:
        raise Fp2Error("the table has no column of an attribute", where=str(path))
    images = people_by_image(people)
    found: dict[str, Given] = {name: defaultdict(dict) for name in attributes}
    for number, row in enumerate(table.to_dict("records"), start=1):
        where = f"{path}, row {number}"
        person = _person(images, normal_id(row["image_id"]), normal_id(row.get("subject_id") or "") or None, where)
        for name in attributes:
            labels = frozenset(part.strip() for part in str(row[name] or "").split(";") if part.strip())
            if labels:
                _add(found[name], person, row["annotator"], labels, where)
    for name, given in found.items():
        for unit, said in given.items():
            if ours := own.get(name, {}).get(unit):
                said[OWN] = ours
    return {name: dict(given) for name, given in found.items()}


def similarity(kind: str, people: Mapping[Unit, Person], unit: Unit) -> Callable[[Any, Any], float]:
    """Return the function that compares two shapes of a person."""
    if kind in ("person_box", "face_box"):
        return lambda a, b: float(overlaps([list(a.box)], [list(b.box)])[0, 0])
    if kind == "person_mask":
        return _dice
    area = _area(people[unit])

    def compare(a: Prediction, b: Prediction) -> float:
        assert a.keypoints is not None
        assert b.keypoints is not None
        either = np.array([np.isfinite(pair).all(axis=1).any() for pair in zip(a.keypoints, b.keypoints, strict=True)])
        return oks(a.keypoints, b.keypoints, either, area)

    return compare


def _dice(a: Prediction, b: Prediction) -> float:
    assert a.mask is not None
    assert b.mask is not None
    overlap = float(overlaps([a.mask], [b.mask])[0, 0])
    return 2 * overlap / (1 + overlap)


def _area(person: Person) -> float:
    geometry = person.geometry()
    size = geometry.size
    mask = None if size is None else person_mask(person, geometry, size)
    if mask is not None:
        return float(mask.sum())
    return geometry.person_box.width * geometry.person_box.height if geometry.person_box else float("nan")


def _own_shape(person: Person, kind: str) -> Prediction | None:
    """Return the data set's own annotation in the form of a prediction; None if it has none."""
    geometry = person.geometry()
    if kind in ("person_box", "face_box"):
        box = geometry.person_box if kind == "person_box" else geometry.face_box
        return None if box is None else Prediction(person.image_id, box=(box.x, box.y, box.width, box.height))
    if kind == "person_mask":
        mask = person_mask(person, geometry, image_size(person.image_path, geometry))
        return None if mask is None else Prediction(person.image_id, mask=encode_mask(mask))
    places, visible = coco_points(geometry.keypoints)
    return Prediction(person.image_id, keypoints=places) if visible.any() else None


def _person(images: Mapping[str, list[Person]], image: str, subject: str | None, where: str) -> Person | None:
    """Return the person that an entry is about; None of images outside the run."""
    group = images.get(image)
    if group is None:
        return None
    if subject is None and len(group) > 1:
        raise Fp2Error("the image shows two people", where=where, fix="Name one: subject_id")
    for person in group:
        if subject is None or person.subject_id == subject:
            return person
    raise Fp2Error(f"{subject!r} is not in image {image!r}", where=where, fix="Use the subject_id of the people table")


def _add(given: Given, person: Person | None, annotator: Any, said: Any, where: str) -> None:
    name = str(annotator or "").strip()
    if not name:
        raise Fp2Error("annotator is missing", where=where, fix="Name who annotated, by any text")
    if name == OWN:
        raise Fp2Error(f"an annotator cannot be named {OWN!r}", where=where)
    if person is None:
        return
    unit = (person.image_id, person.subject_id)
    if name in given[unit]:
        raise Fp2Error(f"{name!r} has annotated {unit[0]!r} twice", where=where)
    given[unit][name] = said
