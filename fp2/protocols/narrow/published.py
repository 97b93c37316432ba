"""The numbers of FHIBE's evaluation code where it differs from ours by intent (`task.options.metric=published`).

The code is Sony's `fhibe_evaluation_api`, version 0.1.0. Its rules, as far as they are not ours:

- thresholds come from `numpy.arange`, so that 0.6 is 0.6000000000000001, and an overlap of exactly 0.6 misses it;
- the overlap of a person is that with the best prediction: one prediction may find two people;
- a person's mask and area have the outline of the polygons (`published_masks`);
- the OKS of a person without a visible keypoint is 0; their PCK is missing;
- face parsing is over the parts of the true map, background included (`image_f1`);
- images are resized bilinearly, and 1e-8 is added to the squared error of the PSNR (`resized`, `psnr`);
- verification takes a threshold per fold (`validation_rate`);
- body parts: a knee or ankle never shows a leg (`fp2.protocols.narrow.body_parts`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from fp2.data.fhibe.geometry import Geometry
from fp2.protocols.narrow.published_masks import Bools, filled_polygons

Floats = npt.NDArray[np.float64]
THRESHOLDS: Floats = np.arange(0.5, 1, 0.05)
PCK_THRESHOLDS: Floats = np.arange(0.1, 1, 0.1)
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


def person_mask(geometry: Geometry, size: tuple[int, int]) -> Bools | None:
    """Return the union of a person's polygons with their outlines, shape (height, width); None without polygons."""
    polygons = [polygon for parts in geometry.polygons.values() for polygon in parts]
    return filled_polygons(size, polygons) if polygons else None


def image_f1(found: npt.NDArray[np.uint8], true: npt.NDArray[np.uint8]) -> float:
    """Return the mean F1 of the labels of the true map, whatever else was predicted.

    found, true : arrays (height, width) of CelebAMask-HQ's labels; ears of `found` are skin already.
    """
    scores = []
    for label in np.unique(true):
        a, b = found == label, true == label
        scores.append(2 * int((a & b).sum()) / (int(a.sum()) + int(b.sum())))
    return float(np.mean(scores))


def resized(image: Image.Image) -> npt.NDArray[np.uint8]:
    """Return an image as it is compared: RGB, bilinearly resized, shape (256, 256, 3)."""
    rgb = image.convert("RGB")
    return np.asarray(rgb if rgb.size == (SIDE, SIDE) else rgb.resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def psnr(found: npt.NDArray[np.uint8], true: npt.NDArray[np.uint8]) -> float:
    """Return -10 log10(mean squared error + 1e-8) of pixels from 0 to 1, in dB: 80 for equal images."""
    error = float(np.mean((found.astype(np.float64) / 255 - true.astype(np.float64) / 255) ** 2))
    return float(-10 * np.log10(error + 1e-8))
