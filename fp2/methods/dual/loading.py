"""Loading an encoder: of images (RegNet, ResNet, DINOv2), or a dual one (CLIP, SigLIP, SigLIP 2).

A family of dual encoders was trained to read text in a way of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from fp2.extension import (
    PICKLED,
    Checkpoint,
    Fp2Error,
    HfSpec,
    cached_model,
    check_backend,
    input_device,
    load_weights,
    loading_error,
    resolve_device,
    silence_loaders,
    with_weights,
)

Link = Literal["softmax", "sigmoid"]
Floats = NDArray[np.floating]
T = TypeVar("T")


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
    """Return the text format of the checkpoint's family."""
    if checkpoint.model_type not in _FAMILIES:
        kind = checkpoint.model_type or "without a model type"
        raise Fp2Error(
            f"the model {checkpoint.id} ({kind}) is not a dual encoder",
            where="model.id",
            fix=f"Choose a model of one of the types {', '.join(sorted(_FAMILIES))}",
        )
    return _FAMILIES[checkpoint.model_type]


_IMAGE_TYPES = ("dinov2", "regnet", "resnet")


def reads_no_text(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint is of a network that embeds images only."""
    return checkpoint.model_type in _IMAGE_TYPES


def check_image_encoder(checkpoint: Checkpoint) -> None:
    """Raise Fp2Error if a checkpoint is not of a network that embeds images only."""
    if not reads_no_text(checkpoint):
        message = (
            f"the model {checkpoint.id} ({checkpoint.model_type or 'without a model type'}) is not an image encoder"
        )
        raise Fp2Error(message, where="model.id", fix=f"Choose a model of one of the types {', '.join(_IMAGE_TYPES)}")


@dataclass(frozen=True, kw_only=True)
class LoadedEncoder:
    """A network that turns images into vectors: model, image processor, device.

    `square`: images are resized to the model's size as a whole; None: as its image processor does.
    """

    model: Any
    image_processor: Any
    device: str
    dtype: Any
    square: int | None = None

    def image_inputs(self, images: Sequence[Any]) -> Any:
        """Return the model's inputs for RGB images."""
        options = {}
        if self.square is not None:
            resample = self.image_processor.resample
            images = [image.resize((self.square, self.square), resample=int(resample)) for image in images]
            options = {"do_resize": False, "do_center_crop": False}
        inputs = self.image_processor(images=list(images), return_tensors="pt", **options)
        return inputs.to(self.device, dtype=self.dtype)

    def image_features(self, images: Sequence[Any]) -> Any:
        """Return the output of the model whose `pooler_output` embeds RGB images."""
        return self.model(**self.image_inputs(images))


@dataclass(frozen=True, kw_only=True)
class LoadedDual(LoadedEncoder):
    """A dual encoder: also a tokenizer, and how it scores."""

    tokenizer: Any
    text_format: TextFormat
    scale: Scale
    max_tokens: int

    def text_inputs(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the model's inputs for `texts`."""
        full_length = self.text_format.full_length
        formatted = [text.lower() if self.text_format.lowercase else text for text in texts]
        lengths = [len(ids) for ids in self.tokenizer(formatted)["input_ids"]]
        if max(lengths) > self.max_tokens:
            text = texts[lengths.index(max(lengths))]
            message = f"the model reads {self.max_tokens} tokens, and a text has {max(lengths)}: {text[:60]!r}"
            raise Fp2Error(message, where="texts", fix="Shorten it")
        padding = {"padding": "max_length", "max_length": self.max_tokens} if full_length else {"padding": True}
        inputs = self.tokenizer(formatted, return_tensors="pt", **padding)
        names = ("input_ids",) if full_length else ("input_ids", "attention_mask")
        return {name: inputs[name].to(self.device) for name in names}

    def image_features(self, images: Sequence[Any]) -> Any:
        """Return the embeddings of RGB images, or an output that holds them as `pooler_output`."""
        return self.model.get_image_features(**self.image_inputs(images))


def load_dual(checkpoint: Checkpoint, spec: HfSpec, device: str) -> LoadedDual:
    """Load a dual encoder on `device` (`auto`, `cpu`, `cuda`, ...), fetching its weights if they are not here."""
    text_format_of(checkpoint)
    return _loaded("dual", checkpoint, spec, device, _load_dual)


def load_images(checkpoint: Checkpoint, spec: HfSpec, device: str, *, crop: bool) -> LoadedEncoder:
    """Load a network that embeds images and reads no text; parameters and errors as those of `load_dual`.

    `crop`: images are prepared by the checkpoint's image processor; otherwise they are resized as a whole to its size.
    """
    loaded: LoadedEncoder = _loaded("images", checkpoint, spec, device, _load_images)
    return loaded if crop else replace(loaded, square=_square(loaded.image_processor, checkpoint))


def _loaded(kind: str, checkpoint: Checkpoint, spec: HfSpec, device: str, load: Callable[..., T]) -> T:
    """Return the result of `load` for a checkpoint with its weights, kept in memory for the next call."""
    device = resolve_device(device)
    spec.placement.check(device, spec.dtype)
    silence_loaders()
    own_spec = replace(spec, trust_remote_code=False)
    path = with_weights(checkpoint, pickled=spec.pickled_weights, option=PICKLED)
    loaded: T = cached_model(
        (kind, checkpoint, path, own_spec, device), lambda: load(checkpoint, path, own_spec, device)
    )
    return loaded


def _read_processors(path: Path, spec: HfSpec, *kinds: str) -> list[Any]:
    """Return the image processor in a folder, and the other parts that `kinds` names (classes of transformers)."""
    auto = importlib.import_module("transformers")
    try:
        image_processor = auto.AutoImageProcessor.from_pretrained(path, backend=spec.image_backend)
        others = [getattr(auto, kind).from_pretrained(path) for kind in kinds]
    except Exception as error:  # missing files, missing libraries: many kinds, one line
        raise loading_error("its processor", spec, error) from error
    check_backend(image_processor, spec.image_backend)
    return [image_processor, *others]


def _load_images(checkpoint: Checkpoint, path: Path, spec: HfSpec, device: str) -> LoadedEncoder:
    import torch

    (image_processor,) = _read_processors(path, spec)
    model = load_weights("AutoModel", path, spec, device)
    return LoadedEncoder(
        model=model,
        image_processor=image_processor,
        device=input_device(model, device),
        dtype=getattr(torch, spec.dtype),
    )


def _square(image_processor: Any, checkpoint: Checkpoint) -> int:
    """Return the side of the images that a model takes, by its image processor."""
    sizes = [dict(getattr(image_processor, name, None) or {}) for name in ("crop_size", "size")]
    sides = [size[name] for size in sizes for name in ("height", "shortest_edge") if size.get(name)]
    if not sides:
        message = f"the image processor of the model {checkpoint.id} states no size"
        raise Fp2Error(message, where="task.options.crop", fix="Set it to true")
    return int(sides[0])


def _load_dual(checkpoint: Checkpoint, path: Path, spec: HfSpec, device: str) -> LoadedDual:
    import torch

    image_processor, tokenizer = _read_processors(path, spec, "AutoTokenizer")
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
        model=model,
        tokenizer=tokenizer,
        image_processor=image_processor,
        device=input_device(model, device),
        dtype=getattr(torch, spec.dtype),
        text_format=text_format,
        scale=scale,
        max_tokens=int(model.config.text_config.max_position_embeddings),
    )
