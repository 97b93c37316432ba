"""All eight tasks on the synthetic FHIBE copy: perfect predictions score 1, shifted ones what is counted by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fhibe_copy import SIDE, write_copy
from PIL import Image

from fp2.errors import Fp2Error
from fp2.methods.fhibe.narrow import detection
from fp2.methods.fhibe.narrow.faces import PARTS, score_faces
from fp2.methods.fhibe.narrow.predictions import Prediction, encode_mask
from fp2.methods.fhibe.narrow.sources import score_images
from fp2.methods.fhibe.narrow.tasks import NO_SUBJECT, NOT_IN_RUN, SECOND_POSE, UNKNOWN_SUBJECT, TaskScores, narrow_task
from fp2.methods.fhibe.narrow.truth import Person, image_size, people_of, person_mask
from fp2.methods.fhibe.narrow.verification import embedded_faces, verify
from fp2.methods.fhibe_release.load import load_fhibe


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A release with the maps of face parts that the real one has."""
    made = write_copy(tmp_path_factory.mktemp("fhibe"))
    labels = np.zeros((SIDE, SIDE), np.uint8)
    labels[4:20, 4:20], labels[6:8, 6:9], labels[:4] = 1, 4, 13
    for face in made.faces:
        folder = made.root / "data/processed/fhibe_face_crop_align/masks/CelebAMask-HQ_format" / face["image_id"]
        folder.mkdir(parents=True)
        Image.fromarray(labels).save(folder / "combined.png")
    return made, load_fhibe(made.root)


def _people(copy: Any) -> list[Person]:
    return people_of(copy[1].people)


def _means(scores: TaskScores) -> Any:
    return scores.frame().drop(columns=["image_id", "subject_id"]).astype(float).mean()


def _scored(name: str, people: list[Person], predictions: list[Prediction], **more: Any) -> TaskScores:
    return score_images(narrow_task(name), people, predictions, **more)


@pytest.mark.parametrize(("name", "box"), [("person_detection", "person_box"), ("face_detection", "face_box")])
def test_boxes(copy: Any, name: str, box: str) -> None:
    people = _people(copy)
    singles = [person for person in people if person.n_people == 1]
    true = [getattr(person.geometry(), box) for person in singles]
    perfect = [Prediction(p.image_id, box=tuple(b)) for p, b in zip(singles, true, strict=True)]  # type: ignore[arg-type]
    means = _means(_scored(name, singles, perfect))
    assert (means["score"], means["iou"], means["found"]) == (1.0, 1.0, 1.0)
    # moved right by a third of the width: IoU = (2/3) / (4/3) = 0.5, reached at the first of ten thresholds
    moved = [replace(p, box=(b.x + b.width / 3, *b[1:])) for p, b in zip(perfect, true, strict=True)]
    means = _means(_scored(name, singles, moved))
    assert means["iou"] == pytest.approx(0.5)
    assert means["score"] in (0.0, pytest.approx(0.1))  # 0.5 but for rounding
    assert _means(_scored(name, singles, perfect[:1]))["score"] == pytest.approx(1 / len(singles))


def test_images_of_two_people_are_matched_to_the_right_person_or_left_out(copy: Any) -> None:
    people = _people(copy)
    pair = [person for person in people if person.n_people == 2][:2]
    assert pair[0].image_id == pair[1].image_id
    apart = [
        replace(pair[0], image_path=Path("a.png"), person_box=(0, 0, 10, 10)),  # no annotation: the table's boxes
        replace(pair[1], image_path=Path("a.png"), person_box=(12, 0, 10, 10)),
    ]
    apart = [replace(p, person_box=_as_box(p.person_box)) for p in apart]
    found = [Prediction(pair[0].image_id, box=(12, 0, 10, 10), score=0.9)]
    rows = _scored("person_detection", apart, found).rows
    assert [row["score"] for row in rows] == [0.0, 1.0]
    # the copy's two people have one and the same box: one detection finds one of them, two find both
    box = tuple(pair[0].geometry().person_box)  # type: ignore[arg-type]
    one = [Prediction(pair[0].image_id, box=box)]
    assert sum(row["score"] for row in _scored("person_detection", pair, one).rows) == 1.0
    assert sum(row["score"] for row in _scored("person_detection", pair, one * 2).rows) == 2.0
    left = _scored("person_detection", people, one, two_person="leave_out")
    assert left.left_out["in an image of two people"] == sum(person.n_people == 2 for person in people)


