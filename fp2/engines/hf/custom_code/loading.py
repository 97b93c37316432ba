"""Models that bring code of their own and no processor: they are asked through the methods that their code offers.

Which methods those are is seen on the loaded model (`remote_chat`, `remote_query`), never from a name. Around them the
model is made to look like one of transformers' own, so that everything else about asking stays as it is.

The code runs only where it is allowed and pinned (`auto_class.check_code`). It is built and filled with its weights
here, not by `from_pretrained`: transformers 5 builds a model without memory behind its tensors, and what older code
computes then and does not save (masks, the angles of rotary positions) would be left undefined without a word.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.engines.checkpoint import Checkpoint
from fp2.engines.hf.prompts import Form, PromptFormat
from fp2.errors import Fp2Error

if TYPE_CHECKING:
    from fp2.engines.hf.loading import HfSpec, LoadedModel
    from fp2.engines.hf.session import Session

FORMAT = "own_code/1"  # raise the number whenever a change here or in an interface can change an answer
_AUTO = ("AutoModel", "AutoModelForCausalLM")  # where such checkpoints name their class
_NATIVE = {  # model_type -> checkpoints of the same family without code of their own
    "internvl_chat": "OpenGVLab/InternVL2_5-2B-MPO-hf, OpenGVLab/InternVL3-2B-hf or another of those that end in -hf",
}


def brings_interface(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint has a model class of its own and no processor, so that only its code can be asked."""
    named = any(name in checkpoint.code for name in _AUTO)
    return named and "AutoProcessor" not in checkpoint.code and not checkpoint.processor_class


def asked_by_code(checkpoint: Checkpoint, spec: HfSpec) -> bool:
    """Return whether the model is to be asked through its own code, which has to be allowed."""
    return spec.trust_remote_code and brings_interface(checkpoint)


def check_allowed(checkpoint: Checkpoint, spec: HfSpec) -> None:
    """Refuse a model that only its own code can ask, where that is not allowed or asked for in a way it does not know.

    Raises
    ------
    Fp2Error
        Naming the setting, and the native conversions where there are any.
    """
    if not brings_interface(checkpoint):
        return
    if not spec.trust_remote_code:
        native = _NATIVE.get(checkpoint.model_type)
        raise Fp2Error(
            f"the model {spec.id} runs code of its own, which is not allowed",
            where="model.trust_remote_code",
            fix="Read that code, pin model.revision to its commit, then set model.trust_remote_code=true"
            + (f"; or set model.id={native}" if native else ""),
        )
    if spec.quantisation is not None:
        _refuse(spec, "quantised", "model.quantisation")
    if spec.placement.device_map is not None:
        _refuse(spec, "spread over several devices", "engine.device_map")


def _refuse(spec: HfSpec, what: str, where: str) -> None:
    raise Fp2Error(f"the model {spec.id} runs code of its own and cannot be {what}", where=where, fix="Set it to null")


@dataclass(frozen=True)
class CodePrompt(PromptFormat):
    """Prompts as the checkpoint's own code writes them: the code is pinned, so nothing else has to be in the key."""

    def __post_init__(self) -> None:
        for where, given in (("model.prompt", self.prompt is not None), ("model.chat", self.chat is False)):
            if given:
                what = f"the model {self.checkpoint.id} is asked through its own code, which writes the prompt itself"
                raise Fp2Error(what, where=where, fix="Set it to null")

    @property
    def form(self) -> Form:
        """Whose format it is."""
        return "code"

    def identity(self) -> dict[str, str]:
        """Return which version of our side asks; the code itself is in the checkpoint's identity."""
        return {"form": self.form, "format": FORMAT}

    def text(self, question: str, picture: bool = True) -> str:
        """Return the prompt for `question`, as the code writes it."""
        return str(self.processor.write(question, picture))

    def adds_start(self, prompt: str) -> bool:
        """Return True: the code leaves special tokens to its tokenizer."""
        return True


def session_class(loaded: LoadedModel) -> type[Session]:
    """Return the kind of session that a loaded model needs."""
    from fp2.engines.hf.custom_code.query import QueryModel, QuerySession
    from fp2.engines.hf.session import Session

    return QuerySession if isinstance(loaded.model, QueryModel) else Session


