"""Checkpoints of text classifiers: their labels, whether they have a trained head, and their logits.

A checkpoint is resolved, pinned and loaded as those of engines are (`fp2.engines`): from safetensors only, with every
weight, and without running code of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.extension import FloatArray, Fp2Error

if TYPE_CHECKING:
    from fp2.extension import Checkpoint

HEAD = "ForSequenceClassification"
_AUTO = "AutoModelForSequenceClassification"


def label_names(config: Mapping[str, Any]) -> list[str]:
    """Return the labels in a checkpoint's `config.json`, in the order of its logits (two by default, as there)."""
    named = config.get("id2label")
    if isinstance(named, Mapping) and named:
        return [str(named[key]) for key in sorted(named, key=int)]
    return [f"LABEL_{index}" for index in range(int(config.get("num_labels", 2)))]


def entailment(known: Sequence[str], where: str) -> tuple[int, int]:
    """Return the places of entailment and of contradiction among the labels of a checkpoint of inference."""
    lower = [name.casefold().replace("-", "_") for name in known]
    yes = [index for index, name in enumerate(lower) if name.startswith("entail")]
    no = [index for index, name in enumerate(lower) if name.startswith(("contradict", "not_entail"))]
    if len(yes) != 1 or len(no) != 1:
        message = f"the checkpoint's labels are {', '.join(known)}, not entailment and contradiction"
        raise Fp2Error(message, where=f"{where}.hypotheses", fix="Take a checkpoint of inference (NLI), or give labels")
    return yes[0], no[0]


def check_head(checkpoint: Checkpoint, where: str) -> None:
    """Raise unless a checkpoint is a classifier that was saved with its head, and runs no code of its own."""
    auto: Any = importlib.import_module("transformers.models.auto.modeling_auto")
    if checkpoint.model_type not in auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES:
        message = f"a model of type {checkpoint.model_type!r} is no text classifier that transformers has"
        fix = "Code of a checkpoint is not run for a scorer" if checkpoint.code else "Choose a text classifier"
        raise Fp2Error(message, where=where, fix=fix)
    named = [str(name) for name in checkpoint.config.get("architectures") or ()]
    if not any(name.endswith(HEAD) for name in named):
        message = f"the checkpoint has no classifier ({', '.join(named) or 'no architecture is named'})"
        raise Fp2Error(message, where=where, fix=f"Choose one that was saved as a ...{HEAD}")


@dataclass(frozen=True)
class Loaded:
    """A classifier on the CPU between uses; `limit` is the most tokens that it reads."""

    model: Any
    tokenizer: Any
    limit: int | None

    def logits(self, texts: Sequence[str], second: str | None, limit: int, device: str) -> tuple[FloatArray, Any]:
        """Return the logits (texts, labels), and the tokens of each text (with `second`) before it was cut."""
        import torch

        pairs = (list(texts),) if second is None else (list(texts), [second] * len(texts))
        lengths = np.array([len(ids) for ids in self.tokenizer(*pairs, truncation=False)["input_ids"]], dtype=np.int64)
        cut = {"truncation": True if second is None else "only_first", "max_length": limit}
        at_once = len(texts) if self.tokenizer.pad_token is not None else 1
        parts = []
        with torch.inference_mode():
            for start in range(0, len(texts), at_once):
                some = [part[start : start + at_once] for part in pairs]
                inputs = self.tokenizer(*some, return_tensors="pt", padding=at_once > 1, **cut).to(device)
                parts.append(self.model(**inputs).logits.cpu().double().numpy())
        return np.concatenate(parts), lengths


@lru_cache(maxsize=1)
def load(checkpoint: Checkpoint, name: str) -> Loaded:
    """Load a classifier in float32 from safetensors, with every weight; the last one is kept."""
    from fp2.extension import HfSpec, load_weights, loading_error, silence_loaders, with_weights

    silence_loaders()
    path, spec = with_weights(checkpoint), HfSpec(name)
    try:
        tokenizer = importlib.import_module("transformers").AutoTokenizer.from_pretrained(path)
    except Exception as error:  # missing files, missing libraries: many kinds, one line
        raise loading_error("its tokenizer", spec, error) from error
    model = load_weights(_AUTO, path, spec, "cpu")
    return Loaded(model, tokenizer, length_limit(model, tokenizer))


def length_limit(model: Any, tokenizer: Any) -> int | None:
    """Return how many tokens a model reads: what its tokenizer says, and its positions less those before the first.

    Models in the manner of RoBERTa number positions from the one after their padding.
    """
    limits = [tokenizer.model_max_length] if tokenizer.model_max_length < 10**9 else []
    positions = getattr(model.config, "max_position_embeddings", None) or 0
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            positions = module.num_embeddings - module.padding_idx - 1
    return min([*limits, *([positions] if positions > 0 else [])], default=None)
