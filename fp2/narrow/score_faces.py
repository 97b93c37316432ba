"""Predictions about face crops against the truth: parsing, made pictures, and embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fp2.errors import Fp2Error
from fp2.narrow.metrics import parsing, pictures
from fp2.narrow.predictions import Prediction
from fp2.narrow.score import TaskScores, Tick, check_known
from fp2.narrow.tasks import EMBEDDING, PARSING, PICTURE, NarrowTask
from fp2.narrow.truth import Person, face_parts

Floats = npt.NDArray[np.float64]
Identity = Callable[[Person, Path, Path], float | None]
"""Person, true crop, made picture -> cosine of the two faces' embeddings."""
LIKENESS: dict[str, Callable[[float], float]] = {
    "lpips": lambda value: max(0.0, 1.0 - value),
    "identity": lambda value: max(0.0, value),
    "psnr": lambda value: value / 100,
}
"""Metric -> a score from it whose larger values are better; the first that every face has is taken."""
NO_PREDICTION = "without a prediction"
NO_CROP = "without an aligned face crop in the data"


def by_face(people: Sequence[Person], predictions: Sequence[Prediction], task: NarrowTask) -> dict[str, Prediction]:
    """Return face id -> the one prediction about it.

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
    found: dict[str, Prediction] = {}
    for prediction in predictions:
        face = names.get((prediction.image_id, prediction.subject_id))
        if face in found:
            raise Fp2Error(f"two predictions are about the face {face!r}", where=f"task.files.{task.name}")
        if face is not None:
            found[face] = prediction
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
        As `by_face`, or if a predicted picture cannot be read or is not of its crop's size (parsing).
    """
    found = by_face(people, predictions, task)
    scores = TaskScores()
    for person in people:
        tick()
        crop, prediction = person.face_crop(), found.get(person.face_id)
        if crop is None or prediction is None:
            scores.left_out[NO_CROP if crop is None else NO_PREDICTION] += 1
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
        _set_likeness(scores)
    return scores


def _set_likeness(scores: TaskScores) -> None:
    """Give every row one score on one scale, from the first of LPIPS, identity and PSNR that all of them have."""
    for name, scale in LIKENESS.items():
        if scores.rows and all(row.get(name) is not None for row in scores.rows):
            for row in scores.rows:
                row["score"] = row["likeness"] = scale(float(row[name]))
            return
    if scores.rows:
        raise Fp2Error(
            "the made pictures cannot be compared: some have one number beside them and some another",
            where="task.files",
            fix="Give a picture, or the same of lpips, psnr and identity, for every face",
        )


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
    people: Sequence[Person], predictions: Sequence[Prediction], task: NarrowTask
) -> tuple[Faces, TaskScores]:
    """Return the faces that have an embedding, and what was left out.

    Raises
    ------
    Fp2Error
        As `by_face`, or if embeddings are not all of one length.
    """
    assert task.form == EMBEDDING
    found = by_face(people, predictions, task)
    scores = TaskScores()
    kept, vectors = [], []
    seen: list[bool] = []
    for person in people:
        prediction = found.get(person.face_id)
        if prediction is None or prediction.embedding is None:
            scores.left_out[NO_PREDICTION] += 1
            continue
        kept.append(person)
        vectors.append(prediction.embedding)
        seen.append(prediction.score > 0)
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        what = f"embeddings have different lengths: {lengths[0]} and {lengths[-1]} numbers"
        raise Fp2Error(what, where=f"task.files.{task.name}")
    return Faces(kept, np.array(vectors, dtype=np.float64).reshape(len(kept), -1), seen), scores


def accepted_share(faces: Faces, same: tuple[Any, Any], accepted: npt.NDArray[np.bool_]) -> list[Any]:
    """Return one row a face that is in a pair: the share of its true pairs that are accepted."""
    first, second = same
    every = np.concatenate([first, second])
    hits = np.bincount(every, weights=np.concatenate([accepted, accepted]), minlength=len(faces.people))
    pairs = np.bincount(every, minlength=len(faces.people))
    return [
        {
            "image_id": person.image_id,
            "subject_id": person.subject_id,
            "score": float(hit / n),
            "found": seen,
            "accepted": float(hit / n),
        }
        for person, seen, hit, n in zip(faces.people, faces.seen, hits, pairs, strict=True)
        if n
    ]