def load_by_code(checkpoint: Checkpoint, path: Path, spec: HfSpec, device: str) -> LoadedModel:
    """Load a model through its own code and recognise its interface.

    Raises
    ------
    Fp2Error
        If the code does not run with this transformers, weights are missing, or the interface is not known.
    """
    from fp2.engines.hf.custom_code import chat as remote_chat
    from fp2.engines.hf.custom_code import query as remote_query
    from fp2.engines.hf.loading import is_out_of_memory

    try:
        model = _built(checkpoint, path, spec).to(device)
        for known in (remote_chat, remote_query):
            if known.offers(model):
                loaded: LoadedModel = known.adapt(model, checkpoint, path, spec, device)
                return loaded
    except Fp2Error:
        raise
    except Exception as error:  # code of anyone's: it can raise anything
        if is_out_of_memory(error):
            fix = "Choose a smaller dtype (bfloat16)"
            raise Fp2Error(f"the model {spec.id} does not fit into memory", where="model.id", fix=fix) from error
        raise _cannot_run(checkpoint, spec, error) from error
    raise Fp2Error(
        f"the code of the model {spec.id} offers neither of the ways to ask that are known here",
        where="model.id",
        fix=f"Known are {remote_chat.WAY}, and {remote_query.WAY}",
    )


def _built(checkpoint: Checkpoint, path: Path, spec: HfSpec) -> Any:
    """Return the model: its code run on this CPU, then every weight put in."""
    import torch

    auto = next(name for name in _AUTO if name in checkpoint.code)
    config = _of_transformers("AutoConfig").from_pretrained(path, trust_remote_code=True)
    dtype = getattr(torch, spec.dtype)
    model = _of_transformers(auto).from_config(config, trust_remote_code=True, dtype=dtype)
    absent = model.load_state_dict(_weights(path), strict=False).missing_keys
    for part in model.modules():
        if hasattr(part, "all_tied_weights_keys"):
            part.tie_weights()
    absent = _without_shared(model, absent)
    if absent:
        raise Fp2Error(
            f"{len(absent)} weights of the model {spec.id} are missing, {absent[0]} among them",
            where=str(path),
            fix="Copy or download the checkpoint again",
        )
    return model.to(dtype).eval()


def _weights(path: Path) -> dict[str, Any]:
    """Return all tensors of a checkpoint folder: from safetensors, or from pickled files of tensors only."""
    import torch
    from safetensors.torch import load_file

    tensors: dict[str, Any] = {}
    for file in sorted(path.glob("*.safetensors")):
        tensors.update(load_file(file))
    if not tensors:
        for file in sorted(path.glob("*.bin")):
            tensors.update(torch.load(file, map_location="cpu", weights_only=True))
    return tensors


def _without_shared(model: Any, absent: list[str]) -> list[str]:
    """Return the names of `absent` whose memory no weight that was read shares (tied ones are saved once)."""
    named = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    read = {tensor.data_ptr() for name, tensor in named.items() if name not in absent}
    return sorted(name for name in absent if name not in named or named[name].data_ptr() not in read)


def _of_transformers(name: str) -> Any:
    return getattr(importlib.import_module("transformers"), name)


def _cannot_run(checkpoint: Checkpoint, spec: HfSpec, error: Exception) -> Fp2Error:
    """Return the one line for code that does not run here: which transformers it was written for, what else to take.

    A missing package of its own is said by transformers, with its name.
    """
    said = " ".join(line.strip() for line in str(error).splitlines() if line.strip())[:200] or "no reason given"
    written, here = _written_for(checkpoint.config), importlib.metadata.version("transformers")
    native = _NATIVE.get(checkpoint.model_type)
    other = f"Set model.id={native}, with model.trust_remote_code=false" if native else "There is no native conversion"
    return Fp2Error(
        f"the code of the model {spec.id} does not run: {type(error).__name__}: {said}. "
        f"It was written for transformers {written}, and this is {here}",
        where="model.id",
        fix=f"{other}; or serve it with that version and ask it through engine=openai_compat",
    )


def _written_for(config: dict[str, Any]) -> str:
    """Return the version of transformers that wrote `config.json`; parts of it may say it where the whole does not."""
    parts = [config, *(part for part in config.values() if isinstance(part, dict))]
    return next((str(part["transformers_version"]) for part in parts if part.get("transformers_version")), "not known")
