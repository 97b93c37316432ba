"""Checkpoints that cannot answer: one clear line each, before anything is asked."""

from __future__ import annotations

import dataclasses
import importlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from family_checkpoints import save

from fp2.engines.checkpoint import resolve_checkpoint
from fp2.engines.hf.loading import check_pinned, load, model_class
from fp2.engines.hf.model import HfSpec
from fp2.errors import Fp2Error


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("qwen2_vl", tmp_path_factory.mktemp("bad"))


@pytest.fixture
def folder(qwen: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(qwen, tmp_path / "net"))


def loading(folder: Path, **options: Any) -> Any:
    spec = HfSpec(str(folder), **options)
    return load(resolve_checkpoint(str(folder)), spec, "cpu")


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def llama(folder: Path) -> None:
    from transformers import LlamaConfig

    LlamaConfig(num_hidden_layers=1, architectures=["LlamaForCausalLM"]).save_pretrained(folder)


def clip(folder: Path) -> None:
    from transformers import CLIPConfig

    CLIPConfig(architectures=["CLIPModel"]).save_pretrained(folder)


def cut_short(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-500])


def no_words(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):  # transformers would make up an empty one
        (folder / name).unlink()


def torchvision_only(folder: Path) -> None:
    edit(folder / "preprocessor_config.json", image_processor_type="Lfm2VlImageProcessorFast")


def own_code(folder: Path) -> None:
    edit(folder / "config.json", model_type="ours", auto_map={"AutoConfig": "ours.Config", "AutoModel": "ours.Model"})


def of_tomorrow(folder: Path) -> None:
    edit(folder / "config.json", model_type="qwen9_vl")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (llama, "type llama does not take images and generate text"),
        (clip, "type clip does not take images and generate text"),
        (cut_short, "truncated or damaged"),
        (no_words, "has no tokenizer"),
        (torchvision_only, "PIL version|needs torchvision"),
        pytest.param(
            own_code, "code of its own.*model.trust_remote_code=true", marks=pytest.mark.package(name="custom_code")
        ),
        (of_tomorrow, "does not know its architecture"),
    ],
)
def test_one_clear_line(folder: Path, spoil: Callable[[Path], None], says: str) -> None:
    spoil(folder)
    with pytest.raises(Fp2Error, match=says) as told:
        loading(folder)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 500


def test_a_model_that_only_its_own_class_serves_is_loaded_by_it(qwen: Path) -> None:
    """Types that the auto class does not list, but whose class looks at images and writes."""
    checkpoint = resolve_checkpoint(str(qwen))
    named = {"model_type": "bert", "architectures": ["BertModel", "Qwen2VLForConditionalGeneration"]}
    assert model_class(dataclasses.replace(checkpoint, config=named)) == "Qwen2VLForConditionalGeneration"
    assert model_class(checkpoint) == "AutoModelForImageTextToText"


def test_torchvision_that_is_asked_for_and_absent(folder: Path) -> None:
    if importlib.import_module("transformers.utils").is_torchvision_available():
        pytest.skip("torchvision is installed here, so it is not absent")
    with pytest.raises(Fp2Error, match="torchvision is not installed"):
        loading(folder, image_backend="torchvision")


def test_a_torchvision_that_does_not_fit_torch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **options: Any) -> Any:
        raise ModuleNotFoundError("Could not import module 'X'") from RuntimeError(
            "operator torchvision::nms does not exist"
        )

    monkeypatch.setattr("transformers.AutoImageProcessor.from_pretrained", broken)
    with pytest.raises(Fp2Error, match="pip uninstall torchvision"):
        loading(folder)


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("revision", "asked", "names", "says"),
    [
        (COMMIT, None, "ours.Model", f"model.revision={COMMIT}"),
        (COMMIT, "main", "ours.Model", "'main'"),
        (COMMIT, COMMIT[:7], "ours.Model", "pin it"),
        (COMMIT, COMMIT, "somebody/else--ours.Model", "somebody/else"),
        (None, None, "somebody/else--ours.Model", "somebody/else"),
        (COMMIT, COMMIT, "ours.Model", None),
        (None, None, "ours.Model", None),  # a folder is pinned by its digests
    ],
)
def test_code_of_its_own_runs_only_where_it_is_pinned(
    folder: Path, revision: str | None, asked: str | None, names: str, says: str | None
) -> None:
    edit(folder / "config.json", auto_map={"AutoModel": names})
    edit(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["ours.Tokenizer", None]})
    checkpoint = dataclasses.replace(resolve_checkpoint(str(folder)), revision=revision)
    assert checkpoint.code == {"AutoModel": names, "AutoTokenizer": "ours.Tokenizer"}
    check_pinned(checkpoint, HfSpec("ours/net", revision=asked))  # it is not allowed to run at all
    trusting = HfSpec("ours/net", revision=asked, trust_remote_code=True)
    if says is None:
        check_pinned(checkpoint, trusting)
        return
    with pytest.raises(Fp2Error, match=says):
        check_pinned(checkpoint, trusting)


def test_a_hub_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(Fp2Error, match="HF_HUB_OFFLINE") as told:
        resolve_checkpoint("nobody/nothing-at-all")
    assert "local folder" in str(told.value)


class Hostile:
    """Runs code where it is unpickled."""

    def __init__(self, ran: Path) -> None:
        self.ran = ran

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.ran,)


def test_pickled_weights_are_read_only_where_they_are_permitted_and_as_tensors(folder: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    safe = {name: tensor.clone() for name, tensor in loading(folder).model.state_dict().items()}
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    assert loading(folder).model.training is False, "beside safetensors they are passed over"
    (folder / "model.safetensors").unlink()
    with pytest.raises(Fp2Error, match=r"no weights as safetensors.*model\.pickled_weights=true") as told:
        loading(folder)
    assert "\n" not in str(told.value)
    pickled = loading(folder, pickled_weights=True).model.state_dict()
    assert all(torch.equal(pickled[name], tensor) for name, tensor in safe.items())
    torch.save({"weight": Hostile(tmp_path / "ran")}, folder / "pytorch_model.bin")
    with pytest.raises(Fp2Error):
        loading(folder, pickled_weights=True)
    assert not (tmp_path / "ran").exists()
