"""Tiny classifiers with random weights, saved as checkpoints, and their words. No test in here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

WORDS = (
    "the", "person", "is", "described", "positively", "negatively", "a", "kind", "rude", "nurse", "thief", "works",
    "with", "care", "and", "pride", "cannot", "say", "trust", "fear", "him", "her", "them", ".",
)  # fmt: skip


def save_classifier(
    folder: Path, labels: Mapping[int, str], *, kind: str = "bert", seed: int = 0, head: bool = True, **config: Any
) -> Path:
    """Save a classifier of 16 tokens' length; the weights are scaled up, so that texts differ clearly."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate([*special, *WORDS])}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    torch.manual_seed(seed)
    bert = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 16 if kind == "bert" else 17,
        "type_vocab_size": 1,
    }
    shape = AutoConfig.for_model(
        kind,
        vocab_size=len(special) + len(WORDS),
        pad_token_id=0,
        id2label=dict(labels),
        label2id={name: place for place, name in labels.items()},
        **({} if kind == "xlnet" else bert),
        **config,
    )
    model = (AutoModelForSequenceClassification if head else AutoModel).from_config(shape)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(60 if "classifier" in name and kind == "bert" else 6)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
