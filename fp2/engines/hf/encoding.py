"""From images and prompts to the model's inputs: each image is processed once, each prompt tokenised once a run.

The tokens of a prompt depend on the image only in the image tokens. So the tokens after them are remembered for every
prompt, and a further image needs the processor for one prompt only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from fp2.engines.hf.likelihoods import Tokens
from fp2.engines.hf.placement import input_device

if TYPE_CHECKING:
    from PIL import Image
    from transformers import PreTrainedModel, ProcessorMixin

_NOT_PASSED_ON = ("input_ids", "attention_mask", "labels")
Continuation = tuple[int, Tokens]
"""The index of one of an image's prompts, and tokens that are appended to it."""


@dataclass(frozen=True, eq=False)
class EncodedPrompts:
    """The prompts about one image (or about none), as the model gets them.

    Attributes
    ----------
    prefix : tokens
        The common prefix of all prompts; contains the whole image if `image_in_prefix`.
    suffixes : tuple of tokens
        The rest of each prompt; never empty.
    image_inputs : Mapping
        The processor's tensors for the image; first axis images, or parts of one.
    token_inputs : Mapping
        Tensors [1, length of prefix, ...] that the processor gave beside `input_ids` (token types, masks of the image).
    fill : Mapping
        Each of those for a token of a suffix, [1, 1, ...].
    image_in_prefix : bool
    """

    prefix: Tokens
    suffixes: tuple[Tokens, ...]
    image_inputs: Mapping[str, torch.Tensor]
    token_inputs: Mapping[str, torch.Tensor]
    fill: Mapping[str, torch.Tensor]
    image_in_prefix: bool

    def tokens(self, prompt: int) -> Tokens:
        """Return all tokens of a prompt."""
        return self.prefix + self.suffixes[prompt]

    @property
    def nbytes(self) -> int:
        """Bytes of the image's tensors."""
        return sum(value.nbytes for value in self.image_inputs.values())

    @property
    def image_shapes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The shapes of the image's tensors."""
        return tuple((name, tuple(value.shape)) for name, value in self.image_inputs.items())

    @property
    def layout(self) -> tuple[object, ...]:
        """Equal for prompts that can be in one batch: the same tokens, and images of the same shapes."""
        return self.prefix, self.suffixes, self.image_shapes


