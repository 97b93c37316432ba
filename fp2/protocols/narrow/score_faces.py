"""Predictions about face crops against the truth: parsing, made pictures, and embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fp2.errors import Fp2Error
from fp2.protocols.narrow.metrics import parsing, pictures
from fp2.protocols.narrow.predictions import Prediction
from fp2.protocols.narrow.score import NOBODY, UNKNOWN, TaskScores, Tick, check_known, no_subject
from fp2.protocols.narrow.tasks import EMBEDDING, PARSING, PICTURE, NarrowTask
from fp2.protocols.narrow.truth import Person, face_parts

Floats = npt.NDArray[np.float64]
Identity = Callable[[Person, Path, Path], float | None]
"""Person, true crop, made picture -> cosine of the two faces' embeddings."""
LIKENESS: dict[str, Callable[[float], float]] = {
    "lpips": lambda value: max(0.0, 1.0 - value),
    "identity": lambda value: max(0.0, value),
    "psnr": lambda value: value / 100,
}
"""Metric -> a score from it whose larger values are better; the first that every face has is taken."""
SCALES = {
    "lpips": "1 - LPIPS, at least 0",
    "identity": "the cosine of the two faces' embeddings, at least 0",
    "psnr": "PSNR / 100 dB",
}
"""The same in words."""
NO_PREDICTION = "without a prediction"
NO_BOX = "without a face box in the data"
UNSAID = "that do not say which of the picture's people they are about"
NO_CROP = "without an aligned face crop in the data"


