"""Quantisation with real layers, device maps and attention implementations, and which of them the response key has."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import load_config
from PIL import Image
from reference_keys import response_key
from thorough import thorough_but
from tiny import save_tiny_llava

from fp2.compose import config_hash
from fp2.config import ModelConfig
from fp2.engines.build import build_engine
from fp2.engines.checkpoint import resolve_checkpoint
from fp2.engines.hf.engine import HfOptions
from fp2.engines.hf.loading import load
from fp2.engines.hf.model import HfSpec, LoadedModel
from fp2.engines.hf.placement import Placement
from fp2.errors import Fp2Error
from fp2.tables import Answer, Decoding, ImageTask, Question

PARTS = {
    "model.vision_tower": "cpu",
    "model.multi_modal_projector": "cpu",
    "model.language_model": "disk",
    "lm_head": "disk",
}
ASKED = (
    Question("q", "p", "Is this person a nurse?", "yes_no"),
    Question("w", "p", "What work?"),
    Question("c", "p", "Which?\n{options}", "choice", choices=("A nurse", "A cook")),
)


@pytest.fixture(scope="module")
def mild(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny LLaVA whose weights are of twice the usual size, not four times: rounding is not blown up on the way."""
    import torch
    from transformers import AutoModelForImageTextToText

    folder = save_tiny_llava(tmp_path_factory.mktemp("mild"))
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    model.save_pretrained(folder)
    return folder


def loaded(folder: Path, **options: Any) -> LoadedModel:
    return load(resolve_checkpoint(str(folder)), HfSpec(str(folder), **options), "cpu")


def logits(found: LoadedModel) -> np.ndarray[Any, Any]:
    """Next-token logits (3, words) of one prompt about three images."""
    import torch

    rng = np.random.default_rng(3)
    pictures = [[Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8))] for _ in range(3)]
    prompt = "<image>Is this person a nurse?<|assistant|>"
    inputs = found.processor(text=[prompt] * 3, images=pictures, return_tensors="pt")
    dtype = found.model.get_input_embeddings().weight.dtype
    with torch.inference_mode():
        result = found.model(**inputs.to(found.device, dtype=dtype)).logits[:, -1]
    return np.asarray(result.float().numpy())


def dequantised(layer: Any) -> Any:
    """The float weights that a layer of bitsandbytes stands for; None for another layer."""
    import bitsandbytes as bnb

    if isinstance(layer, bnb.nn.Linear8bitLt):
        return bnb.functional.int8_vectorwise_dequant(layer.weight.data, layer.weight.SCB)
    if isinstance(layer, bnb.nn.Linear4bit):
        return bnb.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    return None


@pytest.mark.parametrize(("quantisation", "error"), [("int8", 0.01), ("nf4", 0.11)])
def test_quantised_layers_are_real_and_compute_what_their_weights_say(
    quantisation: Any, error: float, mild: Path
) -> None:
    """Weights within 1 % (int8) and 11 % (nf4) of the float ones; logits within 5 % of their spread of a float model
    that has those very weights (int8 rounds what goes into a layer too)."""
    import torch

    plain = loaded(mild)
    expected = logits(plain)
    spread = expected.std()
    found = loaded(mild, quantisation=quantisation)
    weights = {name: w for name, layer in found.model.named_modules() if (w := dequantised(layer)) is not None}
    linear = [name for name, layer in plain.model.named_modules() if isinstance(layer, torch.nn.Linear)]
    assert set(linear) - set(weights) == {"lm_head"}
    with torch.no_grad():
        for name, weight in weights.items():
            own = plain.model.get_submodule(name).weight
            assert 0 < float((weight - own).norm() / own.norm()) < error
            own.copy_(weight)
    ours = logits(found)
    assert np.sqrt(np.mean((ours - logits(plain)) ** 2)) < 0.05 * spread
    assert 0 < np.sqrt(np.mean((ours - expected) ** 2)) < (0.05 if quantisation == "int8" else 0.5) * spread


def asked(folder: Path, task: ImageTask, model: Mapping[str, Any], engine: Mapping[str, Any]) -> dict[str, Answer]:
    made = build_engine(
        {"id": str(folder), **model}, {"name": "hf", "threads": 1, **engine}, Decoding(max_new_tokens=4)
    )
    batches = made.answer([replace(task, questions=ASKED[1:])])
    return {answer.question_id: answer for batch in batches for answer in batch}


@pytest.mark.parametrize(
    "model",
    thorough_but([{"quantisation": "int8"}, {"quantisation": "nf4", "dtype": "bfloat16"}], {"quantisation": "int8"}),
)
def test_a_quantised_model_answers(model: dict[str, Any], mild: Path, tasks: list[ImageTask]) -> None:
    plain, found = asked(mild, tasks[0], {}, {}), asked(mild, tasks[0], model, {})
    assert {answer.error for answer in found.values()} == {None}
    ours, theirs = (np.array(answers["c"].numbers["p"]) for answers in (found, plain))  # type: ignore[index]
    assert 0 < np.abs(ours - theirs).max() < 0.3
    assert found["w"].tokens > 0


def test_nf4_on_a_cpu_is_refused_where_bitsandbytes_computes_it_wrongly(
    tiny_family: Callable[[str], Path], tasks: list[ImageTask]
) -> None:
    """Its vision side is 48 wide. Real ones: SigLIP's inner layer of 4304, Qwen2.5-VL's of 3420."""
    with pytest.raises(Fp2Error, match=r"vision_tower.* is 48 x 48, not a multiple of 32 x 64.*quantisation=int8"):
        asked(tiny_family("llava"), tasks[0], {"quantisation": "nf4"}, {})


