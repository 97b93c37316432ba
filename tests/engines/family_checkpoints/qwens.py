"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL (three position axes), and InternVL, which shares their text side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from family_checkpoints.parts import (
    IMAGE,
    PATCH,
    SIZE,
    VISION,
    ends_of,
    fast_tokenizer,
    save_model,
    save_processing,
    token_ids,
)

TURNS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SEEING = ["<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"]
AXES = {"rope_type": "default", "rope_theta": 1_000_000.0, "mrope_section": [2, 3, 3]}  # of 8 = half of 16 a head
_TURN = (
    "<|im_start|>{{ message['role'] }}\n{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}IMAGE"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
)
_END = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
_SYSTEM = (
    "{% if loop.first and message['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "{% endif %}"
)


def _chat(image: str, system: str = "") -> str:
    turn = _TURN.replace("IMAGE", image)
    return "{% for message in messages %}" + system + turn + "{% endfor %}" + _END


def save_qwen2_vl(folder: Path, seed: int = 0) -> Path:
    """Qwen2-VL: native resolution, 16 px a token."""
    from transformers import Qwen2VLConfig

    vision = {"depth": 2, "embed_dim": 32, "hidden_size": SIZE["hidden_size"], "num_heads": 4, "mlp_ratio": 2}
    return _save(folder, seed, "Qwen2VL", Qwen2VLConfig, vision, _SYSTEM)


def save_qwen2_5_vl(folder: Path, seed: int = 0) -> Path:
    """Qwen2.5-VL: window attention over patches in the first vision block, full attention in the second."""
    from transformers import Qwen2_5_VLConfig

    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 4,
        "out_hidden_size": SIZE["hidden_size"],
        "window_size": 2 * 2 * PATCH,
        "fullatt_block_indexes": [1],
    }
    return _save(folder, seed, "Qwen2_5_VL", Qwen2_5_VLConfig, vision, _SYSTEM)


def save_qwen3_vl(folder: Path, seed: int = 0) -> Path:
    """Qwen3-VL: interleaved axes, and vision features that are added in the first text layers too (DeepStack)."""
    from transformers import Qwen3VLConfig

    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 4,
        "out_hidden_size": SIZE["hidden_size"],
        "num_position_embeddings": 16,
        "deepstack_visual_indexes": [0],
    }
    text = {"head_dim": 16, "rope_parameters": {**AXES, "mrope_interleaved": True}}
    return _save(folder, seed, "Qwen3VL", Qwen3VLConfig, vision, "", **text)


def _save(
    folder: Path, seed: int, name: str, config_class: Any, vision: dict[str, Any], system: str, **text: Any
) -> Path:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    tokenizer = fast_tokenizer([*TURNS, *SEEING], eos_token="<|im_end|>", pad_token="<|endoftext|>")
    pictures = Qwen2VLImageProcessorPil(
        patch_size=PATCH, merge_size=2, size={"shortest_edge": 4 * 256, "longest_edge": 16 * 256}
    )
    chat = _chat("<|vision_start|><|image_pad|><|vision_end|>", system)
    save_processing(folder, tokenizer, pictures, f"{name}Processor", chat=chat)
    config = config_class(
        vision_config={**vision, "patch_size": PATCH},
        text_config={
            **SIZE,
            "num_key_value_heads": 2,
            "vocab_size": len(tokenizer),
            "rope_parameters": AXES,
            **ends_of(tokenizer),
            **text,
        },
        **token_ids(
            tokenizer,
            image_token_id="<|image_pad|>",
            video_token_id="<|video_pad|>",
            vision_start_token_id="<|vision_start|>",
            vision_end_token_id="<|vision_end|>",
        ),
        **ends_of(tokenizer),
    )
    return save_model(folder, f"{name}ForConditionalGeneration", config, tokenizer, seed, also_ends="<|endoftext|>")


def save_internvl(folder: Path, seed: int = 0) -> Path:
    """InternVL in its native form (`-hf` checkpoints): tiles of 32 px, 4 tokens each, before Qwen2."""
    from transformers import InternVLConfig, InternVLVisionConfig, Qwen2Config
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil

    marks = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    tokenizer = fast_tokenizer(
        [*TURNS, *marks.values()], eos_token="<|im_end|>", pad_token="<|endoftext|>", extra_special_tokens=marks
    )
    pictures = GotOcr2ImageProcessorPil(
        size={"height": IMAGE, "width": IMAGE}, crop_to_patches=True, min_patches=1, max_patches=4
    )
    chat = _chat("<IMG_CONTEXT>\n")
    save_processing(folder, tokenizer, pictures, "InternVLProcessor", chat=chat, image_seq_length=4)
    config = InternVLConfig(
        vision_config=InternVLVisionConfig(**VISION, image_size=[IMAGE, IMAGE], patch_size=[PATCH, PATCH]),
        text_config=Qwen2Config(**SIZE, num_key_value_heads=2, vocab_size=len(tokenizer), **ends_of(tokenizer)),
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
        tie_word_embeddings=False,
        **ends_of(tokenizer),
    )
    return save_model(folder, "InternVLForConditionalGeneration", config, tokenizer, seed, also_ends="<|endoftext|>")
