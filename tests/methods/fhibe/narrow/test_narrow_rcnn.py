"""torchvision's Faster R-CNN and Mask R-CNN with random weights, where a torchvision that fits torch is installed."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import sqlite3
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
import torch
from PIL import Image

from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.methods.fhibe.narrow.models import ImageInput, ModelSpec, build_model, load_spec, predict_all
from fp2.methods.fhibe.narrow.truth import Person

SMALL = {"min_size": 96, "max_size": 128}
FASTER, MASK = "fasterrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn"


def spec(network: str, weights: object, task: str = "person_detection", **options: Any) -> ModelSpec:
    given = SMALL | options | {"network": network}
    return ModelSpec("mine", task, "fp2.methods.fhibe.narrow.rcnn:Rcnn", id=str(weights), options=given)


@pytest.fixture(scope="module")
def torchvision() -> Any:
    try:
        return importlib.import_module("torchvision")
    except Exception as error:
        pytest.skip(f"no torchvision that fits torch {torch.__version__}: {type(error).__name__}")


@pytest.fixture(scope="module")
def weights(torchvision: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Random weights that take everything for a person, as a pickled file and as safetensors.

    The variances of the first normalisation are small, so that what is added to them counts.
    """
    from safetensors.torch import save_file

    torch.manual_seed(0)
    network = torchvision.models.detection.maskrcnn_resnet50_fpn(weights=None, weights_backbone=None)
    state = network.state_dict()
    state["roi_heads.box_predictor.cls_score.bias"][1] = 5.0
    for name in state:
        if name.endswith("bn3.weight"):  # as large as in trained networks, so that no score is 1
            state[name].fill_(0.2)
    state["backbone.body.bn1.running_var"].fill_(1e-4)
    state["backbone.body.bn1.weight"].fill_(1e-2)
    folder = tmp_path_factory.mktemp("rcnn")
    torch.save(state, folder / f"{MASK}.pth")
    boxes = {name: value for name, value in state.items() if "mask" not in name}
    save_file(boxes, folder / f"{FASTER}.safetensors")
    return {MASK: folder / f"{MASK}.pth", FASTER: folder / f"{FASTER}.safetensors"}


@pytest.fixture(scope="module")
def image() -> Image.Image:
    return Image.fromarray(np.random.default_rng(1).integers(0, 256, (60, 48, 3), dtype=np.uint8))


def test_boxes_are_torchvisions(torchvision: Any, weights: dict[str, Path], image: Image.Image) -> None:
    """The reference is what torchvision builds for its own weights: frozen normalisation without anything added."""
    from safetensors.torch import load_file

    detection = torchvision.models.detection
    backbone = detection.backbone_utils.resnet_fpn_backbone(backbone_name="resnet50", weights=None)
    plain = detection.FasterRCNN(backbone, 91, **SMALL).eval()
    plain.load_state_dict(load_file(weights[FASTER]))
    for module in plain.modules():
        if isinstance(module, torchvision.ops.misc.FrozenBatchNorm2d):
            module.eps = 0.0
    with torch.inference_mode():
        (expected,) = plain([torchvision.transforms.functional.to_tensor(image)])
    kept = expected["labels"] == 1
    assert kept.sum() > 5
    task, model = build_model(spec(FASTER, weights[FASTER]), Config())
    found = model.predict(ImageInput(image, []))
    corners = expected["boxes"][kept].numpy()
    sizes = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
    np.testing.assert_allclose([one.box for one in found], sizes, atol=1e-3)
    np.testing.assert_allclose([one.score for one in found], expected["scores"][kept], rtol=1e-5)
    assert task.name == "person_detection"
    other = build_model(spec(FASTER, weights[FASTER], eps=1e-5), Config())[1]
    assert other.identity() != model.identity()
    scores = [one.score for one in other.predict(ImageInput(image, []))]
    assert len(scores) != len(found) or not np.allclose(scores, [one.score for one in found], rtol=1e-5)


def test_masks_are_of_the_size_of_the_image_and_cached(
    weights: dict[str, Path], image: Image.Image, tmp_path: Path
) -> None:
    image.save(tmp_path / "a.png")
    people = [Person("a", "s", tmp_path / "a.png", 1)]
    task, model = build_model(spec(MASK, weights[MASK], "person_segmentation", mask=0.3), Config())
    first, again = (predict_all(task, model, people, sqlite3.connect(tmp_path / "store")) for _ in range(2))
    assert (first.computed, again.computed, again.cached) == (1, 0, 1)
    found = first.predictions
    assert [(one.score, one.mask) for one in found] == [(one.score, one.mask) for one in again.predictions]
    assert found
    assert {tuple(one.mask["size"]) for one in found if one.mask} == {(60, 48)}
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert not any("/" in str(value) for value in model.identity().values())


def test_published_weights_are_taken_from_torchs_folder_or_asked_for(
    torchvision: Any, weights: dict[str, Path], image: Image.Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*given: Any, **options: Any) -> None:
        raise URLError("no network")

    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path))
    monkeypatch.setattr("torch.hub.download_url_to_file", offline)
    model = build_model(spec(MASK, "COCO_V1", "person_segmentation"), Config())[1]
    with pytest.raises(
        Fp2Error, match=r"maskrcnn_resnet50_fpn_coco-\w+\.pth are not here.*no network.*task\.files\.model"
    ):
        model.identity()
    table = torchvision.models.detection.MaskRCNN_ResNet50_FPN_Weights.COCO_V1
    (tmp_path / "checkpoints" / table.url.rpartition("/")[2]).symlink_to(weights[MASK])
    model.identity()
    assert model.predict(ImageInput(image, []))


def test_files_that_are_no_such_weights_are_one_line(
    weights: dict[str, Path], image: Image.Image, tmp_path: Path
) -> None:
    (tmp_path / "code.pth").write_bytes(pickle.dumps(Path("/")))
    (tmp_path / "text.safetensors").write_text("no weights")
    for file in (weights[MASK], tmp_path / "code.pth", tmp_path / "text.safetensors"):
        model = build_model(spec(FASTER, file), Config())[1]
        with pytest.raises(Fp2Error, match=rf"{file.name} cannot be read as weights of {FASTER}") as caught:
            model.predict(ImageInput(image, []))
        assert "\n" not in str(caught.value)


def test_wrong_settings_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = importlib.util.find_spec
    for installed in (True, False):
        found = usual("torch") if installed else None
        monkeypatch.setattr(
            "importlib.util.find_spec",
            lambda name, *more, found=found: found if name == "torchvision" else usual(name, *more),
        )
        wrong = [
            (spec("fasterrcnn_resnet50", "a.pth"), "unknown network.*Did you mean 'fasterrcnn_resnet50_fpn'"),
            (spec(FASTER, "a.pth", "person_segmentation"), "has no masks"),
            (spec(FASTER, "a.pth", size=3), r"unknown key 'size'"),
            (spec(FASTER, "a.pth"), "no weights file 'a.pth'" if installed else "torchvision is not installed"),
        ]
        for given, says in wrong:
            with pytest.raises(Fp2Error, match=says):
                build_model(given, Config())
    with pytest.raises(Fp2Error, match=r"torchvision is not installed.*torchvision for this torch"):
        build_model(load_spec(MASK), Config())
