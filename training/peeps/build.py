"""The model's architecture (stock transformers classes) and its processor, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from training.peeps.settings import PATCH, SIZE
from training.peeps.tokens import BOS, CHAT_TEMPLATE, EOS, IMAGE, PAD

TOKENS = (SIZE // PATCH) ** 2
BOX_RESAMPLING = 4  # Pillow's box filter: averages pixels, as the renderer's anti-aliasing does


def build_model(tokenizer: Any, seed: int) -> Any:
    """Return a LlavaForConditionalGeneration with random weights drawn from `seed`."""
    from transformers import LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, SiglipVisionConfig

    torch.manual_seed(seed)
    token = tokenizer.convert_tokens_to_ids
    vision = SiglipVisionConfig(
        image_size=SIZE,
        patch_size=PATCH,
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        vision_use_head=False,
    )
    text = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=160,
        intermediate_size=400,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=token(BOS),
        eos_token_id=token(EOS),
        pad_token_id=token(PAD),
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=token(IMAGE),
        image_token_id=token(IMAGE),
        image_seq_length=TOKENS,
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        projector_hidden_act="gelu",
        tie_word_embeddings=True,
    )
    model = LlavaForConditionalGeneration(config)
    model.generation_config.bos_token_id = token(BOS)
    model.generation_config.eos_token_id = token(EOS)
    model.generation_config.pad_token_id = token(PAD)
    model.set_attn_implementation("eager")
    return model


def build_processor(tokenizer: Any) -> Any:
    """Return the processor: 96 px by box filter, values -1 to 1, chat template; needs no torchvision."""
    from transformers import LlavaProcessor, SiglipImageProcessorPil

    images = SiglipImageProcessorPil(
        size={"height": SIZE, "width": SIZE},
        resample=BOX_RESAMPLING,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        do_convert_rgb=True,
    )
    return LlavaProcessor(
        image_processor=images,
        tokenizer=tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="full",
        num_additional_image_tokens=0,
        image_token=IMAGE,
        chat_template=CHAT_TEMPLATE,
    )


def save(model: Any, processor: Any, folder: Path) -> None:
    """Write weights (float32) and processor into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
