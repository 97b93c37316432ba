"""Predictions that this harness made, remembered picture by picture, so that an interrupted run goes on where it was.

They lie in the response store, a row per model and picture, under the digest of what was shown; a purge of a picture
removes them with it. Nobody is named: in a picture of two, a prediction says which of the boxes shown it is of.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fp2.errors import Fp2Error
from fp2.hashing import digest
from fp2.protocols.narrow.predictions import Prediction
from fp2.protocols.narrow.rle import Rle

TABLE = "narrow_predictions"
_CREATE = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    model TEXT NOT NULL, shown TEXT NOT NULL, path TEXT NOT NULL, said TEXT NOT NULL, PRIMARY KEY (model, shown)
) WITHOUT ROWID
"""


class PredictionCache:
    """The remembered predictions of one model on one task, in an open SQLite database."""

    def __init__(self, connection: sqlite3.Connection, identity: Mapping[str, Any], task: str) -> None:
        self._connection, self._model = connection, digest({"identity": identity, "task": task})
        with connection:
            connection.execute(_CREATE)

    def get(self, shown: str) -> list[Prediction] | None:
        """Return what was said about `shown` (a digest), or None."""
        query = f"SELECT said FROM {TABLE} WHERE model = ? AND shown = ?"
        row = self._connection.execute(query, (self._model, shown)).fetchone()
        return None if row is None else [_prediction(one) for one in json.loads(row[0])]

    def put(self, shown: str, path: Path, said: Sequence[Prediction]) -> None:
        """Remember what was said about the picture at `path`.

        Raises
        ------
        Fp2Error
            If the store cannot be written.
        """
        text = json.dumps([_record(one) for one in said], separators=(",", ":"))
        row = (self._model, shown, os.path.abspath(path), text)
        try:
            with self._connection:
                self._connection.execute(f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?, ?, ?)", row)
        except sqlite3.OperationalError as error:
            raise Fp2Error(f"predictions cannot be kept: {error}", fix="Is the disk full or read-only?") from None


def _record(said: Prediction) -> dict[str, Any]:
    record: dict[str, Any] = {"score": said.score}
    if said.subject_id is not None:
        record["place"] = int(said.subject_id)  # which of the boxes that were shown, never who
    if said.box is not None:
        record["box"] = list(said.box)
    if said.mask is not None:
        record["mask"] = said.mask.record()
    if said.keypoints is not None:
        record["keypoints"] = [None if np.isnan(value) else value for value in said.keypoints.ravel().tolist()]
    if said.embedding is not None:
        record["embedding"] = said.embedding.tolist()
    return record


def _prediction(record: Mapping[str, Any]) -> Prediction:
    points, mask = record.get("keypoints"), record.get("mask")
    return Prediction(
        "",
        subject_id=None if record.get("place") is None else str(record["place"]),
        score=float(record["score"]),
        box=None if record.get("box") is None else tuple(record["box"]),
        mask=None if mask is None else Rle((mask["size"][0], mask["size"][1]), tuple(mask["counts"])),
        keypoints=None if points is None else np.array(points, dtype=np.float64).reshape(17, 2),
        embedding=None if record.get("embedding") is None else np.array(record["embedding"], dtype=np.float64),
    )
