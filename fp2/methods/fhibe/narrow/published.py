"""The numbers of FHIBE's evaluation code where it differs from ours by intent (`task.options.metric=published`).

The code is Sony's `fhibe_evaluation_api`, version 0.1.0. Its rules, as far as they are not ours:

- thresholds come from `numpy.arange`, so that 0.6 is 0.6000000000000001, and an overlap of exactly 0.6 misses it;
- the overlap of a person is that with the best prediction: one prediction may find two people;
- a person's mask and area have the outline of the polygons (`filled_polygons`);
- the OKS of a person without a visible keypoint is 0; their PCK is missing;
- face parsing is over the parts of the true map, background included (`image_f1`);
- images are resized bilinearly, and 1e-8 is added to the squared error of the PSNR (`resized`, `psnr`);
- verification takes a threshold per fold (`validation_rate`);
- body parts: a knee or ankle never shows a leg (`fp2.methods.fhibe.narrow.body_parts`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from PIL import Image

from fp2.extension import BoolArray, FloatArray
from fp2.methods.fhibe_release.geometry import Geometry

THRESHOLDS: FloatArray = np.arange(0.5, 1, 0.05)
PCK_THRESHOLDS: FloatArray = np.arange(0.1, 1, 0.1)
SIDE = 256

TITLES = {
    "published_ar_iou": "AR_IOU: average recall of boxes",
    "published_ar_mask": "AR_MASK: average recall of masks",
    "published_pck": "PCK: correct keypoints, mean over 0.1, 0.2 ... 0.9 face diagonals",
    "published_ar_oks": "AR_OKS: average recall of poses",
    "published_f1": "F1: mean over the parts of the true map, with background",
    "published_lpips": "LPIPS: lower is better",
    "published_psnr": "PSNR in dB",
}
"""Metric of one person or face -> what it is in the evaluation code."""
PREFIX = "published_"
LOWER_IS_BETTER = frozenset({"published_lpips"})


def title(metric: str) -> str:
    """Return what a published metric is called in the evaluation code."""
    return TITLES.get(metric) or metric.removeprefix(PREFIX).upper().replace("_DET_", "_DET: ").replace("_", " ")


def share_reached(value: float) -> float:
    """Return the share of the thresholds 0.5, 0.55 ... 0.95 that an overlap or similarity reaches."""
    return float((value >= THRESHOLDS).mean())


def person_mask(geometry: Geometry, size: tuple[int, int]) -> BoolArray | None:
    """Return the union of a person's polygons with their outlines, shape (height, width); None without polygons."""
    polygons = [polygon for parts in geometry.polygons.values() for polygon in parts]
    return filled_polygons(size, polygons) if polygons else None


def image_f1(predicted: npt.NDArray[np.uint8], true: npt.NDArray[np.uint8]) -> float:
    """Return the mean F1 of the labels of the true map, whatever else was predicted.

    found, true : arrays (height, width) of CelebAMask-HQ's labels; ears of `found` are skin already.
    """
    scores = []
    for label in np.unique(true):
        a, b = predicted == label, true == label
        scores.append(2 * int((a & b).sum()) / (int(a.sum()) + int(b.sum())))
    return float(np.mean(scores))


def resized(image: Image.Image) -> npt.NDArray[np.uint8]:
    """Return an image as it is compared: RGB, bilinearly resized, shape (256, 256, 3)."""
    rgb = image.convert("RGB")
    return np.asarray(rgb if rgb.size == (SIDE, SIDE) else rgb.resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def psnr(generated: npt.NDArray[np.uint8], true: npt.NDArray[np.uint8]) -> float:
    """Return -10 log10(mean squared error + 1e-8) of pixels from 0 to 1, in dB: 80 for equal images."""
    error = float(np.mean((generated.astype(np.float64) / 255 - true.astype(np.float64) / 255) ** 2))
    return float(-10 * np.log10(error + 1e-8))


Ints = npt.NDArray[np.int64]
_BITS = 16


def filled_polygons(size: tuple[int, int], polygons: Iterable[npt.ArrayLike]) -> BoolArray:
    """Return the union of filled polygons with their outlines, shape (height, width): the person mask of that code.

    It cuts off the decimals of the vertices and fills with OpenCV's `fillPoly`, which also sets every pixel of the
    outline; ours (`fhibe_release.masks.region_mask`) sets the pixels whose centre is inside. The rules of OpenCV are
    written out here, so that it is not needed: a row's pixels from the ceiling of one crossing to the floor of the
    next, crossings in steps of 1/65536, and outlines by Bresenham's algorithm from the left. For polygons inside the
    image the result is `cv2.fillPoly`'s, pixel for pixel.

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


def _fill(inside: BoolArray, start: Ints, end: Ints) -> None:
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
    inside_image = (left <= right) & (row >= 0) & (row < height)
    change = np.zeros((height, width + 1), dtype=np.int32)
    np.add.at(change, (row[inside_image], left[inside_image]), 1)
    np.add.at(change, (row[inside_image], right[inside_image] + 1), -1)
    inside |= np.cumsum(change, axis=1)[:, :-1] > 0


def _outline(inside: BoolArray, start: Ints, end: Ints) -> None:
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
    inside_image = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    inside[y[inside_image], x[inside_image]] = True
