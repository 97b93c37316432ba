"""The numbers of FHIBE's evaluation code, against its rules written out: by hand, NumPy, pycocotools and SciPy."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.interpolate import interp1d
from sklearn.model_selection import KFold

from fp2.errors import Fp2Error
from fp2.methods.fhibe.narrow import detection, published
from fp2.methods.fhibe.narrow.body_parts import score_parts, visible_parts
from fp2.methods.fhibe.narrow.predictions import Prediction, encode_mask
from fp2.methods.fhibe.narrow.published import filled_polygons
from fp2.methods.fhibe.narrow.tasks import NO_SUBJECT, NarrowOptions, TaskScores, narrow_task
from fp2.methods.fhibe.narrow.truth import Person
from fp2.methods.fhibe.narrow.validation_rate import validation_rate
from fp2.methods.fhibe_release.geometry import Box, Geometry, Keypoint


class Known(Person):
    """A person whose annotation is given."""

    def geometry(self) -> Geometry:
        return GEOMETRY[self.subject_id]


GEOMETRY: dict[str, Geometry] = {}


def _person(name: str = "s", n_people: int = 1, **annotated: Any) -> Known:
    GEOMETRY[name] = Geometry(**annotated)
    return Known("i", name, Path("i.png"), n_people)


def test_an_overlap_of_exactly_a_threshold_misses_some_of_them() -> None:
    # numpy.arange's third threshold is 0.6000000000000001
    assert [published.share_reached(value) for value in (0.5, 0.6, 0.95, 1.0)] == [0.1, 0.2, 0.9, 1.0]
    assert detection.matched_at(np.array([[0.6]]), [1.0]).mean() == pytest.approx(0.3)


def test_one_box_may_find_two_people() -> None:
    pair = [_person("a", 2, person_box=Box(0, 0, 10, 10)), _person("b", 2, person_box=Box(0, 0, 10, 10))]
    scores = TaskScores(published=True, curves=True)
    detection.score_boxes(narrow_task("person_detection"), list(pair), [Prediction("i", box=(0, 0, 10, 10))], scores)
    assert [row["published_ar_iou"] for row in scores.rows] == [1.0, 1.0]
    assert sorted(row["score"] for row in scores.rows) == [0.0, 1.0]
    assert sorted(row["at_0.95"] for row in scores.rows) == [0.0, 1.0]


def test_the_published_mask_has_the_outline_of_polygons_of_whole_pixels() -> None:
    square = [(1.9, 1.2), (4.7, 1.0), (4.1, 4.9), (1.0, 4.0)]  # decimals are cut off: (1, 1) to (4, 4)
    expected = np.zeros((7, 6), dtype=bool)
    expected[1:5, 1:5] = True
    assert np.array_equal(filled_polygons((6, 7), [square]), expected)
    assert filled_polygons((6, 7), [[(2, 3)]]).sum() == 1
    assert filled_polygons((6, 7), [[(0, 0), (5, 0)]]).sum() == 6
    # a diagonal by Bresenham's algorithm, and nothing outside the image
    assert np.argwhere(filled_polygons((4, 4), [[(0, 0), (3, 1)]])).tolist() == [[0, 0], [0, 1], [1, 2], [1, 3]]
    assert filled_polygons((4, 4), [[(-3, -3), (9, -3), (9, 9), (-3, 9)]]).all()
    hole = filled_polygons(
        (12, 12), [[(0, 0), (11, 0), (11, 11), (0, 11), (0, 0), (4, 4), (4, 7), (7, 7), (7, 4), (4, 4)]]
    )
    assert not hole[5:7, 5:7].any()
    assert hole[4, 4:8].all()


def test_masks_are_compared_with_their_outline() -> None:
    polygon = np.array([[1, 1], [4, 1], [4, 4], [1, 4]], dtype=float)
    person = _person(size=(8, 8), polygons={"Face skin": [polygon]})
    inside = np.zeros((8, 8), dtype=bool)
    inside[1:5, 1:5] = True  # 16 pixels with the outline; 9 centres are inside
    scores = TaskScores(published=True)
    said = [Prediction("i", mask=encode_mask(inside))]
    detection.score_masks([person], said, scores)
    (row,) = scores.rows
    assert row["published_ar_mask"] == 1.0
    assert row["iou"] == pytest.approx(9 / 16)


def test_poses() -> None:
    seen = {"Nose": Keypoint(10, 10, True), "Left eye": Keypoint(12, 8, True), "Left hip": Keypoint(0, 0, False)}
    square = np.array([[0, 0], [19, 0], [19, 19], [0, 19]], dtype=float)
    person = _person(size=(30, 30), face_box=Box(5, 5, 6, 8), keypoints=seen, polygons={"Face skin": [square]})
    pose = np.full((17, 2), np.nan)
    pose[0], pose[1] = (10, 10), (12, 11.5)  # 3.5 pixels of a diagonal of 10: wrong at 0.1, 0.2, 0.3
    scores = TaskScores(published=True, curves=True)
    detection.score_poses([person], [Prediction("i", keypoints=pose)], scores, "paper")
    (row,) = scores.rows
    assert row["published_pck"] == pytest.approx((1 + 6 / 9) / 2)
    assert (row["at_0.30"], row["at_0.40"]) == (0.5, 1.0)
    sigma = 2 * np.array([0.026, 0.025])
    similarity = np.exp(-np.array([0, 3.5**2]) / (2 * 400 * sigma**2)).mean()  # 20 x 20 pixels with the outline
    assert row["published_ar_oks"] == np.mean(similarity >= np.arange(0.5, 1, 0.05))
    only_nose = TaskScores(published=True)
    detection.score_poses([person], [Prediction("i", keypoints=pose)], only_nose, "paper", ["Nose"])
    assert only_nose.rows[0]["score"] == only_nose.rows[0]["published_pck"] == 1.0


def test_the_published_pck_takes_poses_in_the_order_of_the_list() -> None:
    """Three poses for two people, the extra one first: the published PCK is of the first two, ours of the best."""
    at = {"a": (10, 10), "b": (20, 20)}
    pair = [
        _person(
            name, 2, face_box=Box(5, 5, 6, 8), person_box=Box(0, 0, 30, 30), keypoints={"Nose": Keypoint(*point, True)}
        )
        for name, point in at.items()
    ]
    poses = [np.full((17, 2), np.nan) for _ in range(3)]
    poses[0][0], poses[1][0], poses[2][0] = (20, 20), (20, 22.5), (10, 10)
    said = [Prediction("i", keypoints=pose, score=score) for pose, score in zip(poses, (0.9, 0.1, 0.8), strict=True)]
    matched, listed = TaskScores(published=True), TaskScores(published=True)
    detection.score_poses(list(pair), said, matched, "paper")
    detection.score_poses(list(pair), said, listed, "paper", listed=True)
    assert [row["published_pck"] for row in matched.rows] == [1.0, 1.0]
    # a: 14.1 of a diagonal of 10; b: 2.5, right at 0.3 ... 0.9
    assert [row["published_pck"] for row in listed.rows] == [0.0, pytest.approx(7 / 9)]
    assert [row["score"] for row in listed.rows] == [row["score"] for row in matched.rows] == [1.0, 1.0]
    fewer = TaskScores(published=True)
    detection.score_poses(list(pair), said[2:], fewer, "paper", listed=True)
    assert [row["published_pck"] for row in fewer.rows] == [1.0, 0.0]


def test_poses_as_listed_are_an_option_of_the_published_metrics() -> None:
    assert NarrowOptions(metric="published", published_poses="listed").published_poses == "listed"
    with pytest.raises(Fp2Error, match=r"only published metrics.*task.options.metric=published"):
        NarrowOptions(published_poses="listed")


def test_a_person_without_a_visible_keypoint_is_left_out_here_and_0_in_the_published_recall() -> None:
    person = _person(size=(30, 30), face_box=Box(5, 5, 6, 8), keypoints={"Nose": Keypoint(1, 1, False)})
    scores = TaskScores(published=True)
    detection.score_poses([person], [], scores, "paper")
    (row,) = scores.rows
    assert (row["score"], row["found"], row["published_pck"], row["published_ar_oks"]) == (None, None, None, 0.0)
    assert dict(scores.left_out) == {"without a visible keypoint in the data": 1}


def test_face_parsing_is_over_the_labels_of_the_true_map() -> None:
    true, found = np.zeros((4, 4), np.uint8), np.zeros((4, 4), np.uint8)
    true[:2], found[:2, :2], found[3] = 1, 1, 14  # skin half found; a hat that is not there
    # background: 8 true, 8 said, 4 of them right; skin: 8 true, 4 said, 4 right
    assert published.image_f1(found, true) == pytest.approx((2 * 4 / (8 + 8) + 2 * 4 / (8 + 4)) / 2)


def test_images_are_resized_bilinearly_and_the_noise_ratio_has_a_ceiling_of_80() -> None:
    rng = np.random.default_rng(0)
    a, b = (Image.fromarray(rng.integers(0, 256, (512, 512, 3)).astype(np.uint8)) for _ in range(2))
    # bilinear with antialiasing at half the size: weights 1, 3, 3, 1 of four neighbours in each direction
    pixels = np.asarray(a, dtype=float)
    weights = np.array([1, 3, 3, 1]) / 8
    centre = sum(
        wy * wx * pixels[99 + i, 199 + j] for (i, wy), (j, wx) in itertools.product(enumerate(weights), repeat=2)
    )
    np.testing.assert_allclose(published.resized(a)[50, 100], centre, atol=1.0)
    small = [published.resized(image) / 255.0 for image in (a, b)]
    expected = 10 * np.log10(1 / (np.mean((small[0] - small[1]) ** 2) + 1e-8))
    assert published.psnr(published.resized(a), published.resized(b)) == pytest.approx(expected)
    assert published.psnr(published.resized(a), published.resized(a)) == pytest.approx(80.0)


def test_the_validation_rate_is_that_of_all_pairs_listed_and_folds_written_out() -> None:
    rng = np.random.default_rng(1)
    person = [f"p{n}" for n in rng.integers(0, 20, 90)] + ["alone"]
    base = {name: rng.normal(size=8) for name in sorted(set(person))}
    vectors = np.array([base[name] + rng.normal(size=8) for name in person])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    path = [f"/data/{n}.png" for n in rng.permutation(1000)[: len(person)]]
    of_path = dict(zip(path, zip(person, vectors, strict=True), strict=True))
    several = {name for name in person if person.count(name) > 1}
    used = sorted(name for name, (owner, _) in of_path.items() if owner in several)
    every = list(itertools.combinations(used, 2))
    same = [pair for pair in every if of_path[pair[0]][0] == of_path[pair[1]][0]]
    random.seed(7789)
    same = random.sample(same, min(3000, len(same)))
    other = random.sample([pair for pair in every if of_path[pair[0]][0] != of_path[pair[1]][0]], 3000)
    pairs = [(pair, True) for pair in same] + [(pair, False) for pair in other]
    random.seed(11)
    random.shuffle(pairs)
    distance = np.array([-float(of_path[a][1] @ of_path[b][1]) for (a, b), _ in pairs])
    genuine = np.array([kind for _, kind in pairs])
    steps, rates = np.arange(-1, 1, 0.001), []
    for train, test in KFold(10).split(pairs):
        far = np.zeros(2000)
        far[: len(steps)] = [(distance[train][~genuine[train]] < step).mean() for step in steps]
        levels, first = np.unique(far, return_index=True)
        steps = steps[first]
        threshold = interp1d(levels, steps)(0.001)
        rates.append((distance[test][genuine[test]] < threshold).mean())
    found = validation_rate(vectors, person, path)
    assert found is not None
    assert (found.n_same, found.n_different, found.n_faces, found.n_subjects) == (
        len(same),
        3000,
        len(used),
        len(several),
    )
    assert found.val == pytest.approx(np.mean(rates), abs=1e-12)
    assert found.val_error == pytest.approx(np.std(rates), abs=1e-12)
    assert 0.02 < found.val < 0.9
    assert validation_rate(vectors[:3], ["a", "b", "c"], path[:3]) is None


def test_body_parts() -> None:
    square = np.array([[0, 0], [5, 0], [5, 5]], dtype=float)
    seen = {"Left thumb knuckle": Keypoint(1, 1, True), "Right knee": Keypoint(2, 2, True)}
    person = _person(size=(9, 9), keypoints=seen, polygons={"Head hair": [square], "Bag": [square]})
    geometry = person.geometry()
    both = {"Face", "Head hair", "Bag", "Hand", "Left hand"}
    assert visible_parts(geometry) == both | {"Leg", "Right leg"}
    assert visible_parts(geometry, as_published=True) == both  # a knee shows no leg there
    said = {"Face": 0.9, "Leg": 0.7, "Mask": 0.8, "Hand": 0.4}
    scores = TaskScores(published=True, curves=True)
    score_parts([person], [Prediction("i", parts=said)], scores)
    (row,) = scores.rows
    assert row["accuracy"] == 0.5  # face and leg are right, mask and hand are not
    assert row["recall"] == pytest.approx((9 + 5 + 0) / 30)  # 0.5 ... 0.9, 0.5 ... 0.7, none
    assert (row["at_0.50"], row["at_0.80"]) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    published_parts = {name: value for name, value in row.items() if name.startswith("published")}
    assert published_parts == {
        "published_acc_det_face": 1.0,
        "published_ar_det_face": published.share_reached(0.9),
        "published_acc_det_leg": 0.0,
        "published_acc_det_mask": 0.0,
        "published_acc_det_hand": 0.0,
        "published_ar_det_hand": 0.0,
    }
    pair = [_person("a", 2, keypoints=seen), _person("b", 2, keypoints=seen)]
    scores = TaskScores()
    score_parts(list(pair), [Prediction("i", parts=said), Prediction("i", "b", parts=said)], scores)
    assert [row["found"] for row in scores.rows] == [False, True]
    assert scores.ignored[NO_SUBJECT] == 1
