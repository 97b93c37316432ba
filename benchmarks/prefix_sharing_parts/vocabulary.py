"""A tokenizer that is small to train and large to compute with: the questions' words, and fillers up to a real size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

ALWAYS = (
    "Yes", "No", " Yes", " No", "yes", "no", " yes", " no", "YES", "NO", "system", "user", "assistant", "User",
    "Assistant", "You are a helpful assistant.",
)  # fmt: skip
LONG = 10  # letters; real vocabularies write such trait words in two pieces
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train_tokenizer(texts: Sequence[str], special: Sequence[str], size: int, eos: str, pad: str) -> Any:
    """Return a byte-level BPE tokenizer of exactly `size` tokens (as the Qwen family's: the same way to cut words).

    Words of `texts` become one token, or two if they are long. What is left of `size` is filled with tokens that no
    text is ever cut into, but that a random model may well say: they can be decoded.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*_pieces(texts), *ALWAYS], trainer)
    tokenizer = Tokenizer.from_str(_filled(tokenizer.to_str(), size - len(special)))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=eos, pad_token=pad)


def _pieces(texts: Iterable[str]) -> list[str]:
    """Return the words of `texts` with the blank before them; long ones in two pieces."""
    pieces = []
    for text in texts:
        for word in text.split(" "):
            letters = word.strip("?.,")
            if len(letters) >= LONG:
                cut = len(letters) // 2
                pieces += [" " + letters[:cut], letters[cut:]]
            else:
                pieces += [" " + word, word]
    return pieces


def _filled(tokenizer: str, size: int) -> str:
    saved = json.loads(tokenizer)
    vocabulary = saved["model"]["vocab"]
    for number in range(len(vocabulary), size):
        vocabulary[f"\u0120w{number}"] = number
    return json.dumps(saved)
