"""Boxes, masks and run lengths against plain NumPy; average recall against COCOeval."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pytest
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from fp2.errors import Fp2Error
from fp2.methods.fhibe.narrow.detection import matched_at, matches, overlaps
from fp2.methods.fhibe.narrow.predictions import encode_mask, read_rle


def _boxes(rng: np.random.Generator, n: int) -> Any:
    return np.column_stack([rng.uniform(0, 60, (n, 2)), rng.uniform(5, 60, (n, 2))])


def _iou(a: np.ndarray, b: np.ndarray) -> Any:
    """Intersection over union of every pair of boxes, written out."""
    a, b = a.reshape(-1, 1, 4), b.reshape(1, -1, 4)
    ends = np.minimum(a[..., :2] + a[..., 2:], b[..., :2] + b[..., 2:])
    both = np.clip(ends - np.maximum(a[..., :2], b[..., :2]), 0, None).prod(axis=2)
    return both / (a[..., 2:].prod(axis=2) + b[..., 2:].prod(axis=2) - both)


def test_box_overlaps_are_the_formula() -> None:
    rng = np.random.default_rng(0)
    found, true = _boxes(rng, 30), _boxes(rng, 20)
    np.testing.assert_allclose(overlaps(found.tolist(), true.tolist()), _iou(found, true), atol=1e-12)
    assert overlaps([], true.tolist()).shape == (0, 20)
    assert overlaps(found.tolist(), []).shape == (30, 0)
    assert overlaps([[0, 0, 0, 0]], [[0, 0, 0, 0]])[0, 0] == 0.0


def _masks() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.random((13, 17)) < share for share in (0.0, 0.1, 0.5, 0.9, 1.0)]


def test_mask_overlaps_are_the_formula() -> None:
    masks = _masks()
    table = overlaps([encode_mask(mask) for mask in masks], [encode_mask(mask) for mask in masks])
    for row, a in enumerate(masks):
        for column, b in enumerate(masks):
            assert table[row, column] == ((a & b).sum() / (a | b).sum() if (a | b).any() else 0.0)


def _runs(mask: np.ndarray) -> list[int]:
    """Lengths of runs outside, inside, outside ... down the columns, written out."""
    flat = mask.ravel(order="F")
    changes = np.flatnonzero(np.diff(np.concatenate([[False], flat])))
    return [int(n) for n in np.diff([0, *changes.tolist(), flat.size])]


def test_run_lengths_are_read_in_each_of_cocos_forms() -> None:
    for mask in _masks():
        compressed = coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))
        listed = {"size": [13, 17], "counts": _runs(mask)}
        text = {**compressed, "counts": compressed["counts"].decode()}
        for given in (compressed, text, listed):
            read = read_rle(given, "here")
            assert read == encode_mask(mask)
            assert np.array_equal(coco_mask.decode(read).astype(bool), mask)


@pytest.mark.parametrize(
    "given",
    [
        {"size": [2, 2], "counts": [1, 2]},
        {"size": [2, 2], "counts": [5, -1]},
        {"size": [2], "counts": [4]},
        {"counts": "04"},
        [1, 2, 3],
        {"size": [2, 2]},
        {"size": [0, 4], "counts": []},
        *({"size": [3, 3], "counts": text} for text in ("", "04", "P0", "PPP", "~~~", "122", "\u00e9", 9)),
    ],
)
def test_bad_run_lengths_are_refused_in_one_line(given: Any) -> None:
    """Of some of these, pycocotools would decode memory that is not its own."""
    with pytest.raises(Fp2Error, match="segmentation") as caught:
        read_rle(given, "entry 3")
    assert "entry 3" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_average_recall_is_cocoevals_on_images_of_two() -> None:
    rng = np.random.default_rng(2)
    true, found, annotations, results = [], [], [], []
    for image in range(40):
        people = _boxes(rng, 1 + image % 2)
        guesses = np.concatenate([people + rng.normal(0, 4, people.shape), _boxes(rng, 3)])
        guesses[:, 2:] = np.abs(guesses[:, 2:]) + 1
        confidence = rng.permutation(len(guesses)) / 10
        true.append(people)
        found.append((guesses, confidence))
        for box in people.tolist():
            annotations.append(
                {"id": len(annotations) + 1, "image_id": image, "category_id": 1, "bbox": box, "iscrowd": 0}
                | {"area": box[2] * box[3]}
            )
        results += [
            {"image_id": image, "category_id": 1, "bbox": box, "score": float(score)}
            for box, score in zip(guesses.tolist(), confidence, strict=True)
        ]
    coco = COCO()
    coco.dataset = {
        "images": [{"id": n, "width": 200, "height": 200} for n in range(40)],
        "annotations": annotations,
        "categories": [{"id": 1, "name": "person"}],
        "info": {},
    }
    with contextlib.redirect_stdout(io.StringIO()):
        coco.createIndex()
        judge = COCOeval(coco, coco.loadRes(results), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    ours = [
        matched_at(overlaps(guesses.tolist(), people.tolist()), confidence).mean(axis=0)
        for people, (guesses, confidence) in zip(true, found, strict=True)
    ]
    assert np.concatenate(ours).mean() == pytest.approx(judge.stats[8], abs=1e-12)  # AR, 100 detections, all areas
    assert 0.2 < judge.stats[8] < 0.9


def test_recall_by_hand() -> None:
    # 100 x 100 box moved by 10 to the right: IoU = 90 / 110 = 0.818, so 7 of the 10 thresholds (0.5 ... 0.8)
    table = overlaps([[10, 0, 100, 100]], [[0, 0, 100, 100]])
    assert table[0, 0] == pytest.approx(9 / 11)
    assert matched_at(table, [0.3]).mean() == pytest.approx(0.7)
    assert matched_at(np.ones((1, 1)), [0.3]).all()
    assert not matched_at(np.zeros((0, 2)), []).any()


def test_the_detection_of_highest_score_is_matched_first() -> None:
    table = np.array([[0.9, 0.8], [0.95, 0.1]])
    assert matches(table, [0.9, 0.5], 0.5).tolist() == [0, -1]
    assert matches(table, [0.5, 0.9], 0.5).tolist() == [1, 0]
