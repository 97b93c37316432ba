"""LoRA adapters in PEFT's form (`adapter_config.json`, `adapter_model.safetensors`), merged into a model's weights.

Phi-4-multimodal's published checkpoint has its ability to see in such an adapter beside the weights. With
W' = W + s B A (Hu et al. 2022, eq. 3; s = alpha / r, or alpha / sqrt(r) for rank-stabilised adapters) computed in
float32 and rounded to the model's dtype, the merged model is an ordinary one: everything else is as for every model. A
model that keeps the adapter apart rounds W x and B A x separately, so that its logits differ by rounding.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.engines.checkpoint import Checkpoint, FileDigests, fetch
from fp2.errors import Fp2Error
from fp2.hashing import digest

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

WHERE = "model.adapter"
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_SIDES = ("lora_A", "lora_B")
_UNSUPPORTED = ("use_dora", "rank_pattern", "alpha_pattern", "modules_to_save", "lora_bias")


def adapter_folder(checkpoint: Checkpoint, name: str) -> Path:
    """Return the folder of an adapter: one in the checkpoint (fetched for a hub model), or a path of its own."""
    adapter = Path(name).expanduser()
    folder = adapter if adapter.is_dir() else checkpoint.path / name
    if not _complete(folder) and checkpoint.revision is not None and not adapter.is_absolute():
        folder = fetch(checkpoint.id, checkpoint.revision, (f"{name}/*",), needed=(f"{name}/{WEIGHTS}",)) / name
    if not _complete(folder):
        fix = f"Give a folder of the checkpoint, or a path, with {CONFIG} and {WEIGHTS}; or null"
        raise Fp2Error(f"the model {checkpoint.id} has no adapter {name!r}", where=WHERE, fix=fix)
    return folder


def adapter_identity(checkpoint: Checkpoint, name: str, digests: FileDigests) -> str:
    """Return what stands for an adapter in the response key: its name if the commit pins it, else its files' digest."""
    if checkpoint.revision is not None and not Path(name).expanduser().is_dir():
        return name
    folder = adapter_folder(checkpoint, name)
    return digest([digests.sha256(folder / file) for file in (CONFIG, WEIGHTS)])


def merge_adapter(model: PreTrainedModel, folder: Path) -> None:
    """Add an adapter to the weights of a model."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        tensors = load_file(folder / WEIGHTS)
    except (OSError, ValueError, SafetensorError) as error:
        message = f"the adapter cannot be read: {str(error).splitlines()[0]}"
        raise Fp2Error(message, where=str(folder), fix="Copy or download it again") from error
    unsupported = [name for name in _UNSUPPORTED if config.get(name)]
    if config.get("peft_type") != "LORA" or unsupported or config.get("bias", "none") != "none":
        kind = ", ".join(unsupported) or f"peft_type {config.get('peft_type')}, bias {config.get('bias')}"
        fix = "Merge it into the weights with PEFT, and give that folder as model.id"
        raise Fp2Error(f"only plain LoRA adapters can be merged here, not one with {kind}", where=str(folder), fix=fix)
    # Pairs of matrices by module; names are `base_model.model.MODULE.lora_A.weight`, or with the adapter's name
    tensors_of: dict[str, dict[str, torch.Tensor]] = {}
    for key, tensor in tensors.items():
        module, side = next(((key.split(f".{side}.")[0], side) for side in _SIDES if f".{side}." in key), ("", ""))
        tensors_of.setdefault(module.removeprefix("base_model.model."), {})[side] = tensor
    if not tensors_of or "" in tensors_of or any(len(sides) < 2 for sides in tensors_of.values()):
        raise Fp2Error("the adapter has tensors that are no pairs of LoRA matrices", where=str(folder))
    pairs = {module: (sides[_SIDES[0]], sides[_SIDES[1]]) for module, sides in tensors_of.items()}
    with torch.no_grad():
        for name, (down, up) in pairs.items():
            shape = (up.shape[0], down.shape[1])
            try:
                weight = model.get_submodule(name).weight
            except AttributeError:
                weight = None
            if not isinstance(weight, torch.Tensor) or tuple(weight.shape) != shape:
                raise Fp2Error(
                    f"the model has no layer {name} of {shape[0]} x {shape[1]}", where=str(folder), fix=f"Check {WHERE}"
                )
            if weight.device.type == "meta":
                raise Fp2Error(
                    "weights on disk cannot take an adapter", where="engine.device_map", fix="Keep them in memory"
                )
            rank = down.shape[0]
            scale = float(config["lora_alpha"]) / (math.sqrt(rank) if config.get("use_rslora") else rank)
            more = scale * (up.to(weight.device).float() @ down.to(weight.device).float())
            weight.copy_((weight.float() + more).to(weight.dtype))


def _complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (CONFIG, WEIGHTS))
