"""Predictions of a model: one entry each, from a JSON or Parquet file of the user's.

Entries have COCO's results format where there is one (docs/narrow.md shows each form). Masks are COCO's run-length
encoding (RLE), as pycocotools has it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from fp2.extension import Fp2Error, nearest
from fp2.methods.fhibe.narrow.tasks import BODY_PARTS, BOX, EMBEDDING, GENERATED, MASK, PARSING, PARTS, POSE, NarrowTask

Floats = npt.NDArray[np.float64]
Pixels = npt.NDArray[np.uint8]
_NUMBERS = ("lpips", "psnr", "identity")
_OF_PEOPLE = ("person_detection", "person_segmentation", "pose_estimation", "body_part_detection")
PERSON = 1
"""COCO's category of a person."""


class Rle(TypedDict):
    """A mask: `size` = [height, width], and COCO's compressed run lengths (`pycocotools.mask`)."""

    size: list[int]
    counts: bytes


@dataclass(frozen=True, eq=False)
class Prediction:
    """One prediction about one image; the fields of its task's form are set.

    Boxes are (x, y, width, height) in pixels of the image. `keypoints` has shape (17, 2), NaN for a keypoint that was
    not found. `file` is an image on this machine; `labels` is a map of face parts, shape (height, width), and `pixels`
    a generated image, shape (height, width, 3), both without a file. `numbers` are metrics that the user computed.
    `parts` maps body parts to the probability that they are to be seen.
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
    labels: Pixels | None = None
    pixels: Pixels | None = None
    parts: Mapping[str, float] = field(default_factory=dict)


def by_image(predictions: Iterable[Prediction]) -> dict[str, list[Prediction]]:
    """Return image id -> its predictions, in their order."""
    found: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        found.setdefault(prediction.image_id, []).append(prediction)
    return found


def parse_entries(entries: Sequence[Any], task: NarrowTask, path: Path) -> list[Prediction]:
    """Return the entries of a file as predictions.

    Raises
    ------
    Fp2Error
        If there are none, or one does not have the form of the task.
    """
    if not entries:
        raise Fp2Error("the file has no predictions", where=str(path))
    return [parse(entry, task, f"{path}, entry {number}", path.parent) for number, entry in enumerate(entries, start=1)]


def parse(entry: Any, task: NarrowTask, where: str, folder: Path) -> Prediction:
    """Return one entry (a JSON object) as a prediction; paths in it are relative to `folder`.

    Raises
    ------
    Fp2Error
        Naming the field, and what it should be.
    """
    if not isinstance(entry, Mapping):
        raise Fp2Error("an entry is not an object", where=where, fix="Write each as {...} with an image_id")
    image_id = entry.get("image_id")
    if image_id is None or str(image_id) == "":
        raise Fp2Error("image_id is missing", where=where, fix="Write the id of the image in the people table")
    if task.name in _OF_PEOPLE and not _absent(entry.get("category_id")):
        category = _number(entry["category_id"], "category_id", where)
        if category != PERSON:
            fix = f"Leave out other categories; {PERSON} is COCO's category of a person"
            raise Fp2Error(f"category_id is {category:g}, not {PERSON} (person)", where=where, fix=fix)
    subject = entry.get("subject_id")
    common: dict[str, Any] = {
        "image_id": str(image_id),
        "subject_id": None if _absent(subject) else str(subject),
        "score": 1.0 if _absent(entry.get("score")) else _number(entry["score"], "score", where),
    }
    return Prediction(**common, **_FORMS[task.form](entry, where, folder))


# -- one function per form of a prediction


def _box(entry: Mapping[str, Any], where: str, folder: Path) -> dict[str, Any]:
    fix = "Write the box [x, y, width, height] in pixels, not two corners"
    values = _vector(entry, "bbox", where, fix)
    if len(values) != 4:
        raise Fp2Error(f"bbox has {len(values)} numbers, not 4", where=where, fix=fix)
    if values[2] < 0 or values[3] < 0:
        raise Fp2Error("bbox has a negative width or height", where=where, fix=fix)
    return {"box": tuple(values.tolist())}


def _mask(entry: Mapping[str, Any], where: str, folder: Path) -> dict[str, Any]:
    if _absent(given := entry.get("segmentation")):
        fix = "Write COCO's RLE {size: [height, width], counts: ...}, or a path to a PNG that is 0 outside the mask"
        raise Fp2Error("segmentation is missing", where=where, fix=fix)
    if isinstance(given, str) and given.lstrip().startswith("{"):
        given = _loads(given, "segmentation", where)
    if isinstance(given, str):
        return {"file": _file(given, "segmentation", where, folder)}
    return {"mask": read_rle(given, where)}


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
    fix = "Write the whole embedding of the face"
    values = _vector(entry, "embedding", where, fix)
    if len(values) < 2:
        raise Fp2Error(f"embedding has {len(values)} number(s)", where=where, fix=fix)
    return {"embedding": values}


def _image(entry: Mapping[str, Any], where: str, folder: Path) -> dict[str, Any]:
    numbers = {name: _number(entry[name], name, where) for name in _NUMBERS if not _absent(entry.get(name))}
    given = entry.get("image")
    if not given and not numbers:
        fix = f"Write the path of the generated image, or a number under {', '.join(_NUMBERS)}"
        raise Fp2Error("image is missing", where=where, fix=fix)
    return {"numbers": numbers, "file": _file(str(given), "image", where, folder) if given else None}


def _body_parts(entry: Mapping[str, Any], where: str, folder: Path) -> dict[str, Any]:
    given = entry.get("parts")
    if isinstance(given, str):
        given = _loads(given, "parts", where)
    if not isinstance(given, Mapping) or not given:
        fix = 'Write the probability of each part: {"Face": 0.9, "Hand": 0.2}'
        raise Fp2Error("parts is missing", where=where, fix=fix)
    parts = {}
    for name, value in given.items():
        if name not in BODY_PARTS:
            raise Fp2Error(f"unknown body part {name!r}", where=where, fix=nearest(str(name), BODY_PARTS))
        if _absent(value):  # of a Parquet table, whose rows have all fields
            continue
        parts[str(name)] = _number(value, f"parts.{name}", where)
        if not 0 <= parts[name] <= 1:
            raise Fp2Error(f"parts.{name} is {parts[name]:g}, not a probability", where=where)
    return {"parts": parts}


_FORMS: dict[str, Callable[[Mapping[str, Any], str, Path], dict[str, Any]]] = {
    BOX: _box,
    MASK: _mask,
    POSE: _pose,
    PARSING: _parsing,
    EMBEDDING: _embedding,
    GENERATED: _image,
    PARTS: _body_parts,
}


# -- run-length encoding


def encode_mask(mask: npt.ArrayLike) -> Rle:
    """Return a mask of shape (height, width), inside where it is not 0, in COCO's encoding."""
    from pycocotools.mask import encode

    encoded: Rle = encode(np.asfortranarray(np.asarray(mask) != 0, dtype=np.uint8))
    return encoded


