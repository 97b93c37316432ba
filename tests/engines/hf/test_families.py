"""A tiny checkpoint of every family, from disk through the auto classes to answers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from family_checkpoints import FAMILIES, save
from PIL import Image

from fp2.engines.checkpoint import resolve_checkpoint
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.families import facts_for
from fp2.engines.hf.loading import load
from fp2.engines.hf.model import HfSpec, LoadedModel
from fp2.engines.hf.prompts import PromptFormat
from fp2.tables import Answer, Decoding, ImageTask

pytestmark = pytest.mark.long

DECODING = Decoding(max_new_tokens=4)
KIND, WORK = "Is this person kind?", "What do you think this person does for work?"
SYSTEM = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
PROMPTS = {  # as each family was trained to be asked: with an image, and without one
    "paligemma": ("<image>answer en {}", "answer en {}"),
    "paligemma2": ("<image>answer en {}", "answer en {}"),
    "gemma3": (
        "<bos><start_of_turn>user\n<start_of_image>{}<end_of_turn>\n<start_of_turn>model\n",
        "<bos><start_of_turn>user\n{}<end_of_turn>\n<start_of_turn>model\n",
    ),
    "idefics3": (
        "<|im_start|>User:<image>{}<end_of_utterance>\nAssistant:",
        "<|im_start|>User: {}<end_of_utterance>\nAssistant:",
    ),
    "qwen2_vl": (
        SYSTEM + "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>{}<|im_end|>\n<|im_start|>assistant\n",
        SYSTEM + "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
    ),
    "qwen3_vl": (
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>{}<|im_end|>\n<|im_start|>assistant\n",
        "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
    ),
    "internvl": (
        "<|im_start|>user\n<IMG_CONTEXT>\n{}<|im_end|>\n<|im_start|>assistant\n",
        "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
    ),
    "llava": ("USER: <image>\n{} ASSISTANT:", "USER: {} ASSISTANT:"),
    "llava_next": ("[INST] <image>\n{} [/INST]", "[INST] {} [/INST]"),
    "llava_onevision": (
        "<|im_start|>user <image>\n{}<|im_end|><|im_start|>assistant\n",
        "<|im_start|>user {}<|im_end|><|im_start|>assistant\n",
    ),
    "blip2_opt": ("Question: {} Answer:", "Question: {} Answer:"),  # its processor puts the image before it
    "blip2_t5": ("Question: {} Answer:", "Question: {} Answer:"),
}
PROMPTS |= {"smolvlm": PROMPTS["idefics3"], "qwen2_5_vl": PROMPTS["qwen2_vl"]}
every_family = pytest.mark.parametrize("family", FAMILIES, scope="module")  # one after the other: each is loaded once
READS_FILMS = {"smolvlm", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "internvl", "llava_onevision"}


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {family: save(family, root / f"net{number}") for number, family in enumerate(FAMILIES)}


def picture(seed: int, size: tuple[int, int] = (60, 44)) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8))


def loaded_from(folder: Path) -> tuple[LoadedModel, PromptFormat]:
    checkpoint = resolve_checkpoint(str(folder))
    loaded = load(checkpoint, HfSpec(str(folder)), "cpu")
    return loaded, PromptFormat(checkpoint, loaded.facts).with_processor(loaded.processor)


def encode(loaded: LoadedModel, form: PromptFormat, prompt: str, shown: Image.Image | None) -> dict[str, Any]:
    pictures = {} if shown is None else {"images": [[shown]]}
    start = {} if form.adds_start_token(prompt) else {"add_special_tokens": False}
    return dict(loaded.processor(text=[prompt], return_tensors="pt", **pictures, **start))


@every_family
def test_prompts_are_those_that_the_family_was_trained_on(folders: dict[str, Path], family: str) -> None:
    _, form = loaded_from(folders[family])
    seeing, blind = (prompt.format(KIND) for prompt in PROMPTS[family])
    assert form.text(KIND) == seeing
    assert form.text(KIND, images=0) == blind
    assert form.text("Odd {image} <braces>?").count("Odd {image} <braces>?") == 1


@every_family
def test_one_start_token_and_complete_images(folders: dict[str, Path], family: str) -> None:
    loaded, form = loaded_from(folders[family])
    ids = encode(loaded, form, form.text(KIND), picture(0))["input_ids"][0].tolist()
    tokenizer = loaded.processor.tokenizer
    if tokenizer.bos_token is not None:
        assert ids.count(tokenizer.bos_token_id) == 1
    words = tokenizer.decode(ids)
    assert KIND in words
    if "paligemma" in family:
        assert words.endswith(f"<bos>answer en {KIND}\n")


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - READS_FILMS))
def test_a_processor_put_together_is_the_real_one(folders: dict[str, Path], family: str) -> None:
    from transformers import AutoImageProcessor, AutoProcessor

    loaded, form = loaded_from(folders[family])
    real: Any = AutoProcessor.from_pretrained(folders[family])
    real.image_processor = AutoImageProcessor.from_pretrained(folders[family], backend="pil")
    assert type(real).__name__ == type(loaded.processor).__name__
    if form.form == "chat":
        parts = [{"type": "image"}, {"type": "text", "text": KIND}]
        chat = [{"role": "user", "content": parts}]
        assert real.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) == form.text(KIND)
    start = {} if form.adds_start_token(form.text(KIND)) else {"add_special_tokens": False}
    wanted = dict(real(text=[form.text(KIND)], images=[[picture(0)]], return_tensors="pt", **start))
    same(encode(loaded, form, form.text(KIND), picture(0)), wanted)


def same(ours: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert set(ours) == set(wanted)
    for name, value in wanted.items():
        assert torch.equal(torch.as_tensor(ours[name]), torch.as_tensor(value)), name


@pytest.mark.parametrize("family", sorted(READS_FILMS))
def test_without_a_video_processor_pixels_and_image_tokens_are_right(folders: dict[str, Path], family: str) -> None:
    """Pixels from the bare PIL class; as many image tokens as the vision side of the model gives features."""
    from transformers import AutoImageProcessor

    loaded, form = loaded_from(folders[family])
    bare: Any = AutoImageProcessor.from_pretrained(folders[family], backend="pil")
    options = {"return_row_col_info": True} if family == "smolvlm" else {}
    wanted = bare([[picture(0)]], return_tensors="pt", **options)
    ours = encode(loaded, form, form.text(KIND), picture(0))
    assert torch.equal(ours["pixel_values"], wanted["pixel_values"])
    extra = {name: ours[name] for name in ("image_grid_thw", "image_sizes", "pixel_attention_mask") if name in ours}
    with torch.no_grad():
        features = loaded.model.get_image_features(pixel_values=ours["pixel_values"], **extra).pooler_output
    parts = list(features) if isinstance(features, (list, tuple)) else [features]
    config = loaded.model.config.to_dict()
    token = config.get("image_token_id", config.get("image_token_index"))
    assert int((ours["input_ids"] == token).sum()) == sum(part.numel() // part.shape[-1] for part in parts)


def test_smolvlm_2_expands_images_as_smolvlm_does(folders: dict[str, Path]) -> None:
    both = [loaded_from(folders[family]) for family in ("smolvlm", "idefics3")]
    encoded = [encode(loaded, form, form.text(KIND), picture(0, (80, 30))) for loaded, form in both]
    same(encoded[0], encoded[1])


@every_family
def test_remembering_an_image_changes_nothing(folders: dict[str, Path], family: str) -> None:
    loaded, form = loaded_from(folders[family])
    shown = [picture(0), picture(1, (30, 70)), picture(0)]

    def together(which: Sequence[Image.Image]) -> dict[str, Any]:
        prompts = [form.text(KIND)] * len(which)
        return dict(loaded.processor(text=prompts, images=[[one] for one in which], padding=True, return_tensors="pt"))

    with_memory = [together(shown), together(shown[:2]), together(shown)]
    memo = loaded.processor.image_processor
    loaded.processor.image_processor = memo._inner
    try:
        without = [together(shown), together(shown[:2]), together(shown)]
    finally:
        loaded.processor.image_processor = memo
        memo.forget()
    for ours, wanted in zip(with_memory, without, strict=True):
        same(ours, wanted)


def test_a_family_is_recognised_by_the_config_never_by_the_name(folders: dict[str, Path], tmp_path: Path) -> None:
    misnamed = Path(shutil.copytree(folders["paligemma2"], tmp_path / "Qwen2.5-VL-3B-Instruct"))
    config = json.loads((misnamed / "config.json").read_text())
    assert facts_for(config).sharing == "vision"
    assert resolve_checkpoint(str(misnamed)).model_type == "paligemma"
    config["model_type"] = "qwen2_5_vl"
    config["text_config"].pop("use_bidirectional_attention", None)
    assert facts_for(config).sharing == "tree"
    assert facts_for({"model_type": "of tomorrow"}).sharing == "auto"


def test_bidirectional_text_never_shares_more_than_image_features() -> None:
    assert facts_for({"model_type": "of tomorrow", "is_encoder_decoder": True}).sharing == "vision"
    assert facts_for({"model_type": "llava", "text_config": {"use_bidirectional_attention": True}}).sharing == "vision"
    assert facts_for({"model_type": "blip-2", "text_config": {"model_type": "t5"}}).sharing == "vision"
    assert facts_for({"model_type": "instructblip", "text_config": {"model_type": "t5"}}).sharing == "none"


def test_the_image_backend_is_part_of_the_identity(folders: dict[str, Path]) -> None:
    def identity(**options: Any) -> dict[str, Any]:
        return HfEngine(HfSpec(str(folders["llava"]), **options), DECODING).identity()

    assert identity()["processor"]["backend"] == "pil"
    assert identity() != identity(image_backend="torchvision")


def test_answers_follow_the_prompt_format(folders: dict[str, Path], tasks: list[ImageTask]) -> None:
    def asked(**options: Any) -> tuple[dict[str, Any], list[str | None]]:
        engine = HfEngine(HfSpec(str(folders["llava"]), **options), DECODING, HfOptions(threads=1))
        return engine.method(tasks[0].questions[0]), words(engine.answer(tasks[:1]))

    def words(batches: Iterable[Sequence[Answer]]) -> list[str | None]:
        return [answer.text for batch in batches for answer in sorted(batch, key=lambda answer: answer.question_id)]

    own = "{image}{question} I say:"
    found = [asked(), asked(chat=False), asked(prompt=own)]
    assert len({json.dumps(method, sort_keys=True) for method, _ in found}) == 3
    assert found[0][1] == found[1][1] != found[2][1]  # this chat template writes what the plain format says
