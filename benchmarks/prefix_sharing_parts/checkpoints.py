"""Checkpoint folders with random weights and the dimensions of two real families, as the hub would hold them.

`qwen_like` is Qwen2.5-VL's architecture (dynamic resolution, window attention, three-axis rotary positions) at about
300 million parameters. `smolvlm_like` has the dimensions of SmolVLM-256M: a SigLIP base tower at 512 pixels, pixel
shuffle by 4, five tiles of 64 tokens for our images, and the SmolLM2-135M decoder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefix_sharing_parts.vocabulary import train_tokenizer

QWEN_SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
SMOLVLM_SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<end_of_utterance>", "<image>", "<fake_token_around_image>",
    "<global-img>", *(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)),
)  # fmt: skip
QWEN_CHAT = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SMOLVLM_CHAT = (
    "<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}:"
    "{% if message['content'] is string %} {{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)


@dataclass(frozen=True)
class QwenSize:
    """Dimensions of a Qwen2.5-VL; the defaults are the benchmark's."""

    hidden: int = 1024
    layers: int = 9
    heads: int = 8
    kv_heads: int = 2
    intermediate: int = 5504
    vocabulary: int = 65536
    rope_sections: tuple[int, int, int] = (16, 24, 24)
    vision_hidden: int = 640
    vision_layers: int = 12
    vision_heads: int = 8
    vision_intermediate: int = 1712
    full_attention: tuple[int, ...] = (2, 5, 8, 11)
    gain: float = 2.0


@dataclass(frozen=True)
class SmolVlmSize:
    """Dimensions of an Idefics3 (SmolVLM); the defaults are SmolVLM-256M's, shown 1,024 pixels (five tiles)."""

    hidden: int = 576
    layers: int = 30
    heads: int = 9
    kv_heads: int = 3
    intermediate: int = 1536
    vocabulary: int = 49280
    vision_hidden: int = 768
    vision_layers: int = 12
    vision_heads: int = 12
    vision_intermediate: int = 3072
    tile: int = 512
    patch: int = 16
    shuffle: int = 4
    tiles: int = 2
    """Most tiles along the longer edge of an image."""
    gain: float = 2.0


TINY_QWEN = QwenSize(64, 2, 4, 2, 96, 1400, (2, 3, 3), 64, 2, 2, 96, (1,), 4.0)
TINY_SMOLVLM = SmolVlmSize(64, 2, 4, 2, 96, 1400, 64, 2, 2, 96, 64, 16, 2, 2, 4.0)
QWEN_3B = QwenSize(2048, 36, 16, 2, 11008, 151936, (16, 24, 24), 1280, 32, 16, 3420, (7, 15, 23, 31), 1.0)
SMOLVLM_2B = SmolVlmSize(2048, 24, 32, 32, 8192, 49280, 1152, 27, 16, 4304, 384, 14, 3, 4, 1.0)


