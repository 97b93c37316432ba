"""Predictions that this harness made, remembered picture by picture, so that an interrupted run goes on where it was.

One file per (model, task), a line per picture: the digest of what was shown, and what was said. A line that was cut
off (a full disk, a killed run) is left out and predicted again. Pictures' digests are all that names a picture;
`forget` drops those that have to go.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fp2.errors import Fp2Error
from fp2.hashing import digest
from fp2.narrow.predictions import Prediction
from fp2.narrow.rle import Rle

FOLDER = "narrow"
"""Below the state folder."""


class PredictionCache:
    """The remembered predictions of one model on one task."""

    def __init__(self, state: Path, identity: Mapping[str, Any], task: str) -> None:
        self.key = digest({"identity": identity, "task": task})
        self._path = state / FOLDER / f"{task}-{self.key[:24]}.jsonl"
        self._known: dict[str, list[dict[str, Any]]] = {}
        for line in _lines(self._path):
            self._known[line["shown"]] = line["said"]

    def get(self, shown: str) -> list[Prediction] | None:
        """Return what was said about `shown` (a digest), or None."""
        said = self._known.get(shown)
        return None if said is None else [_prediction(one) for one in said]

    def put(self, shown: str, pixels: str, said: Sequence[Prediction]) -> None:
        """Remember what was said; `pixels` is the digest of the picture, by which it can be forgotten.

        Raises
        ------
        Fp2Error
            If the disk is full or the folder read-only.
        """
        record = [_record(one) for one in said]
        line = json.dumps({"shown": shown, "pixels": pixels, "said": record}, separators=(",", ":"))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(("" if _whole(self._path) else "\n") + line + "\n")
        except OSError as error:
            raise Fp2Error(f"predictions cannot be kept: {error.strerror}", where=str(self._path)) from None
        self._known[shown] = record


def forget(state: Path, pixels: Collection[str]) -> int:
    """Drop every remembered prediction about the pictures with these digests; return how many were dropped."""
    gone = 0
    for path in sorted((state / FOLDER).glob("*.jsonl")):
        lines = list(_lines(path))
        kept = [line for line in lines if line["pixels"] not in pixels]
        if len(kept) < len(lines):
            gone += len(lines) - len(kept)
            beside = path.with_suffix(".new")
            text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in kept)
            beside.write_text(text, encoding="utf-8")
            beside.replace(path)
    return gone


def _lines(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a file; those that were cut off are left out."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            line = json.loads(text)
            lines.append({"shown": str(line["shown"]), "pixels": str(line["pixels"]), "said": list(line["said"])})
        except (ValueError, KeyError, TypeError):
            continue
    return lines


def _whole(path: Path) -> bool:
    """Return whether a file is empty or ends with a whole line."""
    if not path.is_file() or not path.stat().st_size:
        return True
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"


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
