"""Predictions against the truth: one row of numbers for every person in every picture.

What is not judged has no row and is counted with its reason: people whose truth the data do not hold. A person whom a
detector did not find has a row, with 0. A face without a prediction has a row that says so and holds no score.
Predictions that fit nobody are counted as well, as `ignored`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fp2.data.fhibe.geometry import Geometry
from fp2.errors import Fp2Error
from fp2.protocols.narrow.metrics import keypoints, overlap
from fp2.protocols.narrow.predictions import Prediction, by_picture
from fp2.protocols.narrow.tasks import BOX, MASK, POSE, WHOLE, NarrowTask
from fp2.protocols.narrow.truth import Person, person_mask, polygon_mask, size_of

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
Tick = Callable[[], None]
UNKNOWN = "about pictures that this run does not have"
NOBODY = "with a subject_id that nobody in the picture has"
SECOND = "second poses of one person"
FOUND_AT = 0.5
"""A person counts as found from this overlap on, and a pose as found from this share of right keypoints on."""


@dataclass
class TaskScores:
    """Rows (`image_id, subject_id, score, found`, and one column a metric), and what is not in them.

    `left_out` counts people by reason, `ignored` predictions. `scale` is what `likeness` was made from,
    `scale_note` what is to be said about it.
    """

    rows: list[Row] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    scale: str | None = None
    scale_note: str | None = None

    def frame(self) -> pd.DataFrame:
        """Return the rows as a table."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=None if self.rows else ["image_id", "subject_id", "score", "found"])


def score_pictures(
    task: NarrowTask, people: Sequence[Person], predictions: Sequence[Prediction], *, two_person: str = "match",
    thresholds: str = "paper", tick: Tick = lambda: None,
) -> TaskScores:  # fmt: skip
    """Score a task about whole pictures: boxes, masks or poses.

    Parameters
    ----------
    people : sequence of Person
        Everyone in the pictures: the second person of a picture takes part in the matching.
    two_person : {"match", "leave_out"}
        In a picture of two, each prediction goes to the person whom it overlaps most (COCO's rule), or neither is
        judged.
    thresholds : {"paper", "api"}
        PCK at 0.5 of the face's diagonal, or the mean over 0.1, 0.2 ... 0.9.
    tick : callable
        Told after each picture.

    Raises
    ------
    Fp2Error
        If no prediction is about any of the pictures or people, or a mask is not of its picture's size.
    """
    assert task.shown == WHOLE
    found = by_picture(predictions)
    pictures: dict[str, list[Person]] = {}
    for person in people:
        pictures.setdefault(person.image_id, []).append(person)
    check_known(found, pictures, task)
    scores = TaskScores()
    scores.ignored[UNKNOWN] += sum(len(said) for image_id, said in found.items() if image_id not in pictures)
    if task.form == POSE:
        _check_subjects(found, pictures, task)
    judge = {BOX: _boxes, MASK: _masks}.get(task.form)
    for image_id, group in pictures.items():
        tick()
        if two_person == "leave_out" and group[0].n_people > 1:
            scores.left_out["in a picture of two people"] += len(group)
        elif judge is not None:
            judge(task, group, found.get(image_id, []), scores)
        else:
            _poses(group, found.get(image_id, []), scores, thresholds)
    return scores


def _check_subjects(
    found: Mapping[str, list[Prediction]], people: Mapping[str, list[Person]], task: NarrowTask
) -> None:
    """Raise if predictions name whom they are about and none of these names is right."""
    named = [
        one for image_id, said in found.items() if image_id in people for one in said if one.subject_id is not None
    ]
    if named and not any(one.subject_id == person.subject_id for one in named for person in people[one.image_id]):
        raise no_subject(named[0].subject_id, task)


def no_subject(example: str | None, task: NarrowTask) -> Fp2Error:
    """Return the error for predictions whose pictures are known and whose people are not."""
    what = f"no subject_id of the predictions is that of a person in its picture (the first is {example!r})"
    return Fp2Error(what, where=f"task.files.{task.name}", fix="subject_id has to be the people table's, or left out")


def check_known(found: Mapping[str, Any], known: Mapping[str, Any], task: NarrowTask) -> None:
    """Raise if predictions were given and none is about a known picture."""
    if found and not set(found) & set(known):
        example = next(iter(found))
        raise Fp2Error(
            f"none of the predictions is about a picture of the data set (the first is about {example!r})",
            where=f"task.files.{task.name}",
            fix="image_id has to be the people table's",
        )


def _boxes(task: NarrowTask, group: list[Person], found: list[Prediction], scores: TaskScores) -> None:
    face = task.name == "face_detection"
    geometries = [person.geometry() for person in group]
    boxes = [geometry.face_box if face else geometry.person_box for geometry in geometries]
    judged = {n: box for n, box in enumerate(boxes) if box is not None and box.width > 0 and box.height > 0}
    table = overlap.box_iou([p.box for p in found if p.box is not None], list(judged.values()))
    _overlaps([group[n] for n in judged], table, found, scores)
    scores.left_out[f"without a {'face' if face else 'person'} box in the data"] += len(group) - len(judged)


