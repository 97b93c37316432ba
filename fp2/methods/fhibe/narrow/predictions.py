"""Predictions of a model: one entry each, from a JSON or Parquet file of the user's.

Entries have COCO's results format where there is one (docs/methods/fhibe.md shows each form). Masks are COCO's
run-length encoding (RLE), as pycocotools has it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from fp2.extension import FloatArray, Fp2Error, nearest, normal_id, plural
from fp2.methods.fhibe.narrow.tasks import BODY_PARTS, BOX, EMBEDDING, GENERATED, MASK, PARSING, PARTS, POSE, NarrowTask

Pixels = npt.NDArray[np.uint8]
_NUMBERS = ("lpips", "psnr", "identity")
_OF_PEOPLE = ("person_detection", "person_segmentation", "pose_estimation", "body_part_detection")
PERSON = 1
"""COCO's category of a person."""
PARQUET = (".parquet", ".pq")


class Rle(TypedDict):
    """A mask: `size` = [height, width], and COCO's compressed run lengths (`pycocotools.mask`)."""

    size: list[int]
    counts: bytes


@dataclass(frozen=True, eq=False)
class Prediction:
    """One prediction about one image; the fields of its task's form are set.

    Boxes are (x, y, width, height) in pixels of the image. `keypoints` has shape (17, 2), NaN for a keypoint that was
    not found. `file` is an image on this machine; `labels` is a map of face parts without a file, shape (height,
    width). `numbers` are metrics that the user computed.
    `parts` maps body parts to the probability that they are to be seen.
    """

    image_id: str
    subject_id: str | None = None
    score: float = 1.0
    box: tuple[float, float, float, float] | None = None
    mask: Rle | None = None
    keypoints: FloatArray | None = None
    embedding: FloatArray | None = None
    file: Path | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    labels: Pixels | None = None
    parts: Mapping[str, float] = field(default_factory=dict)


def by_image(predictions: Iterable[Prediction]) -> dict[str, list[Prediction]]:
    """Return image id -> its predictions, in their order."""
    grouped: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        grouped.setdefault(prediction.image_id, []).append(prediction)
    return grouped


