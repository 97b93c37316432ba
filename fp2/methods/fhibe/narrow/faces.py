"""Predictions about face crops: which face each is about, and the scores of parsing and of generated images.

Face parsing is scored by F1 (the Sørensen-Dice coefficient) of each part of a face, and their mean. Parts are
CelebAMask-HQ's (Lee et al. 2020), by their index in its maps of 19 classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fp2.extension import Fp2Error
from fp2.methods.fhibe.narrow import published
from fp2.methods.fhibe.narrow.generated_images import Identity, Lpips, image_metrics, set_likeness
from fp2.methods.fhibe.narrow.predictions import Prediction
from fp2.methods.fhibe.narrow.tasks import (
    NO_CROP,
    NO_PARTS,
    NO_SUBJECT,
    NOT_IN_RUN,
    PARSING,
    UNKNOWN_SUBJECT,
    NarrowTask,
    TaskScores,
    Tick,
    check_images,
    unknown_subjects,
)
from fp2.methods.fhibe.narrow.truth import Person, annotation_of, image_size
from fp2.methods.fhibe_release.masks import mask_array, region_mask

Labels = npt.NDArray[np.uint8]

PARTS: tuple[str, ...] = (
    "background", "skin", "nose", "eye_g", "l_eye", "r_eye", "l_brow", "r_brow", "l_ear", "r_ear", "mouth", "u_lip",
    "l_lip", "hair", "hat", "ear_r", "neck_l", "neck", "cloth",
)  # fmt: skip
"""Part of each index. `l_` is the person's left."""
SCORED: tuple[str, ...] = tuple(
    part for part in PARTS if part not in ("background", "l_ear", "r_ear", "ear_r", "neck_l")
)
"""Parts that are scored: FHIBE annotates no ears (they are skin) and no jewellery by its place (`ear_r`, `neck_l`)."""
_FROM_FHIBE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("neck", ("Upper body skin",)),
    ("cloth", ("Upper body clothes", "Full body clothes", "Neckwear")),
    ("skin", ("Face skin",)),
    ("l_brow", ("Left eyebrow",)),
    ("r_brow", ("Right eyebrow",)),
    ("l_eye", ("Left eye",)),
    ("r_eye", ("Right eye",)),
    ("nose", ("Nose",)),
    ("mouth", ("Inner mouth",)),
    ("u_lip", ("Upper lip",)),
    ("l_lip", ("Lower lip",)),
    ("hair", ("Head hair",)),
    ("eye_g", ("Eyewear",)),
    ("hat", ("Headwear",)),
)
_INDEX = {part: index for index, part in enumerate(PARTS)}
_SIDES = (("l_eye", "r_eye"), ("l_brow", "r_brow"))
_AS_PUBLISHED = {"l_ear": "skin", "r_ear": "skin"}
_AS = {**_AS_PUBLISHED, "ear_r": "background", "neck_l": "neck"}
"""Parts that are not annotated -> what they count as; the evaluation code changes only ears."""
_MAPS = "data/processed/fhibe_face_crop_align/masks/CelebAMask-HQ_format"


def from_polygons(size: tuple[int, int], polygons: Mapping[str, Sequence[Any]]) -> Labels:
    """Return a map of parts, shape (height, width), drawn from FHIBE's segment polygons; later parts cover earlier.

    Parameters
    ----------
    size : (int, int)
        Width and height in pixels.
    polygons : mapping
        FHIBE's segment class -> polygons (`fp2.methods.fhibe_release.geometry.Geometry.polygons`).
    """
    labels = np.zeros((size[1], size[0]), dtype=np.uint8)
    for part, classes in _FROM_FHIBE:
        shapes = [polygon for name in classes for polygon in polygons.get(name, ())]
        if shapes:
            labels[mask_array(region_mask(size, shapes))] = _INDEX[part]
    return labels


def as_annotated(labels: Labels, *, mirrored: bool = False, merged: Mapping[str, str] = _AS) -> Labels:
    """Return a model's map in the classes of the annotation, by default ours; `mirrored` swaps left and right."""
    table = np.arange(256, dtype=np.uint8)
    for part, other in merged.items():
        table[_INDEX[part]] = _INDEX[other]
    for left, right in _SIDES if mirrored else ():
        table[[_INDEX[left], _INDEX[right]]] = _INDEX[right], _INDEX[left]
    return table[labels]


def part_f1(predicted: Labels, true: Labels) -> dict[str, float]:
    """Return the F1 of each of the parts `SCORED` in either map: 2 |found and true| / (|found| + |true|).

    A part in only one of the two maps has 0; one in neither is left out.
    """
    scores = {}
    for part in SCORED:
        a, b = predicted == _INDEX[part], true == _INDEX[part]
        total = int(a.sum()) + int(b.sum())
        if total:
            scores[part] = 2 * int((a & b).sum()) / total
    return scores


def mean_f1(scores: Mapping[str, float]) -> float:
    """Return the mean F1 of the parts; NaN if there is none."""
    return float(np.mean(list(scores.values()))) if scores else float("nan")


