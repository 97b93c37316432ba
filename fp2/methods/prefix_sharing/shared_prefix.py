"""Prefix sharing: an image and the common prefix of its prompts are computed once, the rest of each prompt as a tree.

The keys and values of the common prefix are kept in a cache. The rest of the prompts is packed into rows
(`token_tree`), each one forward pass with an explicit mask and explicit positions: exact for causal models, where later
tokens change nothing before them. Text is generated in the same layout (`decoding`): in each pass the newest token of
each text, and a draft of what may follow.

Several images go into one batch if their prefixes have the same tokens.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from transformers.cache_utils import Cache, DynamicLayer

from fp2.extension import (
    BatchLimits,
    Continuation,
    EncodedPrompts,
    LoadedModel,
    Logits,
    Pick,
    Strategy,
    Tokens,
    input_device,
    prefix_inputs,
    suffix_inputs,
)
from fp2.methods.prefix_sharing.decoding import DecodingState, Drafts
from fp2.methods.prefix_sharing.token_tree import TreeRow, pack

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Array = npt.NDArray[Any]
Masks = torch.Tensor | dict[str, torch.Tensor]
_ANY_LENGTH = 1 << 30
_PREFIXES = 4  # most tokens of prefixes computed together, for each token of `max_tokens`
_DRAFTED = 8  # most tokens for each pair of image and prompt, on average, in one pass that generates


class _PrefixLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of one layer; when `frozen`, new ones are used in the current pass and not kept."""

    frozen = False

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the kept keys and values followed by the new ones; each [rows, heads, length, head size]."""
        if self.frozen and self.keys is not None and self.values is not None:
            return torch.cat([self.keys, key_states], dim=-2), torch.cat([self.values, value_states], dim=-2)
        cached: tuple[torch.Tensor, torch.Tensor] = super().update(key_states, value_states, *args, **kwargs)
        return cached


@dataclass
class _PrefixCache:
    """The cache after a forward pass over `length` tokens of `rows` images."""

    cache: Cache
    rows: int
    length: int
    shift: int  # from a token's place in its sequence to its position number
    inputs: Mapping[str, torch.Tensor]  # of each token after the prefix
    crossing: frozenset[int]  # layers that hold the image, which no token adds to

    @property
    def growing(self) -> list[Any]:
        """The layers that hold the tokens so far."""
        return [layer for place, layer in enumerate(self.cache.layers) if place not in self.crossing]

    def truncate(self) -> None:
        """Drop everything after the prefix."""
        for layer in self.growing:
            layer.keys, layer.values = layer.keys[..., : self.length, :], layer.values[..., : self.length, :]

    def keep(self, places: Array, n_new: int) -> None:
        """Keep `places` [rows, kept] of the last `n_new` tokens of each row, in their order."""
        start = int(self.cache.get_seq_length()) - n_new
        for layer in self.growing:
            for name in ("keys", "values"):
                states = getattr(layer, name)
                index = torch.from_numpy(places).to(states.device)[:, None, :, None]
                index = index.expand(-1, states.shape[1], -1, states.shape[3])
                end = start + places.shape[1]
                states[..., start:end, :] = states[..., start:, :].gather(-2, index)
                setattr(layer, name, states[..., :end, :])

    def freeze(self) -> None:
        """Do not keep what further passes add."""
        for layer in self.growing:
            layer.frozen = True


class SharedPrefix(Strategy):
    """Runs a causal model on many prompts about the same images.

    Parameters
    ----------
    model : PreTrainedModel
        As loaded; its language model must be causal.
    text_model : str
        Attribute of the causal language model inside `model`, if `model` itself cannot continue from a cache without
        an image; empty for `model` itself.
    limits : BatchLimits, optional
        Most tokens in one pass after the prefix, and most pairs of image and prompt that are generated together.
    """

    learns = packs = True

    def __init__(self, model: PreTrainedModel, text_model: str = "", limits: BatchLimits | None = None) -> None:
        self.model = model
        self.text = getattr(model, text_model) if text_model else model
        self.limits = limits or BatchLimits(batch_size=64, max_tokens=512)
        self.calls = 0
        self.drafts = Drafts()
        self._packed: dict[Hashable, list[_Packed]] = {}
        text_config = model.config.get_text_config()
        kinds = set(getattr(text_config, "layer_types", None) or ())
        window = getattr(text_config, "sliding_window", None)
        self._window = window if not kinds or "sliding_attention" in kinds else None
        self._chunk = getattr(text_config, "attention_chunk_size", None) if "chunked_attention" in kinds else None
        self._kinds = kinds
        self._crossing = frozenset(getattr(text_config, "cross_attention_layers", None) or ())
        self._additive = getattr(text_config, "_attn_implementation", "sdpa") == "eager"
        self._keeps = "logits_to_keep" in _parameters(self.text.forward)

    def learn(self, prompt: Tokens, answer: Sequence[int]) -> None:
        """Let drafts follow an earlier answer to a prompt (token ids after the prefix)."""
        self.drafts.learn(prompt, answer)

    def record(self) -> dict[str, object]:
        """Return how many tokens were drafted, and how many of them accepted."""
        proposed, accepted = self.drafts.proposed, self.drafts.accepted
        return {"drafts": {"proposed_tokens": proposed, "accepted": accepted}} if proposed else {}

    @staticmethod
    def supports(encoded: EncodedPrompts) -> bool:
        """Return whether the common prefix contains the whole image, so that there is something to share."""
        return encoded.image_in_prefix and len(encoded.prefix) > 0

    def logits(self, batch: Sequence[EncodedPrompts], wanted: Sequence[Continuation]) -> Iterator[Logits]:
        """Yield the logits of prompts of one layout; see `LogitSource`."""
        prefix = self._prefill(batch)
        prefix.freeze()
        suffixes = tuple(batch[0].suffixes[prompt] + appended for prompt, appended in wanted)
        for packed in self._packed_for(suffixes, prefix.length):
            yield range(len(batch)), packed.sequences, self._run(prefix, packed)

    def images_together(self, encoded: EncodedPrompts) -> int:
        """Return how many images of this layout are scored together, so that the weights are read once for them.

        A pass after the prefix has at most `max_tokens` tokens, the prefixes have four times as many.
        """
        n_tokens = sum(len(row.tokens) for row in pack(encoded.suffixes, self.limits.max_tokens))
        most_rows = min(self.limits.max_tokens // n_tokens, _PREFIXES * self.limits.max_tokens // len(encoded.prefix))
        return max(1, most_rows)

    def generate(
        self, batch: Sequence[EncodedPrompts], pick: Pick, end_tokens: set[int], max_new: int
    ) -> list[list[list[int]]]:
        """Return the new tokens [images][prompts] for prompts of one layout.

        Each has up to `max_new` tokens, and ends with the first of `end_tokens`.
        """
        prefix, suffixes = self._prefill(batch), batch[0].suffixes
        generated: list[list[list[int]]] = [[[] for _ in suffixes] for _ in batch]
        order = sorted(range(len(suffixes)), key=lambda index: suffixes[index])  # common prefixes are adjacent
        size = max(1, self.limits.batch_size // len(batch))
        for start in range(0, len(suffixes), size):
            indices = order[start : start + size]
            new = self._generate(
                prefix, [suffixes[index] for index in indices], _subset(pick, indices), end_tokens, max_new
            )
            for row, new_tokens in zip(generated, new, strict=True):
                for index, tokens in zip(indices, new_tokens, strict=True):
                    row[index] = tokens
            prefix.truncate()
        return generated

    def _generate(
        self, prefix: _PrefixCache, suffixes: Sequence[Tokens], pick: Pick, end_tokens: set[int], max_new: int
    ) -> list[list[list[int]]]:
        (row,) = pack(tuple(suffixes), _ANY_LENGTH)
        state = DecodingState(suffixes, row, prefix.length, prefix.rows, end_tokens=end_tokens, max_new=max_new)
        state.begin(self._run(prefix, self._pack(row, state.ends, prefix.length)), pick)
        while state.going:
            batch = state.next_pass(self.drafts, _DRAFTED * self.limits.batch_size // prefix.rows)
            keep = np.arange(batch.ids.shape[1])
            logits = self._run(prefix, self._to_device(batch.ids, batch.own, batch.attends, batch.positions, keep))
            prefix.keep(state.verify(batch, logits, pick, self.drafts), len(keep))
        for texts in state.texts:
            for suffix, text in zip(suffixes, texts, strict=True):
                self.drafts.learn(suffix, text)
        return state.texts

    def _prefill(self, batch: Sequence[EncodedPrompts]) -> _PrefixCache:
        cache = Cache(layer_class_to_replicate=_PrefixLayer)
        options: dict[str, object] = (
            {"logits_to_keep": 1} if "logits_to_keep" in _parameters(self.model.forward) else {}
        )
        if self._has_rope_deltas:
            self._inner.rope_deltas = None
        self.calls += 1
        with torch.no_grad():
            self.model(**prefix_inputs(batch, self.model), past_key_values=cache, use_cache=True, **options)
        length = int(cache.get_seq_length())
        if length != len(batch[0].prefix):
            raise RuntimeError(f"the model kept {length} of {len(batch[0].prefix)} tokens in its cache")
        inputs = suffix_inputs(batch, self.model)
        return _PrefixCache(cache, len(batch), length, self._position_shift(), inputs, self._crossing)

    def _packed_for(self, suffixes: tuple[Tokens, ...], length: int) -> list[_Packed]:
        """Return the rows for `suffixes` after a prefix of `length`, remembered from the last image.

        All images of a run have the same suffixes, and most the same length: the mask is built and sent once.
        """
        key = (suffixes, length, self.limits.max_tokens)
        if key not in self._packed:
            rows = pack(suffixes, self.limits.max_tokens)
            self._packed = {key: [self._pack(row, row.ends, length) for row in rows]}
        return self._packed[key]

    def _pack(self, row: TreeRow, keep: Array, length: int) -> _Packed:
        """Return a row after a prefix of `length`, whose logits are needed at `keep`."""
        attends = np.concatenate([np.ones((len(row.tokens), length), dtype=bool), row.attends], axis=1)
        positions = np.concatenate([np.arange(length), length + row.depths])
        return self._to_device(
            row.tokens[None], length + row.depths[None], attends[None], positions[None], keep, row.sequences
        )

    def _to_device(
        self, ids: Array, own_ids: Array, attends: Array, positions: Array, keep: Array, sequences: Sequence[int] = ()
    ) -> _Packed:
        """Send `ids` [rows, t] at positions `own_ids`; they attend to `attends` [rows, t, cache + t] of `positions`."""
        device = input_device(self.model, str(self.model.device))
        tokens, places, wanted = (
            torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in (ids, own_ids, keep)
        )
        return _Packed(tokens, places, self._masks(attends, own_ids, positions, device), wanted, tuple(sequences))

    def _run(self, prefix: _PrefixCache, packed: _Packed) -> torch.Tensor:
        position = (packed.positions + prefix.shift).expand(prefix.rows, -1)
        options = {"logits_to_keep": packed.keep} if self._keeps else {}
        length = packed.ids.shape[1]
        self.calls += 1
        with torch.no_grad():
            output = self.text(
                input_ids=packed.ids.expand(prefix.rows, -1),
                attention_mask=packed.masks,
                position_ids=position[None].expand(3, -1, -1) if self._has_rope_deltas else position,
                past_key_values=prefix.cache,
                use_cache=True,
                **{name: value.expand(-1, length, *value.shape[2:]) for name, value in prefix.inputs.items()},
                **options,
            )
        logits: torch.Tensor = output.logits
        return (logits if self._keeps else logits[:, packed.keep]).float()

    def _masks(self, attends: Array, new_positions: Array, positions: Array, device: str) -> Masks:
        """Return the 4-D mask, or one for each kind of layer if some layers have a sliding window."""
        full = self._mask(attends, device)
        if self._window is None and self._chunk is None:
            return full
        masks = {"full_attention": full}
        if self._window is not None:
            near = self._mask(attends & (new_positions[:, :, None] - positions[:, None, :] < self._window), device)
            if not self._kinds:
                return near
            masks["sliding_attention"] = near
        if self._chunk is not None:
            same = new_positions[:, :, None] // self._chunk == positions[:, None, :] // self._chunk
            masks["chunked_attention"] = self._mask(attends & same, device)
        return masks

    def _mask(self, attends: Array, device: str) -> torch.Tensor:
        mask = torch.from_numpy(attends).to(device)[:, None]
        if not self._additive:
            return mask
        dtype = self.model.dtype
        return torch.zeros(mask.shape, dtype=dtype, device=device).masked_fill(~mask, torch.finfo(dtype).min)

    @property
    def _inner(self) -> Any:
        return getattr(self.model, "model", self.model)

    @property
    def _has_rope_deltas(self) -> bool:
        """Whether positions have three axes (time, height, width), as in Qwen's multimodal rotary embedding."""
        return hasattr(self._inner, "rope_deltas")

    def _position_shift(self) -> int:
        """Return the next text position minus the number of tokens (an image takes fewer positions than tokens)."""
        deltas = self._inner.rope_deltas if self._has_rope_deltas else None
        if deltas is None:
            return 0
        offsets = {int(delta) for delta in deltas.flatten().tolist()}
        if len(offsets) > 1:
            raise RuntimeError("images of different layout are in one batch")
        return offsets.pop()


@dataclass(frozen=True, eq=False)
class _Packed:
    """Tokens of one pass on the device: ids and positions [1 or rows, t], masks, and where logits are needed."""

    ids: torch.Tensor
    positions: torch.Tensor
    masks: Masks
    keep: torch.Tensor
    sequences: tuple[int, ...]


def tree(loaded: LoadedModel, limits: BatchLimits) -> SharedPrefix:
    """Return the strategy of `sharing=tree`."""
    return SharedPrefix(loaded.model, loaded.facts.text_model, limits)


def _subset(pick: Pick, indices: Sequence[int]) -> Pick:
    """Return `pick` for a subset of the prompts, which are counted from 0 there."""
    return lambda pairs, logits: pick([(row, indices[index]) for row, index in pairs], logits)


def _parameters(function: Callable[..., object]) -> set[str]:
    return set(inspect.signature(function).parameters)
