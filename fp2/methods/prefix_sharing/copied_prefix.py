"""Prefix sharing for models whose layers keep a state: the prefix is computed once, each prompt goes on from a copy.

Layers of linear attention, convolutions and state-space layers (Qwen3.5, LFM2, Nemotron-H) have a state in place of
keys and values. No mask hides one prompt from another there, so that prompts cannot be packed into one row
(`shared_prefix`). The model's own cache after the prefix is copied instead, once for each prompt, and prompts of one
length go on in one batch, without padding.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from transformers.cache_utils import DynamicCache

from fp2.extension import (
    BatchLimits,
    Continuation,
    EncodedPrompts,
    LoadedModel,
    Logits,
    Pair,
    Pick,
    Strategy,
    Tokens,
    input_device,
    prefix_inputs,
    suffix_inputs,
)

if TYPE_CHECKING:
    from transformers import Cache, PreTrainedModel


class CopiedPrefix(Strategy):
    """Runs a causal model on many prompts about the same image, each in a row of its own.

    Parameters
    ----------
    model : PreTrainedModel
        As loaded; its cache must hold everything that later tokens need of earlier ones.
    limits : BatchLimits
        Most prompts in one batch.
    """

    def __init__(self, model: PreTrainedModel, limits: BatchLimits) -> None:
        self.model, self.limits = model, limits
        self.calls = 0
        keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._keep_last: dict[str, object] = {"logits_to_keep": 1} if keeps else {}

    @staticmethod
    def supports(encoded: EncodedPrompts) -> bool:
        """Return whether the common prefix contains the whole image, so that there is something to share."""
        return encoded.image_in_prefix and len(encoded.prefix) > 0

    def images_together(self, encoded: EncodedPrompts) -> int:
        """Return 1: the prompts about one image fill a batch."""
        return 1

    def logits(self, batch: Sequence[EncodedPrompts], wanted: Sequence[Continuation]) -> Iterator[Logits]:
        """Yield the logits image by image; see `LogitSource`."""
        for image, encoded in enumerate(batch):
            prefix = self._prefill(encoded)
            suffixes = [encoded.suffixes[prompt] + appended for prompt, appended in wanted]
            for places in self._batches(suffixes):
                copies = _CacheCopies(self, prefix, encoded, len(places))
                yield [image], places, copies.advance([suffixes[place] for place in places])[None]

    def generate(
        self, batch: Sequence[EncodedPrompts], pick: Pick, end_tokens: set[int], max_new: int
    ) -> list[list[list[int]]]:
        """Return the new tokens [images][prompts], each up to `max_new`, ending with the first of `end_tokens`."""
        generated: list[list[list[int]]] = [[[] for _ in encoded.suffixes] for encoded in batch]
        for image, encoded in enumerate(batch):
            prefix = self._prefill(encoded)
            for places in self._batches(encoded.suffixes):
                copies = _CacheCopies(self, prefix, encoded, len(places))
                going = [(image, place) for place in places]
                logits = copies.advance([encoded.suffixes[place] for place in places])
                while True:
                    tokens = pick(going, logits)
                    for (_, place), token in zip(going, tokens, strict=True):
                        generated[image][place].append(token)
                    rest = [row for row, pair in enumerate(going) if not _ended(generated, pair, end_tokens, max_new)]
                    if not rest:
                        break
                    if len(rest) < len(going):
                        copies.select(rest)
                    going = [going[row] for row in rest]
                    logits = copies.advance([(tokens[row],) for row in rest])
        return generated

    def _batches(self, suffixes: Sequence[Tokens]) -> Iterator[list[int]]:
        """Yield indices of suffixes of one length, as many as a batch may have."""
        alike: dict[int, list[int]] = {}
        for place, suffix in enumerate(suffixes):
            alike.setdefault(len(suffix), []).append(place)
        for places in alike.values():
            for start in range(0, len(places), self.limits.batch_size):
                yield places[start : start + self.limits.batch_size]

    def _prefill(self, encoded: EncodedPrompts) -> Any:
        """Return the model's cache after the prefix, and its positions' shift (as in `shared_prefix`)."""
        inner = getattr(self.model, "model", self.model)
        if hasattr(inner, "rope_deltas"):
            inner.rope_deltas = None
        cache = DynamicCache(config=self.model.config.get_text_config(decoder=True))
        self.calls += 1
        with torch.no_grad():
            inputs = prefix_inputs([encoded], self.model)
            self.model(**inputs, past_key_values=cache, use_cache=True, **self._keep_last)
        return cache

    def run(self, ids: torch.Tensor, length: int, cache: Cache, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the last logits of tokens [rows, t] after `length` tokens in a cache; `inputs`: of each of them."""
        inner = getattr(self.model, "model", self.model)
        deltas = getattr(inner, "rope_deltas", None)
        shift = 0 if deltas is None else int(deltas.flatten()[0])
        own = torch.arange(length, length + ids.shape[1], device=ids.device)[None].expand(len(ids), -1) + shift
        position = own[None].expand(3, -1, -1) if hasattr(inner, "rope_deltas") else own
        mask = torch.ones((len(ids), length + ids.shape[1]), dtype=torch.long, device=ids.device)
        self.calls += 1
        with torch.no_grad():
            output = self.model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=position,
                past_key_values=cache,
                use_cache=True,
                **{name: value.expand(*ids.shape, *value.shape[2:]) for name, value in inputs.items()},
                **self._keep_last,
            )
        logits: torch.Tensor = output.logits[:, -1].float()
        return logits


class _CacheCopies:
    """Copies of a cache of a prefix, one for each of some rows, with the tokens that were added."""

    def __init__(self, owner: CopiedPrefix, cache: Any, encoded: EncodedPrompts, rows: int) -> None:
        self._owner, self._length = owner, len(encoded.prefix)
        self._inputs = suffix_inputs([encoded], owner.model)
        self._cache = copy.deepcopy(cache)
        self.select([0] * rows)

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order."""
        self._cache.reorder_cache(
            torch.tensor(rows, device=input_device(self._owner.model, str(self._owner.model.device)))
        )

    def advance(self, tokens: Sequence[Tokens]) -> torch.Tensor:
        """Add tokens of one length to each row; return the logits [rows, vocabulary] after them."""
        ids = torch.tensor(tokens, device=input_device(self._owner.model, str(self._owner.model.device)))
        logits = self._owner.run(ids, self._length, self._cache, self._inputs)
        self._length += ids.shape[1]
        return logits


def prefix(loaded: LoadedModel, limits: BatchLimits) -> CopiedPrefix:
    """Return the strategy of `sharing=prefix`."""
    return CopiedPrefix(loaded.model, limits)


def _ended(generated: list[list[list[int]]], pair: Pair, end_tokens: set[int], max_new: int) -> bool:
    text = generated[pair[0]][pair[1]]
    return len(text) >= max_new or text[-1] in end_tokens
