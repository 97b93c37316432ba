"""A model's predictions, as a file of the user's holds them: JSON or Parquet, one entry a prediction.

The entries are COCO's results format where there is one. `docs/narrow.md` shows each form with an example; whatever is
wrong with an entry is said in one line: which entry, which field, and what it should be.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fp2.errors import Fp2Error
from fp2.protocols.narrow.rle import Rle, rle_of
from fp2.protocols.narrow.tasks import BOX, EMBEDDING, MASK, PARSING, PICTURE, POSE, NarrowTask

Floats = npt.NDArray[np.float64]
_NUMBERS = ("lpips", "psnr", "identity")
_OF_PEOPLE = ("person_detection", "person_segmentation", "pose_estimation")
PERSON = 1
"""COCO's number of the class person."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """One thing that a model said about one picture; only the fields of its task's form are filled.

    Boxes are (x, y, width, height) in pixels of the picture. `keypoints` has shape (17, 2), NaN where none was found.
    `file` is a picture on this machine. `numbers` are metrics that the user computed.
    """

    image_id: str
    subject_id: str | None = None
    score: float = 1.0
    box: tuple[float, float, float, float] | None = None
    mask: Rle | None = None
    keypoints: Floats | None = None
    embedding: Floats | None = None
    file: Path | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)


def read_predictions(path: Path, task: NarrowTask) -> list[Prediction]:
    """Return the predictions of `task` in a file.

    Raises
    ------
    Fp2Error
        If the file cannot be read, or one of its entries is not what the task's form asks for.
    """
    entries = _parquet(path) if path.suffix.lower() in (".parquet", ".pq") else _json(path, task)
    if not entries:
        raise Fp2Error("the file holds no predictions", where=str(path))
    return [parse(entry, task, f"{path}, entry {number}", path.parent) for number, entry in enumerate(entries, start=1)]


def parse(entry: Any, task: NarrowTask, where: str, folder: Path) -> Prediction:
    """Return one entry (a JSON object) as a prediction; paths in it are relative to `folder`.

    Raises
    ------
    Fp2Error
        Naming the field and what it should be.
    """
    if not isinstance(entry, Mapping):
        raise Fp2Error("an entry is no object", where=where, fix="Each prediction is {...} with an image_id")
    image_id = entry.get("image_id")
    if image_id is None or str(image_id) == "":
        raise Fp2Error("image_id is missing", where=where, fix="Write the picture's id of the data set's people table")
    if task.name in _OF_PEOPLE and not _absent(entry.get("category_id")):
        category = _number(entry["category_id"], "category_id", where)
        if category != PERSON:
            fix = "Leave out what is no person; COCO's number of a person is 1"
            raise Fp2Error(f"category_id is {category:g}, not {PERSON} (person)", where=where, fix=fix)
    subject = entry.get("subject_id")
    what: dict[str, Any] = {
        "image_id": str(image_id),
        "subject_id": None if _absent(subject) else str(subject),
        "score": 1.0 if _absent(entry.get("score")) else _number(entry["score"], "score", where),
    }
    return Prediction(**what, **_FORMS[task.form](entry, where, folder))


def by_picture(predictions: Iterable[Prediction]) -> dict[str, list[Prediction]]:
    """Return picture -> its predictions, in their order."""
    found: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        found.setdefault(prediction.image_id, []).append(prediction)
    return found


def _box(entry: Mapping[str, Any], where: str, folder: Path) -> dict[str, Any]:
    values = _vector(entry, "bbox", where, "the box [x, y, width, height] in pixels")
    if len(values) != 4:
        raise Fp2Error(f"bbox has {len(values)} numbers, not 4", where=where, fix="Write [x, y, width, height]")
    if values[2] < 0 or values[3] < 0:
        fix = "Write [x, y, width, height] in pixels, not two corners"
        raise Fp2Error("bbox has a negative width or height", where=where, fix=fix)
    return {"box": tuple(values.tolist())}


def _mask(entry: Mapping[str, Any], where: str, folder: Path) -> dict[str, Any]:
    if _absent(given := entry.get("segmentation")):
        fix = "Write COCO run lengths {size: [height, width], counts: ...}, or a path to a PNG that is black outside"
        raise Fp2Error("segmentation is missing", where=where, fix=fix)
    if isinstance(given, str) and given.lstrip().startswith("{"):
        given = _loads(given, "segmentation", where)
    if isinstance(given, str):
        return {"file": _file(given, "segmentation", where, folder)}
    return {"mask": rle_of(given, where)}


def _pose(entry: Mapping[str, Any], where: str, folder: Path) -> dict[str, Any]:
    fix = "Write COCO's 17 keypoints as 51 numbers x, y, score in COCO's order (or 34 numbers x, y)"
    values = _vector(entry, "keypoints", where, fix, finite=False)
    if len(values) not in (34, 51):
        raise Fp2Error(f"keypoints has {len(values)} numbers, not 51", where=where, fix=fix)
    return {"keypoints": values.reshape(17, -1)[:, :2].copy()}


def _parsing(entry: Mapping[str, Any], where: str, folder: Path) -> dict[str, Any]:
    given = entry.get("parsing")
    if not isinstance(given, str) or not given:
        fix = "Write the path of a PNG whose grey level is the part's index in CelebAMask-HQ"
        raise Fp2Error("parsing is missing", where=where, fix=fix)
    return {"file": _file(given, "parsing", where, folder)}


def _embedding(entry: Mapping[str, Any], where: str, folder: Path) -> dict[str, Any]:
    values = _vector(entry, "embedding", where, "the numbers of the face's embedding")
    if len(values) < 2:
        raise Fp2Error(f"embedding has {len(values)} number(s)", where=where, fix="Write the whole vector of the face")
    return {"embedding": values}


def _picture(entry: Mapping[str, Any], where: str, folder: Path) -> dict[str, Any]:
    numbers = {name: _number(entry[name], name, where) for name in _NUMBERS if not _absent(entry.get(name))}
    given = entry.get("image")
    if not given and not numbers:
        fix = f"Write the path of the made picture, or a number under {', '.join(_NUMBERS)}"
        raise Fp2Error("image is missing", where=where, fix=fix)
    return {"numbers": numbers, "file": _file(str(given), "image", where, folder) if given else None}


_FORMS: dict[str, Callable[[Mapping[str, Any], str, Path], dict[str, Any]]] = {
    BOX: _box,
    MASK: _mask,
    POSE: _pose,
    PARSING: _parsing,
    EMBEDDING: _embedding,
    PICTURE: _picture,
}


def _json(path: Path, task: NarrowTask) -> list[Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Fp2Error(f"the predictions cannot be read: {error.strerror}", where=str(path)) from None
    except ValueError as error:
        raise Fp2Error(f"the predictions are no JSON: {error}", where=str(path)) from None
    if isinstance(found, dict):
        said = found.get("task", task.name)
        if said != task.name:
            raise Fp2Error(f"these are predictions of {said!r}, not of {task.name!r}", where=str(path))
        found = found.get("predictions")
    if not isinstance(found, list):
        fix = 'Write [ {...}, {...} ] or {"task": NAME, "predictions": [ ... ]}'
        raise Fp2Error("the file holds no list of predictions", where=str(path), fix=fix)
    return found


def _parquet(path: Path) -> list[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_table(path).to_pylist())
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Fp2Error(f"the predictions cannot be read: {reason}", where=str(path)) from None


def _vector(entry: Mapping[str, Any], name: str, where: str, fix: str, *, finite: bool = True) -> Floats:
    given = entry.get(name)
    if isinstance(given, str):
        given = _loads(given, name, where)
    if _absent(given):
        raise Fp2Error(f"{name} is missing", where=where, fix=f"Write {fix.removeprefix('Write ')}")
    if not isinstance(given, Sequence):
        raise Fp2Error(f"{name} is no list of numbers", where=where, fix=f"Write {fix.removeprefix('Write ')}")
    try:
        values = np.array([math.nan if value is None else float(value) for value in given], dtype=np.float64)
    except (TypeError, ValueError):
        raise Fp2Error(f"{name} holds something that is no number", where=where) from None
    if np.isinf(values).any() or (finite and np.isnan(values).any()):
        raise Fp2Error(f"{name} holds a number that is not finite", where=where)
    return values


def _number(value: Any, name: str, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Fp2Error(f"{name} is {value!r}, no number", where=where) from None
    if not math.isfinite(number):
        raise Fp2Error(f"{name} is not finite", where=where)
    return number


def _loads(text: str, name: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise Fp2Error(f"{name} cannot be read as JSON", where=where) from None


def _file(given: str, name: str, where: str, folder: Path) -> Path:
    path = folder / Path(given).expanduser()
    if not path.is_file():
        raise Fp2Error(
            f"{name} names no file: {given!r}", where=where, fix="Paths are relative to the predictions' file"
        )
    return path


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
