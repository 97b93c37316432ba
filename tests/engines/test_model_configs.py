"""The model and engine YAMLs: each composes, says which engine it is for, and builds without loading anything."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from fp2.config import choices
from fp2.engines.build import build_engine
from fp2.engines.hf.engine import HfEngine
from fp2.engines.server.engine import OpenAICompatEngine
from fp2.errors import Fp2Error
from fp2.methods.peeps.planted.engine import PlantedEngine
from fp2.tables import Decoding

MODELS = list(choices("model"))
CONDITIONS = {"api", "prompt", "image_backend", "image_size", "yes_no", "adapter", "softmax_dtype"}
KEYS = {"name", "engine", "id", "revision", "dtype", "quantisation", "trust_remote_code"}


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two groups under a primary config of the test's own, `engine` before `model` as the real one has it."""
    folder = tmp_path_factory.mktemp("conf")
    for group in ("model", "engine"):
        (folder / group).mkdir()
        for path in choices(group).values():
            shutil.copy(path, folder / group)
    (folder / "primary.yaml").write_text("defaults:\n  - engine: hf\n  - model: peeps_vlm\n  - _self_\n")
    return folder


def composed(conf: Path, *overrides: str) -> dict[str, Any]:
    with initialize_config_dir(str(conf), version_base="1.3"):
        found = OmegaConf.to_container(compose("primary", overrides=list(overrides)), resolve=True)
    assert isinstance(found, dict)
    return {str(key): value for key, value in found.items()}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_composes_and_builds(conf: Path, name: str) -> None:
    settings = composed(conf, f"model={name}")
    assert set(settings["model"]) - {"truth", "base_url", "api_key_env"} - CONDITIONS == KEYS
    assert settings["model"]["name"] == name
    assert settings["engine"]["name"] == settings["model"]["engine"]
    if settings["model"]["engine"] == "openai_compat":
        with pytest.raises(Fp2Error, match=r"has no (id|base_url)"):
            build_engine(settings["model"], settings["engine"], Decoding())
        settings["model"]["id"] = "some/model"
        settings["model"]["base_url"] = settings["model"]["base_url"] or "https://RESOURCE.openai.azure.com/openai/v1"
    if name == "recorded":
        with pytest.raises(Fp2Error, match="no answers are given"):
            build_engine(settings["model"], settings["engine"], Decoding())
        return
    engine = build_engine(settings["model"], settings["engine"], Decoding())
    kinds = {"planted": PlantedEngine, "openai_compat": OpenAICompatEngine, "hf": HfEngine}
    if settings["model"]["engine"] == "dual":
        assert engine.encoder.spec.id == settings["model"]["id"]
    else:
        assert isinstance(engine, kinds[settings["model"]["engine"]])
    if isinstance(engine, HfEngine):
        assert engine.spec.id == settings["model"]["id"]
        assert engine.spec.dtype == settings["model"]["dtype"]


@pytest.mark.package(name="dual")
def test_the_models_that_were_promised_are_there() -> None:
    promised = {
        "google/paligemma-3b-mix-448",
        "HuggingFaceTB/SmolVLM2-2.2B-Instruct",
        "Qwen/Qwen2.5-VL-3B-Instruct",
        "OpenGVLab/InternVL2-2B",
        "vikhyatk/moondream2",
        "google/paligemma2-3b-mix-224",
        "llava-hf/llava-1.5-7b-hf",
        "Salesforce/blip2-opt-2.7b",
        "openai/clip-vit-large-patch14",
        "google/siglip-base-patch16-224",
        "facebook/regnet-y-320-seer",
        "facebook/regnet-y-10b-seer",
        "google/siglip2-base-patch16-naflex",
        "HuggingFaceTB/SmolVLM-256M-Instruct",
        "Qwen/Qwen2-VL-2B-Instruct",
        "Qwen/Qwen3-VL-2B-Instruct",
        "OpenGVLab/InternVL3-2B-hf",
        "llava-hf/llava-v1.6-mistral-7b-hf",
        "llava-hf/llava-onevision-qwen2-0.5b-ov-hf",
        "google/gemma-3-4b-it",
        "microsoft/Phi-4-multimodal-instruct",
        "pkg://fp2/models/peeps_vlm",
        None,
    }
    files = [OmegaConf.load(path) for path in choices("model").values()]
    ids = {file.id for file in files if "id" in file}
    assert promised <= ids  # the others are of one of these, or larger
    assert len(ids) >= 40


def test_choosing_the_simulator_chooses_its_engine_and_back(conf: Path) -> None:
    assert composed(conf)["engine"]["name"] == "hf"
    planted = composed(conf, "model=planted", "engine.batch_size=7", "+model.truth.seed=5")
    assert (planted["engine"]["name"], planted["engine"]["batch_size"]) == ("planted", 7)
    engine = build_engine(planted["model"], planted["engine"], Decoding())
    assert isinstance(engine, PlantedEngine)
    assert engine.truth.seed == 5


@pytest.mark.package(name="vllm")
def test_a_setting_that_an_engine_cannot_follow_is_refused(conf: Path) -> None:
    from fp2.methods.vllm.engine import VllmEngine

    adapted = composed(conf, "model=phi4_multimodal", "engine=vllm")
    with pytest.raises(Fp2Error, match=r"engine=vllm does not take it \(model.adapter\)"):
        build_engine(adapted["model"], adapted["engine"], Decoding())
    spelled = composed(conf, "model=planted", "+model.yes_no=[' Yes',' No']")
    with pytest.raises(Fp2Error, match=r"engine=planted does not take it \(model.yes_no\)"):
        build_engine(spelled["model"], spelled["engine"], Decoding())
    own = composed(conf, "model=planted", "+model.options.size=3")
    with pytest.raises(Fp2Error, match=r"engine=planted does not take it \(model.options\).*takes it: openai_compat"):
        build_engine(own["model"], own["engine"], Decoding())
    spelled = composed(conf, "model=blip2_opt_2_7b_gras", "engine=vllm", "model.softmax_dtype=null")
    assert isinstance(build_engine(spelled["model"], spelled["engine"], Decoding()), VllmEngine)


def test_an_engine_that_does_not_fit_the_model_is_refused(conf: Path) -> None:
    clash = composed(conf, "model=planted", "engine=hf")
    with pytest.raises(Fp2Error, match="Set engine=planted"):
        build_engine(clash["model"], clash["engine"], Decoding())


def test_unknown_engines_are_answered_with_the_nearest() -> None:
    with pytest.raises(Fp2Error, match="Did you mean 'planted'"):
        build_engine({"name": "m"}, {"name": "plantd"}, Decoding())
    with pytest.raises(Fp2Error, match="has no id"):
        build_engine({"name": "m"}, {"name": "hf"}, Decoding())


@pytest.mark.package(name="vllm")
def test_vllm_takes_the_models_of_the_generic_engine(conf: Path) -> None:
    from fp2.methods.vllm.engine import VllmEngine

    settings = composed(conf, "model=qwen2_5_vl_3b", "engine=vllm", "engine.options={max_model_len: 4096}")
    assert isinstance(build_engine(settings["model"], settings["engine"], Decoding()), VllmEngine)
