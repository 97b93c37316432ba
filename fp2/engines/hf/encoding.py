"""From pictures and prompts to the model's inputs: a picture goes through the processor once, a prompt once a run.

What a processor makes of a prompt depends on the picture only in the run of picture tokens that stands for it. So the
tokens behind that run are remembered for every prompt, and a new picture needs the processor for one prompt only.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from fp2.engines.hf.placement import input_device
from fp2.engines.hf.token_tree import Tokens, common_length

if TYPE_CHECKING:
    from PIL import Image

_NOT_PASSED_ON = ("input_ids", "attention_mask", "labels")
Wanted = tuple[int, Tokens]
"""Which prompt of a picture, and what is put behind it."""


@dataclass(frozen=True, eq=False)
class Stimulus:
    """A picture (or none) as the model gets it, with the prompts to be asked about it.

    Attributes
    ----------
    head : tokens
        What all prompts begin with; holds the whole picture unless `picture_in_head` is False.
    tails : tuple of tokens
        How each prompt goes on; never empty.
    inputs : Mapping
        The processor's tensors for the picture, first axis pictures or their parts.
    per_token : Mapping
        Tensors [1, length of head] that the processor gave beside `input_ids` (token types).
    fill : Mapping
        The value of each of those for the tokens of a tail.
    """

    head: Tokens
    tails: tuple[Tokens, ...]
    inputs: Mapping[str, torch.Tensor]
    per_token: Mapping[str, torch.Tensor]
    fill: Mapping[str, int]
    picture_in_head: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the picture's tensors."""
        return sum(value.nbytes for value in self.inputs.values())

    @property
    def layout(self) -> tuple[Any, ...]:
        """Pictures of equal layout can go side by side: same tokens, same shapes of what the processor gave."""
        return self.head, self.tails, tuple((name, tuple(value.shape)) for name, value in self.inputs.items())


class PromptBook:
    """Encodes prompts with pictures, remembering what does not depend on the picture.

    Parameters
    ----------
    processor : ProcessorMixin
        As loaded, its image processor behind a memory of pictures.
    picture_tokens : set of int
        Ids that stand for pieces of a picture; when empty, nothing is remembered and every prompt is encoded anew.
    adds_start : callable
        Whether the tokenizer shall add its own start token to this prompt (a chat template may have written it).
    """

    def __init__(self, processor: Any, picture_tokens: set[int], adds_start: Any) -> None:
        self._processor, self._picture_tokens, self._adds_start = processor, picture_tokens, adds_start
        self._behind: dict[tuple[str, bool], Tokens | None] = {}
        self._checked: set[tuple[int, bool]] = set()

    def show(self, picture: Image.Image | None, prompts: Sequence[str]) -> Stimulus:
        """Return the inputs for all `prompts` about `picture` (None: prompts without a picture).

        Raises
        ------
        RuntimeError
            If the processor makes of the same prompt something else beside another picture.
        """
        first = self._encode(picture, prompts[0])
        known = self._ids(first)
        end = self._picture_end(known)
        behind = [self._behind_picture(picture, prompt, known, end) for prompt in prompts]
        if None in behind:
            ids = [known, *(self._ids(self._encode(picture, prompt)) for prompt in prompts[1:])]
            shared, tails = _divided(tuple(ids))
        else:
            self._check(picture, prompts[-1], known[:end] + (behind[-1] or ()))
            shared, tails = _divided(tuple(row for row in behind if row is not None))
            shared += end
        per_token = {
            name: value[:, :shared]
            for name, value in first.items()
            if name not in _NOT_PASSED_ON and value.shape == first["input_ids"].shape
        }
        fill = {name: int(first[name][0, -1]) for name in per_token}
        inputs = {name: value for name, value in first.items() if name not in per_token and name not in _NOT_PASSED_ON}
        return Stimulus(known[:shared], tails, inputs, per_token, fill, picture is None or 0 < end <= shared)

    def _encode(self, picture: Image.Image | None, prompt: str) -> dict[str, torch.Tensor]:
        options: dict[str, Any] = {} if self._adds_start(prompt) else {"add_special_tokens": False}
        images = {} if picture is None else {"images": [[picture]]}
        encoded = self._processor(text=[prompt], return_tensors="pt", **images, **options)
        return {name: value for name, value in encoded.items() if isinstance(value, torch.Tensor)}

    @staticmethod
    def _ids(encoded: Mapping[str, torch.Tensor]) -> Tokens:
        return tuple(encoded["input_ids"][0].tolist())

    def _behind_picture(self, picture: Image.Image | None, prompt: str, known: Tokens, end: int) -> Tokens | None:
        """Return the ids of `prompt` behind the picture; None where it differs from `known` before that, too."""
        if picture is not None and end == 0:
            return None
        key = (prompt, picture is None)
        if key not in self._behind:
            own = self._ids(self._encode(picture, prompt))
            own_end = self._picture_end(own)
            same = own[:own_end] == known[:end] and own_end < len(own)
            self._behind[key] = own[own_end:] if same else None
        return self._behind[key]

    def _picture_end(self, ids: Tokens) -> int:
        """Return the place behind the last picture token (0 without any)."""
        return next((place + 1 for place in range(len(ids) - 1, -1, -1) if ids[place] in self._picture_tokens), 0)

    def _check(self, picture: Image.Image | None, prompt: str, ids: Tokens) -> None:
        """Compare with the processor itself, once for every length that prompts come to."""
        kind = (len(ids), picture is None)
        if kind in self._checked:
            return
        if self._ids(self._encode(picture, prompt)) != ids:
            raise RuntimeError("the processor writes the same prompt otherwise beside another picture")
        self._checked.add(kind)


@functools.lru_cache(maxsize=256)
def _divided(rows: tuple[Tokens, ...]) -> tuple[int, tuple[Tokens, ...]]:
    """Return how much all rows share, leaving at least one token to each, and the rest of each."""
    shared = min(common_length(rows), min(map(len, rows)) - 1)
    return shared, tuple(row[shared:] for row in rows)


def head_inputs(group: Sequence[Stimulus], model: Any) -> dict[str, torch.Tensor]:
    """Return the model's inputs for the heads of pictures of one layout, side by side."""
    first = group[0]
    ids = torch.tensor(first.head, device=device_of(model))[None].expand(len(group), -1)
    per_token = {name: torch.cat([shown.per_token[name] for shown in group]).to(ids.device) for name in first.per_token}
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **picture_inputs(group, model), **per_token}


def picture_inputs(group: Sequence[Stimulus], model: Any) -> dict[str, torch.Tensor]:
    """Return the pictures' tensors joined, on the model's device and, if they are not whole numbers, in its dtype."""
    joined = {name: torch.cat([shown.inputs[name] for shown in group]) for name in group[0].inputs}
    device = device_of(model)
    return {
        name: value.to(device, dtype=model.dtype if value.is_floating_point() else value.dtype)
        for name, value in joined.items()
    }


def device_of(model: Any) -> str:
    """Return where the model's inputs go: its device, or the first one of a model that is spread over several."""
    return input_device(model, str(model.device))
