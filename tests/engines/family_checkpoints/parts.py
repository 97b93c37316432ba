"""What all families share: a tokenizer, the processor's files as on the hub, and the weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ANSWERS = "Yes No yes no YES NO Yes, No. yes, no. A B C D 1 2 3 4 5"
TEXTS = (
    "What do you think this person does for work? Give your best guess.",
    "How educated does this person appear to be? Would you trust this person?",
    "I think that this person works as a nurse and lives in a quiet street.",
    "Is this person friendly? Answer Yes or No. Question: Answer: USER: ASSISTANT: User: Assistant:",
    "You are a helpful assistant. system user assistant model answer en",
)
SIZE = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
VISION = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
IMAGE, PATCH = 32, 8


def byte_tokenizer(special: Sequence[str], *, starts_with: str = "", ends_with: str = "") -> Any:
    """Return a byte-level BPE in which Yes, No, yes, no, YES and NO are single tokens, also behind a blank.

    `special` tokens get the first ids; `starts_with` and `ends_with` are set around every text of their own accord.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=len(special) + 420,
        special_tokens=[AddedToken(token, normalized=False, special=True) for token in special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    lines = [line for word in ANSWERS.split() for line in (word, f" {word}")]
    tokenizer.train_from_iterator([*TEXTS, *lines * 9], trainer)
    around = [(token, tokenizer.token_to_id(token)) for token in (starts_with, ends_with) if token]
    if around:
        single = " ".join(part for part in (starts_with, "$A", ends_with) if part)
        tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=around)
    return tokenizer


def fast_tokenizer(special: Sequence[str], *, starts_with: str = "", ends_with: str = "", **options: Any) -> Any:
    """Return the tokenizer as transformers has it.

    It pads on the right, which is wrong for generation: a program that batches prompts has to see to it itself.
    """
    from transformers import PreTrainedTokenizerFast

    inner = byte_tokenizer(special, starts_with=starts_with, ends_with=ends_with)
    return PreTrainedTokenizerFast(tokenizer_object=inner, padding_side="right", **options)


def save_processing(
    folder: Path,
    tokenizer: Any,
    pictures: Any,
    processor_class: str,
    *,
    chat: str | None = None,
    **settings: Any,
) -> None:
    """Write the files of a processor as repositories on the hub have them, without building it.

    The image settings lie in `preprocessor_config.json` and name the class without its backend.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    config = pictures.to_dict()
    config["image_processor_type"] = type(pictures).__name__.removesuffix("Pil")
    config["processor_class"] = processor_class
    _write(folder / "preprocessor_config.json", config)
    _write(folder / "processor_config.json", {"processor_class": processor_class, **settings})
    if chat is not None:
        (folder / "chat_template.jinja").write_text(chat, encoding="utf-8")


def save_model(folder: Path, model_class: str, config: Any, tokenizer: Any, seed: int, *, also_ends: str = "") -> Path:
    """Build the model from `config` with seeded weights and save it; generation ends at the tokenizer's end token.

    Weights are multiplied by 4. What starts as a constant (biases, norms, query tokens) gets noise of 0.1, so that
    leaving one out shows.
    """
    import torch
    import transformers

    torch.manual_seed(seed)
    model = getattr(transformers, model_class)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.numel() > 1 and bool((parameter == parameter.flatten()[0]).all()):
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
            else:
                parameter.mul_(4)
    ends = [token for token in (tokenizer.eos_token, also_ends) if token]
    ids = [tokenizer.convert_tokens_to_ids(token) for token in ends]
    model.generation_config.eos_token_id = ids if len(ids) > 1 else ids[0]
    model.generation_config.bos_token_id = tokenizer.bos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    return folder


def token_ids(tokenizer: Any, **names: str) -> dict[str, int]:
    """Return the ids of special tokens under the names that a config gives them."""
    return {name: tokenizer.convert_tokens_to_ids(token) for name, token in names.items()}


def ends_of(tokenizer: Any) -> dict[str, int | None]:
    """Return start, end and padding ids for a text config."""
    return {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, default=str), encoding="utf-8")