_TEXT = re.compile(rb"(?:[P-o]{0,6}[0-O])+")  # a run is groups of 5 bits from '0' on; all but its last have bit 6
_FIX = "Write COCO's RLE: {size: [height, width], counts: text of pycocotools.mask.encode, or a list of numbers}"


def read_rle(given: Any, where: str) -> Rle:
    """Return COCO's run-length encoding from an entry of a file: compressed text, or a list of run lengths.

    The runs have to fill the image: pycocotools does not check it, and then reads memory that is not its own.

    Raises
    ------
    Fp2Error
        If the encoding is malformed, or does not fill the image.
    """
    from pycocotools.mask import frPyObjects

    if not isinstance(given, Mapping):
        raise Fp2Error("segmentation is neither an RLE nor a path", where=where, fix=_FIX)
    try:
        height, width = (int(side) for side in given["size"])
        counts = given["counts"]
        if isinstance(counts, str | bytes):
            text = counts.encode() if isinstance(counts, str) else counts
            runs = _run_lengths(text)
        else:
            runs = [int(count) for count in counts]
            text = None
    except (KeyError, TypeError, ValueError):
        raise Fp2Error("segmentation is malformed", where=where, fix=_FIX) from None
    if height < 1 or width < 1 or min(runs, default=-1) < 0 or sum(runs) != height * width:
        what = f"the run lengths of segmentation do not fill {width} x {height} pixels"
        raise Fp2Error(what, where=where, fix=_FIX)
    if text is None:
        text = frPyObjects({"size": [height, width], "counts": runs}, height, width)["counts"]
    return {"size": [height, width], "counts": text}


def _run_lengths(text: bytes) -> list[int]:
    """Return the run lengths of COCO's text: from the third on, each is stored less the one before the last.

    pycocotools has no function for it. Raises ValueError for other text.
    """
    if not _TEXT.fullmatch(text):
        raise ValueError("not COCO's encoding")
    runs: list[int] = []
    value = shift = 0
    for byte in text:
        bits = byte - 48
        value, shift = value | (bits & 0x1F) << shift, shift + 5
        if bits & 0x20:
            continue
        if bits & 0x10:  # the sign
            value -= 1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
        value = shift = 0
    return runs


# -- reading files and fields


def listed(found: Any, task: NarrowTask, path: Path) -> list[Any]:
    """Return the entries of what a JSON file holds.

    Raises
    ------
    Fp2Error
        If it is no list of predictions, or one of another task.
    """
    if isinstance(found, dict):
        named = found.get("task", task.name)
        if named != task.name:
            raise Fp2Error(f"the file has predictions of {named!r}, not of {task.name!r}", where=str(path))
        found = found.get("predictions")
    if not isinstance(found, list):
        fix = 'Write [ {...}, {...} ] or {"task": NAME, "predictions": [ ... ]}'
        raise Fp2Error("the file has no list of predictions", where=str(path), fix=fix)
    return found


def read_parquet(path: Path) -> list[Any]:
    """Return the rows of a Parquet file.

    Raises
    ------
    Fp2Error
        If it cannot be read.
    """
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
        raise Fp2Error(f"{name} is missing", where=where, fix=fix)
    if not isinstance(given, Sequence):
        raise Fp2Error(f"{name} is not a list of numbers", where=where, fix=fix)
    try:
        values = np.array([math.nan if value is None else float(value) for value in given], dtype=np.float64)
    except (TypeError, ValueError):
        raise Fp2Error(f"{name} has an entry that is not a number", where=where, fix=fix) from None
    if np.isinf(values).any() or (finite and np.isnan(values).any()):
        raise Fp2Error(f"{name} has a number that is not finite", where=where)
    return values


def _number(value: Any, name: str, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Fp2Error(f"{name} is {value!r}, not a number", where=where) from None
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
        fix = "Paths are relative to the file of the predictions"
        raise Fp2Error(f"{name} names a missing file: {given!r}", where=where, fix=fix)
    return path


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
