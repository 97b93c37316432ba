"""Boxes and masks: intersection over union, and average recall over thresholds from 0.5 to 0.95.

The matching is COCO's (Lin et al., 2014; `COCOeval`): detections in the order of their score, each takes the free
person that it overlaps most, if by at least the threshold. A person's score is the share of the thresholds at which
somebody found them, and the mean over people is COCO's average recall.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

THRESHOLDS: Floats = np.linspace(0.5, 0.95, 10)
"""0.5, 0.55, ... 0.95."""
MOST_DETECTIONS = 100
"""Detections that are looked at in one picture, the surest first (COCO's `maxDets`)."""


def box_iou(found: npt.ArrayLike, true: npt.ArrayLike) -> Floats:
    """Return the intersection over union of every pair of boxes, shape (n_found, n_true).

    Parameters
    ----------
    found, true : array-like of shape (n, 4)
        Boxes (x, y, width, height) in pixels.
    """
    a = np.asarray(found, dtype=np.float64).reshape(-1, 1, 4)
    b = np.asarray(true, dtype=np.float64).reshape(1, -1, 4)
    overlap = np.minimum(a[..., :2] + a[..., 2:], b[..., :2] + b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    both = np.clip(overlap, 0, None).prod(axis=2)
    either = a[..., 2:].prod(axis=2) + b[..., 2:].prod(axis=2) - both
    ratio: Floats = np.divide(both, either, out=np.zeros_like(both), where=either > 0)
    return ratio


def mask_iou(found: Sequence[Bools], true: Sequence[Bools]) -> Floats:
    """Return the intersection over union of every pair of masks of one size, shape (n_found, n_true)."""
    table = np.zeros((len(found), len(true)))
    sizes = [int(mask.sum()) for mask in true]
    for row, mask in enumerate(found):
        size = int(mask.sum())
        for column, other in enumerate(true):
            both = int((mask & other).sum())
            either = size + sizes[column] - both
            table[row, column] = both / either if either else 0.0
    return table


def matches(overlap: Floats, scores: npt.ArrayLike, threshold: float) -> npt.NDArray[np.int64]:
    """Return for each person which detection found them at `threshold`, or -1.

    Parameters
    ----------
    overlap : array of shape (n_found, n_people)
        Any measure of likeness (`box_iou`, `mask_iou`, object keypoint similarity).
    scores : array-like of shape (n_found,)
        How sure the model is of each detection; of equals the first comes first.
    threshold : float
        The least overlap that counts.
    """
    order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")[:MOST_DETECTIONS]
    taken = np.full(overlap.shape[1], -1, dtype=np.int64)
    for detection in order:
        free = np.where(taken < 0, overlap[detection], -1.0)
        if free.size and free.max() >= min(threshold, 1 - 1e-10):
            taken[int(np.argmax(free))] = detection
    return taken


def average_recall(overlap: Floats, scores: npt.ArrayLike, thresholds: Floats = THRESHOLDS) -> Floats:
    """Return each person's share of the thresholds at which they were found, shape (n_people,), between 0 and 1."""
    found = [matches(overlap, scores, float(threshold)) >= 0 for threshold in thresholds]
    share: Floats = np.mean(found, axis=0, dtype=np.float64)
    return share


def best_overlap(overlap: Floats) -> Floats:
    """Return each person's largest overlap with any detection (0 without one), shape (n_people,)."""
    best: Floats = overlap.max(axis=0, initial=0.0)
    return best