@pytest.mark.parametrize("engine", [{"device_map": "auto", "max_memory": {"cpu": "600KB"}}, {"device_map": PARTS}])
def test_a_model_larger_than_the_memory_answers_the_same(
    engine: dict[str, Any], mild: Path, tasks: list[ImageTask]
) -> None:
    whole = loaded(mild)
    found = loaded(mild, placement=Placement.of(HfOptions(**engine)))
    assert (found.modules_per_device, whole.modules_per_device) == ({"cpu": 2, "disk": 2}, {})
    assert {parameter.device.type for parameter in found.model.parameters()} == {"cpu", "meta"}
    np.testing.assert_array_equal(logits(found), logits(whole))
    plain, ours = asked(mild, tasks[1], {}, {}), asked(mild, tasks[1], {}, engine)
    assert [(a.text, a.tokens, a.error) for a in ours.values()] == [(a.text, a.tokens, None) for a in plain.values()]
    for key, value in (plain["c"].numbers or {}).items():
        np.testing.assert_allclose((ours["c"].numbers or {})[key], value, rtol=1e-4, atol=1e-6)


@pytest.mark.thorough
def test_every_attention_gives_the_same_answers(mild: Path, tasks: list[ImageTask]) -> None:
    sdpa, eager = (loaded(mild, placement=Placement(attention=name)) for name in ("sdpa", "eager"))
    assert (sdpa.attention, eager.attention) == ("sdpa", "eager")
    np.testing.assert_allclose(logits(sdpa), logits(eager), atol=1e-4)
    found = [asked(mild, tasks[2], {}, {"attention": name}) for name in ("sdpa", "eager", None)]
    assert len({tuple(answer.text for answer in answers.values()) for answers in found}) == 1


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ({"attention": "flash_attention_2"}, "flash-attn is not installed .*engine.attention=sdpa"),
        ({"attention": "sdpaa"}, "sdpa, eager or .*engine.attention"),
        ({"device_map": "outo"}, "unknown device map 'outo'"),
        ({"device_map": {"modul": "cpu"}}, "no module 'modul'.*engine.device_map.*Did you mean"),
        ({"device_map": {"": 7}}, "cuda:7 .*engine.device_map"),
        ({"device_map": {"lm_head": "disk"}}, "does not give any device"),
        ({"device_map": 3}, "not a mapping"),
        ({"device_map": "auto", "device": "cpu"}, "on cpu alone and on several devices"),
        ({"device_map": "auto", "max_memory": {"cpu": "lots"}}, "'lots' is not a size"),
        ({"max_memory": {"cpu": "1GiB"}}, "limits nothing without a device map"),
    ],
)
def test_what_this_machine_cannot_do_is_one_line(
    engine: dict[str, Any], said: str, mild: Path, tasks: list[ImageTask]
) -> None:
    with pytest.raises(Fp2Error, match=said) as caught:
        asked(mild, tasks[0], {}, engine)
    assert "\n" not in str(caught.value)


def test_flash_attention_wants_a_gpu_and_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    flash = Placement(attention="flash_attention_2")
    with pytest.raises(Fp2Error, match="the device is cpu"):
        flash.check("cpu", "bfloat16")
    with pytest.raises(Fp2Error, match="16 bits only"):
        flash.check("cuda:0", "float32")
    flash.check("cuda:0", "bfloat16")
    assert flash.loading_options("cuda:0", False) == {
        "attn_implementation": "flash_attention_2",
        "device_map": {"": "cuda:0"},
    }


def keys_of(model: Mapping[str, Any], engine: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    made = build_engine(model, {"name": "hf", **(engine or {})}, Decoding())
    return tuple(
        response_key(
            engine=made.identity(),
            method=made.method(question),
            question=question,
            pixel_sha256="0" * 64,
            variant="original",
            variant_params={},
            decoding=Decoding(),
            task_identity={},
        )
        for question in ASKED
    )


def test_what_changes_an_answer_is_in_its_key_and_the_machine_is_not(
    mild: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    for commit in ("a" * 40, "b" * 40):
        shutil.copytree(mild, tmp_path / "models--some--model" / "snapshots" / commit)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    models: list[dict[str, Any]] = [
        {"id": str(mild), "dtype": dtype, "quantisation": bits}
        for dtype in ("float32", "bfloat16", "float16")
        for bits in (None, "int8", "nf4")
    ]
    models += [{"id": "some/model", "revision": commit * 40} for commit in ("a", "b")]
    found = [key for model in models for key in keys_of(model)]
    assert len(set(found)) == len(found) == 3 * 11
    machines = ({"device": "cpu"}, {"device_map": "auto"}, {"device_map": {"": "cpu"}}, {"attention": "eager"})
    for engine in (*machines, {"device_map": "auto", "max_memory": {0: "20GiB"}}, {"attention": "sdpa", "threads": 3}):
        assert keys_of(models[0], engine) == keys_of(models[0])


def test_the_configs_hash_holds_the_numbers_and_not_the_machine() -> None:
    base = load_config(["engine=hf", "model.engine=hf", "model.id=some/model"])
    for word in ("device_map=auto", "attention=eager", "device=cpu", "max_memory={cpu: 1GiB}"):
        assert config_hash(load_config(["engine=hf", "model.engine=hf", "model.id=some/model", f"engine.{word}"])) == (
            config_hash(base)
        )
    for model in ({"dtype": "bfloat16"}, {"quantisation": "nf4"}, {"quantisation": "int8"}, {"revision": "a" * 40}):
        assert config_hash(replace(base, model=ModelConfig(**model))) != config_hash(base)
