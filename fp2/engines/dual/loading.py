"""Loading a dual encoder (CLIP, SigLIP, SigLIP 2), and how each family was taught to read."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fp2.engines.checkpoint import Checkpoint, with_weights
from fp2.engines.dual.zero_shot import Link, Scale
from fp2.engines.hf.loading import HfSpec, cannot_load, check_placement, load_weights, quieten, resolve_device
from fp2.engines.hf.model_cache import kept
from fp2.engines.hf.placement import input_device
from fp2.engines.hf.processors import check_backend
from fp2.errors import Fp2Error


@dataclass(frozen=True)
class Reading:
    """How a family reads texts and judges pairs.

    Attributes
    ----------
    lowercase : bool
        Whether texts are written in lower case first, whatever the tokenizer does.
    full_length : bool
        Whether texts are padded to the model's full length and the padding is read like words (no mask): SigLIP takes
        the last place of the text, so a shorter row would give another embedding.
    link : {"softmax", "sigmoid"}
        From logits to probabilities.
    """

    lowercase: bool
    full_length: bool
    link: Link

    def identity(self) -> dict[str, Any]:
        """Return what of it can change an embedding."""
        return {"lowercase": self.lowercase, "full_length": self.full_length}


# SigLIP and SigLIP 2 were trained on texts in lower case, padded on the right to 64 tokens, and without a mask
# (google-research/big_vision, issues 157 and 187; transformers' documentation of both). The SigLIP 2 checkpoints of one
# resolution have the model type `siglip` and Gemma's tokenizer, which keeps capitals; `siglip2` is NaFlex.
_SIGLIP = Reading(lowercase=True, full_length=True, link="sigmoid")
_FAMILIES = {
    "clip": Reading(lowercase=False, full_length=False, link="softmax"),  # its tokenizer lowers capitals itself
    "siglip": _SIGLIP,
    "siglip2": _SIGLIP,
}


def reading_of(checkpoint: Checkpoint) -> Reading:
    """Return how the checkpoint's family reads.

    Raises
    ------
    Fp2Error
        If it is no dual encoder of a family that is known here.
    """
    if checkpoint.model_type not in _FAMILIES:
        raise Fp2Error(
            f"the model {checkpoint.id} ({checkpoint.model_type or 'of no named type'}) does not compare pictures with "
            "words",
            where="model.id",
            fix=f"Choose a dual encoder: {', '.join(sorted(_FAMILIES))}",
        )
    return _FAMILIES[checkpoint.model_type]


@dataclass(frozen=True)
class LoadedDual:
    """A dual encoder ready to work: model, tokenizer, image processor, where it lives, and how it judges."""

    model: Any
    tokenizer: Any
    pictures: Any
    device: str
    dtype: Any
    reading: Reading
    scale: Scale
    max_tokens: int

    def tokens(self, texts: Sequence[str]) -> Any:
        """Return the model's inputs for `texts`.

        Raises
        ------
        Fp2Error
            If a text is longer than the model reads: cut short it would be another text.
        """
        written = [text.lower() if self.reading.lowercase else text for text in texts]
        lengths = [len(ids) for ids in self.tokenizer(written)["input_ids"]]
        if max(lengths) > self.max_tokens:
            text = texts[lengths.index(max(lengths))]
            what = f"the model reads {self.max_tokens} tokens, and a text has {max(lengths)}: {text[:60]!r}"
            raise Fp2Error(what, where="texts", fix="Write it shorter")
        padding = (
            {"padding": "max_length", "max_length": self.max_tokens} if self.reading.full_length else {"padding": True}
        )
        inputs = self.tokenizer(written, return_tensors="pt", **padding)
        names = ("input_ids",) if self.reading.full_length else ("input_ids", "attention_mask")
        return {name: inputs[name].to(self.device) for name in names}

    def pixels(self, pictures: Sequence[Any]) -> Any:
        """Return the model's inputs for RGB pictures."""
        return self.pictures(images=list(pictures), return_tensors="pt").to(self.device, dtype=self.dtype)


def load_dual(checkpoint: Checkpoint, spec: HfSpec, device: str) -> LoadedDual:
    """Load a dual encoder onto `device` (`auto`, `cpu`, `cuda`, ...), fetching its weights if they are not here.

    Raises
    ------
    Fp2Error
        If the checkpoint is no dual encoder, its weights are damaged or incomplete, or the device is not there.
    """
    reading_of(checkpoint)
    device = resolve_device(device)
    check_placement(spec, device)
    quieten()
    own = replace(spec, trust_remote_code=False)
    path = with_weights(checkpoint)
    return kept(("dual", checkpoint, path, own, device), lambda: _load(checkpoint, path, own, device))


def _load(checkpoint: Checkpoint, path: Path, spec: HfSpec, device: str) -> LoadedDual:
    """Load tokenizer, image processor and model from a folder."""
    import torch

    auto = importlib.import_module("transformers")
    try:
        pictures = auto.AutoImageProcessor.from_pretrained(path, backend=spec.image_backend)
        tokenizer = auto.AutoTokenizer.from_pretrained(path)
    except Exception as error:  # missing files, missing libraries: many kinds, one line
        raise cannot_load("its processor", spec, error) from error
    check_backend(pictures, spec.image_backend)
    tokenizer.padding_side = "right"  # as all three families were trained
    model = load_weights("AutoModel", path, spec, device)
    if not (hasattr(model, "get_text_features") and hasattr(model, "logit_scale")):
        raise Fp2Error(f"the model {spec.id} is only one half of a dual encoder", where="model.id")
    bias = getattr(model, "logit_bias", None)
    reading = reading_of(checkpoint)
    scale = Scale(
        float(model.logit_scale.detach().float().exp()),
        0.0 if bias is None else float(bias.detach().float()),
        reading.link,
    )
    return LoadedDual(
        model,
        tokenizer,
        pictures,
        input_device(model, device),
        getattr(torch, spec.dtype),
        reading,
        scale,
        int(model.config.text_config.max_position_embeddings),
    )
