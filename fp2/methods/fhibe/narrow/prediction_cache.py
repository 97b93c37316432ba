"""The cached predictions of models that are run here: a table of the response store, one row per model and image.

A row is stored under the digest of what was shown, with the path of the image, so that a purge of the image removes it.
No subject is named: of an image of two people, a prediction has the number of its box.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fp2.hashing import digest
from fp2.methods.fhibe.narrow.predictions import Prediction, read_rle
from fp2.store import checksums
from fp2.store.database import CHECKSUMS, add_table, as_user_error, file_of, transaction

TABLE = "narrow_predictions"
_CREATE = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    model TEXT NOT NULL, shown TEXT NOT NULL, path TEXT NOT NULL, said TEXT NOT NULL, PRIMARY KEY (model, shown)
) WITHOUT ROWID
"""


class PredictionCache:
    """The cached predictions of one model on one task, in an open SQLite database."""

    def __init__(self, connection: sqlite3.Connection, identity: Mapping[str, Any], task: str) -> None:
        self._connection, self._model = connection, digest({"identity": identity, "task": task})
        with as_user_error(file_of(connection)):
            add_table(connection, TABLE, _CREATE)
            add_table(connection, "checksums", CHECKSUMS)

    def get(self, shown: str) -> list[Prediction] | None:
        """Return the predictions about `shown` (a digest), None if there are none, or they are damaged."""
        query = f"SELECT path, said FROM {TABLE} WHERE model = ? AND shown = ?"
        with as_user_error(file_of(self._connection)):
            row = self._connection.execute(query, (self._model, shown)).fetchone()
            if row is None or not checksums.intact(self._connection, TABLE, {self._model + shown: row}):
                return None
        return [_prediction(record) for record in json.loads(row[1])]

    def put(self, shown: str, path: Path, predictions: Sequence[Prediction]) -> None:
        """Store the predictions about the image at `path`."""
        text = json.dumps([_record(prediction) for prediction in predictions], separators=(",", ":"))
        row = (self._model, shown, os.path.abspath(path), text)
        with transaction(self._connection, file_of(self._connection)):
            self._connection.execute(f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?, ?, ?)", row)
            key = self._model + shown
            checksums.put(self._connection, TABLE, {key: checksums.checksum(key, *row[2:])})


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