def save(
    folder: Path,
    texts: Sequence[str],
    size: QwenSize | SmolVlmSize,
    seed: int = 0,
    device: str = "cpu",
    dtype: str = "float32",
) -> Path:
    """Write a checkpoint of `size` to `folder` and return it; `texts` are the words that its tokenizer knows.

    The weights are drawn on `device`, and written as `dtype`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(size, QwenSize):
        tokenizer = _qwen_processor(folder, texts, size)
        config = qwen_config(tokenizer, size)
    else:
        tokenizer = _smolvlm_processor(folder, texts, size)
        config = smolvlm_config(tokenizer, size)
    _save_model(folder, config, tokenizer, size.gain, seed, device, dtype)
    return folder


def _qwen_processor(folder: Path, texts: Sequence[str], size: QwenSize) -> Any:
    """Write tokenizer, chat template and the settings of the processors, laid out as on the hub; return the tokenizer.

    The video processor's settings are among them: transformers wants to see them wherever torchvision is installed.
    """
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    tokenizer = train_tokenizer(texts, QWEN_SPECIAL, size.vocabulary, "<|im_end|>", "<|endoftext|>")
    tokenizer.chat_template = QWEN_CHAT
    tokenizer.save_pretrained(folder)
    Qwen2VLImageProcessorPil().save_pretrained(folder)
    named = {"processor_class": "Qwen2_5_VLProcessor"}
    _amend(folder / "preprocessor_config.json", {**named, "image_processor_type": "Qwen2VLImageProcessor"})
    _amend(folder / "video_preprocessor_config.json", {**named, "video_processor_type": "Qwen2VLVideoProcessor"})
    return tokenizer


def _smolvlm_processor(folder: Path, texts: Sequence[str], size: SmolVlmSize) -> Any:
    """Write the processor; return its tokenizer."""
    from transformers import Idefics3Processor
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    tokenizer = train_tokenizer(texts, SMOLVLM_SPECIAL, size.vocabulary, "<end_of_utterance>", "<|im_end|>")
    pictures = Idefics3ImageProcessorPil(
        size={"longest_edge": size.tiles * size.tile},
        max_image_size={"longest_edge": size.tile},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    tokens = (size.tile // size.patch // size.shuffle) ** 2
    Idefics3Processor(pictures, tokenizer, image_seq_len=tokens, chat_template=SMOLVLM_CHAT).save_pretrained(folder)
    return tokenizer


def qwen_config(tokenizer: Any, size: QwenSize) -> Any:
    """Return the model's config; embeddings and output layer are tied, as in the 3B model."""
    from transformers import Qwen2_5_VLConfig

    token = tokenizer.convert_tokens_to_ids
    return Qwen2_5_VLConfig(
        architectures=["Qwen2_5_VLForConditionalGeneration"],
        text_config={
            "model_type": "qwen2_5_vl_text",
            "vocab_size": size.vocabulary,
            "hidden_size": size.hidden,
            "intermediate_size": size.intermediate,
            "num_hidden_layers": size.layers,
            "num_attention_heads": size.heads,
            "num_key_value_heads": size.kv_heads,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e6,
                "mrope_section": list(size.rope_sections),
            },
            **_special_ids(tokenizer),
        },
        vision_config={
            "depth": size.vision_layers,
            "hidden_size": size.vision_hidden,
            "intermediate_size": size.vision_intermediate,
            "num_heads": size.vision_heads,
            "out_hidden_size": size.hidden,
            "fullatt_block_indexes": list(size.full_attention),
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
    )


def smolvlm_config(tokenizer: Any, size: SmolVlmSize) -> Any:
    """Return the model's config."""
    from transformers import Idefics3Config

    return Idefics3Config(
        architectures=["Idefics3ForConditionalGeneration"],
        text_config={
            "model_type": "llama",
            "vocab_size": size.vocabulary,
            "hidden_size": size.hidden,
            "intermediate_size": size.intermediate,
            "num_hidden_layers": size.layers,
            "num_attention_heads": size.heads,
            "num_key_value_heads": size.kv_heads,
            "rms_norm_eps": 1e-5,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e5},
            "max_position_embeddings": 8192,
            **_special_ids(tokenizer),
        },
        vision_config={
            "hidden_size": size.vision_hidden,
            "intermediate_size": size.vision_intermediate,
            "num_hidden_layers": size.vision_layers,
            "num_attention_heads": size.vision_heads,
            "image_size": size.tile,
            "patch_size": size.patch,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=size.shuffle,
        tie_word_embeddings=False,
    )


def _special_ids(tokenizer: Any) -> dict[str, int]:
    start = tokenizer.convert_tokens_to_ids("<|im_start|>")
    return {"bos_token_id": start, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}


def _save_model(
    folder: Path, config: Any, tokenizer: Any, gain: float, seed: int, device: str = "cpu", dtype: str = "float32"
) -> None:
    """Draw the weights and write them. Matrices are multiplied by `gain`, so that image and question are heard."""
    import torch
    from transformers import AutoModelForImageTextToText

    torch.manual_seed(seed)
    with torch.device(device):
        model = AutoModelForImageTextToText.from_config(config, dtype=getattr(torch, dtype))
    scale_weights(model, gain)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)


def scale_weights(model: Any, gain: float) -> None:
    """Multiply every matrix between the embeddings and the output layer by `gain`."""
    import torch

    kept = {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1 and id(parameter) not in kept:
                parameter.mul_(gain)


def _amend(path: Path, values: dict[str, Any]) -> None:
    """Set `values` in the JSON object at `path`, which may be new."""
    held = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps({**held, **values}, indent=2) + "\n", encoding="utf-8")


SIZES = {"qwen_like": QwenSize(), "smolvlm_like": SmolVlmSize()}
TINY = {"qwen_like": TINY_QWEN, "smolvlm_like": TINY_SMOLVLM}
