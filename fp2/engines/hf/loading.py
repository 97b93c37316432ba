"""Loading a vision-language model, with one clear line when it cannot be loaded."""

from __future__ import annotations

import importlib
import inspect
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.engines.checkpoint import Checkpoint, with_weights
from fp2.engines.hf.adapters import adapter_folder, merge_adapter
from fp2.engines.hf.families import facts_for
from fp2.engines.hf.model import PICKLED, HfSpec, LoadedModel, cached_model, is_out_of_memory
from fp2.engines.hf.placement import input_device
from fp2.engines.hf.processors import CHOOSE_VLM, load_processor
from fp2.engines.hf.prompts import PromptFormat
from fp2.errors import Fp2Error
from fp2.plugins import MODEL_CODE
from fp2.plugins import load as load_entry

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_AUTO = "AutoModelForImageTextToText"
_NF4_INPUTS, _NF4_OUTPUTS = 64, 32


@dataclass(frozen=True)
class CodeInterface:
    """How checkpoints are asked through code of their own: an entry point of the group `fp2.model_code`.

    Attributes
    ----------
    check : callable
        Raises an `Fp2Error` for a checkpoint whose code is not allowed or cannot be run as requested.
    load : callable
        Returns the model in a folder, on a device.
    prompt_format : type
        How its questions are written.
    """

    check: Callable[[Checkpoint, HfSpec], None]
    load: Callable[[Checkpoint, Path, HfSpec, str], LoadedModel]
    prompt_format: type[PromptFormat]


def code_interface() -> CodeInterface:
    """Return the installed interface to code of checkpoints.

    Raises
    ------
    Fp2Error
        If none is installed.
    """
    interface: CodeInterface = load_entry(MODEL_CODE, "custom_code", "model.trust_remote_code")
    return interface


def prompt_format_class(checkpoint: Checkpoint, spec: HfSpec) -> type[PromptFormat]:
    """Return the class that writes the questions of a model."""
    return code_interface().prompt_format if _uses_custom_code(checkpoint, spec) else PromptFormat


def _uses_custom_code(checkpoint: Checkpoint, spec: HfSpec) -> bool:
    """Return whether the model is asked through its own code, which must be allowed."""
    return spec.trust_remote_code and checkpoint.has_custom_interface


def load(checkpoint: Checkpoint, spec: HfSpec, device: str) -> LoadedModel:
    """Load the model of a checkpoint, fetching its weights if they are not on this disk.

    Parameters
    ----------
    checkpoint : Checkpoint
    spec : HfSpec
    device : str
        Where it goes (see `resolve_device`), unless `spec.placement` spreads it over several devices.
    """
    if checkpoint.has_custom_interface:
        code_interface().check(checkpoint, spec)
    check_pinned(checkpoint, spec)
    spec.placement.check(device, spec.dtype)
    silence_loaders()
    model_class(checkpoint)  # before gigabytes are fetched
    path = with_weights(checkpoint, pickled=spec.pickled_weights, option=PICKLED)
    loading_spec = replace(
        spec, prompt=None, chat=None, yes_no=None, softmax_dtype="float32"
    )  # the others are of questions
    key = ("vlm", checkpoint, path, loading_spec, device)
    return cached_model(key, lambda: _load(checkpoint, path, spec, device))


def _load(checkpoint: Checkpoint, path: Path, spec: HfSpec, device: str) -> LoadedModel:
    if _uses_custom_code(checkpoint, spec):
        return code_interface().load(checkpoint, path, spec, device)
    processor = load_processor_of(checkpoint, path, spec)
    model = load_weights(model_class(checkpoint), path, spec, device)
    if spec.adapter:
        merge_adapter(model, adapter_folder(checkpoint, spec.adapter))
    attention = str(getattr(model.config, "_attn_implementation", ""))
    return LoadedModel(model, processor, input_device(model, device), attention, facts_for(checkpoint.config))


