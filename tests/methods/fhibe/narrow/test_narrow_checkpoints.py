"""Tiny checkpoints of the four families, built here with random weights, go through the harness's own path."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from fp2.config import Config, choices
from fp2.errors import Fp2Error
from fp2.methods.fhibe.narrow import generated_images
from fp2.methods.fhibe.narrow.models import (
    build_model,
    identity_spec,
    load_spec,
    predict_all,
    read_spec,
)
from fp2.methods.fhibe.narrow.truth import Person
from fp2.methods.fhibe_release.geometry import Box, Geometry

LABELS = {0: "N/A", 1: "person", 2: "car"}
SIZE = (60, 48)


def _tiny(folder: Path, family: str) -> Path:
    """Write a checkpoint of `family` with its processor, and return its folder."""
    import transformers as hf
    from transformers.models.deformable_detr.image_processing_pil_deformable_detr import DeformableDetrImageProcessorPil
    from transformers.models.detr.image_processing_pil_detr import DetrImageProcessorPil
    from transformers.models.mask2former.image_processing_pil_mask2former import Mask2FormerImageProcessorPil
    from transformers.models.vitpose.image_processing_pil_vitpose import VitPoseImageProcessorPil

    torch.manual_seed(0)
    names: dict[str, Any] = {"id2label": LABELS, "label2id": {name: n for n, name in LABELS.items()}}
    stages = ["stage4"] if family == "detr" else ["stage2", "stage3", "stage4"]
    resnet = hf.ResNetConfig(
        embedding_size=8, hidden_sizes=[8] * 4, depths=[1] * 4, layer_type="basic", out_features=stages
    )
    detr: dict[str, Any] = {
        "backbone_config": resnet,
        "use_timm_backbone": False,
        "use_pretrained_backbone": False,
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "num_queries": 40,
        **names,
    }
    small = {"shortest_edge": 64, "longest_edge": 96}
    model: Any
    processor: Any
    if family == "detr":
        model, processor = hf.DetrForObjectDetection(hf.DetrConfig(**detr)), DetrImageProcessorPil(size=small)
    elif family == "deformable_detr":
        model = hf.DeformableDetrForObjectDetection(hf.DeformableDetrConfig(**detr))
        processor = DeformableDetrImageProcessorPil(size=small)
    elif family == "mask2former":
        swin = hf.SwinConfig(
            image_size=32,
            patch_size=2,
            embed_dim=8,
            depths=[1] * 4,
            num_heads=[1] * 4,
            window_size=4,
            out_features=["stage1", "stage2", "stage3", "stage4"],
        )
        config = hf.Mask2FormerConfig(
            backbone_config=swin,
            feature_size=32,
            mask_feature_size=32,
            hidden_dim=32,
            encoder_feedforward_dim=16,
            dim_feedforward=16,
            encoder_layers=1,
            decoder_layers=2,
            num_attention_heads=2,
            num_queries=12,
            **names,
        )
        model = hf.Mask2FormerForUniversalSegmentation(config)
        processor = Mask2FormerImageProcessorPil(size={"height": 64, "width": 64})
    else:
        vit = hf.VitPoseBackboneConfig(
            image_size=[64, 48],
            patch_size=[16, 16],
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            mlp_ratio=2,
            out_features=["stage1"],
        )
        model = hf.VitPoseForPoseEstimation(hf.VitPoseConfig(backbone_config=vit, num_labels=17, scale_factor=4))
        processor = VitPoseImageProcessorPil(size={"height": 64, "width": 48})
    with torch.no_grad():  # every query says "person"
        for name, weight in model.named_parameters():
            if name.endswith(".bias") and weight.shape in ((3,), (4,)) and "class_" in name:
                weight[1] = 10.0
    model.save_pretrained(folder / family)
    processor.save_pretrained(folder / family)
    return folder / family


TARGETS = {
    "detr": "fp2.methods.fhibe.narrow.checkpoints:Detector",
    "deformable_detr": "fp2.methods.fhibe.narrow.checkpoints:Detector",
    "mask2former": "fp2.methods.fhibe.narrow.checkpoints:Segmenter",
    "vitpose": "fp2.methods.fhibe.narrow.checkpoints:PoseEstimator",
}


def _yaml(folder: Path, family: str, task: str, **more: Any) -> Path:
    path = folder / f"{family}.yaml"
    given = {
        "name": f"tiny_{family}",
        "task": task,
        "target": TARGETS[family],
        "id": str(_tiny(folder, family)),
        **more,
    }
    path.write_text(yaml.safe_dump(given))
    return path


def _people(folder: Path, n: int = 2) -> list[Person]:
    rng = np.random.default_rng(0)
    people = []
    for number in range(n):
        path = folder / f"image{number}.png"
        Image.fromarray(rng.integers(0, 256, (SIZE[1], SIZE[0], 3)).astype(np.uint8)).save(path)
        box = Box(4.0, 6.0, 30.0, 40.0)
        people.append(Person(f"i{number}", f"s{number}", path, 1, person_box=box))
    people.append(Person("i0", "other", people[0].image_path, 2, person_box=Box(20.0, 5.0, 30.0, 40.0)))
    return people


def _store(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(folder / "store.sqlite")


def _predict(folder: Path, family: str, task: str) -> Any:
    narrow, model = build_model(read_spec(_yaml(folder, family, task)), Config())
    return narrow, model, predict_all(narrow, model, _people(folder), _store(folder))


@pytest.mark.parametrize("family", ["detr", "deformable_detr"])
def test_detectors_give_boxes_of_people_only(tmp_path: Path, family: str) -> None:
    _, model, made = _predict(tmp_path, family, "person_detection")
    assert made.computed == 2
    assert made.failed == {}
    assert len(made.predictions) == 80  # 40 queries an image
    assert all(one.box is not None and one.box[2] >= 0 for one in made.predictions)
    first = [one.score for one in made.predictions if one.image_id == "i0"]
    assert first == sorted(first, reverse=True)
    cars = build_model(read_spec(_yaml(tmp_path, family, "person_detection", person="car")), Config())
    none = predict_all(*cars, _people(tmp_path), _store(tmp_path)).predictions
    assert all(one.score < 0.9 for one in none)  # and the sigmoid of 10 is 0.99995
    assert len(none) < 80
    again = predict_all(load_task("person_detection"), model, _people(tmp_path), _store(tmp_path))
    assert (again.computed, again.cached) == (0, 2)
    assert [one.box for one in again.predictions] == [one.box for one in made.predictions]
    assert not any("/" in str(value) for value in model.identity().values() if isinstance(value, str))


def load_task(name: str) -> Any:
    from fp2.methods.fhibe.narrow.tasks import narrow_task

    return narrow_task(name)


def test_mask2former_gives_masks_of_the_size_of_the_image(tmp_path: Path) -> None:
    _, _, made = _predict(tmp_path, "mask2former", "person_segmentation")
    assert made.predictions
    assert {tuple(one.mask["size"]) for one in made.predictions if one.mask} == {(SIZE[1], SIZE[0])}


def test_vitpose_estimates_one_pose_per_box_of_a_person(tmp_path: Path) -> None:
    _, model, made = _predict(tmp_path, "vitpose", "pose_estimation")
    assert [(one.image_id, one.subject_id) for one in made.predictions] == [("i0", "s0"), ("i0", "other"), ("i1", "s1")]
    assert all(one.keypoints is not None and np.isfinite(one.keypoints).all() for one in made.predictions)
    assert all((one.keypoints > -20).all() and (one.keypoints < 90).all() for one in made.predictions)  # type: ignore[operator]
    rows = _store(tmp_path).execute("SELECT said FROM narrow_predictions").fetchall()
    assert "other" not in str(rows)  # subjects are not written down
    again = predict_all(load_task("pose_estimation"), model, _people(tmp_path), _store(tmp_path))
    assert again.computed == 0
    assert [one.subject_id for one in again.predictions] == ["s0", "other", "s1"]


def test_wrong_models_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(Fp2Error, match=r"detr_resnet_5.*Did you mean 'detr_resnet_50'"):
        load_spec("detr_resnet_5")
    own = _yaml(tmp_path, "detr", "person_detection")
    for given in (str(own), "../narrow/detr_resnet_50"):  # a run's settings would hold a place on this machine
        with pytest.raises(Fp2Error, match=r"there is no narrow model.*task\.files\.model=FILE"):
            load_spec(given)
    with pytest.raises(
        Fp2Error, match=r"checkpoints:Detector has no models of pose_estimation.*Its tasks: person_detection"
    ):
        read_spec(_yaml(tmp_path, "detr", "pose_estimation"))
    with pytest.raises(Fp2Error, match=r"7 is not a text \(.*\.id\)"):
        read_spec(_yaml(tmp_path, "detr", "person_detection", id=7))
    with pytest.raises(Fp2Error, match=r"3 is not a table.*\.options\)"):
        read_spec(_yaml(tmp_path, "detr", "person_detection", options=3))
    path = _yaml(tmp_path, "detr", "person_detection")
    path.write_text(path.read_text().replace(TARGETS["detr"], TARGETS["vitpose"]).replace("person_det", "pose_est"))
    path.write_text(path.read_text().replace("pose_estection", "pose_estimation"))
    with pytest.raises(Fp2Error, match="is detr, not vitpose"):
        build_model(read_spec(path), Config())
    nobody = read_spec(_yaml(tmp_path, "detr", "person_detection", person="dog"))
    task, model = build_model(nobody, Config())
    with pytest.raises(Fp2Error, match="has no class 'dog'"):
        predict_all(task, model, _people(tmp_path), _store(tmp_path))


@pytest.mark.parametrize("family", ["detr", "deformable_detr"])
def test_a_checkpoint_whose_backbone_needs_timm_is_refused_in_one_line(tmp_path: Path, family: str) -> None:
    """As published checkpoints of these families say it: a backbone by its name in timm, and no configuration of it."""
    path = _yaml(tmp_path, family, "person_detection")
    settings = tmp_path / family / "config.json"
    config = json.loads(settings.read_text())
    config |= {"backbone_config": None, "use_timm_backbone": True, "backbone": "resnet50"}
    settings.write_text(json.dumps(config))
    task, model = build_model(read_spec(path), Config())
    with pytest.raises(Fp2Error, match=r"needs timm, which is not installed.*revision") as caught:
        predict_all(task, model, _people(tmp_path), _store(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(choices("narrow")))
def test_shipped_models_are_read(name: str) -> None:
    assert load_spec(name).name == name


def test_models_of_face_crops_are_not_run_here(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ntask: face_parsing\ntarget: fp2.methods.fhibe.narrow.checkpoints:Segmenter\n")
    with pytest.raises(Fp2Error, match=r"models of face_parsing are not run here.*task\.files\.face_parsing=FILE"):
        read_spec(path)


OWN = """
import numpy as np

