"""Boxes, masks and run lengths against pycocotools; average recall against COCOeval."""

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
from fp2.protocols.narrow.metrics import overlap
from fp2.protocols.narrow.rle import Rle, rle_of


def _boxes(rng: np.random.Generator, n: int) -> Any:
    return np.column_stack([rng.uniform(0, 60, (n, 2)), rng.uniform(5, 60, (n, 2))])


def test_box_iou_is_pycocotools() -> None:
    rng = np.random.default_rng(0)
    found, true = _boxes(rng, 30), _boxes(rng, 20)
    expected = coco_mask.iou(found.tolist(), true.tolist(), [0] * 20)
    np.testing.assert_allclose(overlap.box_iou(found, true), expected, atol=1e-12)
    assert overlap.box_iou([], true).shape == (0, 20)
    assert overlap.box_iou([[0, 0, 0, 0]], [[0, 0, 0, 0]])[0, 0] == 0.0


def test_mask_iou_and_run_lengths_are_pycocotools() -> None:
    rng = np.random.default_rng(1)
    masks = [rng.random((13, 17)) < share for share in (0.0, 0.1, 0.5, 0.9, 1.0)]
    encoded = [coco_mask.encode(np.asfortranarray(mask.astype(np.uint8))) for mask in masks]
    expected = coco_mask.iou(encoded, encoded, [0] * 5)
    np.testing.assert_allclose(overlap.mask_iou(masks, masks), np.nan_to_num(expected), atol=1e-12)
    for mask, theirs in zip(masks, encoded, strict=True):
        assert np.array_equal(rle_of(theirs, "here").mask(), mask)  # compressed bytes
        assert np.array_equal(rle_of({**theirs, "counts": theirs["counts"].decode()}, "here").mask(), mask)
        ours = Rle.of(mask).record()
        assert np.array_equal(rle_of(ours, "here").mask(), mask)
        assert np.array_equal(coco_mask.decode(coco_mask.frPyObjects(ours, 13, 17)).astype(bool), mask)


@pytest.mark.parametrize(
    "given",
    [{"size": [2, 2], "counts": [1, 2]}, {"size": [2], "counts": [4]}, {"counts": "04"}, [1, 2, 3], {"size": [2, 2]}],
)
def test_bad_run_lengths_are_said_in_one_line(given: Any) -> None:
    with pytest.raises(Fp2Error, match="segmentation") as caught:
        rle_of(given, "entry 3")
    assert "entry 3" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_average_recall_is_cocoevals_on_pictures_of_two() -> None:
    rng = np.random.default_rng(2)
    true, found, annotations, results = [], [], [], []
    for image in range(40):
        people = _boxes(rng, 1 + image % 2)
        guesses = np.concatenate([people + rng.normal(0, 4, people.shape), _boxes(rng, 3)])
        guesses[:, 2:] = np.abs(guesses[:, 2:]) + 1
        sure = rng.permutation(len(guesses)) / 10
        true.append(people)
        found.append((guesses, sure))
        for box in people.tolist():
            annotations.append(
                {"id": len(annotations) + 1, "image_id": image, "category_id": 1, "bbox": box, "iscrowd": 0}
                | {"area": box[2] * box[3]}
            )
        results += [
            {"image_id": image, "category_id": 1, "bbox": box, "score": float(score)}
            for box, score in zip(guesses.tolist(), sure, strict=True)
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
        overlap.average_recall(overlap.box_iou(guesses, people), sure)
        for people, (guesses, sure) in zip(true, found, strict=True)
    ]
    assert np.concatenate(ours).mean() == pytest.approx(judge.stats[8], abs=1e-12)  # AR, 100 detections, all areas
    assert 0.2 < judge.stats[8] < 0.9


def test_recall_by_hand() -> None:
    # 100 x 100 box moved by 10 to the right: IoU = 90 / 110 = 0.818, so 7 of the 10 thresholds (0.5 ... 0.8)
    table = overlap.box_iou([[10, 0, 100, 100]], [[0, 0, 100, 100]])
    assert table[0, 0] == pytest.approx(9 / 11)
    assert overlap.average_recall(table, [0.3])[0] == pytest.approx(0.7)
    assert overlap.average_recall(np.ones((1, 1)), [0.3])[0] == 1.0
    assert overlap.average_recall(np.zeros((0, 2)), []).tolist() == [0.0, 0.0]


def test_the_surest_detection_chooses_first() -> None:
    table = np.array([[0.9, 0.8], [0.95, 0.1]])
    assert overlap.matches(table, [0.9, 0.5], 0.5).tolist() == [0, -1]
    assert overlap.matches(table, [0.5, 0.9], 0.5).tolist() == [1, 0]
