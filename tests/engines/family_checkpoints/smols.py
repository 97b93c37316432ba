"""SmolVLM (the classes of Idefics3) and SmolVLM2: images in tiles, marked by rows and columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from family_checkpoints.parts import IMAGE, PATCH, SIZE, VISION, ends_of, fast_tokenizer, save_model, save_processing

TILES = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
CHAT = (
    "<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}:"
    "{% if message['content'][0]['type'] != 'image' %} {% endif %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}<end_of_utterance>\n"
    "{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)


def save_idefics3(folder: Path, seed: int = 0) -> Path:
    """SmolVLM: tiles of 32 px and the whole image, 4 tokens each."""
    from transformers import Idefics3Config, Idefics3VisionConfig
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    kinds = (Idefics3Config, Idefics3VisionConfig, Idefics3ImageProcessorPil)
    return _save(folder, seed, "Idefics3", kinds)


def save_smolvlm(folder: Path, seed: int = 0) -> Path:
    """SmolVLM2: as SmolVLM; its processor can also read videos, and asks for libraries for them."""
    from transformers import SmolVLMConfig, SmolVLMVisionConfig
    from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

    kinds = (SmolVLMConfig, SmolVLMVisionConfig, SmolVLMImageProcessorPil)
    return _save(folder, seed, "SmolVLM", kinds)


def _save(folder: Path, seed: int, name: str, kinds: tuple[Any, Any, Any]) -> Path:
    from transformers import LlamaConfig

    config_class, vision_class, pictures_class = kinds
    marks = ["<fake_token_around_image>", "<image>", "<global-img>"]
    tokenizer = fast_tokenizer(
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *marks, "<end_of_utterance>", *TILES],
        bos_token="<|im_start|>",
        eos_token="<end_of_utterance>",
        pad_token="<|im_end|>",
    )
    pictures = pictures_class(size={"longest_edge": 2 * IMAGE}, max_image_size={"longest_edge": IMAGE})
    save_processing(folder, tokenizer, pictures, f"{name}Processor", chat=CHAT, image_seq_len=4)
    config = config_class(
        vision_config=vision_class(**VISION, image_size=IMAGE, patch_size=PATCH),
        text_config=LlamaConfig(**SIZE, num_key_value_heads=2, vocab_size=len(tokenizer), **ends_of(tokenizer)),
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        **ends_of(tokenizer),
    )
    return save_model(folder, f"{name}ForConditionalGeneration", config, tokenizer, seed)
