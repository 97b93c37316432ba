"""BLIP-2: a Q-Former asks the image 4 fixed queries; before OPT (a decoder) or T5 (an encoder and a decoder)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from family_checkpoints.parts import IMAGE, PATCH, SIZE, VISION, ends_of, fast_tokenizer, save_model, save_processing

QUERIES = 4


def save_blip2_opt(folder: Path, seed: int = 0) -> Path:
    """BLIP-2 before OPT, whose tokenizer starts every text with `</s>`; the image's tokens go before it."""
    from transformers import OPTConfig

    tokenizer = fast_tokenizer(
        ["<s>", "<pad>", "</s>", "<image>"],
        starts_with="</s>",
        bos_token="</s>",
        eos_token="</s>",
        pad_token="<pad>",
    )
    text = OPTConfig(
        hidden_size=SIZE["hidden_size"],
        ffn_dim=SIZE["intermediate_size"],
        num_hidden_layers=2,
        num_attention_heads=4,
        word_embed_proj_dim=SIZE["hidden_size"],
        max_position_embeddings=512,
        vocab_size=len(tokenizer),
        **ends_of(tokenizer),
    )
    return _save(folder, seed, text, tokenizer)


def save_blip2_t5(folder: Path, seed: int = 0) -> Path:
    """BLIP-2 before T5: the whole prompt is encoded, attending both ways, and the answer is decoded from a pad."""
    from transformers import T5Config

    tokenizer = fast_tokenizer(
        ["<pad>", "</s>", "<unk>", "<image>"], ends_with="</s>", eos_token="</s>", pad_token="<pad>"
    )
    text = T5Config(
        d_model=SIZE["hidden_size"],
        d_ff=SIZE["intermediate_size"],
        d_kv=16,
        num_layers=2,
        num_heads=4,
        vocab_size=len(tokenizer),
        decoder_start_token_id=tokenizer.pad_token_id,
        initializer_factor=0.3,  # T5 starts with far larger weights than others
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return _save(folder, seed, text, tokenizer)


def _save(folder: Path, seed: int, text: Any, tokenizer: Any) -> Path:
    from transformers import Blip2Config, Blip2QFormerConfig, Blip2VisionConfig
    from transformers.models.blip.image_processing_pil_blip import BlipImageProcessorPil

    pictures = BlipImageProcessorPil(size={"height": IMAGE, "width": IMAGE})
    save_processing(folder, tokenizer, pictures, "Blip2Processor", num_query_tokens=QUERIES)
    config = Blip2Config(
        vision_config=Blip2VisionConfig(**VISION, image_size=IMAGE, patch_size=PATCH, initializer_range=0.02),
        qformer_config=Blip2QFormerConfig(
            **VISION, vocab_size=8, encoder_hidden_size=VISION["hidden_size"], cross_attention_frequency=1
        ),
        text_config=text,
        num_query_tokens=QUERIES,
        image_text_hidden_size=16,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    return save_model(folder, "Blip2ForConditionalGeneration", config, tokenizer, seed)
