"""What both ways of running a model share: limits of a batch, and the choice of the next token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from fp2.tables import Decoding

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Pair = tuple[int, int]
"""The index of an image in the batch, and the index of one of its prompts."""
Pick = Callable[[Sequence[Pair], torch.Tensor], list[int]]
"""(pairs, their next-token logits [pairs, vocabulary] in float32) -> one token for each."""
Logits = tuple[Sequence[int], Sequence[int], torch.Tensor]
"""(images, indices of continuations, their next-token logits [images, continuations, vocabulary] in float32)."""
_FEWEST_TOKENS = 16


@dataclass
class BatchLimits:
    """Upper limits of a batch; one object, which the engine lowers when memory runs out.

    Attributes
    ----------
    batch_size : int
        (image, prompt) pairs computed together.
    max_tokens : int
        Tokens after a common prefix in one forward pass.
    """

    batch_size: int
    max_tokens: int

    def copy(self) -> BatchLimits:
        """Return a copy."""
        return BatchLimits(self.batch_size, self.max_tokens)

    def halve(self, *, tokens: bool) -> bool:
        """Halve the tokens of a pass, or else the pairs; return False, changing nothing, if they cannot be halved."""
        if tokens:
            if self.max_tokens // 2 < _FEWEST_TOKENS:
                return False
            self.max_tokens //= 2
        else:
            if self.batch_size < 2:
                return False
            self.batch_size //= 2
        return True


def check_logits(logits: torch.Tensor) -> None:
    """Raise `FloatingPointError` if logits are not numbers, as when float16 overflows."""
    if bool(logits.isnan().any()):
        raise FloatingPointError("the model's logits are not numbers: try model.dtype=bfloat16 or float32")


def greedy(pairs: Sequence[Pair], logits: torch.Tensor) -> list[int]:
    """Return the most likely token of each pair; of equals, the one with the lowest id."""
    check_logits(logits)
    tokens: list[int] = logits.argmax(dim=-1).tolist()
    return tokens


class Sampler:
    """Samples from softmax(logits), changed by the options of `decoding`, with a random stream for each pair.

    A uniform number of the pair's stream is looked up in the cumulative probabilities (inverse transform sampling), so
    a sample depends on its seed and not on the rest of the batch.
    """

    def __init__(self, decoding: Decoding, seed_of: Callable[[Pair], int]) -> None:
        import transformers

        self._seed_of = seed_of
        self._processors = [getattr(transformers, name)(value) for name, value in decoding.processors()]
        self._streams: dict[Pair, torch.Generator] = {}

    def __call__(self, pairs: Sequence[Pair], logits: torch.Tensor) -> list[int]:
        """Return a sampled token for each pair."""
        check_logits(logits)
        exact = logits.double() if logits.device.type != "mps" else logits.cpu().double()
        for processor in self._processors:
            exact = processor(None, exact)
        cumulative = torch.softmax(exact, dim=-1).cumsum(dim=-1)
        uniform = [torch.rand((), generator=self._stream(pair), dtype=torch.float64) for pair in pairs]
        thresholds = torch.stack(uniform).to(cumulative.device)[:, None] * cumulative[:, -1:]
        drawn: list[int] = torch.searchsorted(cumulative, thresholds, right=True)[:, 0].tolist()
        return [min(token, logits.shape[-1] - 1) for token in drawn]

    def _stream(self, pair: Pair) -> torch.Generator:
        if pair not in self._streams:
            self._streams[pair] = torch.Generator().manual_seed(self._seed_of(pair))
        return self._streams[pair]


def keep_only_end_tokens(model: PreTrainedModel, end_tokens: set[int]) -> None:
    """Remove all generation settings of a checkpoint but its end tokens, so that every strategy decodes alike.

    Penalties, suppressed and forced tokens would take effect in `generate` only.
    """
    from transformers import GenerationConfig

    for module in model.modules():
        held = getattr(module, "generation_config", None)
        if held is not None:
            names = ("bos_token_id", "pad_token_id", "decoder_start_token_id")
            token_ids = {name: getattr(held, name, None) for name in names}
            settings: Any = GenerationConfig
            module.generation_config = settings(eos_token_id=sorted(end_tokens) or None, **token_ids)


def end_tokens_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Return the ids of the tokens that end an answer, by the checkpoint's generation settings."""
    named = model.generation_config.eos_token_id
    end_tokens = set(named) if isinstance(named, list) else {named}
    return {int(token) for token in (*end_tokens, tokenizer.eos_token_id) if token is not None}
