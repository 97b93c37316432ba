"""The face parser and the super-resolution model on tiny checkpoints, from the crop to the score and the cache."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from fhibe_copy import SIDE, write_copy
from PIL import Image

from fp2.config import Config
from fp2.data.fhibe.load import load_fhibe
from fp2.errors import Fp2Error
from fp2.methods.fhibe.narrow.faces import PARTS, score_faces
from fp2.methods.fhibe.narrow.models import build_model, predict_all, read_spec
from fp2.methods.fhibe.narrow.tasks import narrow_task
from fp2.methods.fhibe.narrow.truth import Person, people_of

TARGETS = {"face_parsing": "FaceParser", "face_super_resolution": "SuperResolution"}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> list[Person]:
    made = write_copy(tmp_path_factory.mktemp("fhibe"), n_subjects=4, n_pairs=1)
    for face in made.faces:
        labels = np.full((SIDE, SIDE), 1, np.uint8)
        folder = made.root / "data/processed/fhibe_face_crop_align/masks/CelebAMask-HQ_format" / face["image_id"]
        folder.mkdir(parents=True)
        Image.fromarray(labels).save(folder / "combined.png")
    return people_of(load_fhibe(made.root).people)


def _spec(folder: Path, task: str, **more: Any) -> Any:
    given = {"name": "tiny", "task": task, "id": str(folder / "model"), **more}
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump({**given, "target": f"fp2.methods.fhibe.narrow.face_checkpoints:{TARGETS[task]}"}))
    return read_spec(path)


def _parser(folder: Path, names: tuple[str, ...] = PARTS) -> None:
    """Write a tiny SegFormer that says "skin" everywhere."""
    import transformers as hf
    from transformers.models.segformer.image_processing_pil_segformer import SegformerImageProcessorPil

    torch.manual_seed(0)
    labels = {"id2label": dict(enumerate(names)), "label2id": {name: n for n, name in enumerate(names)}}
    config = hf.SegformerConfig(
        hidden_sizes=[8, 8, 8, 8], depths=[1] * 4, num_attention_heads=[1] * 4, mlp_ratios=[1] * 4,
        decoder_hidden_size=8, **labels,
    )  # fmt: skip
    model = hf.SegformerForSemanticSegmentation(config)
    with torch.no_grad():
        model.decode_head.classifier.bias[1] = 50.0
    model.save_pretrained(folder / "model")
    SegformerImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder / "model")


def _enlarger(folder: Path, upscale: int = 2) -> None:
    import transformers as hf
    from transformers.models.swin2sr.image_processing_pil_swin2sr import Swin2SRImageProcessorPil

    torch.manual_seed(0)
    config = hf.Swin2SRConfig(
        image_size=16, embed_dim=6, depths=[1], num_heads=[1], window_size=4, mlp_ratio=1.0, upscale=upscale,
        upsampler="pixelshuffle",
    )  # fmt: skip
    hf.Swin2SRForImageSuperResolution(config).save_pretrained(folder / "model")
    Swin2SRImageProcessorPil().save_pretrained(folder / "model")


def _predict(folder: Path, task: str, people: list[Person], **more: Any) -> Any:
    narrow, model = build_model(_spec(folder, task, **more), Config())
    return model, predict_all(narrow, model, people, sqlite3.connect(folder / "store.sqlite"))


def test_a_face_parser_gives_a_map_of_parts_for_every_crop(people: list[Person], tmp_path: Path) -> None:
    _parser(tmp_path)
    model, made = _predict(tmp_path, "face_parsing", people)
    crops = [person for person in people if person.face_crop() is not None]
    assert (made.computed, made.failed) == (len(crops), {})
    assert all(one.labels is not None and one.labels.shape == (SIDE, SIDE) for one in made.predictions)
    scores = score_faces(narrow_task("face_parsing"), people, made.predictions, as_published=True)
    assert {row["score"] for row in scores.rows} == {1.0}  # all is skin, said and true
    _, again = _predict(tmp_path, "face_parsing", people)
    assert (again.computed, again.cached) == (0, len(crops))
    assert np.array_equal(again.predictions[0].labels, made.predictions[0].labels)
    paths = {
        path for (path,) in sqlite3.connect(tmp_path / "store.sqlite").execute("SELECT path FROM narrow_predictions")
    }
    assert paths == {str(person.image_path.absolute()) for person in crops}  # a purge finds them by the image
    assert "person" not in json.dumps(model.identity())


def test_classes_of_other_names_are_mapped_or_refused(people: list[Person], tmp_path: Path) -> None:
    names = ("background", "face", *PARTS[2:])
    _parser(tmp_path, names)
    with pytest.raises(Fp2Error, match=r"the class 'face' of .* is no part of a face.*labels"):
        _predict(tmp_path, "face_parsing", people)
    _, made = _predict(tmp_path, "face_parsing", people, options={"labels": {"face": "skin"}})
    assert all(one.labels is not None and (one.labels == 1).all() for one in made.predictions)


def test_a_super_resolution_model_enlarges_the_smaller_crop(people: list[Person], tmp_path: Path) -> None:
    _enlarger(tmp_path)
    _, made = _predict(tmp_path, "face_super_resolution", people)
    assert made.failed == {}
    assert all(one.pixels is not None and one.pixels.shape == (SIDE, SIDE, 3) for one in made.predictions)
    scores = score_faces(narrow_task("face_super_resolution"), people, made.predictions, as_published=True)
    found = [row for row in scores.rows if row["found"]]
    assert len(found) == made.computed
    assert all(0 < row["psnr"] < 100 and 0 < row["published_psnr"] < 80 for row in found)
    _, again = _predict(tmp_path, "face_super_resolution", people)
    assert again.computed == 0
    assert np.array_equal(again.predictions[0].pixels, made.predictions[0].pixels)


def test_a_model_that_does_not_enlarge_is_refused(people: list[Person], tmp_path: Path) -> None:
    _enlarger(tmp_path, upscale=1)
    with pytest.raises(Fp2Error, match="does not enlarge"):
        _predict(tmp_path, "face_super_resolution", people)
