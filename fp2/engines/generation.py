"""Choosing the next token: the likeliest, or a draw whose chance depends on the question and the picture alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Pair = tuple[int, int]
"""Which of the pictures side by side, and which of its prompts."""
Pick = Callable[[Sequence[Pair], torch.Tensor], list[int]]
"""(pairs, their next-token logits [pairs, vocabulary] in float32) -> a token each."""


def greedy(pairs: Sequence[Pair], logits: torch.Tensor) -> list[int]:
    """Return the likeliest token of each; the lowest id of equals."""
    tokens: list[int] = logits.argmax(dim=-1).tolist()
    return tokens


class Sampler:
    """Draws from softmax(logits / temperature) by the Gumbel-max trick, with a random stream for every pair.

    argmax(logits / temperature + g), with g standard Gumbel noise, is such a draw (Gumbel 1954; Maddison et al. 2014,
    "A* sampling"). A draw depends on its own seed and on nothing that goes side by side with it.

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
        heated = logits.float().cpu() / self.temperature
        return [self._draw(self._stream(pair), row) for pair, row in zip(pairs, heated, strict=True)]

    def _stream(self, pair: Pair) -> torch.Generator:
        if pair not in self._streams:
            self._streams[pair] = torch.Generator().manual_seed(self._seed_of(pair))
        return self._streams[pair]

    @staticmethod
    def _draw(stream: torch.Generator, heated: torch.Tensor) -> int:
        even = torch.rand(heated.shape, generator=stream, dtype=torch.float64).clamp_min_(1e-300)
        return int((heated - torch.log(-torch.log(even))).argmax())


def end_tokens(model: Any, tokenizer: Any) -> set[int]:
    """Return the token ids that end an answer, as the checkpoint's generation settings name them."""
    named = model.generation_config.eos_token_id
    ends = set(named) if isinstance(named, list) else {named}
    return {int(token) for token in (*ends, tokenizer.eos_token_id) if token is not None}
