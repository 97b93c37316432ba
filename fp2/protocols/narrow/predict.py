"""A model's predictions for every image of a data set, cached image by image: an interrupted run continues.

The cache is a table of the response store, one row per model and image, under the digest of what was shown; a purge of
an image removes its rows. No subject is named: of an image of two people, a prediction has the number of its box.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fp2.data.pixels import PixelDigest, PixelIndex, open_rgb
from fp2.errors import Fp2Error, without_path
from fp2.hashing import digest
from fp2.protocols.narrow.models import ImageInput, NarrowModel
from fp2.protocols.narrow.predictions import Prediction, read_rle
from fp2.protocols.narrow.tasks import EMBEDDING, POSE, NarrowTask
from fp2.protocols.narrow.truth import Person

TABLE = "narrow_predictions"
_CREATE = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    model TEXT NOT NULL, shown TEXT NOT NULL, path TEXT NOT NULL, said TEXT NOT NULL, PRIMARY KEY (model, shown)
) WITHOUT ROWID
"""


@dataclass(frozen=True)
class Predicted:
    """Predictions; of how many images they were computed now or cached; image id -> reason of those that failed."""

    predictions: list[Prediction]
    computed: int
    cached: int
    failed: dict[str, str]


def predict_all(
    task: NarrowTask, model: NarrowModel, people: Sequence[Person], store: sqlite3.Connection,
    tick: Callable[[], None] = lambda: None, error_budget: float = 0.05,
) -> Predicted:  # fmt: skip
    """Return the predictions of a model for the images of `people`, computed or cached.

    An image that cannot be read, or on which the model fails, is left out with the reason and tried again by the next
    run. `tick` is called after each other image.

    Raises
    ------
    Fp2Error
        If the model cannot be loaded, or more than `error_budget` of the images fail (a share; above 1 a count).
    """
    cache = PredictionCache(store, model.identity(), task.name)
    pixels = PixelIndex(store).digest_many([person.image_path for person in people])
    images: dict[str, list[Person]] = {}
    for person in people:
        images.setdefault(person.image_id, []).append(person)
    allowed = error_budget if error_budget > 1 else error_budget * len(images)
    predictions: list[Prediction] = []
    computed = 0
    failed: dict[str, str] = {}
    try:
        for image_id, group in images.items():
            try:
                found, new = _predict(task, model, cache, group, pixels[group[0].image_path])
            except Fp2Error:
                raise
            except Exception as error:  # decoders and models raise many kinds; each is an error of this image
                failed[image_id] = f"{type(error).__name__}: {without_path(error, group[0].image_path)}"
                if len(failed) > allowed:
                    what = f"{len(failed)} of {len(images)} images failed, the last with {failed[image_id]}"
                    raise Fp2Error(what, where=f"task {task.name}") from error
            else:
                predictions += [replace(one, image_id=image_id) for one in found]
                computed += new
            tick()
    finally:
        model.close()
    return Predicted(predictions, computed, len(images) - computed - len(failed), failed)


def _predict(
    task: NarrowTask, model: NarrowModel, cache: PredictionCache, group: list[Person], pixels: PixelDigest
) -> tuple[list[Prediction], bool]:
    """Return the predictions for one image, and whether they were computed now."""
    if pixels.sha256 is None:
        raise ValueError(pixels.error)
    path = group[0].image_path
    boxes = [_box(task, person) for person in group] if task.form in (POSE, EMBEDDING) else []
    shown = digest({"pixels": pixels.sha256, "boxes": [None if box is None else list(box) for box in boxes]})
    places = [str(number) for number in range(len(group))]
    numbered = [replace(person, subject_id=place) for person, place in zip(group, places, strict=True)]
    found, new = cache.get(shown), False
    if found is None:
        found, new = model.predict(ImageInput(open_rgb(path), numbered, boxes)), True
        cache.put(shown, path, found)
    subjects = {place: person.subject_id for place, person in zip(places, group, strict=True)}
    named = [one if one.subject_id is None else replace(one, subject_id=subjects[one.subject_id]) for one in found]
    return named, new


def _box(task: NarrowTask, person: Person) -> tuple[float, float, float, float] | None:
    """Return the annotated box that the task gives to the model."""
    geometry = person.geometry()
    box = geometry.face_box if task.form == EMBEDDING else geometry.person_box
    if box is None or box.width <= 0 or box.height <= 0:
        return None
    return box.x, box.y, box.width, box.height


class PredictionCache:
    """The cached predictions of one model on one task, in an open SQLite database."""

    def __init__(self, connection: sqlite3.Connection, identity: Mapping[str, Any], task: str) -> None:
        self._connection, self._model = connection, digest({"identity": identity, "task": task})
        with connection:
            connection.execute(_CREATE)

    def get(self, shown: str) -> list[Prediction] | None:
        """Return the predictions about `shown` (a digest), None if there are none."""
        query = f"SELECT said FROM {TABLE} WHERE model = ? AND shown = ?"
        row = self._connection.execute(query, (self._model, shown)).fetchone()
        return None if row is None else [_prediction(one) for one in json.loads(row[0])]

    def put(self, shown: str, path: Path, predictions: Sequence[Prediction]) -> None:
        """Store the predictions about the image at `path`.

        Raises
        ------
        Fp2Error
            If the store cannot be written.
        """
        text = json.dumps([_record(one) for one in predictions], separators=(",", ":"))
        row = (self._model, shown, os.path.abspath(path), text)
        try:
            with self._connection:
                self._connection.execute(f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?, ?, ?)", row)
        except sqlite3.OperationalError as error:
            fix = "Check that the disk is writable and has space"
            raise Fp2Error(f"predictions cannot be stored: {error}", fix=fix) from None


def _record(prediction: Prediction) -> dict[str, Any]:
    record: dict[str, Any] = {"score": prediction.score}
    if prediction.subject_id is not None:
        record["place"] = int(prediction.subject_id)  # the number of its box, not the subject
    if prediction.box is not None:
        record["box"] = list(prediction.box)
    if prediction.mask is not None:
        record["mask"] = {"size": prediction.mask["size"], "counts": prediction.mask["counts"].decode()}
    if prediction.keypoints is not None:
        points = prediction.keypoints.ravel().tolist()
        record["keypoints"] = [None if np.isnan(value) else value for value in points]
    if prediction.embedding is not None:
        record["embedding"] = prediction.embedding.tolist()
    return record


def _prediction(record: Mapping[str, Any]) -> Prediction:
    points, mask = record.get("keypoints"), record.get("mask")
    return Prediction(
        "",
        subject_id=None if record.get("place") is None else str(record["place"]),
        score=float(record["score"]),
        box=None if record.get("box") is None else tuple(record["box"]),
        mask=None if mask is None else read_rle(mask, "the response store"),
        keypoints=None if points is None else np.array(points, dtype=np.float64).reshape(17, 2),
        embedding=None if record.get("embedding") is None else np.array(record["embedding"], dtype=np.float64),
    )
