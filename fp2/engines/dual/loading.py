"""Loading a dual encoder (CLIP, SigLIP, SigLIP 2), and how each family was trained to read text."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fp2.engines.checkpoint import Checkpoint, with_weights
from fp2.engines.hf.loading import load_weights, loading_error, silence_loaders
from fp2.engines.hf.model import PICKLED, HfSpec, cached_model
from fp2.engines.hf.placement import input_device, resolve_device
from fp2.engines.hf.processors import check_backend
from fp2.errors import Fp2Error

Link = Literal["softmax", "sigmoid"]
Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Scale:
    """How a model turns a cosine similarity into a logit, `factor * similarity + bias`, and that into a probability.

    `softmax` (CLIP) is over the texts and sums to 1; `sigmoid` (SigLIP) is for each text by itself.
    """

    factor: float
    bias: float
    link: Link

    def logits(self, similarity: Floats) -> NDArray[np.float64]:
        """Return logits, of the shape of `similarity`."""
        return np.asarray(similarity, np.float64) * self.factor + self.bias

    def probabilities(self, logits: Floats) -> NDArray[np.float64]:
        """Return probabilities of texts, which are the last axis."""
        x = np.asarray(logits, np.float64)
        if self.link == "sigmoid":
            return np.exp(-np.logaddexp(0.0, -x))
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def normalised(vectors: Floats) -> Floats:
    """Return vectors along the last axis scaled to length 1; a zero vector is unchanged."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(length == 0, 1, length), vectors.dtype)


def cosine(left: Floats, right: Floats) -> NDArray[np.float64]:
    """Return the cosine similarities (n, m) of vectors (n, d) and (m, d), computed in double precision."""
    return normalised(np.asarray(left, np.float64)) @ normalised(np.asarray(right, np.float64)).T


@dataclass(frozen=True)
class TextFormat:
    """How a family reads texts and scores pairs.

    Attributes
    ----------
    lowercase : bool
        Whether texts are lowercased first, whatever the tokenizer does.
    full_length : bool
        Whether texts are padded to the model's full length, without a mask: SigLIP pools the last token of the text,
        so a shorter row would give another embedding.
    link : {"softmax", "sigmoid"}
        From logits to probabilities.
    """

    lowercase: bool
    full_length: bool
    link: Link

    def identity(self) -> dict[str, Any]:
        """Return the part that can change an embedding."""
        return {"lowercase": self.lowercase, "full_length": self.full_length}


# SigLIP and SigLIP 2 were trained on lowercase texts, padded on the right to 64 tokens, without a mask
# (google-research/big_vision, issues 157 and 187; transformers' documentation of both). The SigLIP 2 checkpoints of one
# resolution have the model type `siglip` and Gemma's tokenizer, which keeps capitals; `siglip2` is NaFlex.
_SIGLIP = TextFormat(lowercase=True, full_length=True, link="sigmoid")
_FAMILIES = {
    "clip": TextFormat(lowercase=False, full_length=False, link="softmax"),  # its tokenizer lowercases
    "siglip": _SIGLIP,
    "siglip2": _SIGLIP,
}


def text_format_of(checkpoint: Checkpoint) -> TextFormat:
    """Return the text format of the checkpoint's family.

    Raises
    ------
    Fp2Error
        If it is not a dual encoder of a known family.
    """
    if checkpoint.model_type not in _FAMILIES:
        kind = checkpoint.model_type or "without a model type"
        raise Fp2Error(
            f"the model {checkpoint.id} ({kind}) is not a dual encoder",
            where="model.id",
            fix=f"Choose a model of one of the types {', '.join(sorted(_FAMILIES))}",
        )
    return _FAMILIES[checkpoint.model_type]


@dataclass(frozen=True)
class LoadedDual:
    """A dual encoder: model, tokenizer, image processor, device, and how it scores."""

    model: Any
    tokenizer: Any
    image_processor: Any
    device: str
    dtype: Any
    text_format: TextFormat
    scale: Scale
    max_tokens: int

    def text_inputs(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the model's inputs for `texts`.

        Raises
        ------
        Fp2Error
            If a text is longer than the model reads: truncated, it would be another text.
        """
        full_length = self.text_format.full_length
        formatted = [text.lower() if self.text_format.lowercase else text for text in texts]
        lengths = [len(ids) for ids in self.tokenizer(formatted)["input_ids"]]
        if max(lengths) > self.max_tokens:
            text = texts[lengths.index(max(lengths))]
            what = f"the model reads {self.max_tokens} tokens, and a text has {max(lengths)}: {text[:60]!r}"
            raise Fp2Error(what, where="texts", fix="Shorten it")
        padding = {"padding": "max_length", "max_length": self.max_tokens} if full_length else {"padding": True}
        inputs = self.tokenizer(formatted, return_tensors="pt", **padding)
        names = ("input_ids",) if full_length else ("input_ids", "attention_mask")
        return {name: inputs[name].to(self.device) for name in names}

    def image_inputs(self, images: Sequence[Any]) -> Any:
        """Return the model's inputs for RGB images."""
        return self.image_processor(images=list(images), return_tensors="pt").to(self.device, dtype=self.dtype)


def load_dual(checkpoint: Checkpoint, spec: HfSpec, device: str) -> LoadedDual:
    """Load a dual encoder on `device` (`auto`, `cpu`, `cuda`, ...), fetching its weights if they are not here.

    Raises
    ------
    Fp2Error
        If the checkpoint is not a dual encoder, its weights are damaged or incomplete, or the device is missing.
    """
    text_format_of(checkpoint)
    device = resolve_device(device)
    spec.placement.check(device, spec.dtype)
    silence_loaders()
    own = replace(spec, trust_remote_code=False)
    path = with_weights(checkpoint, pickled=spec.pickled_weights, option=PICKLED)
    return cached_model(("dual", checkpoint, path, own, device), lambda: _load(checkpoint, path, own, device))


def _load(checkpoint: Checkpoint, path: Path, spec: HfSpec, device: str) -> LoadedDual:
    """Load tokenizer, image processor and model from a folder."""
    import torch

    auto = importlib.import_module("transformers")
    try:
        image_processor = auto.AutoImageProcessor.from_pretrained(path, backend=spec.image_backend)
        tokenizer = auto.AutoTokenizer.from_pretrained(path)
    except Exception as error:  # missing files, missing libraries: many kinds, one line
        raise loading_error("its processor", spec, error) from error
    check_backend(image_processor, spec.image_backend)
    tokenizer.padding_side = "right"  # as all three families were trained
    model = load_weights("AutoModel", path, spec, device)
    if not (hasattr(model, "get_text_features") and hasattr(model, "logit_scale")):
        raise Fp2Error(f"the model {spec.id} is only one half of a dual encoder", where="model.id")
    bias = getattr(model, "logit_bias", None)
    text_format = text_format_of(checkpoint)
    scale = Scale(
        float(model.logit_scale.detach().float().exp()),
        0.0 if bias is None else float(bias.detach().float()),
        text_format.link,
    )
    return LoadedDual(
        model,
        tokenizer,
        image_processor,
        input_device(model, device),
        getattr(torch, spec.dtype),
        text_format,
        scale,
        int(model.config.text_config.max_position_embeddings),
    )
