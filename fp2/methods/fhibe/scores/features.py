"""What FHIBE's analyses know of a subject in an image: the sensitive attributes, and features that are measured.

Sensitive attributes (Xiang et al. 2025, Methods, "Benchmarking analysis"): pronoun (P), age (A), skin tone (ST), and
ancestry as region (AR) or as subregion (AS). An intersection never has ancestry at both levels.

Features are predictors of error models and variables of conditions. They are read from the annotation beside the image
(keypoints, segments, boxes), else from the boxes of the people table, and from the pixels. What a data set does not
have is missing.
"""

from __future__ import annotations

import itertools
import json
import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fp2.extension import (
    ATTRIBUTE_PREFIX,
    CAMERA,
    JOIN,
    MUST_NOT_LEAVE,
    PLACE_AND_TIME,
    Cut,
    Fp2Error,
    add_table,
    as_user_error,
    attribute_columns,
    file_of,
    file_stamp,
    open_rgb,
    transaction,
)
from fp2.methods.fhibe.scores.conditions import holds
from fp2.methods.fhibe_release.geometry import Geometry, annotation_path, read_geometry

if TYPE_CHECKING:
    import pandas as pd

SENSITIVE = ("pronoun", "age", "region", "subregion", "skin_tone")
ABBREVIATIONS = {"pronoun": "P", "age": "A", "skin_tone": "ST", "region": "AR", "subregion": "AS"}
"""Attribute -> its abbreviation; the order is that of the parts of an intersection in the paper's tables."""
_ANCESTRY = {"region", "subregion"}


def known_attributes(people: pd.DataFrame) -> list[str]:
    """Return the attributes of which at least one subject has a value."""
    return [name for name in attribute_columns(people) if people[ATTRIBUTE_PREFIX + name].map(len).any()]


def sensitive_attributes(people: pd.DataFrame) -> list[str]:
    """Return the sensitive attributes of which at least one subject has a value."""
    present = known_attributes(people)
    return [name for name in SENSITIVE if name in present]


ALL = "all"
"""In place of attributes: every one that may leave the data folder."""


