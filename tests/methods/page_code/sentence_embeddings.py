"""A tiny sentence-embedding checkpoint with random weights, in the layout of sentence-transformers. No test here."""

from __future__ import annotations

import json
from pathlib import Path

WORDS = ("a", "nurse", "thief", "is", "kind", "rude", "works", "with", "care", ".")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def save_embeddings(folder: Path, *, max_seq_length: int = 8, pooling: str = "mean_tokens") -> Path:
    """Save a BERT of 8 dimensions, its tokenizer, and the files that state the pooling and the length."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate([*SPECIAL, *WORDS])}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    torch.manual_seed(0)
    model = BertModel(
        BertConfig(
            vocab_size=len(SPECIAL) + len(WORDS),
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=16,
            type_vocab_size=1,
        )
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6)
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    (folder / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{name}": name == pooling for name in ("cls_token", "mean_tokens", "max_tokens")}
    content = {"word_embedding_dimension": 8, **modes, "include_prompt": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(content))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_seq_length}))
    return folder