def parsing_metrics(
    person: Person, crop: Path, prediction: Prediction, mirrored: bool, *, as_published: bool = False
) -> dict[str, float] | None:
    """Return `f1` and the F1 of each part; None if the data have no face parts of the person.

    as_published : also `published_f1`, that of FHIBE's evaluation code.
    """
    true = true_parts(person, crop)
    if true is None:
        return None
    labels = prediction.labels
    if labels is None:
        assert prediction.file is not None
        labels = _read_map(prediction.file, "a parsing")
    if labels.shape != true.shape:
        what = f"{labels.shape[1]} x {labels.shape[0]} pixels, its face crop {true.shape[1]} x {true.shape[0]}"
        where = str(prediction.file or prediction.image_id)
        raise Fp2Error(f"a parsing has {what}", where=where, fix="Save it at the size of the crop")
    parts = part_f1(as_annotated(labels, mirrored=mirrored), as_annotated(true))
    metrics = {"f1": mean_f1(parts), **{f"f1_{part}": value for part, value in parts.items()}}
    if as_published:
        compared = as_annotated(labels, mirrored=mirrored, merged=_AS_PUBLISHED)
        metrics["published_f1"] = published.image_f1(compared, true)
    return metrics


def true_parts(person: Person, crop: Path) -> Labels | None:
    """Return the map of face parts of a crop: the release's own CelebAMask map, or drawn from the polygons.

    None if the data have neither.
    """
    for folder in crop.parents:
        if folder.name == "data":
            ready = folder.parent / _MAPS / person.face_id / "combined.png"
            if ready.is_file():
                return _read_map(ready, "a map of face parts")
    geometry = annotation_of(crop, person.subject_id)
    if geometry is None or not geometry.polygons:
        return None
    return from_polygons(image_size(crop, geometry), geometry.polygons)


def _read_map(path: Path, what: str) -> Labels:
    """Return a map of parts: grey levels, or the indices of a palette."""
    from fp2.extension import image_file

    try:
        with image_file(path) as image:
            return np.asarray(image if image.mode == "P" else image.convert("L"))
    except (OSError, ValueError, SyntaxError) as error:
        raise Fp2Error(f"{what} cannot be read: {type(error).__name__}", where=str(path)) from None


def by_face(
    people: Sequence[Person], predictions: Sequence[Prediction], task: NarrowTask, scores: TaskScores
) -> dict[str, Prediction]:
    """Return face id -> the prediction about it; those about no known face are counted in `scores.ignored`.

    A prediction names its face by FHIBE's `<image id>_<subject id>`, by both ids, or by the id of an image of one
    person.
    """
    names: dict[tuple[str, str | None], str] = {}
    for person in people:
        names[(person.face_id, None)] = names[(person.face_id, person.subject_id)] = person.face_id
        names[(person.image_id, person.subject_id)] = person.face_id
        if person.n_people == 1:
            names[(person.image_id, None)] = person.face_id
    ids = {person.image_id for person in people} | {person.face_id for person in people}
    of_face: dict[str, Prediction] = {}
    for prediction in predictions:
        face = names.get((prediction.image_id, prediction.subject_id))
        if face is None:
            unnamed = NO_SUBJECT if prediction.subject_id is None else UNKNOWN_SUBJECT
            scores.ignored[unnamed if prediction.image_id in ids else NOT_IN_RUN] += 1
            continue
        if face in of_face:
            raise Fp2Error(f"two predictions are about the face {face!r}", where=f"task.files.{task.name}")
        of_face[face] = prediction
    if not of_face and scores.ignored[UNKNOWN_SUBJECT]:
        named = (p for p in predictions if p.subject_id is not None and p.image_id in ids)
        raise unknown_subjects(next(named).subject_id, task)
    if not of_face:
        check_images({p.image_id: p for p in predictions}, {}, task)
    return of_face


def score_faces(
    task: NarrowTask,
    people: Sequence[Person],
    predictions: Sequence[Prediction],
    *,
    mirrored: bool = False,
    lpips: Lpips | None = None,
    identity: Identity | None = None,
    as_published: bool = False,
    tick: Tick = lambda: None,
) -> TaskScores:
    """Return the scores of face parsing, reconstruction or super-resolution, one row a face.

    Parameters
    ----------
    mirrored : bool
        Whether the left of the parsing model is that of the image, and not of the person.
    lpips, identity : callable, optional
        Metrics of generated images besides PSNR.
    as_published : bool
        Whether the metrics of FHIBE's evaluation code are added.
    tick : callable
        Called after each person.
    """
    scores = TaskScores(published=as_published)
    of_face = by_face(people, predictions, task, scores)
    for person in people:
        tick()
        crop, prediction = person.face_crop(), of_face.get(person.face_id)
        if crop is None:
            scores.left_out[NO_CROP] += 1
        elif prediction is None:
            scores.add_missing(person)
        elif task.form != PARSING:
            metrics = image_metrics(task, person, crop, prediction, lpips, identity, as_published=as_published)
            scores.add(person, None, True, **metrics)
        elif (parts := parsing_metrics(person, crop, prediction, mirrored, as_published=as_published)) is None:
            scores.left_out[NO_PARTS] += 1
        else:
            scores.add(person, parts["f1"], True, **parts)
    if task.form != PARSING:
        set_likeness(scores, task)
    return scores
