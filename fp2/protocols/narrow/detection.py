"""Boxes and masks of people: intersection over union, COCO's matching, and average recall.

Overlaps are pycocotools'. The matching is COCO's (Lin et al. 2014; `COCOeval`): in the order of their scores, each
detection takes the free person with the largest overlap, if that is at least the threshold. A person's score is the
share of the thresholds 0.5, 0.55 ... 0.95 at which they are matched; its mean over people is COCO's average recall.
`COCOeval` itself gives recall over a data set, and not per person.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fp2.errors import Fp2Error
from fp2.protocols.narrow.predictions import Prediction, Rle, encode_mask
from fp2.protocols.narrow.task_scores import FOUND_AT, NO_MASK, TaskScores
from fp2.protocols.narrow.tasks import NarrowTask
from fp2.protocols.narrow.truth import Person, image_size, person_mask

Floats = npt.NDArray[np.float64]

THRESHOLDS: Floats = np.linspace(0.5, 0.95, 10)
"""0.5, 0.55, ... 0.95."""
MAX_DETECTIONS = 100
"""Detections of one image that are matched, highest scores first (COCO's `maxDets`)."""


def overlaps(predicted: Sequence[Sequence[float] | Rle], true: Sequence[Sequence[float] | Rle]) -> Floats:
    """Return the intersection over union of every pair, shape (n_predicted, n_true); 0 of two empty ones.

    predicted, true : boxes (x, y, width, height) in pixels, or masks of one size; all of one kind.
    """
    from pycocotools.mask import iou

    found = iou(list(predicted), list(true), [0] * len(true)) if predicted and true else 0.0
    table: Floats = np.nan_to_num(np.asarray(found, dtype=np.float64)) + np.zeros((len(predicted), len(true)))
    return table


def matches(overlap: Floats, scores: npt.ArrayLike, threshold: float) -> npt.NDArray[np.int64]:
    """Return the detection that is matched with each person at `threshold`, -1 for none.

    Parameters
    ----------
    overlap : array of shape (n_detections, n_people)
        Any similarity (intersection over union, object keypoint similarity).
    scores : array-like of shape (n_detections,)
        Confidence of each detection; of equal ones the first is first.
    threshold : float
        The least overlap of a match.
    """
    order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")[:MAX_DETECTIONS]
    taken = np.full(overlap.shape[1], -1, dtype=np.int64)
    for detection in order:
        free = np.where(taken < 0, overlap[detection], -1.0)
        if free.size and free.max() >= min(threshold, 1 - 1e-10):
            taken[int(np.argmax(free))] = detection
    return taken


def average_recall(overlap: Floats, scores: npt.ArrayLike, thresholds: Floats = THRESHOLDS) -> Floats:
    """Return each person's share of the thresholds at which they are matched, shape (n_people,)."""
    found = [matches(overlap, scores, float(threshold)) >= 0 for threshold in thresholds]
    share: Floats = np.mean(found, axis=0, dtype=np.float64)
    return share


def score_boxes(task: NarrowTask, group: list[Person], found: list[Prediction], scores: TaskScores) -> None:
    """Add the rows of one image: `group` are the people in it, `found` the predicted boxes."""
    face = task.name == "face_detection"
    geometries = [person.geometry() for person in group]
    boxes = [geometry.face_box if face else geometry.person_box for geometry in geometries]
    judged = {n: box for n, box in enumerate(boxes) if box is not None and box.width > 0 and box.height > 0}
    table = overlaps([list(p.box) for p in found if p.box is not None], [list(box) for box in judged.values()])
    _add_rows([group[n] for n in judged], table, found, scores)
    scores.left_out[f"without a {'face' if face else 'person'} box in the data"] += len(group) - len(judged)


def score_masks(task: NarrowTask, group: list[Person], found: list[Prediction], scores: TaskScores) -> None:
    """Add the rows of one image: `group` are the people in it, `found` the predicted masks.

    Raises
    ------
    Fp2Error
        If a predicted mask cannot be read, or has another size than its image.
    """
    geometries = [person.geometry() for person in group]
    size = image_size(group[0].image_path, geometries[0])
    true = [person_mask(person, geometry, size) for person, geometry in zip(group, geometries, strict=True)]
    judged = {n: encode_mask(mask) for n, mask in enumerate(true) if mask is not None}
    table = overlaps([_predicted_mask(prediction, size) for prediction in found], list(judged.values()))
    _add_rows([group[n] for n in judged], table, found, scores)
    scores.left_out[NO_MASK] += len(group) - len(judged)


def _predicted_mask(prediction: Prediction, size: tuple[int, int]) -> Rle:
    mask = prediction.mask
    if mask is None:
        from PIL import Image

        assert prediction.file is not None
        try:
            with Image.open(prediction.file) as image:
                mask = encode_mask(np.asarray(image.convert("L")))
        except (OSError, ValueError) as error:
            raise Fp2Error(f"a mask cannot be read: {type(error).__name__}", where=str(prediction.file)) from None
    height, width = mask["size"]
    if (width, height) != size:
        what = f"a mask has {width} x {height} pixels, its image {size[0]} x {size[1]}"
        raise Fp2Error(what, where=f"image {prediction.image_id}", fix="Save masks at the size of the image")
    return mask


def _add_rows(group: list[Person], table: Floats, found: list[Prediction], scores: TaskScores) -> None:
    """Add the rows of one image from its overlaps, shape (n_found, n_people)."""
    confidence = [prediction.score for prediction in found]
    recall = average_recall(table, confidence)
    best = table.max(axis=0, initial=0.0)
    at_half = matches(table, confidence, FOUND_AT) >= 0
    for person, value, iou, hit in zip(group, recall.tolist(), best.tolist(), at_half.tolist(), strict=True):
        scores.add(person, value, hit, recall=value, iou=iou)