def chosen_attributes(people: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Return the attributes that an option names; of `all` those with a value that may leave the data folder."""
    if ALL not in names:
        return list(names)
    return [name for name in known_attributes(people) if name not in MUST_NOT_LEAVE]


def with_single(cuts: Sequence[Cut], attributes: Sequence[str]) -> tuple[Cut, ...]:
    """Return `cuts`, and one by each of the attributes that is not among them."""
    present = {cut.by for cut in cuts if not cut.groups}
    return (*cuts, *(Cut(name, (name,)) for name in dict.fromkeys(attributes) if (name,) not in present))


def every_intersection(attributes: Sequence[str], depth: int | None = None) -> tuple[Cut, ...]:
    """Return every attribute and every intersection of up to `depth` of them (None: of any number)."""
    order = list(ABBREVIATIONS)
    ordered = sorted(dict.fromkeys(attributes), key=lambda a: (order.index(a) if a in order else len(order), a))
    sizes = range(1, (len(ordered) if depth is None else depth) + 1)
    parts = itertools.chain.from_iterable(itertools.combinations(ordered, size) for size in sizes)
    return tuple(Cut(JOIN.join(by), by) for by in parts if not set(by) >= _ANCESTRY)


def with_intersections(cuts: Sequence[Cut], attributes: Sequence[str], depth: int | None) -> tuple[Cut, ...]:
    """Return `cuts`, and the intersections of `attributes` that are not among them."""
    present = {frozenset(cut.by) for cut in cuts if not (cut.groups or cut.merged)}
    return (*cuts, *(cut for cut in every_intersection(attributes, depth) if frozenset(cut.by) not in present))


def abbreviation(cut: Cut) -> str:
    """Return a cut as the paper's tables write it: `pronoun_x_skin_tone` -> `PxST`."""
    return "x".join(ABBREVIATIONS.get(part, part) for part in cut.by)


NUMBERS: dict[str, str] = {
    "visible_keypoints": "number of annotated, visible keypoints",
    "bald": "1 if the segments have no head hair (a shaved head, or covered hair), else 0",
    "visible_hair": "area of visible head hair / area of the person box",
    "headwear": "1 if a segment is headwear, else 0",
    "eyewear": "1 if a segment is eyewear, else 0",
    "facial_skin": "area of visible facial skin / area of the face box",
    "box_share": "area of the person box / area of the image",
    "box_aspect": "width / height of the person box",
    "face_share": "height of the face box / height of the image",
    "face_distance": "distance of the face box's centre from the image's / diagonal of the image",
    "image_aspect": "width / height of the image",
    "people_in_picture": "number of annotated people in the image",
    "brightness": "mean luma in the person box, 0 to 1",
    "contrast": "standard deviation of luma in the person box",
    "figure_ground": "absolute difference of mean luma inside and outside the person box",
    "face_brightness": "mean luma in the face box, 0 to 1",
    "sharpness": "mean absolute difference of luma between horizontally adjacent pixels in the person box",
}
"""Name -> definition. Luma is ITU-R BT.601's, of the image scaled down to a long side of 256 pixels."""
_SIDE = 256
MEASURED = {"picture_numbers": "measurements of images"}
"""The table of the response store that keeps pixel features -> what its rows are."""
_CREATE = """
CREATE TABLE IF NOT EXISTS picture_numbers (
    path TEXT NOT NULL, boxes TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, numbers TEXT NOT NULL,
    PRIMARY KEY (path, boxes)
) WITHOUT ROWID
"""
_BATCH = 64
Box = tuple[float, float, float, float]
"""Left edge, top edge, width and height in pixels."""
Luma = npt.NDArray[np.float64]


def measure(
    people: pd.DataFrame,
    memory: sqlite3.Connection | None = None,
    *,
    pixels: bool = True,
    tick: Callable[[], None] = lambda: None,
) -> pd.DataFrame:
    """Return one column per entry of `NUMBERS`, on the index of `people`; NaN is missing.

    Parameters
    ----------
    people : DataFrame
        The people table, with paths of this machine.
    memory : Connection, optional
        An open SQLite database that caches what is measured in pixels, by path, boxes, size and time of the file.
    pixels : bool
        Whether images are opened.
    tick : callable
        Called after each row.
    """
    import pandas as pd

    cache = _PixelCache(memory)
    rows = []
    row: Any
    for row in people.itertuples(index=False):
        path = Path(row.image_path)
        shape = geometry_of(path, str(row.subject_id))
        person = table_box(row, "box") or shape.person_box
        face = shape.face_box or table_box(row, "face")
        numbers = {"people_in_picture": float(row.n_people), **_of_shape(shape, person, face)}
        if pixels:
            numbers |= cache.numbers(path, person, face)
        rows.append(numbers)
        tick()
    cache.write()
    return pd.DataFrame(rows, columns=list(NUMBERS), index=people.index, dtype="float64")


def predictors(people: pd.DataFrame, sensitive: Sequence[str]) -> list[str]:
    """Return the attributes of `people` that may predict errors: no place, time or camera, none of `sensitive`.

    Of the natural and the apparent form of one attribute the apparent one is taken, which the image shows.
    """
    names = attribute_columns(people)
    doubled = {name for name in names if name.replace("natural_", "apparent_") in names and name.startswith("natural_")}
    if "skin_tone" in names:
        doubled.add("apparent_skin_tone")
    hidden = PLACE_AND_TIME | CAMERA | doubled | {"nationality", "apparent_skin_color_hue_lum"} | set(sensitive)
    return [name for name in names if name not in hidden]


def check_conditions(people: pd.DataFrame, conditions: Sequence[str]) -> None:
    """Refuse conditions that are invalid or name neither a feature nor a column of `people`, before any is measured."""
    unmeasured = people.assign(**dict.fromkeys(NUMBERS, math.nan)) if conditions else people
    for condition in conditions:
        holds(unmeasured, condition)


def geometry_of(path: Path, subject_id: str) -> Geometry:
    """Return the annotation of a subject beside an image; empty if there is none."""
    try:
        return read_geometry(annotation_path(path), subject_id)
    except Fp2Error:
        return Geometry()


def table_box(row: object, what: str) -> Box | None:
    """Return the box `what` (`box` or `face`) of a row of the people table; None if it has none."""
    x, y, width, height = (float(getattr(row, f"{what}_{side}", math.nan)) for side in "xywh")
    return None if any(map(math.isnan, (x, y, width, height))) else (x, y, width, height)


def _of_shape(shape: Geometry, person: Box | None, face: Box | None) -> dict[str, float]:
    """Return what follows from keypoints, segments, boxes and the size of the image."""
    features: dict[str, float] = {}
    if shape.keypoints:
        features["visible_keypoints"] = float(sum(point.visible for point in shape.keypoints.values()))
    if shape.polygons:
        hair, skin = (_area(shape.polygons.get(name, ())) for name in ("Head hair", "Face skin"))
        features |= {"bald": float(hair == 0), "headwear": float("Headwear" in shape.polygons)}
        features["eyewear"] = float("Eyewear" in shape.polygons)
        if person and (box_area := person[2] * person[3]) > 0:
            features["visible_hair"] = hair / box_area
        if face and (box_area := face[2] * face[3]) > 0:
            features["facial_skin"] = skin / box_area
    if person and person[3] > 0:
        features["box_aspect"] = person[2] / person[3]
    if shape.size and min(shape.size) > 0:
        width, height = shape.size
        features["image_aspect"] = width / height
        if person:
            features["box_share"] = person[2] * person[3] / (width * height)
        if face:
            centre = (face[0] + face[2] / 2 - width / 2, face[1] + face[3] / 2 - height / 2)
            features["face_share"] = face[3] / height
            features["face_distance"] = math.hypot(*centre) / math.hypot(width, height)
    return features


def _area(polygons: Sequence[npt.NDArray[np.float64]]) -> float:
    """Return the sum of the polygons' areas (shoelace formula)."""
    total = 0.0
    for points in polygons:
        x, y = points[:, 0], points[:, 1]
        total += 0.5 * abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1)))
    return total


