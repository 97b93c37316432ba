"""PaliGemma (prefix-LM), PaliGemma 2 (the same around Gemma 2) and Gemma 3 (sliding windows, two-way images)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from family_checkpoints.parts import IMAGE, PATCH, SIZE, VISION, ends_of, fast_tokenizer, save_model, save_processing

SEEN = (IMAGE // PATCH) ** 2
LOCATIONS = 1024 + 128  # the tokens that PaliGemma's processor adds for places and outlines
GEMMA3_CHAT = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] | trim }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<start_of_image>{% else %}{{ part['text'] | trim }}{% endif %}{% endfor %}"
    "{% endif %}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


def save_paligemma(folder: Path, seed: int = 0) -> Path:
    """PaliGemma: SigLIP and Gemma, no chat template; image and prompt attend to each other both ways."""
    from transformers import GemmaConfig

    return _save_paligemma(folder, seed, GemmaConfig, num_key_value_heads=1)


def save_paligemma2(folder: Path, seed: int = 0) -> Path:
    """PaliGemma 2: SigLIP and Gemma 2, whose every other layer has a sliding window and whose logits are capped."""
    from transformers import Gemma2Config

    return _save_paligemma(folder, seed, Gemma2Config, num_key_value_heads=2, query_pre_attn_scalar=16)


def _save_paligemma(folder: Path, seed: int, text_class: Any, **text: Any) -> Path:
    from transformers import PaliGemmaConfig, SiglipVisionConfig
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    tokenizer = fast_tokenizer(
        ["<pad>", "<eos>", "<bos>", "<unk>", "<image>"],
        starts_with="<bos>",
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        extra_special_tokens={"image_token": "<image>"},
    )
    vocabulary = len(tokenizer) + LOCATIONS
    pictures = SiglipImageProcessorPil(size={"height": IMAGE, "width": IMAGE}, image_seq_length=SEEN)
    save_processing(folder, tokenizer, pictures, "PaliGemmaProcessor")
    config = PaliGemmaConfig(
        vision_config=SiglipVisionConfig(
            **VISION, image_size=IMAGE, patch_size=PATCH, vision_use_head=False, projection_dim=SIZE["hidden_size"]
        ),
        text_config=text_class(**SIZE, **text, vocab_size=vocabulary, head_dim=16, **ends_of(tokenizer)),
        projection_dim=SIZE["hidden_size"],
        hidden_size=SIZE["hidden_size"],
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        **ends_of(tokenizer),
    )
    return save_model(folder, "PaliGemmaForConditionalGeneration", config, tokenizer, seed)


def save_gemma3(folder: Path, seed: int = 0) -> Path:
    """Gemma 3: the tokens of an image attend to each other both ways, everything else is causal."""
    from transformers import Gemma3Config, Gemma3TextConfig, SiglipVisionConfig
    from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

    picture_tokens = {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
    }
    tokenizer = fast_tokenizer(
        ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>", *picture_tokens.values()],
        starts_with="<bos>",
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        extra_special_tokens=picture_tokens,
    )
    pictures = Gemma3ImageProcessorPil(size={"height": IMAGE, "width": IMAGE})
    save_processing(folder, tokenizer, pictures, "Gemma3Processor", chat=GEMMA3_CHAT, image_seq_length=4)
    config = Gemma3Config(
        vision_config=SiglipVisionConfig(**VISION, image_size=IMAGE, patch_size=PATCH, vision_use_head=False),
        text_config=Gemma3TextConfig(
            **SIZE,
            vocab_size=len(tokenizer),
            num_key_value_heads=2,
            head_dim=16,
            query_pre_attn_scalar=16,
            sliding_window=512,
            layer_types=["sliding_attention", "full_attention"],
            **ends_of(tokenizer),
        ),
        mm_tokens_per_image=4,
        boi_token_index=tokenizer.convert_tokens_to_ids("<start_of_image>"),
        eoi_token_index=tokenizer.convert_tokens_to_ids("<end_of_image>"),
        image_token_index=tokenizer.convert_tokens_to_ids("<image_soft_token>"),
        **ends_of(tokenizer),
    )
    return save_model(folder, "Gemma3ForConditionalGeneration", config, tokenizer, seed, also_ends="<end_of_turn>")