def _as_box(values: Any) -> Any:
    from fp2.methods.fhibe_release.geometry import Box

    return Box(*map(float, values))


def test_masks(copy: Any) -> None:
    everyone = [person for person in _people(copy) if person.n_people == 1]
    every = [person_mask(p, p.geometry(), image_size(p.image_path, p.geometry())) for p in everyone]
    assert sum(mask is None for mask in every) == 1  # one row's polygon is a line
    singles = [person for person, mask in zip(everyone, every, strict=True) if mask is not None]
    masks = [mask for mask in every if mask is not None]
    left = _scored("person_segmentation", everyone, []).left_out
    assert left["without a mask in the data"] == 1
    perfect = [
        Prediction(p.image_id, mask=encode_mask(m)) for p, m in zip(singles, masks, strict=True) if m is not None
    ]
    assert _means(_scored("person_segmentation", singles, perfect))["score"] == 1.0
    half = []
    for prediction, mask in zip(perfect, masks, strict=True):
        assert mask is not None
        kept = np.flatnonzero(mask)[: int(mask.sum()) * 4 // 5]  # four fifths of the person: IoU 0.8 or a little less
        part = np.zeros(mask.size, dtype=bool)
        part[kept] = True
        half.append(replace(prediction, mask=encode_mask(part.reshape(mask.shape))))
    assert 0.59 < _means(_scored("person_segmentation", singles, half))["score"] <= 0.7
    wrong = [replace(perfect[0], mask=encode_mask(np.ones((3, 3), dtype=bool)))]
    with pytest.raises(Fp2Error, match="3 x 3 pixels, its image 24 x 24"):
        _scored("person_segmentation", singles, wrong)


def test_poses(copy: Any) -> None:
    people = _people(copy)
    predictions, moved = [], []
    for person in people:
        points = {name: (p.x, p.y) for name, p in person.geometry().keypoints.items()}
        pose = np.array([points.get(name, (np.nan, np.nan)) for name in detection.COCO_KEYPOINTS])
        predictions.append(Prediction(person.image_id, person.subject_id, keypoints=pose))
        moved.append(replace(predictions[-1], keypoints=pose + np.array([6.0, 0.0])))
    scores = _scored("pose_estimation", people, predictions)
    means = _means(scores)
    assert (means["score"], means["oks"], means["found"]) == (1.0, 1.0, 1.0)
    assert +Counter(scores.left_out) == {"without a visible keypoint in the data": 1}  # the row whose nose is hidden
    # 6 pixels of a 6 x 6 face box are 0.71 diagonals: wrong at 0.5, right at 0.8 and 0.9 of the nine thresholds
    assert _means(_scored("pose_estimation", people, moved))["score"] == 0.0
    assert _means(_scored("pose_estimation", people, moved, thresholds="api"))["score"] == pytest.approx(2 / 9)
    loose = [replace(one, subject_id=None) for one in predictions]
    assert _means(_scored("pose_estimation", people, loose))["score"] == 1.0  # each goes to whom it resembles
    assert _means(_scored("pose_estimation", people, []))["score"] == 0.0


def _crops(copy: Any) -> list[Person]:
    return [person for person in _people(copy) if person.face_crop() is not None]


def test_face_parsing(copy: Any, tmp_path: Path) -> None:
    people, task = _crops(copy), narrow_task("face_parsing")
    true = np.zeros((SIDE, SIDE), np.uint8)
    true[4:20, 4:20], true[6:8, 6:9], true[:4] = 1, 4, 13
    Image.fromarray(true).save(tmp_path / "true.png")
    perfect = [Prediction(person.face_id, file=tmp_path / "true.png") for person in people]
    scores = score_faces(task, _people(copy), perfect)
    assert _means(scores)["f1"] == 1.0
    assert scores.left_out["without an aligned face crop in the data"] == len(_people(copy)) - len(people)
    mirrored = np.where(true == 4, 5, true).astype(np.uint8)
    Image.fromarray(mirrored).save(tmp_path / "mirrored.png")
    wrong = [replace(one, file=tmp_path / "mirrored.png") for one in perfect]
    assert _means(score_faces(task, people, wrong))["f1"] == pytest.approx(2 / 4)  # skin, hair; both eyes wrong
    assert _means(score_faces(task, people, wrong, mirrored=True))["f1"] == 1.0
    assert PARTS[13] == "hair"
    with pytest.raises(Fp2Error, match="two predictions are about the face"):
        score_faces(task, people, [perfect[0], perfect[0]])


@pytest.mark.parametrize("name", ["face_reconstruction", "face_super_resolution"])
def test_generated_images(copy: Any, tmp_path: Path, name: str) -> None:
    people, task = _crops(copy), narrow_task(name)
    same = [Prediction(p.image_id, p.subject_id, file=p.face_crop()) for p in people]
    scores = score_faces(task, people, same)
    means = _means(scores)
    assert (means["psnr"], means["score"]) == (100.0, 1.0)  # without LPIPS: PSNR / 100
    assert scores.scale == "psnr"
    assert scores.scale_note == "likeness is PSNR / 100 dB, since LPIPS is not available (its weights are not given)"
    told = [replace(one, numbers={"lpips": 0.3, "identity": 0.9}) for one in same]
    scores = score_faces(task, people, told)
    means = _means(scores)
    assert (scores.scale, scores.scale_note) == ("lpips", None)
    assert means["score"] == pytest.approx(0.7)
    assert means["psnr"] == 100.0
    far = [replace(one, numbers={"lpips": 1.4}) for one in same]
    assert _means(score_faces(task, people, far))["score"] == 0.0
    mixed = [replace(same[0], file=None, numbers={"lpips": 0.3}), *same[1:]]
    with pytest.raises(Fp2Error, match=rf"lpips is given for 1 of {len(people)} predictions only"):
        score_faces(task, people, mixed)
    blind = [replace(same[0], file=None, numbers={"identity": 0.3}), *same[1:]]
    if "identity" in task.metrics:
        with pytest.raises(Fp2Error, match="no metric in common"):
            score_faces(task, people, blind)
        one = [replace(same[0], numbers={"identity": 0.3}), *same[1:]]
        said = score_faces(task, people, one).scale_note
        assert said is not None
        assert said.endswith(f"identity is known for 1 of {len(people)} faces only")


@pytest.mark.parametrize("name", ["face_reconstruction", "face_verification"])
def test_faces_without_a_prediction_count_as_not_found(copy: Any, name: str) -> None:
    people, task = _crops(copy), narrow_task(name)
    given = people[: len(people) // 3]
    said = [Prediction(p.image_id, p.subject_id, file=p.face_crop(), embedding=np.ones(2)) for p in given]
    if name == "face_verification":
        scores = embedded_faces(people, said, task)[1]
        rows = [{"found": True}] * len(given) + scores.rows
    else:
        scores = score_faces(task, people, said)
        rows = scores.rows
    assert [row["found"] for row in rows].count(False) == len(people) - len(given)
    assert len(rows) == len(people)
    assert all(row["score"] is None for row in scores.rows if not row["found"])
    assert scores.left_out["without a prediction"] == len(people) - len(given)


def test_predictions_that_match_no_person_are_counted_or_refused(copy: Any, tmp_path: Path) -> None:
    people = _people(copy)
    single = next(person for person in people if person.n_people == 1)
    box = Prediction(single.image_id, box=(0, 0, 5, 5))
    away = replace(box, image_id="elsewhere")
    assert +_scored("person_detection", people, [box, away, away]).ignored == Counter({NOT_IN_RUN: 2})
    pose = Prediction(single.image_id, single.subject_id, keypoints=np.zeros((17, 2)), score=0.4)
    better = replace(pose, keypoints=np.ones((17, 2)), score=0.9)
    stranger = replace(pose, subject_id="stranger")
    found = +_scored("pose_estimation", people, [better, pose, stranger]).ignored
    assert found == Counter({UNKNOWN_SUBJECT: 1, SECOND_POSE: 1})
    with pytest.raises(Fp2Error, match=r"no subject_id of the predictions.*first is 'stranger'"):
        _scored("pose_estimation", people, [stranger])
    face, task = Prediction(single.image_id, single.subject_id, embedding=np.ones(2)), narrow_task("face_verification")
    pair = next(person for person in people if person.n_people == 2)
    others = [
        replace(face, subject_id="stranger"),
        replace(face, image_id="elsewhere"),
        replace(face, image_id=pair.image_id, subject_id=None),
    ]
    assert +embedded_faces(people, [face, *others], task)[1].ignored == Counter(
        {UNKNOWN_SUBJECT: 1, NOT_IN_RUN: 1, NO_SUBJECT: 1}
    )
    with pytest.raises(Fp2Error, match="no subject_id of the predictions"):
        embedded_faces(people, others[:1], task)


def test_data_that_a_task_cannot_use_are_refused_in_one_line(copy: Any, tmp_path: Path) -> None:
    image, mask = tmp_path / "a.png", tmp_path / "mask.png"
    Image.new("RGB", (8, 8)).save(image)
    person = Person("a", "s", image, 1, mask_path=mask)
    said = [Prediction("a", mask=encode_mask(np.ones((8, 8), dtype=bool)))]
    with pytest.raises(Fp2Error, match=r"a mask of the data set cannot be read: there is no such file"):
        _scored("person_segmentation", [person], said)
    Image.new("L", (4, 8), 255).save(mask)
    with pytest.raises(Fp2Error, match=r"a mask of the data set has 4 x 8 pixels, its image 8 x 8"):
        _scored("person_segmentation", [person], said)
    # a model of annotated face boxes, where nobody has one: no stack trace, no face that it missed
    faces, scores = embedded_faces([person], [], narrow_task("face_verification"), boxed=True)
    assert (faces.people, scores.rows, dict(scores.left_out)) == ([], [], {"without a face box in the data": 1})
    block = verify(faces, copy[1].people, [], scores, similarity="cosine", seed=0, min_subjects=10)
    assert (scores.rows, block["whole"]["tar"]) == ([], None)


def test_verification(copy: Any) -> None:
    people, task = _people(copy), narrow_task("face_verification")
    names = sorted({person.subject_id for person in people})
    eye = np.eye(len(names))
    perfect = [Prediction(p.image_id, p.subject_id, embedding=eye[names.index(p.subject_id)]) for p in people]
    faces, scores = embedded_faces(people, perfect, task)
    assert not scores.left_out
    block = verify(faces, copy[1].people, [], scores, similarity="cosine", seed=0, min_subjects=10)
    assert block["whole"]["tar"] == 1.0
    assert block["whole"]["far"] == 0.0
    sizes = Counter(person.subject_id for person in people)
    assert [row["accepted"] for row in scores.rows] == [
        1.0 if sizes[person.subject_id] > 1 else None for person in people
    ]
    same = [replace(one, embedding=np.ones(3)) for one in perfect]
    faces, _ = embedded_faces(people, same, task)
    block = verify(faces, copy[1].people, [], TaskScores(), similarity="cosine", seed=0, min_subjects=10)
    assert block["whole"]["tar"] == 0.0
    with pytest.raises(Fp2Error, match="embeddings have different lengths: 2 and 3"):
        embedded_faces(people, [replace(same[0], embedding=np.ones(2)), *same[1:]], task)


def test_predictions_about_another_data_set_are_refused(copy: Any) -> None:
    with pytest.raises(Fp2Error, match="no prediction is about an image of the data set"):
        _scored("person_detection", _people(copy), [Prediction("elsewhere", box=(0, 0, 1, 1))])
    with pytest.raises(Fp2Error, match="no prediction is about"):
        embedded_faces(_people(copy), [Prediction("x", embedding=np.ones(2))], narrow_task("face_verification"))
