"""The person mask of FHIBE's evaluation code: filled polygons of whole pixels, with their border.

That code cuts off the decimals of the vertices and fills with OpenCV's `fillPoly`, which also sets every pixel of the
outline; ours (`fp2.data.variants.region_mask`) sets the pixels whose centre is inside. The rules of OpenCV are written
out here, so that it is not needed: a row's pixels from the ceiling of one crossing to the floor of the next, crossings
in steps of 1/65536, and outlines by Bresenham's algorithm from the left. For polygons inside the image the result is
`cv2.fillPoly`'s, pixel for pixel.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
_BITS = 16


def filled_polygons(size: tuple[int, int], polygons: Iterable[npt.ArrayLike]) -> Bools:
    """Return the union of filled polygons with their outlines, shape (height, width).

    Parameters
    ----------
    size : (int, int)
        Width and height in pixels.
    polygons : iterable of array-like of shape (n, 2)
        Vertices in pixels; decimals are cut off.
    """
    width, height = size
    inside = np.zeros((height, width), dtype=bool)
    for polygon in polygons:
        points = np.asarray(polygon, dtype=np.float64).reshape(-1, 2)
        if len(points):
            start = np.trunc(points).astype(np.int64)
            end = np.roll(start, -1, axis=0)
            _fill(inside, start, end)
            _outline(inside, start, end)
    return inside


def _fill(inside: Bools, start: Ints, end: Ints) -> None:
    """Set the pixels between an odd and the next even crossing of each row."""
    height, width = inside.shape
    sloped = start[:, 1] != end[:, 1]
    start, end = start[sloped], end[sloped]
    if not len(start):
        return
    down = (start[:, 1] < end[:, 1])[:, None]
    top, bottom = np.where(down, start, end), np.where(down, end, start)
    rise = bottom[:, 1] - top[:, 1]
    run = (bottom[:, 0] - top[:, 0]) << _BITS
    step = np.sign(run) * (np.abs(run) // rise)
    edge = np.repeat(np.arange(len(top)), rise)
    below = np.arange(len(edge)) - np.repeat(np.cumsum(rise) - rise, rise)
    row, x = top[edge, 1] + below, (top[edge, 0] << _BITS) + below * step[edge]
    order = np.lexsort((x, row))
    row, x = row[order][::2], x[order]
    left = np.clip((x[::2] + (1 << _BITS) - 1) >> _BITS, 0, width)
    right = np.clip(x[1::2] >> _BITS, -1, width - 1)
    kept = (left <= right) & (row >= 0) & (row < height)
    change = np.zeros((height, width + 1), dtype=np.int32)
    np.add.at(change, (row[kept], left[kept]), 1)
    np.add.at(change, (row[kept], right[kept] + 1), -1)
    inside |= np.cumsum(change, axis=1)[:, :-1] > 0


def _outline(inside: Bools, start: Ints, end: Ints) -> None:
    """Set the pixels of every edge."""
    height, width = inside.shape
    leftwards = (start[:, 0] > end[:, 0])[:, None]
    start, end = np.where(leftwards, end, start), np.where(leftwards, start, end)
    along, across = np.abs(end - start).max(axis=1), np.abs(end - start).min(axis=1)
    steep = np.abs(end - start)[:, 1] > np.abs(end - start)[:, 0]
    edge = np.repeat(np.arange(len(start)), along + 1)
    far = np.arange(len(edge)) - np.repeat(np.cumsum(along + 1) - (along + 1), along + 1)
    length = np.maximum(along[edge], 1)
    aside = (2 * across[edge] * far + length - 1) // (2 * length)
    up = np.where(end[:, 1] >= start[:, 1], 1, -1)[edge]
    x = start[edge, 0] + np.where(steep[edge], aside, far)
    y = start[edge, 1] + up * np.where(steep[edge], far, aside)
    kept = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    inside[y[kept], x[kept]] = True