def load_processor_of(checkpoint: Checkpoint, path: Path, spec: HfSpec) -> Any:
    """Return the processor of a checkpoint in the folder `path`."""
    try:
        return load_processor(path, checkpoint, backend=spec.image_backend, remote_code=spec.trust_remote_code)
    except Fp2Error:
        raise
    except Exception as error:  # missing files, missing libraries, remote code: many kinds, one line
        raise loading_error("its processor", spec, error) from error


def load_weights(class_name: str, path: Path, spec: HfSpec, device: str) -> Any:
    """Return the model in the folder `path`, in evaluation mode, with every weight read."""
    import torch

    options: dict[str, object] = {"dtype": getattr(torch, spec.dtype), "trust_remote_code": spec.trust_remote_code}
    options |= {"use_safetensors": None if spec.pickled_weights else True, "weights_only": True}
    options |= spec.placement.loading_options(device, spec.quantisation is not None)
    if spec.quantisation:
        options["quantization_config"] = _quantisation_config(spec.quantisation, spec.dtype)
    try:
        kind = getattr(_transformers(), class_name)
        model, report = kind.from_pretrained(path, output_loading_info=True, **options)
    except Exception as error:  # safetensors, transformers and torch each raise their own kinds
        raise loading_error("its weights", spec, error) from error
    spec.placement.check_modules(model)
    if spec.quantisation == "nf4":
        _check_nf4(model)
    wrong = sorted(str(key) for name in ("missing_keys", "mismatched_keys") for key in report.get(name, ()))
    if wrong:
        raise Fp2Error(
            f"{len(wrong)} weights of the model {spec.id} are missing or of the wrong size, {wrong[0]} among them",
            where=str(path),
            fix="transformers would fill them with random numbers: copy or download the checkpoint again",
        )
    return model.eval()


def model_class(checkpoint: Checkpoint) -> str:
    """Return the class of transformers to load: the auto class for images and text, or the one the checkpoint names."""
    served: Any = importlib.import_module("transformers.models.auto.modeling_auto")
    configs: Any = importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    if checkpoint.model_type in served.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        return _AUTO
    if checkpoint.code or checkpoint.model_type not in configs:
        return _AUTO  # its error says what is missing: permission, or a newer transformers
    for name in checkpoint.config.get("architectures") or ():
        kind = getattr(_transformers(), str(name), None)
        if kind is not None and _takes_images(kind) and bool(kind.can_generate()):
            return str(name)
    raise Fp2Error(
        f"a model of type {checkpoint.model_type} does not take images and generate text",
        where=f"model.id: {checkpoint.path}",
        fix=CHOOSE_VLM,
    )


def _takes_images(kind: type[PreTrainedModel]) -> bool:
    """Return whether a class of transformers takes images (Phi-4-multimodal has no method for their features)."""
    return hasattr(kind, "get_image_features") or "image_pixel_values" in inspect.signature(kind.forward).parameters


def check_pinned(checkpoint: Checkpoint, spec: HfSpec) -> None:
    """Raise if code of the checkpoint may run and is not pinned: it could change without notice.

    A folder is pinned by its digests, a hub model by a full commit hash (a branch or tag can move).
    """
    if not (spec.trust_remote_code and checkpoint.code):
        return
    elsewhere = sorted(name.split("--")[0] for name in checkpoint.code.values() if "--" in name)
    if elsewhere:
        raise Fp2Error(
            f"the model {spec.id} runs code from another repository ({elsewhere[0]}), which is not pinned",
            where="model.trust_remote_code",
            fix="Copy that code into the model's folder, and correct auto_map in its config.json",
        )
    if checkpoint.revision is not None and not re.fullmatch(r"[0-9a-f]{40}", spec.revision or ""):
        raise Fp2Error(
            f"the model {spec.id} runs code of its own, and model.revision is {spec.revision!r}",
            where="model.revision",
            fix=f"Read that code at a commit and pin it (fp2 pin), for instance model.revision={checkpoint.revision}",
        )


