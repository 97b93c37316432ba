"""Every prompt is computed whole; at most the picture's features are shared. For models whose prompts see backwards.

Prompts of one length go side by side, so nothing is ever padded. In a prefix-LM (PaliGemma) picture and prompt attend
to each other both ways, and only what comes behind the prompt is causal.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers.generation.utils import GenerationMixin

from fp2.engines.hf.encoding import Stimulus, Wanted, device_of, picture_inputs
from fp2.engines.hf.generation import Pair, Pick
from fp2.engines.hf.token_tree import Tokens
from fp2.engines.limits import Limits

_Whole = tuple[Stimulus, int, Tokens]  # a picture, which of its prompts, and what is put behind that prompt

# Fields of a vision output of which the text part reads the pooled one; features of several depths are not among them.
_JOINABLE = {
    "last_hidden_state", "pooler_output", "hidden_states", "attentions", "vision_outputs", "qformer_outputs",
}  # fmt: skip


class WholePrompts:
    """Asks with one full prompt per question.

    Parameters
    ----------
    model : PreTrainedModel
        As loaded.
    share_pictures : bool
        Encode a picture once and hand its features to every prompt (`mm_encoder_outputs`).
    limits : Limits
        Most prompts side by side.
    """

    def __init__(self, model: Any, *, share_pictures: bool, limits: Limits) -> None:
        self.model, self.limits = model, limits
        self.share_pictures = share_pictures and hasattr(model.base_model, "get_image_features")
        self.calls = 0
        self._features: dict[int, tuple[Stimulus, Any]] = {}
        text = model.config.get_text_config()
        keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._keep_last: dict[str, Any] = {"logits_to_keep": 1} if keeps else {}
        # BLIP-2 has a `generate` of its own, which takes no features.
        takes = getattr(model, "generates_from_features", False)
        self._generate_shares = takes or type(model).generate is GenerationMixin.generate
        self._decoder_start = text.decoder_start_token_id if getattr(text, "is_encoder_decoder", False) else None

    @staticmethod
    def fits(shown: Stimulus) -> bool:
        """Return True: every prompt can be computed whole."""
        return True

    def read(self, shown: Stimulus, wanted: Sequence[Wanted]) -> Iterator[tuple[Sequence[int], torch.Tensor]]:
        """Yield (which of `wanted`, their next-token logits [n, vocabulary] in float32), every one of them once."""
        prompts = [(shown, which, behind) for which, behind in wanted]
        self._features.clear()
        for places in self._batches(prompts):
            yield places, self._read([prompts[place] for place in places])
        self._features.clear()

    def generate(self, group: Sequence[Stimulus], pick: Pick, stops: set[int], max_new: int) -> list[list[list[int]]]:
        """Return the new tokens [pictures][prompts], each up to `max_new` and ending with the first of `stops`."""
        pairs = [(row, which) for row, shown in enumerate(group) for which in range(len(shown.tails))]
        prompts: list[_Whole] = [(group[row], which, ()) for row, which in pairs]
        said: list[list[list[int]]] = [[[] for _ in shown.tails] for shown in group]
        self._features.clear()
        for places in self._batches(prompts):
            some = [pairs[place] for place in places]
            words = self._generate([prompts[place] for place in places], some, pick, stops, max_new)
            for (row, which), tokens in zip(some, words, strict=True):
                said[row][which] = tokens
        self._features.clear()
        return said

    def _batches(self, prompts: Sequence[_Whole]) -> Iterator[list[int]]:
        """Yield places of prompts that can go side by side: of one length, and pictures of one shape."""
        alike: dict[Any, list[int]] = {}
        for place, (shown, which, behind) in enumerate(prompts):
            shapes = tuple((name, tuple(value.shape)) for name, value in shown.inputs.items())
            key = (len(shown.head) + len(shown.tails[which]), len(behind), shapes)
            alike.setdefault(key, []).append(place)
        for places in alike.values():
            for start in range(0, len(places), self.limits.batch_size):
                yield places[start : start + self.limits.batch_size]

    def _read(self, batch: Sequence[_Whole]) -> torch.Tensor:
        self.calls += 1
        if self._decoder_start is None:
            inputs = self._inputs(batch, share=self.share_pictures)
        else:
            inputs = self._decoder_inputs(batch)
        with torch.no_grad():
            # BLIP-2 wants its pictures named even where it gets their features
            logits: torch.Tensor = self.model(**{"pixel_values": None} | inputs, **self._keep_last).logits
        return logits[:, -1].float()

    def _generate(
        self, batch: Sequence[_Whole], pairs: Sequence[Pair], pick: Pick, stops: set[int], max_new: int
    ) -> list[list[int]]:
        self.calls += 1
        inputs = self._inputs(batch, share=self.share_pictures and self._generate_shares)
        with torch.no_grad():
            output = self.model.generate(
                **inputs,
                max_new_tokens=max_new,
                do_sample=False,
                eos_token_id=sorted(stops) or None,
                pad_token_id=min(stops, default=0),
                logits_processor=[_Picker(pick, pairs)],
            )
        prompt = inputs["input_ids"]
        if output.shape[1] >= prompt.shape[1] and torch.equal(output[:, : prompt.shape[1]], prompt):
            output = output[:, prompt.shape[1] :]
        elif self._decoder_start is not None:
            output = output[:, 1:]  # an encoder-decoder gives its start token and the new ones
        return [_until_end(row, stops) for row in output.tolist()]

    def _inputs(self, batch: Sequence[_Whole], *, share: bool) -> dict[str, Any]:
        rows = [shown.head + shown.tails[which] + behind for shown, which, behind in batch]
        ids = torch.tensor(rows, device=device_of(self.model))
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        for name in batch[0][0].per_token:
            inputs[name] = torch.cat([_stretched(shown, name, ids.shape[1], len(behind)) for shown, _, behind in batch])
            inputs[name] = inputs[name].to(ids.device)
        pictures = [shown for shown, _, _ in batch]
        if not pictures[0].inputs:
            return inputs
        if share:
            return inputs | self._shared(pictures)
        return inputs | picture_inputs(pictures, self.model)

    def _decoder_inputs(self, batch: Sequence[_Whole]) -> dict[str, Any]:
        """Return the inputs for an encoder-decoder: what is put behind the prompt is what the decoder has said."""
        inputs = self._inputs([(shown, which, ()) for shown, which, _ in batch], share=self.share_pictures)
        said = [[self._decoder_start, *behind] for _, _, behind in batch]
        return inputs | {"decoder_input_ids": torch.tensor(said, device=device_of(self.model))}

    def _shared(self, pictures: Sequence[Stimulus]) -> dict[str, Any]:
        """Return the features of the pictures, encoded at first sight, and the inputs that the text part needs too."""
        features = [self._encoded(shown) for shown in pictures]
        if any(set(feature.keys()) - _JOINABLE for feature in features):
            self.share_pictures = False
            return picture_inputs(pictures, self.model)
        parts = [feature.pooler_output for feature in features]
        pooled = torch.cat(parts) if isinstance(parts[0], torch.Tensor) else [one for part in parts for one in part]
        rest = {
            name: value for name, value in picture_inputs(pictures, self.model).items() if not name.startswith("pixel_")
        }
        return {"mm_encoder_outputs": {"image": type(features[0])(pooler_output=pooled)}, **rest}

    def _encoded(self, shown: Stimulus) -> Any:
        if id(shown) not in self._features:
            inputs = picture_inputs([shown], self.model)
            with torch.no_grad():
                self._features[id(shown)] = (
                    shown,
                    self.model.base_model.get_image_features(**inputs, return_dict=True),
                )
        return self._features[id(shown)][1]


class _Picker:
    """Makes `generate` take the tokens that `pick` names."""

    def __init__(self, pick: Pick, pairs: Sequence[Pair]) -> None:
        self.pick, self.pairs = pick, pairs

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        chosen = torch.tensor(self.pick(self.pairs, scores.float()), device=scores.device)
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen[:, None], 0.0)


def _stretched(shown: Stimulus, name: str, length: int, n_behind: int) -> torch.Tensor:
    head, fill = shown.per_token[name], shown.fill[name]
    tail = torch.full((1, length - head.shape[1]), fill, dtype=head.dtype)
    if n_behind and name == "token_type_ids":
        tail[:, -n_behind:] = 1  # behind the prompt: causal
    return torch.cat([head, tail], dim=1)


def _until_end(row: list[int], stops: set[int]) -> list[int]:
    """Cut after the first end token."""
    return next((row[: place + 1] for place, token in enumerate(row) if token in stops), row)
