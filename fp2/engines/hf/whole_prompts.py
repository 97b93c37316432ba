"""Every prompt is computed in full; at most the image features are shared. For models whose attention is not causal.

Prompts of one length go into one batch, so nothing is padded. With prefix-LM attention (PaliGemma) image and prompt
attend to each other bidirectionally, and only what comes after the prompt is causal.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers.generation.utils import GenerationMixin

from fp2.engines.hf.encoding import Continuation, EncodedPrompts, device_of, image_inputs
from fp2.engines.hf.generation import BatchLimits, Logits, Pair, Pick
from fp2.engines.hf.likelihoods import Tokens
from fp2.engines.hf.scoring import Strategy

_Prompt = tuple[EncodedPrompts, int, Tokens]  # prompts about an image, the index of one, and tokens appended to it

# Fields of a vision output, of which the language model reads one of the first two; features of several layers are not
# listed.
_READ = ("last_hidden_state", "pooler_output")
_SHAREABLE = {*_READ, "hidden_states", "attentions", "vision_outputs", "qformer_outputs"}


class WholePrompts(Strategy):
    """Runs a model on one full prompt per question.

    Parameters
    ----------
    model : PreTrainedModel
        As loaded.
    share_features : bool
        Encode each image once and give its features to every prompt (`mm_encoder_outputs`).
    limits : BatchLimits
        Most prompts in one batch.
    """

    def __init__(self, model: Any, *, share_features: bool, limits: BatchLimits) -> None:
        self.model, self.limits = model, limits
        self.share_features = share_features and hasattr(model.base_model, "get_image_features")
        self.calls = 0
        self._features: dict[int, tuple[EncodedPrompts, Any]] = {}
        text = model.config.get_text_config()
        keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._keep_last: dict[str, int] = {"logits_to_keep": 1} if keeps else {}
        # BLIP-2 has a `generate` of its own, which takes no features.
        takes = getattr(model, "generates_from_features", False)
        self._generate_shares = takes or type(model).generate is GenerationMixin.generate
        self._decoder_start = text.decoder_start_token_id if getattr(text, "is_encoder_decoder", False) else None

    @staticmethod
    def supports(encoded: EncodedPrompts) -> bool:
        """Return True: every prompt can be computed in full."""
        return True

    def logits(self, batch: Sequence[EncodedPrompts], wanted: Sequence[Continuation]) -> Iterator[Logits]:
        """Yield the logits image by image; see `LogitSource`."""
        for image, encoded in enumerate(batch):
            prompts = [(encoded, prompt, appended) for prompt, appended in wanted]
            self._features.clear()
            for indices in self._batches(prompts):
                yield [image], indices, self._logits([prompts[index] for index in indices])[None]
        self._features.clear()

    def images_together(self, encoded: EncodedPrompts) -> int:
        """Return 1: nothing is gained by more."""
        return 1

    def generate(
        self, batch: Sequence[EncodedPrompts], pick: Pick, end_tokens: set[int], max_new: int
    ) -> list[list[list[int]]]:
        """Return the new tokens [images][prompts], each up to `max_new`, ending with the first of `end_tokens`."""
        pairs = [(row, prompt) for row, encoded in enumerate(batch) for prompt in range(len(encoded.suffixes))]
        prompts: list[_Prompt] = [(batch[row], prompt, ()) for row, prompt in pairs]
        generated: list[list[list[int]]] = [[[] for _ in encoded.suffixes] for encoded in batch]
        self._features.clear()
        for indices in self._batches(prompts):
            batch_pairs = [pairs[index] for index in indices]
            new = self._generate([prompts[index] for index in indices], batch_pairs, pick, end_tokens, max_new)
            for (row, prompt), tokens in zip(batch_pairs, new, strict=True):
                generated[row][prompt] = tokens
        self._features.clear()
        return generated

    def _batches(self, prompts: Sequence[_Prompt]) -> Iterator[list[int]]:
        """Yield indices of prompts that can be in one batch: of one length, with images of the same shapes."""
        alike: dict[object, list[int]] = {}
        for index, (encoded, prompt, appended) in enumerate(prompts):
            key = (len(encoded.prefix) + len(encoded.suffixes[prompt]), len(appended), encoded.image_shapes)
            alike.setdefault(key, []).append(index)
        for indices in alike.values():
            for start in range(0, len(indices), self.limits.batch_size):
                yield indices[start : start + self.limits.batch_size]

    def _logits(self, batch: Sequence[_Prompt]) -> torch.Tensor:
        self.calls += 1
        if self._decoder_start is None:
            inputs = self._inputs(batch, share=self.share_features)
        else:
            inputs = self._decoder_inputs(batch)
        with torch.no_grad():
            # BLIP-2 requires `pixel_values` even with features
            logits: torch.Tensor = self.model(**{"pixel_values": None} | inputs, **self._keep_last).logits
        return logits[:, -1].float()

    def _generate(
        self, batch: Sequence[_Prompt], pairs: Sequence[Pair], pick: Pick, end_tokens: set[int], max_new: int
    ) -> list[list[int]]:
        self.calls += 1
        inputs = self._inputs(batch, share=self.share_features and self._generate_shares)
        with torch.no_grad():
            output = self.model.generate(
                **inputs,
                max_new_tokens=max_new,
                do_sample=False,
                eos_token_id=sorted(end_tokens) or None,
                pad_token_id=min(end_tokens, default=0),
                logits_processor=[_PickProcessor(pick, pairs)],
            )
        prompt = inputs["input_ids"]
        if output.shape[1] >= prompt.shape[1] and torch.equal(output[:, : prompt.shape[1]], prompt):
            output = output[:, prompt.shape[1] :]
        elif self._decoder_start is not None:
            output = output[:, 1:]  # an encoder-decoder returns its start token and the new ones
        return [
            next((row[: index + 1] for index, token in enumerate(row) if token in end_tokens), row)
            for row in output.tolist()
        ]

    def _inputs(self, batch: Sequence[_Prompt], *, share: bool) -> dict[str, Any]:
        rows = [encoded.prefix + encoded.suffixes[prompt] + appended for encoded, prompt, appended in batch]
        ids = torch.tensor(rows, device=device_of(self.model))
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        for name in batch[0][0].token_inputs:
            extended = [_extended(encoded, name, ids.shape[1], len(appended)) for encoded, _, appended in batch]
            inputs[name] = torch.cat(extended).to(ids.device)
        images = [encoded for encoded, _, _ in batch]
        if not images[0].image_inputs:
            return inputs
        return inputs | (self._shared_features(images) if share else image_inputs(images, self.model))

    def _decoder_inputs(self, batch: Sequence[_Prompt]) -> dict[str, Any]:
        """Return the inputs of an encoder-decoder: tokens appended to the prompt are those of the decoder."""
        inputs = self._inputs([(encoded, prompt, ()) for encoded, prompt, _ in batch], share=self.share_features)
        decoded = [[self._decoder_start, *appended] for _, _, appended in batch]
        return inputs | {"decoder_input_ids": torch.tensor(decoded, device=device_of(self.model))}

    def _shared_features(self, images: Sequence[EncodedPrompts]) -> dict[str, Any]:
        """Return the features of the images, computed once each, and the other inputs of the language model."""
        features = [self._features_of(encoded) for encoded in images]
        if any(set(feature.keys()) - _SHAREABLE for feature in features):
            self.share_features = False
            return image_inputs(images, self.model)
        joined = {
            name: torch.cat(values) if isinstance(values[0], torch.Tensor) else [one for each in values for one in each]
            for name in _READ
            if (values := [feature[name] for feature in features if feature.get(name) is not None])
        }
        inputs = image_inputs(images, self.model)
        rest = {name: value for name, value in inputs.items() if not name.startswith("pixel_")}
        return {"mm_encoder_outputs": {"image": type(features[0])(**joined)}, **rest}

    def _features_of(self, encoded: EncodedPrompts) -> Any:
        if id(encoded) not in self._features:
            inputs = image_inputs([encoded], self.model)
            with torch.no_grad():
                features = self.model.base_model.get_image_features(**inputs, return_dict=True)
            self._features[id(encoded)] = (encoded, features)
        return self._features[id(encoded)][1]


class _PickProcessor:
    """A logits processor that makes `generate` take the tokens that `pick` returns."""

    def __init__(self, pick: Pick, pairs: Sequence[Pair]) -> None:
        self._pick, self._pairs = pick, pairs

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        chosen = torch.tensor(self._pick(self._pairs, scores.float()), device=scores.device)
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen[:, None], 0.0)


def _extended(encoded: EncodedPrompts, name: str, length: int, n_appended: int) -> torch.Tensor:
    """Return a tensor of the prefix [1, ...] extended to `length` tokens."""
    prefix, fill = encoded.token_inputs[name], encoded.fill[name]
    rest = fill.repeat_interleave(length - prefix.shape[1], dim=1)
    if n_appended and name == "token_type_ids" and not prefix.any():  # where no token has type 1, it means causal
        rest[:, -n_appended:] = 1  # as after PaliGemma's prompt; Gemma 3 marks image tokens with it
    return torch.cat([prefix, rest], dim=1)
