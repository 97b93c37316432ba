"""One model over all pictures of a data set, with everything that was predicted before remembered."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fp2.data.pixels import PixelDigest, PixelIndex, open_rgb
from fp2.errors import Fp2Error, without_path
from fp2.hashing import digest
from fp2.protocols.narrow.cache import PredictionCache
from fp2.protocols.narrow.models import NarrowModel, Picture
from fp2.protocols.narrow.predictions import Prediction
from fp2.protocols.narrow.tasks import EMBEDDING, POSE, NarrowTask
from fp2.protocols.narrow.truth import Person


@dataclass(frozen=True)
class Predicted:
    """What a model said, about how many pictures it was asked now, and how many of them failed for what reason."""

    predictions: list[Prediction]
    asked: int
    remembered: int
    failed: dict[str, str]


def predict_all(
    task: NarrowTask, model: NarrowModel, people: Sequence[Person], store: sqlite3.Connection,
    tick: Callable[[], None] = lambda: None, error_budget: float = 0.05,
) -> Predicted:  # fmt: skip
    """Show every picture to the model, or remember what it said.

    A picture that cannot be read or on which the model fails is left out with its reason, and tried again next time.

    Raises
    ------
    Fp2Error
        If the model cannot be loaded, or more than `error_budget` of the pictures fail (a share; above 1 a count).
    """
    cache = PredictionCache(store, model.identity(), task.name)
    pixels = PixelIndex(store).digest_many([person.image_path for person in people])
    pictures: dict[str, list[Person]] = {}
    for person in people:
        pictures.setdefault(person.image_id, []).append(person)
    allowed = error_budget if error_budget > 1 else error_budget * len(pictures)
    said: list[Prediction] = []
    asked = 0
    failed: dict[str, str] = {}
    try:
        for image_id, group in pictures.items():
            try:
                found, now = _one(task, model, cache, group, pixels[group[0].image_path])
            except Fp2Error:
                raise
            except Exception as error:  # decoders and models raise many kinds; each is this picture's problem
                failed[image_id] = f"{type(error).__name__}: {without_path(error, group[0].image_path)}"
                if len(failed) > allowed:
                    what = f"{len(failed)} of {len(pictures)} pictures failed, the last with {failed[image_id]}"
                    raise Fp2Error(what, where=f"task {task.name}") from error
            else:
                said += [replace(one, image_id=image_id) for one in found]
                asked += now
            tick()
    finally:
        model.close()
    return Predicted(said, asked, len(pictures) - asked - len(failed), failed)


def _one(
    task: NarrowTask, model: NarrowModel, cache: PredictionCache, group: list[Person], pixels: PixelDigest
) -> tuple[list[Prediction], bool]:
    """Return what the model says about one picture, and whether it was asked now."""
    if pixels.sha256 is None:
        raise ValueError(pixels.error)
    path = group[0].image_path
    boxes = [_box(task, person) for person in group] if task.form in (POSE, EMBEDDING) else []
    shown = digest({"pixels": pixels.sha256, "boxes": [None if box is None else list(box) for box in boxes]})
    places = [str(number) for number in range(len(group))]
    numbered = [replace(person, subject_id=place) for person, place in zip(group, places, strict=True)]
    found, now = cache.get(shown), False
    if found is None:
        found, now = model.predict(Picture(open_rgb(path), numbered, boxes)), True
        cache.put(shown, path, found)
    who = dict(zip(places, group, strict=True))
    return [
        one if one.subject_id is None else replace(one, subject_id=who[one.subject_id].subject_id) for one in found
    ], now


def _box(task: NarrowTask, person: Person) -> tuple[float, float, float, float] | None:
    """Return the annotated box that the task gives to the model."""
    geometry = person.geometry()
    box = geometry.face_box if task.form == EMBEDDING else geometry.person_box
    if box is None or box.width <= 0 or box.height <= 0:
        return None
    return box.x, box.y, box.width, box.height