def silence_loaders() -> None:
    """Turn off progress bars of the loaders, and the warnings of bitsandbytes and accelerate for each layer."""
    noise = _transformers().utils.logging
    noise.set_verbosity_error()
    noise.disable_progress_bar()
    for name in ("bitsandbytes", "accelerate"):
        logging.getLogger(name).setLevel(logging.ERROR)


_COPY_AGAIN = "Check the folder: copy or download the checkpoint again"
_READ_CODE = "Read that code, pin model.revision to its commit, then set model.trust_remote_code=true"
_UNINSTALL = "Uninstall it (`pip uninstall torchvision`), since it is not needed, or install the one for this torch"
_MATCHING = "Install the torchvision for this torch, and set model.image_backend=torchvision"
_KNOWN_ERRORS = {  # part of a loader's message -> what it means, how to fix it
    "operator torchvision::": ("the installed torchvision does not match this torch", _UNINSTALL),
    "Torchvision library": ("its image processor needs torchvision, which is not installed", _MATCHING),
    "trust_remote_code": ("it runs code of its own", _READ_CODE),
    "Unrecognized configuration class": ("it is not a model that takes images and generates text", CHOOSE_VLM),
    "does not recognize this architecture": ("this version of transformers does not know its architecture", CHOOSE_VLM),
    "ignore_mismatched_sizes": ("some weights are of the wrong size for its config.json", _COPY_AGAIN),
    "load image processor": ("it has no processor_config.json or preprocessor_config.json", _COPY_AGAIN),
    "instantiate the backend tokenizer": ("its tokenizer files are missing or damaged", _COPY_AGAIN),
    "deserializing header": ("a weights file is truncated or damaged", _COPY_AGAIN),
}


def loading_error(part: str, spec: HfSpec, error: Exception) -> Fp2Error:
    """Return the one line for an error of a loader."""
    reason = next((text.strip() for text in str(error).splitlines() if text.strip()), type(error).__name__)
    usual = "It needs a library that is not installed here" if isinstance(error, ImportError) else _COPY_AGAIN
    message = f"{error} {error.__cause__}"
    reason, fix = next(
        (reason_and_fix for sign, reason_and_fix in _KNOWN_ERRORS.items() if sign in message), (reason, usual)
    )
    if is_out_of_memory(error):
        reason, fix = "it does not fit into memory", "Choose a smaller dtype (bfloat16) or model.quantisation=int8"
    return Fp2Error(f"the model {spec.id} cannot be loaded ({part}): {reason[:300]}", where="model.id", fix=fix)


def _quantisation_config(quantisation: str, dtype: str) -> Any:
    """Return transformers' config for `int8` (LLM.int8) or `nf4`, computed in `dtype`."""
    config = _transformers().BitsAndBytesConfig
    if quantisation == "int8":
        return config(load_in_8bit=True)
    compute = getattr(importlib.import_module("torch"), dtype)
    return config(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=compute)


def _check_nf4(model: PreTrainedModel) -> None:
    """Raise for 4-bit layers on a CPU that bitsandbytes does not compute correctly.

    Weights are quantised in blocks of 64 that continue from row to row, and its CPU kernels (0.50) read them as blocks
    within a row: where rows are not a multiple of 64, values are wrong, on some processors with an error and on others
    without one. The kernel for processors with AVX512-BF16 takes outputs in multiples of 32.
    """
    kind = importlib.import_module("bitsandbytes").nn.Linear4bit
    for name, layer in model.named_modules():
        if not isinstance(layer, kind) or layer.weight.device.type != "cpu":
            continue
        if layer.in_features % _NF4_INPUTS or layer.out_features % _NF4_OUTPUTS:
            raise Fp2Error(
                f"bitsandbytes cannot compute nf4 on a CPU for this model: its layer {name} is {layer.out_features} x "
                f"{layer.in_features}, not a multiple of {_NF4_OUTPUTS} x {_NF4_INPUTS}",
                where="model.quantisation",
                fix="Set model.quantisation=int8, or use a GPU",
            )


def _transformers() -> Any:
    """Return transformers, imported now; its attributes are loaded lazily and only partly typed."""
    return importlib.import_module("transformers")
