"""Poses: percentage of correct keypoints and object keypoint similarity, over the keypoints that can be seen.

Poses are COCO's 17 keypoints; FHIBE's 33 hold all of them under names of their own. PCK counts a keypoint as right
when it lies within `t` times the diagonal of the face box of where it truly is: the paper says "head length", which the
release does not hold, and its published code takes the diagonal.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fp2.data.fhibe.geometry import Keypoint
from fp2.protocols.narrow.metrics.overlap import THRESHOLDS

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

COCO_KEYPOINTS: tuple[str, ...] = (
    "Nose", "Left eye", "Right eye", "Left ear", "Right ear", "Left shoulder", "Right shoulder", "Left elbow",
    "Right elbow", "Left wrist", "Right wrist", "Left hip", "Right hip", "Left knee", "Right knee", "Left ankle",
    "Right ankle",
)  # fmt: skip
"""COCO's keypoints in COCO's order, under FHIBE's names (left is the person's left)."""
SIGMAS: Floats = np.array(
    [26, 25, 25, 35, 35, 79, 79, 72, 72, 62, 62, 107, 107, 87, 87, 89, 89], dtype=np.float64
) / 1000  # fmt: skip
"""How exactly people place each of them, as a share of the person's scale (COCO's keypoint evaluation)."""
PCK_AT = 0.5
PCK_THRESHOLDS: Floats = np.linspace(0.1, 0.9, 9)
"""The nine thresholds over which FHIBE's published code takes the mean."""


def coco_points(keypoints: Mapping[str, Keypoint]) -> tuple[Floats, Bools]:
    """Return the places (17, 2) of COCO's keypoints and which can be seen (17,); a hidden or absent one is NaN."""
    places, seen = np.full((17, 2), np.nan), np.zeros(17, dtype=bool)
    for index, name in enumerate(COCO_KEYPOINTS):
        point = keypoints.get(name)
        if point is not None and point.visible:
            places[index], seen[index] = (point.x, point.y), True
    return places, seen


def pck(found: Floats, true: Floats, seen: Bools, diagonal: float, at: npt.ArrayLike = PCK_AT) -> float:
    """Return the share of the seen keypoints that lie within `at` face diagonals, mean over the values of `at`.

    Parameters
    ----------
    found, true : array of shape (17, 2)
        Pixels. A keypoint that was not found is NaN, and counts as wrong.
    seen : array of shape (17,)
        Which keypoints are judged.
    diagonal : float
        Diagonal of the face box in pixels.

    Returns
    -------
    float
        NaN if no keypoint can be seen or the diagonal is not above zero.
    """
    if not seen.any() or not diagonal > 0:
        return float("nan")
    distance = np.hypot(*(found - true)[seen].T) / diagonal
    limits = np.atleast_1d(np.asarray(at, dtype=np.float64))
    with np.errstate(invalid="ignore"):
        return float((distance[:, None] <= limits[None, :]).mean())


def oks(found: Floats, true: Floats, seen: Bools, area: float) -> float:
    """Return the object keypoint similarity between 0 and 1: mean of exp(-d^2 / (2 area (2 sigma)^2)).

    `area` is the person's in square pixels. Keypoints that were not found (NaN) count 0. NaN if none can be seen.
    """
    if not seen.any() or not area > 0:
        return float("nan")
    squared = ((found - true)[seen] ** 2).sum(axis=1)
    likeness = np.exp(-squared / (2 * area * (2 * SIGMAS[seen]) ** 2))
    return float(np.nan_to_num(likeness, nan=0.0).mean())


def oks_recall(similarity: float) -> float:
    """Return the share of the thresholds 0.5, 0.55 ... 0.95 that a similarity reaches (NaN stays NaN)."""
    return float("nan") if np.isnan(similarity) else float((similarity >= THRESHOLDS - 1e-12).mean())