def _masks(task: NarrowTask, group: list[Person], found: list[Prediction], scores: TaskScores) -> None:
    geometries = [person.geometry() for person in group]
    size = size_of(group[0].image_path, geometries[0])
    true = [person_mask(person, geometry, size) for person, geometry in zip(group, geometries, strict=True)]
    judged = [n for n, mask in enumerate(true) if mask is not None]
    masks = [_predicted_mask(prediction, size) for prediction in found]
    table = overlap.mask_iou(masks, [mask for mask in true if mask is not None])
    _overlaps([group[n] for n in judged], table, found, scores)
    scores.left_out["without a mask in the data"] += len(group) - len(judged)


def _predicted_mask(prediction: Prediction, size: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return a prediction's mask, from its run lengths or its file."""
    if prediction.mask is not None:
        mask = prediction.mask.mask()
    else:
        from PIL import Image

        assert prediction.file is not None
        try:
            with Image.open(prediction.file) as image:
                mask = np.asarray(image.convert("L")) > 0
        except (OSError, ValueError) as error:
            raise Fp2Error(f"a mask cannot be read: {type(error).__name__}", where=str(prediction.file)) from None
    if mask.shape != (size[1], size[0]):
        what = f"a mask has {mask.shape[1]} x {mask.shape[0]} pixels, its picture {size[0]} x {size[1]}"
        raise Fp2Error(what, where=f"picture {prediction.image_id}", fix="Masks have to be of the picture's own size")
    return mask


def _overlaps(group: list[Person], table: npt.NDArray[np.float64], found: list[Prediction], scores: TaskScores) -> None:
    """Write the rows of one picture from its overlaps, shape (n_found, n_people)."""
    if not group:
        return
    sure = [prediction.score for prediction in found]
    recall = overlap.average_recall(table, sure)
    best = overlap.best_overlap(table)
    at_half = overlap.matches(table, sure, FOUND_AT) >= 0
    for person, value, iou, hit in zip(group, recall, best, at_half, strict=True):
        own = {"score": float(value), "found": bool(hit), "recall": float(value), "iou": float(iou)}
        scores.rows.append({"image_id": person.image_id, "subject_id": person.subject_id, **own})


def _poses(group: list[Person], found: list[Prediction], scores: TaskScores, thresholds: str) -> None:
    """Write the rows of one picture; poses without a subject go to the person whom they resemble most."""
    at = keypoints.PCK_THRESHOLDS if thresholds == "api" else keypoints.PCK_AT
    geometries = [person.geometry() for person in group]
    own = _own_poses(group, geometries, found, scores)
    for person, geometry, points in zip(group, geometries, own, strict=True):
        true, seen = keypoints.coco_points(geometry.keypoints)
        face = geometry.face_box
        diagonal = math.hypot(face.width, face.height) if face else 0.0
        if not seen.any() or not diagonal > 0:
            what = "a face box" if seen.any() else "a visible keypoint"
            scores.left_out[f"without {what} in the data"] += 1
            continue
        right = keypoints.pck(points, true, seen, diagonal, at)
        likeness = keypoints.oks(points, true, seen, _area(geometry))
        values = {"pck": right, "oks": likeness, "oks_recall": keypoints.oks_recall(likeness)}
        half = keypoints.pck(points, true, seen, diagonal) >= FOUND_AT
        row = {"image_id": person.image_id, "subject_id": person.subject_id, "score": right, "found": half}
        scores.rows.append(row | values)


def _own_poses(
    group: list[Person], geometries: list[Geometry], found: list[Prediction], scores: TaskScores
) -> list[npt.NDArray[np.float64]]:
    """Return each person's pose, the surest that names them; all NaN where there is none."""
    nothing = np.full((17, 2), np.nan)
    given = sorted((p for p in found if p.subject_id is not None), key=lambda p: p.score)
    named = {p.subject_id: p.keypoints for p in given}
    here = {person.subject_id for person in group}
    n_fit = sum(p.subject_id in here for p in given)
    scores.ignored[NOBODY] += len(given) - n_fit
    scores.ignored[SECOND] += n_fit - len(here & set(named))
    loose = [prediction for prediction in found if prediction.subject_id is None]
    table = np.zeros((len(loose), len(group)))
    for column, (person, geometry) in enumerate(zip(group, geometries, strict=True)):
        if person.subject_id in named:
            table[:, column] = -1.0
            continue
        true, seen = keypoints.coco_points(geometry.keypoints)
        for row, prediction in enumerate(loose):
            assert prediction.keypoints is not None
            likeness = keypoints.oks(prediction.keypoints, true, seen, _area(geometry))
            table[row, column] = 0.0 if math.isnan(likeness) else likeness
    chosen = overlap.matches(table, [prediction.score for prediction in loose], 0.0)
    poses = []
    for person, number in zip(group, chosen.tolist(), strict=True):
        pose = named.get(person.subject_id, loose[number].keypoints if number >= 0 else None)
        poses.append(nothing if pose is None else pose)
    return poses


def _area(geometry: Geometry) -> float:
    """Return a person's area in square pixels: of their polygons' union, else of their box, 0 without either."""
    if geometry.size is not None and (mask := polygon_mask(geometry, geometry.size)) is not None:
        return float(mask.sum())
    return geometry.person_box.width * geometry.person_box.height if geometry.person_box else 0.0