from fp2.methods.fhibe.narrow.predictions import Prediction


class MeanColour:
    tasks = ("face_verification",)
    similarity = "euclidean"

    def __init__(self, spec, config):
        self.scale = spec.options["scale"]

    def identity(self):
        return {"model": "mean colour", "scale": self.scale}

    def predict(self, shown):
        colour = np.asarray(shown.image, dtype=np.float64).mean(axis=(0, 1)) * self.scale
        return [Prediction("", subject_id=person.subject_id, embedding=colour) for person in shown.people]

    def close(self):
        pass


class NoModel:
    tasks = ("face_verification",)
"""


def test_a_class_of_the_users_is_a_narrow_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_narrow.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ntask: face_verification\ntarget: own_narrow:MeanColour\noptions: {scale: 2}\n")
    task, model = build_model(read_spec(path), Config())
    assert model.similarity == "euclidean"
    made = predict_all(task, model, _people(tmp_path), _store(tmp_path))
    expected = 2 * np.asarray(Image.open(tmp_path / "image0.png"), dtype=np.float64).mean(axis=(0, 1))
    np.testing.assert_allclose(made.predictions[0].embedding, expected)  # type: ignore[arg-type]

    crop, other = tmp_path / "image0.png", tmp_path / "image1.png"
    monkeypatch.setattr(generated_images, "annotation_path", lambda path: path)
    monkeypatch.setattr(generated_images, "read_geometry", lambda path, subject: Geometry(face_box=Box(0, 0, 9, 9)))
    same = generated_images.same_face(model)(_people(tmp_path)[0], crop, Image.open(crop).convert("RGB"))
    close = generated_images.same_face(model)(_people(tmp_path)[0], crop, Image.open(other).convert("RGB"))
    assert same == pytest.approx(1.0)
    assert close is not None
    assert close < 1.0

    path.write_text(path.read_text().replace("MeanColour", "NoModel"))
    with pytest.raises(Fp2Error, match="is not a narrow model: it lacks similarity, identity, predict, close"):
        read_spec(path)


def test_the_model_that_compares_generated_faces_is_one_of_the_narrow_models() -> None:
    assert identity_spec("none") is None
    assert identity_spec("dlib_face") == load_spec("dlib_face")
    with pytest.raises(Fp2Error, match=r"there is no narrow model 'dlib_fac' \(task\.options\.identity\)"):
        identity_spec("dlib_fac")
    with pytest.raises(Fp2Error, match="'vitpose_base' does not compute embeddings"):
        identity_spec("vitpose_base")


def test_predictions_are_cached_row_by_row_and_deleted_with_their_image(tmp_path: Path) -> None:
    from fp2.store.origins import delete

    _, model, _ = _predict(tmp_path, "detr", "person_detection")
    people, store = _people(tmp_path), _store(tmp_path)
    gone = delete(store, tmp_path / "store.sqlite", [], [], [str(people[0].image_path.absolute())])
    assert gone["narrow_predictions"] == 1
    made = predict_all(load_task("person_detection"), model, people, store)
    assert (made.computed, made.cached) == (1, 1)


def test_an_image_that_cannot_be_read_is_left_out_with_its_reason(tmp_path: Path) -> None:
    task, model = build_model(read_spec(_yaml(tmp_path, "detr", "person_detection")), Config())
    people = _people(tmp_path)
    people[1].image_path.write_bytes(b"no image")
    with pytest.raises(Fp2Error, match="1 of 2 images failed"):
        predict_all(task, model, people, _store(tmp_path))
    made = predict_all(task, model, people, _store(tmp_path), error_budget=0.5)
    assert list(made.failed) == ["i1"]
    assert made.cached == 1
    assert str(tmp_path) not in made.failed["i1"]
