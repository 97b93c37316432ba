"""Polygons of FHIBE's segments as masks of an image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

Point = tuple[float, float]
Polygon = Sequence[Point]


def region_mask(size: tuple[int, int], polygons: Sequence[Polygon]) -> Image.Image:
    """Return the union of filled polygons as an 8-bit mask (255 inside) of `size` = (width, height).

    A pixel is inside a polygon if its centre is (even-odd rule, so that a polygon may surround a hole over a bridge of
    zero width). Parts outside the image are cut off; polygons with fewer than three vertices are ignored.
    """
    width, height = size
    inside = np.zeros((height, width), dtype=bool)
    for polygon in polygons:
        if len(polygon) >= 3:
            _fill(inside, np.asarray(polygon, dtype=np.float64))
    return Image.fromarray(inside.astype(np.uint8) * 255)


def _fill(inside: npt.NDArray[np.bool_], points: npt.NDArray[np.float64]) -> None:
    """Set the pixels inside one polygon: in each row, those between an odd and the next even crossing of its centre."""
    height, width = inside.shape
    after = np.roll(points, -1, axis=0)
    low, high = np.minimum(points[:, 1], after[:, 1]), np.maximum(points[:, 1], after[:, 1])
    # Rows whose centre is in [low, high), so that a vertex on a centre line counts once.
    first = np.clip(np.ceil(low - 0.5), 0, height).astype(int)
    last = np.clip(np.ceil(high - 0.5), 0, height).astype(int)
    if not (last > first).any():
        return
    edge = np.repeat(np.arange(len(points)), last - first)
    row = np.arange(len(edge)) - np.repeat(np.cumsum(last - first) - (last - first), last - first) + first[edge]
    start, end = points[edge], after[edge]
    x = start[:, 0] + (row + 0.5 - start[:, 1]) / (end[:, 1] - start[:, 1]) * (end[:, 0] - start[:, 0])
    column = np.clip(np.ceil(x - 0.5), 0, width).astype(int)
    top, bottom = int(row.min()), int(row.max()) + 1
    crossings = np.zeros((bottom - top, width + 1), dtype=np.int32)
    np.add.at(crossings, (row - top, column), 1)
    inside[top:bottom] |= np.cumsum(crossings, axis=1)[:, :-1] % 2 == 1


def mask_array(mask: Image.Image) -> npt.NDArray[np.bool_]:
    """Return a mask as booleans, shape (height, width)."""
    return np.asarray(mask) > 0
