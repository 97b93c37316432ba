"""Choosing the next token: the likeliest, or a draw whose chance depends on the question and the picture alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Pair = tuple[int, int]
"""Which of the pictures side by side, and which of its prompts."""
Pick = Callable[[Sequence[Pair], torch.Tensor], list[int]]
"""(pairs, their next-token logits [pairs, vocabulary] in float32) -> a token each."""


def check_numbers(logits: torch.Tensor) -> None:
    """Raise `FloatingPointError` where a model's logits are not numbers, as when float16 has overflowed."""
    if bool(logits.isnan().any()):
        raise FloatingPointError("the model's logits are not numbers: try model.dtype=bfloat16 or float32")


def greedy(pairs: Sequence[Pair], logits: torch.Tensor) -> list[int]:
    """Return the likeliest token of each; the lowest id of equals."""
    check_numbers(logits)
    tokens: list[int] = logits.argmax(dim=-1).tolist()
    return tokens


class Sampler:
    """Draws from softmax(logits / temperature), with a random stream for every pair.

    A uniform number of the pair's own stream is looked up in the cumulated probabilities, so a draw depends on its own
    seed and on nothing that goes side by side with it.

    Parameters
    ----------
    temperature : float
        Above 0.
    seed_of : callable
        The seed of each pair.
    """

    def __init__(self, temperature: float, seed_of: Callable[[Pair], int]) -> None:
        self.temperature, self._seed_of = temperature, seed_of
        self._streams: dict[Pair, torch.Generator] = {}

    def __call__(self, pairs: Sequence[Pair], logits: torch.Tensor) -> list[int]:
        """Return a drawn token for each pair."""
        check_numbers(logits)
        exact = logits.double() if logits.device.type != "mps" else logits.cpu().double()
        cumulated = torch.softmax(exact / self.temperature, dim=-1).cumsum(dim=-1)
        even = [torch.rand((), generator=self._stream(pair), dtype=torch.float64) for pair in pairs]
        reached = torch.stack(even).to(cumulated.device)[:, None] * cumulated[:, -1:]
        drawn: list[int] = torch.searchsorted(cumulated, reached, right=True)[:, 0].tolist()
        return [min(token, logits.shape[-1] - 1) for token in drawn]

    def _stream(self, pair: Pair) -> torch.Generator:
        if pair not in self._streams:
            self._streams[pair] = torch.Generator().manual_seed(self._seed_of(pair))
        return self._streams[pair]


def only_end_tokens(model: Any, stops: set[int]) -> None:
    """Keep of the generation settings of a checkpoint its end tokens only, so that every way of asking decodes alike.

    Penalties, suppressed and forced tokens and the like would act in `generate` and nowhere else.
    """
    from transformers import GenerationConfig

    for part in model.modules():
        held = getattr(part, "generation_config", None)
        if held is not None:
            names = ("bos_token_id", "pad_token_id", "decoder_start_token_id")
            kept = {name: getattr(held, name, None) for name in names}
            settings: Any = GenerationConfig
            part.generation_config = settings(eos_token_id=sorted(stops) or None, **kept)


def end_tokens(model: Any, tokenizer: Any) -> set[int]:
    """Return the token ids that end an answer, as the checkpoint's generation settings name them."""
    named = model.generation_config.eos_token_id
    ends = set(named) if isinstance(named, list) else {named}
    return {int(token) for token in (*ends, tokenizer.eos_token_id) if token is not None}