def by_face(
    people: Sequence[Person], predictions: Sequence[Prediction], task: NarrowTask, scores: TaskScores
) -> dict[str, Prediction]:
    """Return face id -> the one prediction about it; those about nobody are counted in `scores.ignored`.

    A prediction names its face by FHIBE's `<image id>_<subject id>`, by both ids, or by the picture's id alone where
    one person is in it.

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
    pictures = {person.image_id for person in people}
    faces = {person.face_id for person in people}
    found: dict[str, Prediction] = {}
    for prediction in predictions:
        face = names.get((prediction.image_id, prediction.subject_id))
        if face is None:
            known = prediction.image_id in pictures or prediction.image_id in faces
            unsaid = UNSAID if prediction.subject_id is None else NOBODY
            scores.ignored[unsaid if known else UNKNOWN] += 1
        if face in found:
            raise Fp2Error(f"two predictions are about the face {face!r}", where=f"task.files.{task.name}")
        if face is not None:
            found[face] = prediction
    if not found and scores.ignored[NOBODY]:
        named = (p for p in predictions if p.subject_id is not None and p.image_id in pictures | faces)
        raise no_subject(next(named).subject_id, task)
    if not found:
        check_known({p.image_id: p for p in predictions}, {}, task)
    return found


def score_faces(
    task: NarrowTask, people: Sequence[Person], predictions: Sequence[Prediction], *, mirrored: bool = False,
    lpips: pictures.Lpips | None = None, identity: Identity | None = None, tick: Tick = lambda: None,
) -> TaskScores:  # fmt: skip
    """Score face parsing, reconstruction or super-resolution, one row a face.

    Parameters
    ----------
    mirrored : bool
        Whether the parsing model's left is the picture's and not the person's.
    lpips, identity : callable, optional
        What to compute beyond PSNR; a number that stands beside a prediction goes before.

    Raises
    ------
    Fp2Error
        As `by_face`, or if a predicted picture cannot be read or is not of its crop's size (parsing), or if made
        pictures cannot all be scored on one scale.
    """
    scores = TaskScores()
    found = by_face(people, predictions, task, scores)
    for person in people:
        tick()
        crop, prediction = person.face_crop(), found.get(person.face_id)
        if crop is None:
            scores.left_out[NO_CROP] += 1
            continue
        if prediction is None:
            _missed(scores, person)
            continue
        if task.form == PARSING:
            values = _parsed(person, crop, prediction, mirrored)
        else:
            values = _made(task, person, crop, prediction, lpips, identity)
        if values is None:
            scores.left_out["without face parts in the data"] += 1
            continue
        row = {"image_id": person.image_id, "subject_id": person.subject_id, "found": True}
        scores.rows.append(row | values)
    if task.form == PICTURE:
        _set_likeness(scores, task)
    return scores


def _missed(scores: TaskScores, person: Person) -> None:
    """Write that there is nothing about a face: it is not found, and has no score."""
    scores.left_out[NO_PREDICTION] += 1
    row = {"image_id": person.image_id, "subject_id": person.subject_id, "score": None, "found": False}
    scores.rows.append(row)


def _set_likeness(scores: TaskScores, task: NarrowTask) -> None:
    """Give every row one score on one scale, from the first of LPIPS, identity and PSNR that all of them have.

    Raises
    ------
    Fp2Error
        If some have LPIPS and some have not, or there is no number that all have.
    """
    rows = [row for row in scores.rows if row["found"]]
    n_have = {name: sum(row.get(name) is not None for row in rows) for name in LIKENESS}
    where = f"task.files.{task.name}"
    if 0 < n_have["lpips"] < len(rows):
        what = f"lpips stands beside {n_have['lpips']} of {len(rows)} predictions only"
        raise Fp2Error(what, where=where, fix="Give lpips for every face, or for none of them")
    scale = next((name for name in LIKENESS if n_have[name] == len(rows)), None)
    if rows and scale is None:
        raise Fp2Error(
            "the made pictures cannot be compared: some have one number beside them and some another",
            where=where,
            fix="Give a picture, or the same of lpips, psnr and identity, for every face",
        )
    if not rows or scale is None:
        return
    for row in rows:
        row["score"] = row["likeness"] = LIKENESS[scale](float(row[scale]))
    scores.scale = scale
    if scale != "lpips":
        scores.scale_note = f"likeness is {SCALES[scale]}: {pictures.NO_LPIPS}"
        if scale == "psnr" and n_have["identity"]:
            scores.scale_note += f", and identity is there for {n_have['identity']} of {len(rows)} faces only"


def _parsed(person: Person, crop: Path, prediction: Prediction, mirrored: bool) -> dict[str, Any] | None:
    true = face_parts(person, crop)
    if true is None:
        return None
    labels = _open(prediction.file, "L")
    if labels.shape != true.shape:
        shape = f"{labels.shape[1]} x {labels.shape[0]} pixels, its face crop {true.shape[1]} x {true.shape[0]}"
        raise Fp2Error(f"a parsing has {shape}", where=str(prediction.file), fix="Save it at the crop's own size")
    found = parsing.as_annotated(labels, mirrored=mirrored)
    value = parsing.mean_f1(found, parsing.as_annotated(true))
    parts = parsing.part_f1(found, parsing.as_annotated(true))
    return {"score": value, "f1": value, **{f"f1_{part}": number for part, number in parts.items()}}


def _made(
    task: NarrowTask, person: Person, crop: Path, prediction: Prediction, lpips: pictures.Lpips | None,
    identity: Identity | None,
) -> dict[str, Any]:  # fmt: skip
    values: dict[str, Any] = {}
    if prediction.file is not None:
        true, made = (pictures.prepared(_picture(path)) for path in (crop, prediction.file))
        values["psnr"] = pictures.psnr(made, true)
        if lpips is not None:
            values["lpips"] = lpips(made, true)
        if identity is not None and "identity" in task.metrics:
            values["identity"] = identity(person, crop, prediction.file)
    values |= {name: number for name, number in prediction.numbers.items() if name in task.metrics}
    return values


def _picture(path: Path) -> Any:
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, ValueError) as error:
        raise Fp2Error(f"a picture cannot be read: {type(error).__name__}", where=str(path)) from None


def _open(path: Path | None, mode: str) -> npt.NDArray[np.uint8]:
    """Return a predicted map: grey levels (or a palette's indices) are the parts."""
    from PIL import Image

    assert path is not None
    try:
        with Image.open(path) as image:
            return np.asarray(image if image.mode == "P" else image.convert(mode))
    except (OSError, ValueError) as error:
        raise Fp2Error(f"a picture cannot be read: {type(error).__name__}", where=str(path)) from None


@dataclass(frozen=True)
class Faces:
    """Faces, their embeddings (n, d), and whether the model saw a face there (a score above 0)."""

    people: list[Person]
    vectors: Floats
    seen: list[bool]


def embeddings_of(
    people: Sequence[Person], predictions: Sequence[Prediction], task: NarrowTask, *, boxed: bool = False
) -> tuple[Faces, TaskScores]:
    """Return the faces that have an embedding, and what was left out.

    Parameters
    ----------
    boxed : bool
        Whether the model was shown the annotated face boxes: it cannot have missed a face that has none.

    Raises
    ------
    Fp2Error
        As `by_face`, or if embeddings are not all of one length.
    """
    assert task.form == EMBEDDING
    scores = TaskScores()
    found = by_face(people, predictions, task, scores)
    kept, vectors = [], []
    seen: list[bool] = []
    for person in people:
        prediction = found.get(person.face_id)
        if prediction is None or prediction.embedding is None:
            if boxed and person.geometry().face_box is None:
                scores.left_out[NO_BOX] += 1
            else:
                _missed(scores, person)
            continue
        kept.append(person)
        vectors.append(prediction.embedding)
        seen.append(prediction.score > 0)
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        what = f"embeddings have different lengths: {lengths[0]} and {lengths[-1]} numbers"
        raise Fp2Error(what, where=f"task.files.{task.name}")
    ready = np.array(vectors, dtype=np.float64).reshape(len(kept), lengths[0] if lengths else 0)
    return Faces(kept, ready, seen), scores


def accepted_share(faces: Faces, same: tuple[Any, Any], accepted: npt.NDArray[np.bool_]) -> list[Any]:
    """Return one row a face: the share of its true pairs that are accepted (None where it is in no pair)."""
    first, second = same
    every = np.concatenate([first, second])
    hits = np.bincount(every, weights=np.concatenate([accepted, accepted]), minlength=len(faces.people))
    pairs = np.bincount(every, minlength=len(faces.people))
    rows = []
    for person, seen, hit, n in zip(faces.people, faces.seen, hits, pairs, strict=True):
        share = float(hit / n) if n else None
        ids = {"image_id": person.image_id, "subject_id": person.subject_id}
        rows.append(ids | {"score": share, "found": seen, "accepted": share})
    return rows
