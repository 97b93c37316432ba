"""Boxes, masks and poses of people in images: overlaps, COCO's matching, average recall, PCK and OKS.

Overlaps are pycocotools'. The matching is COCO's (Lin et al. 2014; `COCOeval`): in the order of their scores, each
detection takes the free person with the largest overlap, if that is at least the threshold. A person's score is the
share of the thresholds 0.5, 0.55 ... 0.95 at which they are matched; its mean over people is COCO's average recall.
`COCOeval` itself gives recall over a data set, and not per person.

A pose is COCO's 17 keypoints, which are among FHIBE's 33 under other names. Of the visible ones, the percentage of
correct keypoints (PCK) and the object keypoint similarity (OKS) are computed. A keypoint is correct within `t` times
the diagonal of the face box: the paper says "head length", which the release does not have, and its published code
takes the diagonal. MPII's head length (Andriluka et al. 2014) is 0.6 diagonals of a box around the head.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from fp2.extension import BoolArray, FloatArray, Fp2Error
from fp2.methods.fhibe.narrow import published
from fp2.methods.fhibe.narrow.predictions import Prediction, Rle, encode_mask
from fp2.methods.fhibe.narrow.tasks import (
    COCO_KEYPOINTS,
    FOUND_AT,
    NO_MASK,
    SECOND_POSE,
    UNKNOWN_SUBJECT,
    NarrowTask,
    TaskScores,
)
from fp2.methods.fhibe.narrow.truth import Person, image_size, person_mask, polygon_mask
from fp2.methods.fhibe_release.geometry import Geometry, Keypoint

THRESHOLDS: FloatArray = np.linspace(0.5, 0.95, 10)
"""0.5, 0.55, ... 0.95."""
NO_POSE: FloatArray = np.full((17, 2), np.nan)
MAX_DETECTIONS = 100
"""Detections of one image that are matched, highest scores first (COCO's `maxDets`)."""


def overlaps(predicted: Sequence[Sequence[float] | Rle], true: Sequence[Sequence[float] | Rle]) -> FloatArray:
    """Return the intersection over union of every pair, shape (n_predicted, n_true); 0 of two empty ones.

    predicted, true : boxes (x, y, width, height) in pixels, or masks of one size; all of one kind.
    """
    from pycocotools.mask import iou

    ious = iou(list(predicted), list(true), [0] * len(true)) if predicted and true else 0.0
    table: FloatArray = np.nan_to_num(np.asarray(ious, dtype=np.float64)) + np.zeros((len(predicted), len(true)))
    return table


def matches(overlap: FloatArray, scores: npt.ArrayLike, threshold: float) -> npt.NDArray[np.int64]:
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


def matched_at(overlap: FloatArray, scores: npt.ArrayLike) -> BoolArray:
    """Return whether each person is matched at each of `THRESHOLDS`, shape (n_thresholds, n_people)."""
    return np.array([matches(overlap, scores, float(threshold)) >= 0 for threshold in THRESHOLDS], dtype=bool)


def score_boxes(task: NarrowTask, group: list[Person], predictions: list[Prediction], scores: TaskScores) -> None:
    """Add the rows of one image: `group` are the people in it, `found` the predicted boxes."""
    face = task.name == "face_detection"
    geometries = [person.geometry() for person in group]
    boxes = [geometry.face_box if face else geometry.person_box for geometry in geometries]
    judged = {n: box for n, box in enumerate(boxes) if box is not None and box.width > 0 and box.height > 0}
    table = overlaps([list(p.box) for p in predictions if p.box is not None], [list(box) for box in judged.values()])
    _add_rows([group[n] for n in judged], table, predictions, scores)
    scores.left_out[f"without a {'face' if face else 'person'} box in the data"] += len(group) - len(judged)


def score_masks(group: list[Person], predictions: list[Prediction], scores: TaskScores) -> None:
    """Add the rows of one image: `group` are the people in it, `found` the predicted masks."""
    geometries = [person.geometry() for person in group]
    size = image_size(group[0].image_path, geometries[0])
    true = [person_mask(person, geometry, size) for person, geometry in zip(group, geometries, strict=True)]
    judged = {n: encode_mask(mask) for n, mask in enumerate(true) if mask is not None}
    masks = [_predicted_mask(prediction, size) for prediction in predictions]
    table = overlaps(masks, list(judged.values()))
    others = None
    if scores.published:
        outlined = [published.person_mask(geometries[n], size) for n in judged]
        pairs = zip(outlined, judged.values(), strict=True)
        others = overlaps(
            masks, [mask_of_person if mask is None else encode_mask(mask) for mask, mask_of_person in pairs]
        )
    _add_rows([group[n] for n in judged], table, predictions, scores, others)
    scores.left_out[NO_MASK] += len(group) - len(judged)


def _predicted_mask(prediction: Prediction, size: tuple[int, int]) -> Rle:
    mask = prediction.mask
    if mask is None:
        from fp2.extension import image_file

        assert prediction.file is not None
        try:
            with image_file(prediction.file) as image:
                mask = encode_mask(np.asarray(image.convert("L")))
        except (OSError, ValueError) as error:
            raise Fp2Error(f"a mask cannot be read: {type(error).__name__}", where=str(prediction.file)) from None
    height, width = mask["size"]
    if (width, height) != size:
        what = f"a mask has {width} x {height} pixels, its image {size[0]} x {size[1]}"
        raise Fp2Error(what, where=f"image {prediction.image_id}", fix="Save masks at the size of the image")
    return mask


def _add_rows(
    group: list[Person],
    table: FloatArray,
    predictions: list[Prediction],
    scores: TaskScores,
    outlined: FloatArray | None = None,
) -> None:
    """Add the rows of one image from its overlaps, shape (n_found, n_people).

    outlined : overlaps of masks with those of FHIBE's evaluation code, which have an outline.
    """
    confidence = [prediction.score for prediction in predictions]
    hits = matched_at(table, confidence)
    recall: FloatArray = hits.mean(axis=0, dtype=np.float64)
    best = table.max(axis=0, initial=0.0)
    at_half = matches(table, confidence, FOUND_AT) >= 0
    theirs = (table if outlined is None else outlined).max(axis=0, initial=0.0)
    for n, person in enumerate(group):
        more = {at(THRESHOLDS[k]): float(hits[k, n]) for k in range(len(hits))} if scores.curves else {}
        if scores.published:
            name = "published_ar_iou" if outlined is None else "published_ar_mask"
            more[name] = published.share_reached(float(theirs[n]))
        value = float(recall[n])
        scores.add(person, value, bool(at_half[n]), recall=value, iou=float(best[n]), **more)


def at(threshold: float) -> str:
    """Return the name of a score at one threshold."""
    return f"at_{threshold:.2f}"


PCK_AT = 0.5
PCK_THRESHOLDS: FloatArray = np.linspace(0.1, 0.9, 9)
"""The nine thresholds over which FHIBE's published code takes the mean."""
PCK_LIMITS: dict[str, npt.ArrayLike] = {"paper": PCK_AT, "api": PCK_THRESHOLDS, "head": 0.5 * 0.6}
"""`task.options.pck` -> face diagonals within which a keypoint is correct; `head`: half of MPII's head length."""


def coco_points(keypoints: Mapping[str, Keypoint]) -> tuple[FloatArray, BoolArray]:
    """Return the positions (17, 2) of COCO's keypoints, NaN for hidden or absent ones, and which are visible (17,)."""
    places, visible = np.full((17, 2), np.nan), np.zeros(17, dtype=bool)
    for index, name in enumerate(COCO_KEYPOINTS):
        point = keypoints.get(name)
        if point is not None and point.visible:
            places[index], visible[index] = (point.x, point.y), True
    return places, visible


def pck(
    predicted: FloatArray, true: FloatArray, visible: BoolArray, diagonal: float, at: npt.ArrayLike = PCK_AT
) -> float:
    """Return the share of the visible keypoints within `at` face diagonals, mean over the values of `at`.

    Parameters
    ----------
    found, true : array of shape (17, 2)
        Pixels. A keypoint that was not found is NaN, and wrong.
    visible : array of shape (17,)
    diagonal : float
        Diagonal of the face box in pixels.

    Returns
    -------
    float
        NaN if no keypoint is visible or the diagonal is not above 0.
    """
    if not visible.any() or not diagonal > 0:
        return float("nan")
    distance = np.hypot(*(predicted - true)[visible].T) / diagonal
    limits = np.atleast_1d(np.asarray(at, dtype=np.float64))
    with np.errstate(invalid="ignore"):
        return float((distance[:, None] <= limits[None, :]).mean())


def oks(predicted: FloatArray, true: FloatArray, visible: BoolArray, area: float) -> float:
    """Return the object keypoint similarity, 0 to 1: mean of exp(-d^2 / (2 area (2 sigma)^2)).

    `area` is the person's in square pixels, sigma COCO's for each keypoint. A keypoint that was not found (NaN) counts
    0. NaN if none is visible. `COCOeval.computeOks` has the same formula on an evaluator's private state, and is NaN
    for a keypoint that was not found.
    """
    if not visible.any() or not area > 0:
        return float("nan")
    squared = ((predicted - true)[visible] ** 2).sum(axis=1)
    similarity = np.exp(-squared / (2 * area * (2 * coco_sigmas()[visible]) ** 2))
    return float(np.nan_to_num(similarity, nan=0.0).mean())


@cache
def coco_sigmas() -> FloatArray:
    """Return COCO's annotation error of each keypoint, as a share of the person's scale, shape (17,)."""
    from pycocotools.cocoeval import Params

    sigmas: FloatArray = Params("keypoints").kpt_oks_sigmas
    return sigmas


def oks_recall(similarity: float) -> float:
    """Return the share of the thresholds 0.5, 0.55 ... 0.95 that a similarity reaches (NaN: NaN)."""
    return float("nan") if np.isnan(similarity) else float((similarity >= THRESHOLDS - 1e-12).mean())


def score_poses(
    group: list[Person],
    predictions: list[Prediction],
    scores: TaskScores,
    thresholds: str,
    keypoints: Sequence[str] = (),
    *,
    listed: bool = False,
) -> None:
    """Add the rows of one image: `group` are the people in it, `predictions` the predicted poses.

    thresholds : a key of `PCK_LIMITS`.
    keypoints : those that are scored; none: all 17.
    listed : whether the published PCK of the n-th person is of the n-th pose; without one it is 0.
    """
    limits = PCK_LIMITS[thresholds]
    chosen = np.array([not keypoints or name in keypoints for name in COCO_KEYPOINTS])
    geometries = [person.geometry() for person in group]
    poses = _assign(group, geometries, predictions, scores, chosen)
    listed_poses = [*_keypoints(predictions), *([NO_POSE] * len(group))][: len(group)]
    theirs_of = listed_poses if listed else poses
    for person, geometry, points, pose in zip(group, geometries, poses, theirs_of, strict=True):
        true, visible = coco_points(geometry.keypoints)
        visible &= chosen
        face = geometry.face_box
        diagonal = math.hypot(face.width, face.height) if face else 0.0
        theirs = _published_pose(geometry, predictions, pose, (true, visible), diagonal) if scores.published else {}
        if not visible.any() or not diagonal > 0:
            what = "a face box" if visible.any() else "a visible keypoint"
            scores.left_out[f"without {what} in the data"] += 1
            if theirs:
                scores.add(person, None, None, **theirs)
            continue
        correct = pck(points, true, visible, diagonal, limits)
        similarity = oks(points, true, visible, _area(geometry))
        at_half = pck(points, true, visible, diagonal) >= FOUND_AT
        curve = {at(t): pck(points, true, visible, diagonal, t) for t in PCK_THRESHOLDS} if scores.curves else {}
        metrics = {"pck": correct, "oks": similarity, "oks_recall": oks_recall(similarity)}
        scores.add(person, correct, at_half, **metrics, **curve, **theirs)


def _published_pose(
    geometry: Geometry,
    predictions: list[Prediction],
    points: FloatArray,
    truth: tuple[FloatArray, BoolArray],
    diagonal: float,
) -> dict[str, float | None]:
    """Return PCK and OKS recall of the evaluation code: OKS is of the pose that fits best, whosever it is."""
    true, visible = truth
    mask = None if geometry.size is None else published.person_mask(geometry, geometry.size)
    area = _area(geometry) if mask is None else float(mask.sum())
    best = max((oks(pose, true, visible, area) for pose in _keypoints(predictions)), default=0.0)
    correct = pck(points, true, visible, diagonal, published.PCK_THRESHOLDS)
    return {
        "published_pck": None if math.isnan(correct) else correct,
        "published_ar_oks": 0.0 if math.isnan(best) else published.share_reached(best),
    }


def _keypoints(predictions: Sequence[Prediction]) -> list[FloatArray]:
    return [prediction.keypoints for prediction in predictions if prediction.keypoints is not None]


def _assign(
    group: list[Person],
    geometries: list[Geometry],
    predictions: list[Prediction],
    scores: TaskScores,
    chosen: BoolArray,
) -> list[FloatArray]:
    """Return each person's pose: the one of highest score that names them, else the matched one; NaN without either."""
    given = sorted((p for p in predictions if p.subject_id is not None), key=lambda p: p.score)
    named = {p.subject_id: p.keypoints for p in given}
    here = {person.subject_id for person in group}
    n_known = sum(p.subject_id in here for p in given)
    scores.ignored[UNKNOWN_SUBJECT] += len(given) - n_known
    scores.ignored[SECOND_POSE] += n_known - len(here & set(named))
    unnamed = [prediction for prediction in predictions if prediction.subject_id is None]
    table = np.zeros((len(unnamed), len(group)))
    for column, (person, geometry) in enumerate(zip(group, geometries, strict=True)):
        if person.subject_id in named:
            table[:, column] = -1.0
            continue
        true, visible = coco_points(geometry.keypoints)
        for row, prediction in enumerate(unnamed):
            assert prediction.keypoints is not None
            similarity = oks(prediction.keypoints, true, visible & chosen, _area(geometry))
            table[row, column] = 0.0 if math.isnan(similarity) else similarity
    matched = matches(table, [prediction.score for prediction in unnamed], 0.0)
    poses = []
    for person, number in zip(group, matched.tolist(), strict=True):
        pose = named.get(person.subject_id, unnamed[number].keypoints if number >= 0 else None)
        poses.append(NO_POSE if pose is None else pose)
    return poses


def _area(geometry: Geometry) -> float:
    """Return a person's area in square pixels: of their polygons' union, else of their box, 0 without either."""
    if geometry.size is not None and (mask := polygon_mask(geometry, geometry.size)) is not None:
        return float(mask.sum())
    return geometry.person_box.width * geometry.person_box.height if geometry.person_box else 0.0
