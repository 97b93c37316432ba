"""Predictions in the form of FHIBE's evaluation code: its `model_outputs.json`, and its folders of generated images.

The file maps the path of each image, on the machine that wrote it, to what the model said about it. Images are
recognised by the ends of their paths. Boxes are corners; poses and body parts are listed in the order of the people in
the release's table; masks and maps are in COCO's run lengths; the images of a super-resolution model lie beside the
file, and those of a face encoder in a folder without such a file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from fp2.extension import Fp2Error, read_json
from fp2.methods.fhibe.narrow.predictions import PARQUET, Pixels, Prediction, parse, read_entries, read_rle
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
    """
    if path.is_dir():
        return _folder(path, task, people)
    content = None if path.suffix.lower() in PARQUET else read_json(path, "predictions")
    if not (isinstance(content, dict) and any(isinstance(entry, Mapping) for entry in content.values())):
        entries = read_entries(path, task, content)
        if not entries:
            raise Fp2Error("the file has no predictions", where=str(path))
        return [parse(entry, task, f"{path}, entry {n}", path.parent) for n, entry in enumerate(entries, start=1)]
    images = _Images(people, task)
    predictions: list[Prediction] = []
    for name, entry in content.items():
        where = f"{path}, {PurePosixPath(name).name}"
        if not isinstance(entry, Mapping):
            raise Fp2Error("an entry is not an object", where=where)
        group = images.find(name)
        if group is None:
            predictions.append(Prediction(PurePosixPath(name).name))  # counted as one of an image outside this run
        else:
            output = _Output(entry, group, task, where, path.parent, tuple(keypoints) or COCO_KEYPOINTS)
            predictions += output.predictions()
    return predictions


def _folder(path: Path, task: NarrowTask, people: Sequence[Person]) -> list[Prediction]:
    if task.form != GENERATED:
        fix = "Give a JSON or Parquet file"
        raise Fp2Error("the predictions are a folder", where=f"task.files.{task.name}", fix=fix)
    images, predictions = _Images(people, task), []
    for file in sorted(path.glob("*.png")):
        group = images.find(file.name.removeprefix("super_"))
        image_id, subject_id = (group[0].image_id, group[0].subject_id) if group else (file.name, None)
        predictions.append(Prediction(image_id, subject_id, file=file))
    if not predictions:
        raise Fp2Error("the folder has no PNG files", where=str(path))
    return predictions


class _Images:
    """The people of each image (or of each face crop), by the ends of its path."""

    def __init__(self, people: Sequence[Person], task: NarrowTask) -> None:
        self._groups: dict[str, list[Person]] = {}
        self._ends: list[dict[tuple[str, ...], set[str]]] = [{} for _ in range(_ENDS)]
        for person in people:
            paths, key = [person.image_path], person.image_id
            if task.shown == FACE:  # a crop may be named without being there
                paths, key = [person.crop_path, *([person.image_path] if person.is_crop else [])], person.face_id
            group = self._groups.setdefault(key, [])
            if person not in group:
                group.append(person)
            for n, ends in enumerate(self._ends, start=1):
                for path in paths:
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


@dataclass(frozen=True)
class _Output:
    """What the file says about one image (`entry`), the people in it, and the keypoints of a pose."""

    entry: Mapping[str, Any]
    group: list[Person]
    task: NarrowTask
    where: str
    folder: Path
    keypoints: tuple[str, ...]

    def predictions(self) -> list[Prediction]:
        """Return the predictions about the image."""
        form = self.task.form
        if form == PARSING:
            return [self._parsing()]
        if form == GENERATED:
            return [self._generated()]
        if form == EMBEDDING:
            return [self._parse(self.group[0], embedding=self._detections)] if self._detections else []
        return list({BOX: self._boxes, MASK: self._masks, POSE: self._poses, PARTS: self._body_parts}[form]())

    @property
    def _detections(self) -> list[Any]:
        if "detections" not in self.entry:
            raise self._wrong("detections is missing")
        detections = self.entry["detections"]
        if detections is not None and not isinstance(detections, list):
            raise self._wrong("detections is not a list")
        return detections or []

    def _score(self, n: int) -> Any:
        scores = self.entry.get("scores") or []
        return scores[n] if n < len(scores) else None

    def _person(self, n: int) -> Person | None:
        """Return the person of the n-th detection; None where there are not as many detections as people."""
        return self.group[n] if len(self._detections) == len(self.group) else None

    def _parse(self, person: Person | None, **fields: Any) -> Prediction:
        """Return an entry of our own form, with its checks; None: of an unnamed person in the image."""
        subject = {} if person is None else {"subject_id": person.subject_id}
        return parse({"image_id": self.group[0].image_id, **subject, **fields}, self.task, self.where, self.folder)

    def _wrong(self, what: str) -> Fp2Error:
        """Return the error of an entry of another form."""
        return Fp2Error(what, where=self.where, fix="Give the model_outputs.json of this task")

    def _boxes(self) -> Iterator[Prediction]:
        for n, corners in enumerate(self._detections):
            try:
                left, top, right, bottom = (float(value) for value in corners[:4])
            except (TypeError, ValueError):
                raise self._wrong("a box is not four numbers x0, y0, x1, y1") from None
            yield self._parse(None, bbox=[left, top, right - left, bottom - top], score=self._score(n))

    def _masks(self) -> Iterator[Prediction]:
        for n, mask in enumerate(self._detections):
            yield self._parse(None, segmentation=mask, score=self._score(n))

    def _poses(self) -> Iterator[Prediction]:
        for n, points in enumerate(self._detections):
            if not points:
                continue
            n_given = len(points) if isinstance(points, list) else 0
            if n_given != len(self.keypoints):
                what = f"a pose has {n_given} keypoints, not {len(self.keypoints)}"
                fix = "Name the ones that it has, in COCO's order: task.options.keypoints=[Nose, ...]"
                raise Fp2Error(what, where=self.where, fix=fix)
            positions = dict(zip(self.keypoints, points, strict=True))
            try:
                flat = [value for name in COCO_KEYPOINTS for value in (positions.get(name) or (None, None))[:2]]
            except TypeError:
                raise self._wrong("a keypoint is not two numbers") from None
            yield self._parse(self._person(n), keypoints=flat, score=_mean(self._score(n)))

    def _body_parts(self) -> Iterator[Prediction]:
        for n, parts in enumerate(self._detections):
            yield self._parse(self._person(n), parts=parts)

    def _parsing(self) -> Prediction:
        masks = self.entry.get("detections_rle")
        if not isinstance(masks, Mapping) or not masks:
            raise self._wrong("detections_rle is missing")
        person = self.group[0]
        return Prediction(person.image_id, person.subject_id, labels=decode_labels(masks, self.where))

    def _generated(self) -> Prediction:
        name = self.entry.get("super_res_filename")
        if not isinstance(name, str) or not name:
            raise self._wrong("super_res_filename is missing")
        beside = self.folder / PurePosixPath(name.replace("\\", "/")).name
        return self._parse(self.group[0], image=str(beside if beside.is_file() else name))


def _mean(scores: Any) -> float | None:
    numbers = [float(value) for value in np.ravel(scores) if value is not None] if scores else []
    return sum(numbers) / len(numbers) if numbers and all(math.isfinite(value) for value in numbers) else None


def decode_labels(masks: Mapping[str, Any], where: str) -> Pixels:
    """Return a map of labels, shape (height, width), from a mask per label in COCO's run lengths."""
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
