"""Phi-4-multimodal: a decoder with image and audio tokens in its text, and an adapter beside the weights for images.

Its image processor exists for torchvision only, so that `save` of this package does not list it.
"""

from __future__ import annotations

import json
from pathlib import Path

from family_checkpoints.parts import SIZE, fast_tokenizer, save_model, token_ids

ADAPTER, RANK, ALPHA = "vision-lora", 4, 8
SPECIAL = ["<|endoftext|>", "<|end|>", "<|user|>", "<|assistant|>", "<|image|>", "<|audio|>"]


def save_phi4_multimodal(folder: Path, seed: int = 0) -> Path:
    """Save model, adapter and processing files; the vision encoder has the published 448 pixels and patches of 14."""
    import torch
    from safetensors.torch import save_file
    from transformers import Phi4MultimodalConfig, Phi4MultimodalForCausalLM

    tokenizer = fast_tokenizer(
        SPECIAL,
        eos_token="<|endoftext|>",
        bos_token="<|endoftext|>",
        pad_token="<|endoftext|>",
        extra_special_tokens={"image_token": "<|image|>", "audio_token": "<|audio|>"},
    )
    ids = token_ids(tokenizer, image="<|image|>", audio="<|audio|>", end="<|endoftext|>")
    vision = {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_token_id": ids["image"],
    }
    audio = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_blocks": 1,
        "num_attention_heads": 2,
        "nemo_conv_channels": 8,
        "ext_pw_out_channel": 16,
        "depthwise_separable_out_channel": 16,
        "audio_token_id": ids["audio"],
    }
    config = Phi4MultimodalConfig(
        **SIZE,
        num_key_value_heads=2,
        vocab_size=len(tokenizer),
        vision_config=vision,
        audio_config=audio,
        max_position_embeddings=2048,
        original_max_position_embeddings=2048,
        bos_token_id=ids["end"],
        eos_token_id=ids["end"],
        pad_token_id=ids["end"],
    )
    save_model(folder, "Phi4MultimodalForCausalLM", config, tokenizer, seed)
    tokenizer.save_pretrained(folder)
    (folder / "processor_config.json").write_text(json.dumps({"processor_class": "Phi4MultimodalProcessor"}))
    parts = {
        "image_processor_type": "Phi4MultimodalImageProcessor",
        "processor_class": "Phi4MultimodalProcessor",
        "feature_extractor_type": "Phi4MultimodalFeatureExtractor",
        "size": {"height": 448, "width": 448},
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(parts))
    model = Phi4MultimodalForCausalLM(config)
    linear = {name: part for name, part in model.named_modules() if isinstance(part, torch.nn.Linear)}
    tensors = {}
    draw = torch.Generator().manual_seed(seed + 1)
    for name, part in linear.items():
        if name.startswith("model.layers."):
            head = f"base_model.model.{name}"
            tensors[f"{head}.lora_A.weight"] = torch.randn(RANK, part.in_features, generator=draw) * 0.3
            tensors[f"{head}.lora_B.weight"] = torch.randn(part.out_features, RANK, generator=draw) * 0.3
    (folder / ADAPTER).mkdir()
    save_file(tensors, folder / ADAPTER / "adapter_model.safetensors")
    config_of = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "bias": "none", "target_modules": "layers"}
    (folder / ADAPTER / "adapter_config.json").write_text(json.dumps(config_of))
    return folder