def pixel_numbers(path: Path, person: Box | None, face: Box | None) -> dict[str, float]:
    """Return what is measured in the pixels of an image; nothing if it cannot be read."""
    try:
        image = open_rgb(path)
    except Exception:  # decoders raise many kinds; the image then has no pixel features
        return {}
    scale = min(1.0, _SIDE / max(image.size))
    small = image.convert("L").resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))))
    luma = np.asarray(small, dtype=np.float64) / 255
    inside = _inside(luma.shape, person, scale)
    body, ground = luma[inside], luma[~inside]
    steps = np.abs(np.diff(luma, axis=1))[inside[:, 1:] & inside[:, :-1]]
    features = {
        "brightness": float(body.mean()),
        "contrast": float(body.std()),
        "sharpness": float(steps.mean()) if steps.size else math.nan,
    }
    if ground.size:
        features["figure_ground"] = abs(float(body.mean() - ground.mean()))
    if face:
        features["face_brightness"] = float(luma[_inside(luma.shape, face, scale)].mean())
    return features


def _inside(shape: tuple[int, ...], box: Box | None, scale: float) -> npt.NDArray[np.bool_]:
    """Return the pixels of a box, at least one; all pixels without a box."""
    height, width = shape
    inside = np.zeros((height, width), dtype=bool)
    x, y, w, h = box or (0.0, 0.0, width / scale, height / scale)
    left, top = int(np.clip(x * scale, 0, width - 1)), int(np.clip(y * scale, 0, height - 1))
    right, bottom = (max(low + 1, math.ceil(end * scale)) for low, end in ((left, x + w), (top, y + h)))
    inside[top:bottom, left:right] = True
    return inside


class _PixelCache:
    """Pixel features in the table `picture_numbers`; without a database nothing is kept."""

    def __init__(self, connection: sqlite3.Connection | None) -> None:
        self._connection = connection
        self._new: list[tuple[str, str, int, int, str]] = []
        if connection is not None:
            with as_user_error(file_of(connection)):
                add_table(connection, "picture_numbers", _CREATE)

    def numbers(self, path: Path, person: Box | None, face: Box | None) -> Mapping[str, float]:
        before = file_stamp(path)
        if self._connection is None or before is None:
            return pixel_numbers(path, person, face)
        key = (str(path.absolute()), json.dumps([person, face]))
        query = "SELECT size, mtime_ns, numbers FROM picture_numbers WHERE path = ? AND boxes = ?"
        with as_user_error(file_of(self._connection)):
            stored = self._connection.execute(query, key).fetchone()
        if stored is not None and stored[:2] == file_stamp(path, stored[2]):
            return {str(name): float(value) for name, value in json.loads(stored[2]).items()}
        features = pixel_numbers(path, person, face)
        stamp = file_stamp(path, numbers := json.dumps(features))
        if features and stamp is not None and file_stamp(path) == before:
            self._new.append((*key, *stamp, numbers))
        if len(self._new) >= _BATCH:
            self.write()
        return features

    def write(self) -> None:
        """Write what was measured since the last call."""
        if self._connection is None or not self._new:
            return
        with transaction(self._connection, file_of(self._connection)):
            self._connection.executemany("INSERT OR REPLACE INTO picture_numbers VALUES (?, ?, ?, ?, ?)", self._new)
        self._new.clear()
