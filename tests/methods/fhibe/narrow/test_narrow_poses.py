"""PCK by hand, object keypoint similarity against pycocotools."""

from __future__ import annotations

import numpy as np
import pytest
from pycocotools.cocoeval import COCOeval

from fp2.methods.fhibe.narrow import detection
from fp2.methods.fhibe_release.geometry import Keypoint
from fp2.methods.fhibe_release.vocab import KEYPOINTS

SIGMAS = [26, 25, 25, 35, 35, 79, 79, 72, 72, 62, 62, 107, 107, 87, 87, 89, 89]
"""COCO's, as its keypoint evaluation states them (thousandths)."""


def test_coco_keypoints_are_fhibes_by_name_and_only_what_is_seen() -> None:
    points = {name: Keypoint(float(n), 2.0 * n, n != 3) for n, name in enumerate(KEYPOINTS)}
    points["Left wrist"] = Keypoint(1.0, 1.0, False)
    places, seen = detection.coco_points(points)
    assert set(detection.COCO_KEYPOINTS) <= set(KEYPOINTS)
    assert places[0].tolist() == [0.0, 0.0]  # Nose
    assert places[1].tolist() == [5.0, 10.0]  # Left eye is FHIBE's number 5
    assert places[2].tolist() == [2.0, 4.0]  # Right eye is number 2
    assert not seen[9]
    assert np.isnan(places[9]).all()
    assert seen.sum() == 16


def test_pck_by_hand() -> None:
    true = np.zeros((17, 2))
    seen = np.zeros(17, dtype=bool)
    seen[:4] = True
    found = np.full((17, 2), np.nan)
    found[:4] = [[0, 0], [0, 5.0], [0, 5.01], [np.nan, np.nan]]
    assert detection.pck(found, true, seen, 10.0) == 0.5  # the first two lie within 0.5 * 10
    # thresholds 0.1 ... 0.9 of 10: the first is right at all 9, the second from 0.5 on (5), the third from 0.6 on (4)
    assert detection.pck(found, true, seen, 10.0, detection.PCK_THRESHOLDS) == pytest.approx((9 + 5 + 4) / 36)
    assert detection.pck(found, true, seen, 10.0, detection.PCK_LIMITS["head"]) == 0.25  # within 0.5 * 0.6 * 10
    assert np.isnan(detection.pck(found, true, np.zeros(17, dtype=bool), 10.0))
    assert np.isnan(detection.pck(found, true, seen, 0.0))


def test_oks_is_pycocotools() -> None:
    rng = np.random.default_rng(0)
    assert (detection.coco_sigmas() * 1000).round(9).tolist() == SIGMAS
    for _ in range(20):
        true, seen = rng.uniform(0, 200, (17, 2)), rng.random(17) < 0.6
        seen[0] = True
        found = true + rng.normal(0, 10, (17, 2))
        area = float(rng.uniform(500, 20000))
        judge = COCOeval(iouType="keypoints")
        judge._gts[1, 1] = [
            {"keypoints": np.column_stack([true, 2.0 * seen]).ravel().tolist(), "bbox": [0, 0, 9, 9], "area": area}
        ]
        judge._dts[1, 1] = [{"keypoints": np.column_stack([found, np.ones(17)]).ravel().tolist(), "score": 1.0}]
        expected = judge.computeOks(1, 1)[0, 0]
        assert detection.oks(found, true, seen, area) == pytest.approx(expected, abs=1e-9)


def test_a_keypoint_that_was_not_found_counts_nothing() -> None:
    true, seen = np.zeros((17, 2)), np.ones(17, dtype=bool)
    found = true.copy()
    found[1:] = np.nan
    assert detection.oks(found, true, seen, 100.0) == pytest.approx(1 / 17)
    assert detection.oks_recall(0.8) == pytest.approx(0.7)  # 0.5 ... 0.8
    assert detection.oks_recall(1.0) == 1.0
    assert np.isnan(detection.oks_recall(float("nan")))
