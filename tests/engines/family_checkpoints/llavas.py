"""LLaVA-1.5, LLaVA-NeXT (tiles of several shapes) and LLaVA-OneVision (the same before Qwen2)."""

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

SHAPES = [[IMAGE, 2 * IMAGE], [2 * IMAGE, IMAGE], [2 * IMAGE, 2 * IMAGE]]
_CONTENT = (
    "{% for part in message['content'] | selectattr('type', 'equalto', 'image') %}<image>\n{% endfor %}"
    "{% for part in message['content'] | selectattr('type', 'equalto', 'text') %}{{ part['text'] }}{% endfor %}"
)
LLAVA_CHAT = (
    "{% for message in messages %}USER: "
    + _CONTENT
    + " {% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
NEXT_CHAT = "{% for message in messages %}[INST] " + _CONTENT + " [/INST]{% endfor %}"
ONEVISION_CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }} " + _CONTENT + "<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _llama_tokenizer() -> Any:
    return fast_tokenizer(
        ["<unk>", "<s>", "</s>", "<image>", "<pad>"],
        starts_with="<s>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
    )


def save_llava(folder: Path, seed: int = 0) -> Path:
    """LLaVA-1.5: CLIP's last layer but one without its class token, before Llama (Vicuna)."""
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    tokenizer = _llama_tokenizer()
    pictures = CLIPImageProcessorPil(size={"shortest_edge": IMAGE}, crop_size={"height": IMAGE, "width": IMAGE})
    save_processing(folder, tokenizer, pictures, "LlavaProcessor", chat=LLAVA_CHAT, **_seen("default", 1))
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**VISION, image_size=IMAGE, patch_size=PATCH),
        text_config=LlamaConfig(**SIZE, vocab_size=len(tokenizer), **ends_of(tokenizer)),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        **ends_of(tokenizer),
    )
    return save_model(folder, "LlavaForConditionalGeneration", config, tokenizer, seed)


def save_llava_next(folder: Path, seed: int = 0) -> Path:
    """LLaVA-NeXT (v1.6): the whole image and its tiles, before Mistral; the number of tokens follows the shape."""
    from transformers import CLIPVisionConfig, LlavaNextConfig, MistralConfig
    from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

    tokenizer = _llama_tokenizer()
    pictures = LlavaNextImageProcessorPil(
        size={"shortest_edge": IMAGE}, crop_size={"height": IMAGE, "width": IMAGE}, image_grid_pinpoints=SHAPES
    )
    save_processing(folder, tokenizer, pictures, "LlavaNextProcessor", chat=NEXT_CHAT, **_seen("default", 1))
    config = LlavaNextConfig(
        vision_config=CLIPVisionConfig(**VISION, image_size=IMAGE, patch_size=PATCH),
        text_config=MistralConfig(
            **SIZE, num_key_value_heads=2, sliding_window=None, vocab_size=len(tokenizer), **ends_of(tokenizer)
        ),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=SHAPES,
        **ends_of(tokenizer),
    )
    return save_model(folder, "LlavaNextForConditionalGeneration", config, tokenizer, seed)


def save_llava_onevision(folder: Path, seed: int = 0) -> Path:
    """LLaVA-OneVision: SigLIP tiles before Qwen2; its processor can also read videos."""
    from transformers import LlavaOnevisionConfig, Qwen2Config, SiglipVisionConfig
    from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil

    tokenizer = fast_tokenizer(
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>", "<video>"],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
    )
    pictures = LlavaOnevisionImageProcessorPil(size={"height": IMAGE, "width": IMAGE}, image_grid_pinpoints=SHAPES)
    save_processing(
        folder,
        tokenizer,
        pictures,
        "LlavaOnevisionProcessor",
        chat=ONEVISION_CHAT,
        num_image_tokens=(IMAGE // PATCH) ** 2,
        vision_feature_select_strategy="full",
        vision_aspect_ratio="anyres_max_9",
    )
    config = LlavaOnevisionConfig(
        vision_config=SiglipVisionConfig(**VISION, image_size=IMAGE, patch_size=PATCH, vision_use_head=False),
        text_config=Qwen2Config(**SIZE, num_key_value_heads=2, vocab_size=len(tokenizer), **ends_of(tokenizer)),
        image_grid_pinpoints=SHAPES,
        **token_ids(tokenizer, image_token_index="<image>", video_token_index="<video>"),
        **ends_of(tokenizer),
    )
    return save_model(folder, "LlavaOnevisionForConditionalGeneration", config, tokenizer, seed)


def _seen(strategy: str, additional: int) -> dict[str, Any]:
    """Return what a processor has to know of the vision side, to count its tokens."""
    return {
        "patch_size": PATCH,
        "vision_feature_select_strategy": strategy,
        "num_additional_image_tokens": additional,
        "image_token": "<image>",
    }
