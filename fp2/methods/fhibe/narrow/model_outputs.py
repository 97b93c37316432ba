"""Predictions in the form of FHIBE's evaluation code: its `model_outputs.json`, and its folders of generated images.

The file maps the path of each image, on the machine that wrote it, to what the model said about it. Images are
recognised by the ends of their paths. Boxes are corners; poses and body parts are listed in the order of the people in
the release's table; masks and maps are in COCO's run lengths; the images of a super-resolution model lie beside the
file, and those of a face encoder in a folder without such a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from fp2.extension import Fp2Error, read_json
from fp2.methods.fhibe.narrow.predictions import (
    Pixels,
    Prediction,
    listed,
    parse,
    parse_entries,
    read_parquet,
    read_rle,
)
from fp2.methods.fhibe.narrow.tasks import (
    BOX,
    COCO_KEYPOINTS,
    EMBEDDING,
    FACE,
    GENERATED,
    MASK,
    PARSING,
    PARTS,
    POSE,
    NarrowTask,
)
from fp2.methods.fhibe.narrow.truth import Person

_ENDS = 3  # parts at the end of a path that may be needed to tell images apart


def read_predictions(
    path: Path, task: NarrowTask, people: Sequence[Person], keypoints: Sequence[str] = ()
) -> list[Prediction]:
    """Return the predictions of `task` in a file in our own form or in that of FHIBE's evaluation code.

    Parameters
    ----------
    path : Path
        Of generated images, also a folder of PNG files that are named as the face crops (`super_` may precede).
    people : sequence of Person
        In the order of the data set.
    keypoints : sequence of str
        The keypoints that poses are scored on: the file may hold these only, in COCO's order.

    Raises
    ------
    Fp2Error
        If the file cannot be read, or an entry does not have the form of the task.
    """
    if path.is_dir():
        return _folder(path, task, people)
    if path.suffix.lower() in (".parquet", ".pq"):
        return parse_entries(read_parquet(path), task, path)
    found = read_json(path, "predictions")
    if not _is_model_outputs(found):
        return parse_entries(listed(found, task, path), task, path)
    images = _Images(people, task)
    said: list[Prediction] = []
    for name, entry in found.items():
        where = f"{path}, {PurePosixPath(name).name}"
        if not isinstance(entry, Mapping):
            raise Fp2Error("an entry is not an object", where=where)
        group = images.find(name)
        if group is None:
            said.append(Prediction(PurePosixPath(name).name))  # counted as one of an image outside this run
        else:
            said += _OF_FORM[task.form](dict(entry), group, _Form(task, where, path.parent, tuple(keypoints)))
    return said


def _is_model_outputs(found: Any) -> bool:
    return isinstance(found, dict) and any(isinstance(entry, Mapping) for entry in found.values())


def _folder(path: Path, task: NarrowTask, people: Sequence[Person]) -> list[Prediction]:
    if task.form != GENERATED:
        fix = "Give a JSON or Parquet file"
        raise Fp2Error("the predictions are a folder", where=f"task.files.{task.name}", fix=fix)
    images, said = _Images(people, task), []
    for file in sorted(path.glob("*.png")):
        group = images.find(file.name.removeprefix("super_"))
        owner = group[0] if group else None
        ids = (file.name, None) if owner is None else (owner.image_id, owner.subject_id)
        said.append(Prediction(ids[0], ids[1], file=file))
    if not said:
        raise Fp2Error("the folder has no PNG files", where=str(path))
    return said


class _Images:
    """The people of each image (or of each face crop), by the ends of its path."""

    def __init__(self, people: Sequence[Person], task: NarrowTask) -> None:
        self._groups: dict[str, list[Person]] = {}
        self._ends: list[dict[tuple[str, ...], set[str]]] = [{} for _ in range(_ENDS)]
        for person in people:
            for path in _paths(person, task):
                key = person.face_id if task.shown == FACE else person.image_id
                own = self._groups.setdefault(key, [])
                if person not in own:
                    own.append(person)
                for n, ends in enumerate(self._ends, start=1):
                    ends.setdefault(path.parts[-n:], set()).add(key)

    def find(self, name: str) -> list[Person] | None:
        """Return the people of an image; None if it is not in the run, or its path fits several."""
        parts = PurePosixPath(name.replace("\\", "/")).parts
        for n, ends in enumerate(self._ends, start=1):
            keys = ends.get(parts[-n:], set())
            if len(keys) == 1:
                return self._groups[next(iter(keys))]
            if not keys:
                return None
        return None


def _paths(person: Person, task: NarrowTask) -> list[Path]:
    """Return the paths that an image may have: of a face crop also without the file."""
    if task.shown != FACE:
        return [person.image_path]
    crop = person.image_path.with_name(f"faces_crop_and_align_{person.face_id}.png")
    return [crop, person.image_path] if person.is_crop else [crop]


class _Form:
    """What an entry is read with: the task, where it is, the folder of the file, the keypoints of a pose."""

    def __init__(self, task: NarrowTask, where: str, folder: Path, keypoints: tuple[str, ...]) -> None:
        self.task, self.where, self.folder = task, where, folder
        self.keypoints = keypoints or COCO_KEYPOINTS

    def parse(self, person: Person, *, named: bool = True, **fields: Any) -> Prediction:
        """Return an entry of our own form, with its checks."""
        subject = {"subject_id": person.subject_id} if named else {}
        return parse({"image_id": person.image_id, **subject, **fields}, self.task, self.where, self.folder)

    def wrong(self, what: str) -> Fp2Error:
        """Return the error of an entry of another form."""
        return Fp2Error(what, where=self.where, fix="Give the model_outputs.json of this task")


Read = Callable[[dict[str, Any], list[Person], _Form], list[Prediction]]


def _detections(entry: Mapping[str, Any], form: _Form) -> list[Any]:
    if "detections" not in entry:
        raise form.wrong("detections is missing")
    found = entry["detections"]
    if found is not None and not isinstance(found, list):
        raise form.wrong("detections is not a list")
    return found or []


def _boxes(entry: dict[str, Any], group: list[Person], form: _Form) -> list[Prediction]:
    said, scores = [], entry.get("scores") or []
    for n, corners in enumerate(_detections(entry, form)):
        try:
            left, top, right, bottom = (float(value) for value in corners[:4])
        except (TypeError, ValueError):
            raise form.wrong("a box is not four numbers x0, y0, x1, y1") from None
        score = scores[n] if n < len(scores) else None
        box = [left, top, right - left, bottom - top]
        said.append(form.parse(group[0], named=False, bbox=box, score=score))
    return said


def _masks(entry: dict[str, Any], group: list[Person], form: _Form) -> list[Prediction]:
    scores = entry.get("scores") or []
    return [
        form.parse(group[0], named=False, segmentation=mask, score=scores[n] if n < len(scores) else None)
        for n, mask in enumerate(_detections(entry, form))
    ]


def _poses(entry: dict[str, Any], group: list[Person], form: _Form) -> list[Prediction]:
    found, said = _detections(entry, form), []
    scores = entry.get("scores") or []
    for n, points in enumerate(found):
        if not points:
            continue
        n_given = len(points) if isinstance(points, list) else 0
        if n_given != len(form.keypoints):
            what = f"a pose has {n_given} keypoints, not {len(form.keypoints)}"
            fix = "Name the ones that it has, in COCO's order: task.options.keypoints=[Nose, ...]"
            raise Fp2Error(what, where=form.where, fix=fix)
        place: dict[str, Any] = {}
        for name, point in zip(form.keypoints, points, strict=True):
            place[name] = point
        try:
            flat = [value for name in COCO_KEYPOINTS for value in (place.get(name) or (None, None))[:2]]
        except TypeError:
            raise form.wrong("a keypoint is not two numbers") from None
        own = _owner(n, found, group)
        mean = _mean(scores[n]) if n < len(scores) else None
        said.append(form.parse(own or group[0], named=own is not None, keypoints=flat, score=mean))
    return said


def _owner(place: int, found: Sequence[Any], group: list[Person]) -> Person | None:
    """Return the person that the entry at `place` is about; None where there are not as many entries as people."""
    return group[place] if len(found) == len(group) else None


def _mean(scores: Any) -> float | None:
    known = [float(value) for value in np.ravel(scores) if value is not None] if scores else []
    return sum(known) / len(known) if known and all(math.isfinite(value) for value in known) else None


def _body_parts(entry: dict[str, Any], group: list[Person], form: _Form) -> list[Prediction]:
    found, said = _detections(entry, form), []
    for n, parts in enumerate(found):
        own = _owner(n, found, group)
        said.append(form.parse(own or group[0], named=own is not None, parts=parts))
    return said


def _embedding(entry: dict[str, Any], group: list[Person], form: _Form) -> list[Prediction]:
    found = _detections(entry, form)
    return [form.parse(group[0], embedding=found)] if found else []


def _parsing(entry: dict[str, Any], group: list[Person], form: _Form) -> list[Prediction]:
    masks = entry.get("detections_rle")
    if not isinstance(masks, Mapping) or not masks:
        raise form.wrong("detections_rle is missing")
    return [Prediction(group[0].image_id, group[0].subject_id, labels=decode_labels(masks, form.where))]


def _generated(entry: dict[str, Any], group: list[Person], form: _Form) -> list[Prediction]:
    name = entry.get("super_res_filename")
    if not isinstance(name, str) or not name:
        raise form.wrong("super_res_filename is missing")
    here = form.folder / PurePosixPath(name.replace("\\", "/")).name
    return [form.parse(group[0], image=str(here if here.is_file() else name))]


_OF_FORM: dict[str, Read] = {
    BOX: _boxes,
    MASK: _masks,
    POSE: _poses,
    PARTS: _body_parts,
    EMBEDDING: _embedding,
    PARSING: _parsing,
    GENERATED: _generated,
}


def decode_labels(masks: Mapping[str, Any], where: str) -> Pixels:
    """Return a map of labels, shape (height, width), from a mask per label in COCO's run lengths.

    Raises
    ------
    Fp2Error
        If a label is no number from 0 to 255, or a mask is malformed or of another size.
    """
    from pycocotools.mask import decode

    labels: Pixels | None = None
    for name, mask in masks.items():
        if not str(name).isdecimal() or int(name) > 255:
            raise Fp2Error(f"{name!r} is not the number of a label", where=where)
        inside = decode(read_rle(mask, where)).astype(bool)
        if labels is None:
            labels = np.zeros(inside.shape, dtype=np.uint8)
        if inside.shape != labels.shape:
            raise Fp2Error("the masks of the labels have several sizes", where=where)
        labels[inside] = int(name)
    assert labels is not None
    return labels
