"""Predictions in the form of FHIBE's evaluation code, on the synthetic copy of a release: every task, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fhibe_copy import SIDE, write_copy
from PIL import Image
from pycocotools.mask import encode

from fp2.errors import Fp2Error
from fp2.methods.fhibe.narrow import detection
from fp2.methods.fhibe.narrow.body_parts import visible_parts
from fp2.methods.fhibe.narrow.faces import score_faces
from fp2.methods.fhibe.narrow.model_outputs import read_predictions
from fp2.methods.fhibe.narrow.sources import _named, score_images
from fp2.methods.fhibe.narrow.tasks import NOT_IN_RUN, narrow_task
from fp2.methods.fhibe.narrow.truth import Person, image_size, people_of, person_mask
from fp2.methods.fhibe.narrow.verification import embedded_faces
from fp2.methods.fhibe_release.load import load_fhibe

ELSEWHERE = "/home/somebody/fhibe"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> list[Person]:
    made = write_copy(tmp_path_factory.mktemp("fhibe"))
    labels = np.zeros((SIDE, SIDE), np.uint8)
    labels[4:20, 4:20], labels[:4] = 1, 13
    for face in made.faces:
        folder = made.root / "data/processed/fhibe_face_crop_align/masks/CelebAMask-HQ_format" / face["image_id"]
        folder.mkdir(parents=True)
        Image.fromarray(labels).save(folder / "combined.png")
    return people_of(load_fhibe(made.root).people)


def _path(path: Path) -> str:
    """Return the path on the machine that wrote the file."""
    return ELSEWHERE + path.as_posix().split("_public", 1)[1]


def _rle(mask: Any) -> dict[str, Any]:
    found = encode(np.asfortranarray(np.asarray(mask).astype(np.uint8)))
    return {"size": list(found["size"]), "counts": found["counts"].decode()}


def _by_image(people: list[Person]) -> dict[str, list[Person]]:
    images: dict[str, list[Person]] = {}
    for person in people:
        images.setdefault(_path(person.image_path), []).append(person)
    return images


def _corners(person: Person) -> list[float]:
    box = person.geometry().person_box
    assert box is not None
    return [box.x, box.y, box.x + box.width, box.y + box.height]


def _read(folder: Path, name: str, entries: Any, people: list[Person], keypoints: tuple[str, ...] = ()) -> Any:
    path = folder / "model_outputs.json"
    path.write_text(json.dumps(entries))
    return read_predictions(path, narrow_task(name), people, keypoints)


def _mean(people: list[Person], name: str, said: Any, **more: Any) -> float:
    scores = score_images(narrow_task(name), people, said, as_published=True, **more)
    known = [row["score"] for row in scores.rows if row["score"] is not None]
    return float(np.mean(known))


def test_boxes_are_corners_and_images_of_other_people_are_counted(people: list[Person], tmp_path: Path) -> None:
    entries: dict[str, Any] = {
        path: {"detections": [_corners(one) for one in group], "scores": [0.9] * len(group)}
        for path, group in _by_image(people).items()
    }
    entries[ELSEWHERE + "/data/raw/fhibe_downsampled/x/y/main_y.png"] = {"detections": [[0, 0, 1, 1]], "scores": [1]}
    first = next(iter(entries))
    without = {**entries, first: {"detections": None, "scores": None}}
    said = _read(tmp_path, "person_detection", entries, people)
    assert _mean(people, "person_detection", said) == 1.0
    scores = score_images(narrow_task("person_detection"), people, said)
    assert scores.ignored[NOT_IN_RUN] == 1
    missed = sum(
        row["score"] == 0
        for row in score_images(
            narrow_task("person_detection"), people, _read(tmp_path, "person_detection", without, people)
        ).rows
    )
    assert missed == len(_by_image(people)[first])


def test_masks(people: list[Person], tmp_path: Path) -> None:
    entries = {}
    for path, group in _by_image(people).items():
        masks = [person_mask(one, one.geometry(), image_size(one.image_path, one.geometry())) for one in group]
        entries[path] = {"detections": [_rle(mask) for mask in masks if mask is not None], "scores": []}
    said = _read(tmp_path, "person_segmentation", entries, people)
    assert _mean(people, "person_segmentation", said) == 1.0


@pytest.mark.parametrize("names", [(), ("Nose", "Left eye", "Left hip")])
def test_poses_are_in_the_order_of_people_and_may_have_some_keypoints(
    people: list[Person], tmp_path: Path, names: tuple[str, ...]
) -> None:
    entries = {}
    for path, group in _by_image(people).items():
        poses = [
            [
                [*(one.geometry().keypoints[name][:2] if name in one.geometry().keypoints else (0.0, 0.0))]
                for name in names or detection.COCO_KEYPOINTS
            ]
            for one in group
        ]
        entries[path] = {"detections": poses, "scores": [[0.5] * len(pose) for pose in poses]}
    said = _read(tmp_path, "pose_estimation", entries, people, names)
    assert {one.subject_id for one in said} == {one.subject_id for one in people}
    assert _mean(people, "pose_estimation", said, keypoints=names) == 1.0
    with pytest.raises(Fp2Error, match=r"a pose has \d+ keypoints, not 2.*task\.options\.keypoints"):
        _read(tmp_path, "pose_estimation", entries, people, ("Nose", "Left ear"))


def test_body_parts(people: list[Person], tmp_path: Path) -> None:
    parts = ("Face", "Hand", "Left leg", "Bag", "Head hair")
    entries = {
        path: {"detections": [{part: float(part in visible_parts(one.geometry())) for part in parts} for one in group]}
        for path, group in _by_image(people).items()
    }
    said = _read(tmp_path, "body_part_detection", entries, people)
    assert _mean(people, "body_part_detection", said) == 1.0
    entries[next(iter(entries))] = {"detections": [{"Fase": 0.5}]}
    with pytest.raises(Fp2Error, match=r"unknown body part 'Fase'.*main_.*'Face'"):
        _read(tmp_path, "body_part_detection", entries, people)


def test_faces(people: list[Person], tmp_path: Path) -> None:
    crops = [(one, crop) for one in people if (crop := one.face_crop()) is not None]
    labels = np.zeros((SIDE, SIDE), np.uint8)
    labels[4:20, 4:20], labels[:4] = 1, 13
    labels[5, 5] = 8  # an ear is skin
    masks = {str(label): _rle(labels == label) for label in np.unique(labels)}
    said = _read(tmp_path, "face_parsing", {_path(crop): {"detections_rle": masks} for _, crop in crops}, people)
    scores = score_faces(narrow_task("face_parsing"), people, said, as_published=True)
    rows = [row for row in scores.rows if row["score"] is not None]
    assert len(rows) == len(crops)
    assert {(row["score"], row["published_f1"]) for row in rows} == {(1.0, 1.0)}

    entries: dict[str, Any] = {}
    for n, (_, crop) in enumerate(crops):
        entries[_path(crop)] = {"detections": [float(n), 1.0] if n else None, "img_filepath": _path(crop)}
    faces, _ = embedded_faces(
        people, _read(tmp_path, "face_verification", entries, people), narrow_task("face_verification")
    )
    assert len(faces.people) == len(crops) - 1

    made = tmp_path / "made"
    made.mkdir()
    entries = {}
    for _, crop in crops:
        (made / f"super_{crop.name}").write_bytes(crop.read_bytes())
        entries[_path(crop)] = {"super_res_filename": f"{ELSEWHERE}/results/super_{crop.name}"}
    task = narrow_task("face_super_resolution")
    for said in (_read(made, task.name, entries, people), read_predictions(made, task, people)):
        rows = [row for row in score_faces(task, people, said, as_published=True).rows if row["found"]]
        assert len(rows) == len(crops)
        assert {round(row["published_psnr"], 6) for row in rows} == {80.0}
    with pytest.raises(Fp2Error, match="the predictions are a folder"):
        read_predictions(made, narrow_task("face_parsing"), people)


@pytest.mark.parametrize(
    ("name", "entry", "said"),
    [
        ("person_detection", {"boxes": []}, "detections is missing"),
        ("person_detection", {"detections": [[1, 2, 3]]}, "a box is not four numbers"),
        ("person_detection", {"detections": 3}, "detections is not a list"),
        ("person_detection", {"detections": [[5, 5, 1, 1]]}, "negative width or height"),
        ("person_segmentation", {"detections": [{"size": [2, 2], "counts": "122"}]}, "segmentation"),
        ("face_parsing", {"detections": []}, "detections_rle is missing"),
        ("face_super_resolution", {"super_res_filename": "nothing.png"}, "missing file"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_image(
    people: list[Person], tmp_path: Path, name: str, entry: Any, said: str
) -> None:
    one = next(person for person in people if person.face_crop() is not None)
    path = one.face_crop() if name.startswith("face") else one.image_path
    assert path is not None
    with pytest.raises(Fp2Error, match=said) as caught:
        _read(tmp_path, name, {_path(path): entry}, people)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_is_named_after_itself_or_its_model(tmp_path: Path) -> None:
    outputs = tmp_path / "results" / "detr" / "model_outputs.json"
    assert [name for name, _ in _named(str(outputs))] == ["detr"]
    assert [name for name, _ in _named([str(outputs), "a/rcnn.json"])] == ["detr", "rcnn"]
    assert [name for name, _ in _named({"first": str(outputs)})] == ["first"]