def read_entries(path: Path, task: NarrowTask, content: Any = None) -> list[Any]:
    """Return the entries of a Parquet file, or of a JSON file with this `content`."""
    if path.suffix.lower() in PARQUET:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return list(pq.read_table(path).to_pylist())
        except (OSError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise Fp2Error(f"the predictions cannot be read: {reason}", where=str(path)) from None
    if isinstance(content, dict):
        named = content.get("task", task.name)
        if named != task.name:
            raise Fp2Error(f"the file has predictions of {named!r}, not of {task.name!r}", where=str(path))
        content = content.get("predictions")
    if not isinstance(content, list):
        fix = 'Write [ {...}, {...} ] or {"task": NAME, "predictions": [ ... ]}'
        raise Fp2Error("the file has no list of predictions", where=str(path), fix=fix)
    return content


def parse(entry: Any, task: NarrowTask, where: str, folder: Path) -> Prediction:
    """Return one entry (a JSON object) as a prediction; paths in it are relative to `folder`."""
    if not isinstance(entry, Mapping):
        raise Fp2Error("an entry is not an object", where=where, fix="Write each as {...} with an image_id")
    reader = _Entry(entry, where, folder)
    image_id = reader.required("image_id", "Write the id of the image in the people table")
    if task.name in _OF_PEOPLE and (category := reader.number("category_id", PERSON)) != PERSON:
        fix = f"Leave out other categories; {PERSON} is COCO's category of a person"
        raise reader.error(f"category_id is {category:g}, not {PERSON} (person)", fix)
    subject = reader.get("subject_id")
    subject = None if subject is None else normal_id(subject)
    return Prediction(normal_id(image_id), subject, reader.number("score", 1.0), **_FORMS[task.form](reader))


@dataclass(frozen=True)
class _Entry:
    """An entry of a file: where it is, and its fields, which a method for each form of a prediction reads."""

    fields: Mapping[str, Any]
    where: str
    folder: Path

    def error(self, what: str, fix: str = "") -> Fp2Error:
        return Fp2Error(what, where=self.where, fix=fix)

    def get(self, name: str) -> Any:
        """Return a field; None if it is missing (in a Parquet table: NaN)."""
        value = self.fields.get(name)
        return None if isinstance(value, float) and math.isnan(value) else value

    def required(self, name: str, fix: str) -> Any:
        value = self.get(name)
        if value is None or (isinstance(value, str | Mapping) and not value):
            raise self.error(f"{name} is missing", fix)
        return value

    def decoded(self, name: str, fix: str) -> Any:
        """Return a field, which may be JSON text."""
        value = self.required(name, fix)
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError:
            raise self.error(f"{name} cannot be read as JSON") from None

    def number(self, name: str, default: float) -> float:
        return default if self.get(name) is None else self.finite(self.fields[name], name)

    def finite(self, value: Any, name: str) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise self.error(f"{name} is {value!r}, not a number") from None
        if not math.isfinite(number):
            raise self.error(f"{name} is not finite")
        return number

    def vector(self, name: str, fix: str, *, finite: bool = True) -> FloatArray:
        values = self.decoded(name, fix)
        if not isinstance(values, Sequence):
            raise self.error(f"{name} is not a list of numbers", fix)
        try:
            array = np.array([math.nan if value is None else float(value) for value in values], dtype=np.float64)
        except (TypeError, ValueError):
            raise self.error(f"{name} has an entry that is not a number", fix) from None
        if np.isinf(array).any() or (finite and np.isnan(array).any()):
            raise self.error(f"{name} has a number that is not finite")
        return array

    def file(self, name: str) -> Path:
        given_path = str(self.fields[name])
        path = self.folder / Path(given_path).expanduser()
        if not path.is_file():
            raise self.error(
                f"{name} names a missing file: {given_path!r}", "Paths are relative to the file of the predictions"
            )
        return path

    def box(self) -> dict[str, Any]:
        fix = "Write the box [x, y, width, height] in pixels, not two corners"
        values = self.vector("bbox", fix)
        if len(values) != 4:
            raise self.error(f"bbox has {len(values)} numbers, not 4", fix)
        if values[2] < 0 or values[3] < 0:
            raise self.error("bbox has a negative width or height", fix)
        return {"box": tuple(values.tolist())}

    def mask(self) -> dict[str, Any]:
        fix = "Write COCO's RLE {size: [height, width], counts: ...}, or a path to a PNG that is 0 outside the mask"
        value = self.required("segmentation", fix)
        if isinstance(value, str) and not value.lstrip().startswith("{"):
            return {"file": self.file("segmentation")}
        return {"mask": read_rle(self.decoded("segmentation", fix), self.where)}

    def pose(self) -> dict[str, Any]:
        fix = "Write COCO's 17 keypoints as 51 numbers x, y, score in COCO's order (or 34 numbers x, y)"
        values = self.vector("keypoints", fix, finite=False)
        if len(values) not in (34, 51):
            raise self.error(f"keypoints has {len(values)} numbers, not 51", fix)
        return {"keypoints": values.reshape(17, -1)[:, :2].copy()}

    def parsing(self) -> dict[str, Any]:
        self.required("parsing", "Write the path of a PNG whose grey level is the part's index in CelebAMask-HQ")
        return {"file": self.file("parsing")}

    def embedding(self) -> dict[str, Any]:
        fix = "Write the whole embedding of the face"
        values = self.vector("embedding", fix)
        if len(values) < 2:
            raise self.error(f"embedding has {plural(len(values), 'number')}", fix)
        return {"embedding": values}

    def generated(self) -> dict[str, Any]:
        numbers = {name: self.finite(self.fields[name], name) for name in _NUMBERS if self.get(name) is not None}
        if not numbers:
            fix = f"Write the path of the generated image, or a number under {', '.join(_NUMBERS)}"
            self.required("image", fix)
        return {"numbers": numbers, "file": self.file("image") if self.get("image") else None}

    def body_parts(self) -> dict[str, Any]:
        fix = 'Write the probability of each part: {"Face": 0.9, "Hand": 0.2}'
        probabilities = self.decoded("parts", fix)
        if not isinstance(probabilities, Mapping):
            raise self.error("parts is missing", fix)
        parts = {}
        for name, value in probabilities.items():
            if name not in BODY_PARTS:
                raise self.error(f"unknown body part {name!r}", nearest(str(name), BODY_PARTS))
            if value is not None and value == value:  # a row of a Parquet table has all fields
                parts[str(name)] = self.finite(value, f"parts.{name}")
                if not 0 <= parts[name] <= 1:
                    raise self.error(f"parts.{name} is {parts[name]:g}, not a probability")
        return {"parts": parts}


_FORMS = {
    BOX: _Entry.box, MASK: _Entry.mask, POSE: _Entry.pose, PARSING: _Entry.parsing, EMBEDDING: _Entry.embedding,
    GENERATED: _Entry.generated, PARTS: _Entry.body_parts,
}  # fmt: skip


def encode_mask(mask: npt.ArrayLike) -> Rle:
    """Return a mask of shape (height, width), inside where it is not 0, in COCO's encoding."""
    from pycocotools.mask import encode

    encoded: Rle = encode(np.asfortranarray(np.asarray(mask) != 0, dtype=np.uint8))
    return encoded


_TEXT = re.compile(rb"(?:[P-o]{0,6}[0-O])+")  # a run is groups of 5 bits from '0' on; all but its last have bit 6
_FIX = "Write COCO's RLE: {size: [height, width], counts: text of pycocotools.mask.encode, or a list of numbers}"


def read_rle(encoding: Any, where: str) -> Rle:
    """Return COCO's run-length encoding from an entry of a file: compressed text, or a list of run lengths.

    The runs have to fill the image: pycocotools does not check it, and then reads memory that is not its own.
    """
    from pycocotools.mask import frPyObjects

    if not isinstance(encoding, Mapping):
        raise Fp2Error("segmentation is neither an RLE nor a path", where=where, fix=_FIX)
    try:
        height, width = (int(side) for side in encoding["size"])
        counts = encoding["counts"]
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
