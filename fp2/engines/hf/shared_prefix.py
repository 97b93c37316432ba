"""A picture and what all its prompts begin with are computed once; every question goes on from there, as a tree.

The keys and values of the common beginning stay in a cache. The rest of the prompts is packed into rows
(`token_tree`), each one forward pass with an explicit mask and explicit positions: exact for causal models, where
what comes later changes nothing before it. Text is generated in the same layout: at each step one new token per prompt.

Several pictures go side by side when their beginnings are token for token the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers.cache_utils import Cache, DynamicLayer

from fp2.engines.hf.encoding import Stimulus, Wanted, device_of, head_inputs
from fp2.engines.hf.generation import Pick
from fp2.engines.hf.token_tree import Tokens, TreeRow, plant
from fp2.engines.limits import Limits

Numbers = npt.NDArray[Any]
_ANY_LENGTH = 1 << 30


class _PrefixLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of one layer; once `frozen`, new ones are joined for the moment and not kept."""

    frozen = False

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the kept keys and values with the new ones behind them; each [rows, heads, length, head size]."""
        if self.frozen and self.keys is not None and self.values is not None:
            return torch.cat([self.keys, key_states], dim=-2), torch.cat([self.values, value_states], dim=-2)
        kept: tuple[torch.Tensor, torch.Tensor] = super().update(key_states, value_states, *args, **kwargs)
        return kept


@dataclass
class _Seen:
    """What lies in the cache after a forward pass over `length` tokens of `rows` pictures."""

    cache: Cache
    rows: int
    length: int
    shift: int  # from a token's place in its sequence to its position number

    def cut(self) -> None:
        """Drop everything behind the beginning."""
        layers: Any = self.cache.layers
        for layer in layers:
            layer.keys, layer.values = layer.keys[..., : self.length, :], layer.values[..., : self.length, :]

    def freeze(self, frozen: bool) -> None:
        """Keep (False) or do not keep (True) what further passes add."""
        layers: Any = self.cache.layers
        for layer in layers:
            layer.frozen = frozen


class SharedPrefix:
    """Asks a causal model many things about the same pictures.

    Parameters
    ----------
    model : PreTrainedModel
        As loaded; its text part must be causal.
    text_model : str
        Attribute of the causal language model inside `model` when `model` itself cannot go on from a cache without
        a picture; empty for `model` itself.
    limits : Limits, optional
        Most tokens in one pass behind the beginning, and most pairs of picture and prompt that are generated together.
    """

    def __init__(self, model: Any, text_model: str = "", limits: Limits | None = None) -> None:
        self.model = model
        self.text = getattr(model, text_model) if text_model else model
        self.limits = limits or Limits(batch_size=64, max_tokens=512)
        self.calls = 0
        self._packed: dict[Any, list[_Packed]] = {}
        text_config = model.config.get_text_config()
        kinds = set(getattr(text_config, "layer_types", None) or ())
        window = getattr(text_config, "sliding_window", None)
        self._window = window if not kinds or "sliding_attention" in kinds else None
        self._kinds = kinds
        self._additive = getattr(text_config, "_attn_implementation", "sdpa") == "eager"
        self._keeps = "logits_to_keep" in _parameters(self.text.forward)

    @staticmethod
    def fits(shown: Stimulus) -> bool:
        """Return whether the prompts begin in common with all of the picture, so that there is something to share."""
        return shown.picture_in_head and len(shown.head) > 0

    def read(self, shown: Stimulus, wanted: Sequence[Wanted]) -> Iterator[tuple[Sequence[int], torch.Tensor]]:
        """Yield (which of `wanted`, their next-token logits [n, vocabulary] in float32), every one of them once."""
        seen = self._prefill([shown])
        seen.freeze(True)
        tails = tuple(shown.tails[which] + behind for which, behind in wanted)
        for packed in self._packed_for(tails, seen.length):
            yield packed.sequences, self._run(seen, packed)[0]

    def generate(self, group: Sequence[Stimulus], pick: Pick, stops: set[int], max_new: int) -> list[list[list[int]]]:
        """Return the new tokens [pictures][prompts] for pictures of one layout, side by side.

        Each has up to `max_new` tokens, and ends with the first of `stops`.
        """
        seen, tails = self._prefill(group), group[0].tails
        said: list[list[list[int]]] = [[[] for _ in tails] for _ in group]
        alike = sorted(range(len(tails)), key=lambda place: tails[place])  # what begins alike goes together
        together = max(1, self.limits.batch_size // len(group))
        for start in range(0, len(tails), together):
            some = alike[start : start + together]
            words = self._generate(seen, [tails[place] for place in some], _of(pick, some), stops, max_new)
            for row, own in zip(said, words, strict=True):
                for place, tokens in zip(some, own, strict=True):
                    row[place] = tokens
            seen.cut()
        return said

    def _generate(
        self, seen: _Seen, tails: Sequence[Tokens], pick: Pick, stops: set[int], max_new: int
    ) -> list[list[list[int]]]:
        (row,) = plant(tuple(tails), _ANY_LENGTH)
        run = _Generation(row, seen.length, seen.rows, stops)
        logits = self._run(seen, self._pack(row, run.in_order, seen.length))
        for step in range(max_new):
            run.say(pick(run.pairs, logits.flatten(0, 1)))
            if not len(run.active) or step == max_new - 1:
                break
            logits = self._step(seen, run)
        return run.said

    def _prefill(self, group: Sequence[Stimulus]) -> _Seen:
        """Run the common beginning of pictures of one layout."""
        cache = Cache(layer_class_to_replicate=_PrefixLayer)
        options: dict[str, Any] = {"logits_to_keep": 1} if "logits_to_keep" in _parameters(self.model.forward) else {}
        self._forget_positions()
        self.calls += 1
        with torch.no_grad():
            self.model(**head_inputs(group, self.model), past_key_values=cache, use_cache=True, **options)
        length = int(cache.get_seq_length())
        if length != len(group[0].head):
            raise RuntimeError(f"the model kept {length} of {len(group[0].head)} tokens in its cache")
        return _Seen(cache, len(group), length, self._rope_delta())

    def _packed_for(self, tails: tuple[Tokens, ...], length: int) -> list[_Packed]:
        """Return the rows for `tails` behind a beginning of `length`, remembered from the last picture if it had them.

        All pictures of a run have the same tails, and most the same length: the mask is built and sent once.
        """
        key = (tails, length, self.limits.max_tokens)
        if key not in self._packed:
            rows = plant(tails, self.limits.max_tokens)
            self._packed = {key: [self._pack(row, row.ends, length) for row in rows]}
        return self._packed[key]

    def _pack(self, row: TreeRow, keep: Numbers, length: int) -> _Packed:
        """Return a row behind a beginning of `length`, whose logits are wanted at `keep`."""
        sees = np.concatenate([np.ones((len(row.tokens), length), dtype=bool), row.sees], axis=1)
        places = np.concatenate([np.arange(length), length + row.depths])
        return self._placed(row.tokens[None], length + row.depths, sees, places, keep, row.sequences)

    def _step(self, seen: _Seen, run: _Generation) -> torch.Tensor:
        """Run the newest token of each active tail; return their next logits."""
        own, keep = run.lengths[run.active] - 1, np.arange(len(run.active))
        return self._run(seen, self._placed(run.newest, own, run.sees[run.active], run.places, keep))

    def _placed(
        self, ids: Numbers, own: Numbers, sees: Numbers, places: Numbers, keep: Numbers, sequences: Sequence[int] = ()
    ) -> _Packed:
        """Put on the device `ids` [rows, t], which stand at `own` [t] and see `sees` [t, cache + t] of `places`."""
        device = device_of(self.model)
        tokens, stands, wanted = (torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in (ids, own, keep))
        return _Packed(tokens, stands, self._masks(sees, own, places, device), wanted, tuple(sequences))

    def _run(self, seen: _Seen, packed: _Packed) -> torch.Tensor:
        """Run packed tokens behind the beginning; return the logits that are wanted."""
        position = (packed.own + seen.shift)[None].expand(seen.rows, -1)
        options = {"logits_to_keep": packed.keep} if self._keeps else {}
        self.calls += 1
        with torch.no_grad():
            output = self.text(
                input_ids=packed.ids.expand(seen.rows, -1),
                attention_mask=packed.masks,
                position_ids=position[None].expand(3, -1, -1) if self._has_rope_deltas else position,
                past_key_values=seen.cache,
                use_cache=True,
                **options,
            )
        logits: torch.Tensor = output.logits
        return (logits if self._keeps else logits[:, packed.keep]).float()

    def _masks(self, sees: Numbers, own: Numbers, places: Numbers, device: Any) -> Any:
        """Return the 4-D mask, or one per kind of layer where some layers look back a limited way only."""
        full = self._mask(sees, device)
        if self._window is None:
            return full
        near = self._mask(sees & (own[:, None] - places[None, :] < self._window), device)
        return {"full_attention": full, "sliding_attention": near} if self._kinds else near

    def _mask(self, sees: Numbers, device: Any) -> torch.Tensor:
        mask = torch.from_numpy(sees).to(device)[None, None]
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

    def _forget_positions(self) -> None:
        if self._has_rope_deltas:
            self._inner.rope_deltas = None

    def _rope_delta(self) -> int:
        """Return how far the next text position lies from the number of tokens (a picture takes fewer positions)."""
        deltas = self._inner.rope_deltas if self._has_rope_deltas else None
        if deltas is None:
            return 0
        found = {int(delta) for delta in deltas.flatten().tolist()}
        if len(found) > 1:
            raise RuntimeError("pictures of different layout were put side by side")
        return found.pop()


@dataclass(frozen=True, eq=False)
class _Packed:
    """Tokens of one pass on the device: ids [1 or rows, t], places [t], masks, and where logits are wanted."""

    ids: torch.Tensor
    own: torch.Tensor
    masks: Any
    keep: torch.Tensor
    sequences: tuple[int, ...]


def _of(pick: Pick, places: Sequence[int]) -> Pick:
    """Return `pick` for some of the prompts, which count from 0 here."""
    return lambda pairs, logits: pick([(row, places[place]) for row, place in pairs], logits)


class _Generation:
    """Text under way: how long each tail is by now, what it sees of the cache, and what was said."""

    def __init__(self, row: TreeRow, n_prefix: int, n_rows: int, stops: set[int]) -> None:
        self.stops = stops
        self.active: Numbers = np.sort(np.array(row.sequences))
        ends = np.empty(len(row.sequences), dtype=np.int64)
        ends[list(row.sequences)] = row.ends
        self.said: list[list[list[int]]] = [[[] for _ in ends] for _ in range(n_rows)]
        self.lengths: Numbers = n_prefix + row.depths[ends] + 1
        self.places: Numbers = np.concatenate([np.arange(n_prefix), n_prefix + row.depths])
        self.sees: Numbers = np.concatenate([np.ones((len(ends), n_prefix), dtype=bool), row.sees[ends]], axis=1)
        self.in_order: Numbers = ends
        """Where each tail ends in the row, in the order of the tails."""

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """(picture, tail) of everything that goes on."""
        return [(row, place) for row in range(len(self.said)) for place in self.active.tolist()]

    def say(self, tokens: Sequence[int]) -> None:
        """Put a token behind each of `pairs`, and go on with the tails that have not ended everywhere.

        A picture whose text has ended goes along unheard until the same tail has ended for every picture.
        """
        for (row, place), token in zip(self.pairs, tokens, strict=True):
            if not self._ended(self.said[row][place]):
                self.said[row][place].append(token)
        going = [not all(self._ended(said[place]) for said in self.said) for place in self.active.tolist()]
        self.active = self.active[np.array(going, dtype=bool)]
        own = np.zeros((len(self.sees), len(self.active)), dtype=bool)
        own[self.active, np.arange(len(self.active))] = True
        self.sees = np.concatenate([self.sees, own], axis=1)
        self.places = np.concatenate([self.places, self.lengths[self.active]])
        self.lengths[self.active] += 1

    def _ended(self, said: list[int]) -> bool:
        return bool(said) and said[-1] in self.stops

    @property
    def newest(self) -> Numbers:
        """The last token of each active tail, [rows, active]."""
        return np.array([[said[place][-1] for place in self.active.tolist()] for said in self.said])


def _parameters(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)
