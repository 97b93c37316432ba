"""The geometry of a person in an image of FHIBE: boxes, keypoints and segment polygons, read on demand.

The annotation JSON file beside an image has them for each subject; the CSV's cells `keypoints` and `segments` hold the
same as Python reprs. Coordinates are in pixels of the image, x to the right, y down.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fp2.extension import Fp2Error
from fp2.methods.fhibe_release.vocab import label

Polygon = npt.NDArray[np.float64]
_CROPS = ("faces_crop_only_", "faces_crop_and_align_")


class Box(NamedTuple):
    """Left edge, top edge, width and height in pixels."""

    x: float
    y: float
    width: float
    height: float


class Keypoint(NamedTuple):
    """A keypoint in pixels, and whether it is visible (not occluded)."""

    x: float
    y: float
    visible: bool


@dataclass(frozen=True)
class Geometry:
    """One subject's geometry.

    `keypoints` maps the names of the annotated points to them. `polygons` maps each segment class to a list of vertex
    arrays of shape (n, 2). Size and boxes are None if the annotation has none.
    """

    size: tuple[int, int] | None = None
    person_box: Box | None = None
    face_box: Box | None = None
    keypoints: Mapping[str, Keypoint] = field(default_factory=dict)
    polygons: Mapping[str, list[Polygon]] = field(default_factory=dict)


def annotation_path(image_path: Path) -> Path:
    """Return the path of the annotation file beside an image: `main_<id>.png` has `main_annos_<id>.json`.

    Face crops are named the same way: `faces_crop_only_<id>.png`, `faces_crop_and_align_<id>.png`.
    """
    prefix = next((prefix for prefix in _CROPS if image_path.stem.startswith(prefix)), "main_")
    return image_path.with_name(image_path.stem.replace(prefix, f"{prefix}annos_", 1) + ".json")


def read_geometry(path: Path, subject_id: str) -> Geometry:
    """Return the geometry of `subject_id` from an annotation file (see `annotation_path`)."""
    try:
        annotation = json.loads(path.read_text(encoding="utf-8"))
        subjects = {entry["subject_id"]: entry for entry in annotation["subject_annotation"]}
        image = annotation["image_annotation"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Fp2Error(f"the annotation cannot be read: {type(error).__name__}: {error}", where=str(path)) from None
    if subject_id not in subjects:
        raise Fp2Error("the annotation lacks this subject", where=str(path))
    entry = subjects[subject_id]
    try:
        width, height = image.get("image_width"), image.get("image_height")
        return Geometry(
            size=(int(width), int(height)) if width and height else None,
            person_box=_box(entry.get("person_bbox")),
            face_box=_box(entry.get("face_bbox")),
            keypoints=parse_keypoints(entry.get("keypoints") or {}),
            polygons=parse_segments(entry.get("segments") or []),
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise Fp2Error(f"the annotation is malformed: {error}", where=str(path)) from None


def parse_keypoints(value: str | Mapping[str, Sequence[float]]) -> dict[str, Keypoint]:
    """Return keypoint name -> point from a CSV cell or the object of the JSON file, in any order of keys."""
    points = _literal(value, "keypoints") if isinstance(value, str) else value
    try:
        return {label(name): Keypoint(float(x), float(y), bool(visible)) for name, (x, y, visible) in points.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise Fp2Error(f"keypoints are malformed: {error}") from None


def parse_segments(value: str | Sequence[Mapping[str, Any]]) -> dict[str, list[Polygon]]:
    """Return segment class -> polygons in the order of their number, from a CSV cell or the list of the JSON file."""
    segments = _literal(value, "segments") if isinstance(value, str) else value
    polygons: dict[str, list[Polygon]] = {}
    try:
        for segment in sorted(segments, key=lambda segment: int(segment.get("num", 1))):
            vertices = [(float(vertex["x"]), float(vertex["y"])) for vertex in segment["polygon"]]
            array = np.array(vertices, dtype=np.float64).reshape(-1, 2)
            polygons.setdefault(label(segment["class_name"]), []).append(array)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Fp2Error(f"segments are malformed: {type(error).__name__}: {error}") from None
    return polygons


def _literal(cell: str, column: str) -> Any:
    """Return the Python literal in a CSV cell (an empty list or dict for an empty cell)."""
    if not cell.strip():
        return {} if column == "keypoints" else []
    try:
        return ast.literal_eval(cell)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise Fp2Error(f"a {column} cell cannot be read: {error}") from None


def _box(value: Sequence[float] | None) -> Box | None:
    """Return `[x, y, width, height]` as a box, or None if there is none."""
    if not value:
        return None
    x, y, width, height = value
    return Box(float(x), float(y), float(width), float(height))
