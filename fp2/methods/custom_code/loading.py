"""Checkpoints with model code of their own and no processor: they are asked through the methods of their code.

The interface is recognised on the loaded model (`chat`, `query`), never by a name. An adapter gives the model the
interface of a model of transformers, so that everything else is the same for every model.

The code runs only if it is allowed and pinned (`loading.check_pinned`). The model is built and its weights are loaded
here, not by `from_pretrained`: transformers 5 builds a model on the meta device, and buffers that older code computes
there and does not save (masks, rotary embeddings) would silently be undefined.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fp2.extension import (
    CODE_CLASSES,
    Checkpoint,
    CodeInterface,
    Fp2Error,
    HfSpec,
    LoadedModel,
    PromptForm,
    PromptFormat,
    is_out_of_memory,
)

FORMAT = "own_code/1"  # raise the number with every change here or in an interface that can change an answer
_NATIVE = {  # model_type -> checkpoints of the same family without code of their own
    "internvl_chat": "OpenGVLab/InternVL2_5-2B-MPO-hf, OpenGVLab/InternVL3-2B-hf or another of those that end in -hf",
}


def check_allowed(checkpoint: Checkpoint, spec: HfSpec) -> None:
    """Raise for a checkpoint with an interface of its own whose code is not allowed or cannot be run as requested."""
    if not spec.trust_remote_code:
        native = _NATIVE.get(checkpoint.model_type)
        raise Fp2Error(
            f"the model {spec.id} runs code of its own, which is not allowed",
            where="model.trust_remote_code",
            fix="Read that code, pin model.revision to its commit, then set model.trust_remote_code=true"
            + (f"; or set model.id={native}" if native else ""),
        )
    if spec.quantisation is not None:
        raise _not_supported(spec, "quantised", "model.quantisation")
    if spec.adapter is not None:
        raise _not_supported(spec, "given an adapter", "model.adapter")
    if spec.placement.device_map is not None:
        raise _not_supported(spec, "spread over several devices", "engine.device_map")


def _not_supported(spec: HfSpec, what: str, where: str) -> Fp2Error:
    return Fp2Error(f"the model {spec.id} runs code of its own and cannot be {what}", where=where, fix="Set it to null")


@dataclass(frozen=True)
class CustomCodePrompt(PromptFormat):
    """Prompts as the checkpoint's own code writes them; the code is pinned, so the response key needs nothing else."""

    def __post_init__(self) -> None:
        for where, given in (("model.prompt", self.prompt is not None), ("model.chat", self.chat is False)):
            if given:
                what = f"the model {self.checkpoint.id} is asked through its own code, which writes the prompt itself"
                raise Fp2Error(what, where=where, fix="Set it to null")

    @property
    def form(self) -> PromptForm:
        """The origin of the format."""
        return "code"

    def identity(self) -> dict[str, str]:
        """Return the version of the adapters; the code itself is in the checkpoint's identity."""
        return {"form": self.form, "format": FORMAT}

    def text(self, question: str, images: int = 1, *, scored: bool = False) -> str:
        """Return the prompt for `question`, as the code writes it."""
        return str(self.processor.write(question, bool(images)))

    def adds_start_token(self, prompt: str) -> bool:
        """Return True: the code leaves special tokens to its tokenizer."""
        return True


def load_custom(checkpoint: Checkpoint, path: Path, spec: HfSpec, device: str) -> LoadedModel:
    """Load a model with its own code and recognise its interface."""
    from fp2.methods.custom_code import chat, query

    try:
        model = _build(checkpoint, path, spec).to(device)
        for interface in (chat, query):
            if interface.has_interface(model):
                loaded: LoadedModel = interface.adapt(model, checkpoint, path, spec, device)
                return loaded
    except Fp2Error:
        raise
    except Exception as error:  # foreign code can raise anything
        if is_out_of_memory(error):
            fix = "Choose a smaller dtype (bfloat16)"
            raise Fp2Error(f"the model {spec.id} does not fit into memory", where="model.id", fix=fix) from error
        reason = " ".join(line.strip() for line in str(error).splitlines() if line.strip())[:200] or "no reason given"
        parts = [checkpoint.config, *(part for part in checkpoint.config.values() if isinstance(part, dict))]
        versions = (str(part["transformers_version"]) for part in parts if part.get("transformers_version"))
        written, here = next(versions, "not known"), importlib.metadata.version("transformers")
        native = _NATIVE.get(checkpoint.model_type)
        other = (
            f"Set model.id={native}, with model.trust_remote_code=false" if native else "There is no native conversion"
        )
        raise Fp2Error(
            f"the code of the model {spec.id} does not run: {type(error).__name__}: {reason}. "
            f"It was written for transformers {written}, and this is {here}",
            where="model.id",
            fix=f"{other}; or serve it with that version and ask it through engine=openai_compat",
        ) from error
    raise Fp2Error(
        f"the code of the model {spec.id} has none of the known interfaces",
        where="model.id",
        fix=f"It needs {chat.INTERFACE}, or {query.INTERFACE}",
    )


CUSTOM_CODE = CodeInterface(check_allowed, load_custom, CustomCodePrompt)


def _build(checkpoint: Checkpoint, path: Path, spec: HfSpec) -> Any:
    """Return the model, built by its code on the CPU, with its weights loaded."""
    import torch
    from safetensors.torch import load_file

    auto = next(name for name in CODE_CLASSES if name in checkpoint.code)
    transformers = importlib.import_module("transformers")
    config = transformers.AutoConfig.from_pretrained(path, trust_remote_code=True)
    dtype = getattr(torch, spec.dtype)
    model = getattr(transformers, auto).from_config(config, trust_remote_code=True, dtype=dtype)
    tensors: dict[str, Any] = {}
    for file in sorted(path.glob("*.safetensors")):
        tensors.update(load_file(file))
    if not tensors:
        for file in sorted(path.glob("*.bin")):
            tensors.update(torch.load(file, map_location="cpu", weights_only=True))
    missing = model.load_state_dict(tensors, strict=False).missing_keys
    for module in model.modules():
        if hasattr(module, "all_tied_weights_keys"):
            module.tie_weights()
    named = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    read = {tensor.data_ptr() for name, tensor in named.items() if name not in missing}
    missing = sorted(name for name in missing if name not in named or named[name].data_ptr() not in read)
    if missing:
        raise Fp2Error(
            f"{len(missing)} weights of the model {spec.id} are missing, {missing[0]} among them",
            where=str(path),
            fix="Copy or download the checkpoint again",
        )
    return model.to(dtype).eval()