class PromptEncoder:
    """Encodes prompts with images, remembering what does not depend on the image.

    Parameters
    ----------
    processor : ProcessorMixin
        As loaded, with a `LastImageProcessor`.
    image_tokens : set of int
        Ids of image tokens; if empty, nothing is remembered and every prompt is encoded for every image.
    adds_start_token : callable
        Whether the tokenizer adds its own start token to a prompt (a chat template may have one).
    """

    def __init__(
        self, processor: ProcessorMixin, image_tokens: set[int], adds_start_token: Callable[[str], bool]
    ) -> None:
        self._processor, self._image_tokens, self._adds_start_token = processor, image_tokens, adds_start_token
        self._after_image: dict[tuple[str, int], Tokens | None] = {}
        self._checked: set[tuple[int, int]] = set()

    def encode(self, images: Sequence[Image.Image], prompts: Sequence[str]) -> EncodedPrompts:
        """Return the inputs for all `prompts` about `images`, which each of them shows (none: prompts without one).

        Raises
        ------
        RuntimeError
            If the processor encodes the same prompt differently with another image.
        """
        first = self._process(images, prompts[0])
        ids_of_first = self._ids(first)
        end = self._image_end(ids_of_first)
        rest = [self._ids_after_image(images, prompt, ids_of_first, end) for prompt in prompts]
        if None in rest:
            ids = [ids_of_first, *(self._ids(self._process(images, prompt)) for prompt in prompts[1:])]
            shared, suffixes = _split(tuple(ids))
        else:
            self._check(images, prompts[-1], ids_of_first[:end] + (rest[-1] or ()))
            shared, suffixes = _split(tuple(row for row in rest if row is not None))
            shared += end
        token_inputs = {
            name: value[:, :shared]
            for name, value in first.items()
            if name not in _NOT_PASSED_ON and value.shape[:2] == first["input_ids"].shape
        }
        fill = {name: first[name][:, -1:] for name in token_inputs}
        image_inputs = {
            name: value for name, value in first.items() if name not in token_inputs and name not in _NOT_PASSED_ON
        }
        in_prefix = not images or 0 < end <= shared
        return EncodedPrompts(ids_of_first[:shared], suffixes, image_inputs, token_inputs, fill, in_prefix)

    def _process(self, images: Sequence[Image.Image], prompt: str) -> dict[str, torch.Tensor]:
        options: dict[str, object] = {} if self._adds_start_token(prompt) else {"add_special_tokens": False}
        shown = {"images": [list(images)]} if images else {}
        encoded = self._processor(text=[prompt], return_tensors="pt", **shown, **options)
        return {name: value for name, value in encoded.items() if isinstance(value, torch.Tensor)}

    @staticmethod
    def _ids(encoded: Mapping[str, torch.Tensor]) -> Tokens:
        return tuple(encoded["input_ids"][0].tolist())

    def _ids_after_image(
        self, images: Sequence[Image.Image], prompt: str, ids_of_first: Tokens, end: int
    ) -> Tokens | None:
        """Return the ids of `prompt` after the last image; None if it differs from `ids_of_first` before that."""
        if images and end == 0:
            return None
        key = (prompt, len(images))
        if key not in self._after_image:
            ids = self._ids(self._process(images, prompt))
            own_end = self._image_end(ids)
            same = ids[:own_end] == ids_of_first[:end] and own_end < len(ids)
            self._after_image[key] = ids[own_end:] if same else None
        return self._after_image[key]

    def _image_end(self, ids: Tokens) -> int:
        return next(
            (position + 1 for position in range(len(ids) - 1, -1, -1) if ids[position] in self._image_tokens), 0
        )

    def _check(self, images: Sequence[Image.Image], prompt: str, ids: Tokens) -> None:
        """Compare with the processor's own result, once for each length of prompts."""
        kind = (len(ids), len(images))
        if kind in self._checked:
            return
        if self._ids(self._process(images, prompt)) != ids:
            raise RuntimeError("the processor encodes the same prompt differently with another image")
        self._checked.add(kind)


@functools.lru_cache(maxsize=256)
def _split(rows: tuple[Tokens, ...]) -> tuple[int, tuple[Tokens, ...]]:
    """Return the length of the common prefix, leaving at least one token of each row, and the rest of each."""
    shared = min(common_prefix_length(rows), min(map(len, rows)) - 1)
    return shared, tuple(row[shared:] for row in rows)


def common_prefix_length(sequences: Sequence[Tokens]) -> int:
    """Return the length of the longest common prefix of `sequences` (0 for no sequence)."""
    if not sequences:
        return 0
    low, high = min(sequences), max(sequences)  # these two differ first
    for length, (lower, right) in enumerate(zip(low, high, strict=False)):
        if lower != right:
            return length
    return min(len(low), len(high))


def prefix_inputs(batch: Sequence[EncodedPrompts], model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Return the model's inputs for the prefixes of prompts of one layout."""
    first = batch[0]
    ids = torch.tensor(first.prefix, device=device_of(model))[None].expand(len(batch), -1)
    token_inputs = {
        name: torch.cat([encoded.token_inputs[name] for encoded in batch]).to(ids.device) for name in first.token_inputs
    }
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **image_inputs(batch, model), **token_inputs}


def suffix_inputs(batch: Sequence[EncodedPrompts], model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Return what a token after the prefixes needs beside a cache, [images, 1, ...]: which parts of an image it sees.

    Token types are not among it: after the image they are those of text, which is the default.
    """
    fill = batch[0].fill
    return {
        name: torch.cat([encoded.fill[name] for encoded in batch]).to(device_of(model))
        for name in fill
        if fill[name].ndim > 2
    }


def image_inputs(batch: Sequence[EncodedPrompts], model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Return the images' tensors, concatenated, on the model's device, floating-point ones in its dtype."""
    joined = {name: torch.cat([encoded.image_inputs[name] for encoded in batch]) for name in batch[0].image_inputs}
    device = device_of(model)
    return {
        name: value.to(device, dtype=model.dtype if value.is_floating_point() else value.dtype)
        for name, value in joined.items()
    }


def device_of(model: PreTrainedModel) -> str:
    """Return the device of the model's inputs."""
    return input_device(model, str(model.device))
