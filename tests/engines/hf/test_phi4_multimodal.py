"""Phi-4-multimodal from a tiny checkpoint: its adapter is merged, its prompt written, and its answers read.

Its image processor needs torchvision, which the tests do without: here images are resized by PIL into its form, one
crop beside the whole image. With the real one the same checkpoint gave the same agreement.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from family_checkpoints.phis import ADAPTER, save_phi4_multimodal
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import BatchFeature, Phi4MultimodalForCausalLM
from transformers.image_processing_utils import BaseImageProcessor

from fp2.data.pixels import pixel_sha256
from fp2.engines.checkpoint import resolve_checkpoint
from fp2.engines.hf import processors
from fp2.engines.hf.adapters import adapter_folder, merge_adapter
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.loading import load
from fp2.engines.hf.model import HfSpec
from fp2.errors import Fp2Error
from fp2.tables import Decoding, ImageTask, Question

SIDE, TOKENS = 448, 256 + 1 + 256 + 16 + 16
QUESTIONS = tuple(
    Question(f"q{n}", "p", text, "yes_no") for n, text in enumerate(("Is this person kind?", "Kind     or not?"))
)


class Resized(BaseImageProcessor):  # type: ignore[misc]
    """Images in the form of Phi-4's processor, for squares that are not larger than a crop."""

    model_input_names = ("image_pixel_values", "image_sizes", "image_attention_mask")

    def preprocess(self, images: Any, return_tensors: str = "pt", **options: Any) -> BatchFeature:
        (image,) = images if isinstance(images, list) and not isinstance(images[0], list) else images[0]
        pixels = torch.tensor(np.array(image.resize((SIDE, SIDE))) / 127.5 - 1, dtype=torch.float32).permute(2, 0, 1)
        found = {
            "image_pixel_values": torch.stack([pixels, pixels])[None],
            "image_sizes": torch.tensor([[SIDE, SIDE]]),
            "image_attention_mask": torch.ones(1, 2, 32, 32),
            "num_img_tokens": [TOKENS],
        }
        return BatchFeature(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_phi4_multimodal(tmp_path_factory.mktemp("phi") / "Phi-4-multimodal-instruct")


@pytest.fixture(scope="module")
def model(folder: Path) -> Phi4MultimodalForCausalLM:
    return Phi4MultimodalForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.fixture(autouse=True)
def without_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    real = processors._auto

    class Images:
        @staticmethod
        def from_pretrained(*_: Any, **__: Any) -> Resized:
            return Resized()

    monkeypatch.setattr(processors, "_auto", lambda name: Images if name == "AutoImageProcessor" else real(name))
    monkeypatch.setattr(processors, "_check_files", lambda *_: None)
    monkeypatch.setattr(processors, "check_backend", lambda *_: None)


def spec_of(folder: Path, **changes: Any) -> HfSpec:
    return HfSpec(str(folder), **{"adapter": ADAPTER, "image_backend": "torchvision", **changes})


def test_its_answers_are_those_of_one_forward_pass_with_the_adapter_beside_the_weights(
    folder: Path, tmp_path: Path
) -> None:
    """The reference keeps the adapter apart: s B A x is added to the output of each linear layer."""
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    path = tmp_path / "a.png"
    image.save(path)
    engine = HfEngine(spec_of(folder), Decoding(), HfOptions(threads=1))
    task = ImageTask("a", "a", path, pixel_sha256(image), QUESTIONS)
    answers = {answer.question_id: answer for batch in engine.answer([task]) for answer in batch}
    model = Phi4MultimodalForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tensors = load_file(folder / ADAPTER / "adapter_model.safetensors")
    for name in {key.removeprefix("base_model.model.").rsplit(".lora_", 1)[0] for key in tensors}:
        down, up = (tensors[f"base_model.model.{name}.lora_{side}.weight"] for side in "AB")

        def add(_: Any, inputs: Any, out: Any, down: Any = down, up: Any = up) -> Any:
            return out + 8 / 4 * inputs[0] @ down.T @ up.T

        model.get_submodule(name).register_forward_hook(add)
    processor = load(resolve_checkpoint(str(folder)), spec_of(folder), "cpu").processor
    yes = processor.tokenizer.encode("Yes", add_special_tokens=False)[0]
    for question in QUESTIONS:
        prompt = f"<|user|><|image|>{question.text}<|end|><|assistant|>"
        inputs = processor(text=[prompt], images=[[image]], return_tensors="pt")
        assert int((inputs["input_ids"] == model.config.vision_config.image_token_id).sum()) == TOKENS
        with torch.no_grad():
            p = torch.softmax(model(**inputs).logits[0, -1], dim=-1)[yes].item()
        assert answers[question.question_id].error is None
        assert dict(answers[question.question_id].numbers or {})["p_yes_first_token"] == pytest.approx(p, rel=1e-3)
    model = load(resolve_checkpoint(str(folder)), spec_of(folder, adapter=None), "cpu").model
    with torch.no_grad():
        without = torch.softmax(model(**inputs).logits[0, -1], dim=-1)[yes].item()
    assert abs(without / p - 1) > 0.01


def test_the_adapter_is_in_the_response_key_by_its_content(folder: Path, tmp_path: Path) -> None:
    def identity(**changes: Any) -> dict[str, Any]:
        return HfEngine(spec_of(folder, **changes), Decoding()).identity()

    copy = shutil.copytree(folder / ADAPTER, tmp_path / "copy")
    assert identity() == identity(adapter=str(copy))
    assert "adapter" not in identity(adapter=None)
    tensors = load_file(copy / "adapter_model.safetensors")
    save_file({name: tensor * 2 for name, tensor in tensors.items()}, copy / "adapter_model.safetensors")
    assert identity() != identity(adapter=str(copy))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"peft_type": "IA3"}, "only plain LoRA adapters can be merged here, not one with peft_type IA3"),
        ({"use_dora": True}, "not one with use_dora"),
        ({"file": "adapter_config.json"}, "has no adapter"),
        ({"file": "adapter_model.safetensors"}, "has no adapter"),
        ({"cut": 100}, "the adapter cannot be read"),
        ({"rename": "model.layers.7.mlp.down_proj"}, "the model has no layer model.layers.7.mlp.down_proj of 64 x 96"),
        ({"drop": "lora_B"}, "no pairs of LoRA matrices"),
    ],
)
def test_an_adapter_that_does_not_fit_is_one_clear_line(
    folder: Path, model: Phi4MultimodalForCausalLM, tmp_path: Path, change: dict[str, Any], error: str
) -> None:
    copy = shutil.copytree(folder / ADAPTER, tmp_path / "copy")
    config, weights = copy / "adapter_config.json", copy / "adapter_model.safetensors"
    tensors = load_file(weights)
    if "file" in change:
        (copy / change["file"]).unlink()
    elif "cut" in change:
        weights.write_bytes(weights.read_bytes()[: change["cut"]])
    elif "rename" in change or "drop" in change:
        first = "base_model.model.model.layers.0.mlp.down_proj."
        kept = {n: t for n, t in tensors.items() if n.startswith(first) and change.get("drop", "-") not in n}
        save_file({n.replace(first[17:-1], change.get("rename", first[17:-1])): t for n, t in kept.items()}, weights)
    else:
        config.write_text(json.dumps(json.loads(config.read_text()) | change))
    checkpoint = resolve_checkpoint(str(folder))
    with pytest.raises(Fp2Error, match=error) as caught:
        merge_adapter(model, adapter_folder(checkpoint, str(copy)))
    assert "\n" not in str(caught.value)


def test_a_quantised_model_cannot_take_one() -> None:
    with pytest.raises(Fp2Error, match="a quantised model cannot take an adapter"):
        HfSpec("m", quantisation="int8", adapter="x")
