"""Predictions about face crops: which face each is about, and the scores of parsing and of generated images."""

from __future__ import annotations

from collections.abc import Sequence

from fp2.errors import Fp2Error
from fp2.protocols.narrow.generated_images import Identity, Lpips, image_metrics, set_likeness
from fp2.protocols.narrow.parsing import parsing_metrics
from fp2.protocols.narrow.predictions import Prediction
from fp2.protocols.narrow.task_scores import (
    NO_CROP,
    NO_PARTS,
    NO_SUBJECT,
    NOT_IN_RUN,
    UNKNOWN_SUBJECT,
    TaskScores,
    Tick,
    check_images,
    unknown_subjects,
)
from fp2.protocols.narrow.tasks import PARSING, NarrowTask
from fp2.protocols.narrow.truth import Person


def by_face(
    people: Sequence[Person], predictions: Sequence[Prediction], task: NarrowTask, scores: TaskScores
) -> dict[str, Prediction]:
    """Return face id -> the prediction about it; those about no known face are counted in `scores.ignored`.

    A prediction names its face by FHIBE's `<image id>_<subject id>`, by both ids, or by the id of an image of one
    person.

    Raises
    ------
    Fp2Error
        If none is about a known face, or two are about the same.
    """
    names: dict[tuple[str, str | None], str] = {}
    for person in people:
        names[(person.face_id, None)] = names[(person.face_id, person.subject_id)] = person.face_id
        names[(person.image_id, person.subject_id)] = person.face_id
        if person.n_people == 1:
            names[(person.image_id, None)] = person.face_id
    known = {person.image_id for person in people} | {person.face_id for person in people}
    found: dict[str, Prediction] = {}
    for prediction in predictions:
        face = names.get((prediction.image_id, prediction.subject_id))
        if face is None:
            unnamed = NO_SUBJECT if prediction.subject_id is None else UNKNOWN_SUBJECT
            scores.ignored[unnamed if prediction.image_id in known else NOT_IN_RUN] += 1
            continue
        if face in found:
            raise Fp2Error(f"two predictions are about the face {face!r}", where=f"task.files.{task.name}")
        found[face] = prediction
    if not found and scores.ignored[UNKNOWN_SUBJECT]:
        named = (p for p in predictions if p.subject_id is not None and p.image_id in known)
        raise unknown_subjects(next(named).subject_id, task)
    if not found:
        check_images({p.image_id: p for p in predictions}, {}, task)
    return found


def score_faces(
    task: NarrowTask, people: Sequence[Person], predictions: Sequence[Prediction], *, mirrored: bool = False,
    lpips: Lpips | None = None, identity: Identity | None = None, tick: Tick = lambda: None,
) -> TaskScores:  # fmt: skip
    """Return the scores of face parsing, reconstruction or super-resolution, one row a face.

    Parameters
    ----------
    mirrored : bool
        Whether the left of the parsing model is that of the image, and not of the person.
    lpips, identity : callable, optional
        Metrics of generated images besides PSNR.
    tick : callable
        Called after each person.

    Raises
    ------
    Fp2Error
        As `by_face`; if a predicted image cannot be read or has not the size of its crop (parsing); or if generated
        images have no metric in common.
    """
    scores = TaskScores()
    found = by_face(people, predictions, task, scores)
    for person in people:
        tick()
        crop, prediction = person.face_crop(), found.get(person.face_id)
        if crop is None:
            scores.left_out[NO_CROP] += 1
        elif prediction is None:
            scores.add_missing(person)
        elif task.form != PARSING:
            scores.add(person, None, True, **image_metrics(task, person, crop, prediction, lpips, identity))
        elif (metrics := parsing_metrics(person, crop, prediction, mirrored)) is None:
            scores.left_out[NO_PARTS] += 1
        else:
            scores.add(person, metrics["f1"], True, **metrics)
    if task.form != PARSING:
        set_likeness(scores, task)
    return scores
