"""Tiny checkpoints that bring modelling code of their own, with the public interfaces of InternVL2 and moondream2.

The code is this project's; only the names and meanings of methods, settings and prompts are those of the real models.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from family_checkpoints.parts import byte_tokenizer, fast_tokenizer

HERE = Path(__file__).parent
CHAT_TOKENS = ("<pad>", "<s>", "</s>", "<img>", "</img>", "<IMG_CONTEXT>", "<|im_start|>", "<|im_end|>")
QUERY_TOKENS = ("<|endoftext|>", "<|ask|>", "<|say|>")
TEXT = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def save_chat(folder: Path, *, language_model: str = "llama", written_for: str = "4.37.2") -> Path:
    """Write a checkpoint whose code chats: tiles of 28 px, 4 marks each, up to 6 of them."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = fast_tokenizer(CHAT_TOKENS, bos_token="<s>", eos_token="</s>", pad_token="<pad>", starts_with="<s>")
    tokenizer.save_pretrained(folder)
    config = {
        "model_type": "internvl_chat",
        "architectures": ["Chatting"],
        "auto_map": {"AutoConfig": "chat_code.ChattingConfig", "AutoModel": "chat_code.Chatting"},
        "llm_config": {"model_type": language_model, "vocab_size": len(tokenizer), "transformers_version": written_for}
        | TEXT,
        "vision_config": {"image_size": 28, "patch_size": 7, "hidden_size": 32},
        "force_image_size": 28,
        "downsample_ratio": 0.5,
        "dynamic_image_size": True,
        "min_dynamic_patch": 1,
        "max_dynamic_patch": 6,
        "template": "our-chat",
    }
    return _finish(folder, "chat_code.py", config, seed=3)


def save_query(folder: Path) -> Path:
    """Write a checkpoint whose code takes queries."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = byte_tokenizer(QUERY_TOKENS)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "model_type": "moondream1",
        "architectures": ["Asked"],
        "auto_map": {"AutoConfig": "query_code.AskedConfig", "AutoModelForCausalLM": "query_code.Asked"},
        "words": tokenizer.get_vocab_size(),
        "transformers_version": "4.52.4",
    }
    return _finish(folder, "query_code.py", config, seed=4, scale=0.35)


def _finish(folder: Path, code: str, config: dict[str, Any], seed: int, scale: float = 0.15) -> Path:
    """Copy the code, build the model with seeded weights, and save those."""
    import torch
    from safetensors.torch import save_file

    shutil.copy(HERE / code, folder / code)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    model = built(folder)
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * (scale if weight.dim() > 1 else 0.3))
    weights = {name: weight.clone().contiguous() for name, weight in model.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def built(folder: Path) -> Any:
    """Return the model as its code builds it, with its saved weights if there are any."""
    from safetensors.torch import load_file
    from transformers import AutoConfig
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
    named = config.auto_map
    kind: Any = get_class_from_dynamic_module(named.get("AutoModel") or named["AutoModelForCausalLM"], folder)
    model = kind(config).eval()
    if (folder / "model.safetensors").is_file():
        model.load_state_dict(load_file(folder / "model.safetensors"))
    return model


def save_reasoning_peeps(folder: Path, question: str) -> Path:
    """Save the bundled model as one that, if its template is asked for it, answers `question` as its reasoning."""
    from transformers import AutoTokenizer

    shutil.copytree(HERE.parents[2] / "fp2" / "models" / "peeps_vlm", folder, ignore=shutil.ignore_patterns("report"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<think>", "</think>"], special_tokens=True)
    tokenizer.save_pretrained(folder)
    marks = dict(
        zip(
            ("open", "close", "user"), tokenizer.convert_tokens_to_ids(["<think>", "</think>", "<|user|>"]), strict=True
        )
    )
    asked = tokenizer(f"{question}<|assistant|>", add_special_tokens=False)["input_ids"]
    _update(
        folder / "config.json",
        reasoning={**marks, "question": asked},
        auto_map={"AutoModelForMultimodalLM": "reasoning_code.LlavaForConditionalGeneration"},
    )
    fields = {
        "reasoning_content": {"open": "<think>", "close": "</think>", "content": "text"},
        "content": {"close": ["</s>"], "content": "text"},
    }
    _update(folder / "tokenizer_config.json", response_template={"start_anchor": "<|assistant|>", "fields": fields})
    template = folder / "chat_template.jinja"
    template.write_text(template.read_text() + "{% if add_generation_prompt and enable_thinking %}<think>{% endif %}")
    shutil.copy(HERE / "reasoning_code.py", folder)
    return folder


def _update(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
