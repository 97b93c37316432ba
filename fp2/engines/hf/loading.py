"""Loading a Hugging Face vision-language model, and one clear line when it cannot be loaded."""

from __future__ import annotations

import importlib
import logging
import os
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fp2.engines.auto_class import auto_class, check_code
from fp2.engines.checkpoint import Checkpoint, with_weights
from fp2.engines.hf.custom_code.loading import asked_by_code, check_allowed, load_by_code
from fp2.engines.hf.families import FamilyFacts, facts_for
from fp2.engines.hf.model_cache import kept
from fp2.engines.hf.placement import Placement, check_names, input_device, places
from fp2.engines.hf.processors import NOT_VLM, load_processor
from fp2.engines.hf.prompts import check_prompt
from fp2.engines.picture_memo import OncePerPicture
from fp2.engines.quantised import bits_config, check_nf4
from fp2.errors import Fp2Error, nearest
from fp2.tables import DTYPES, IMAGE_BACKENDS, QUANTISATIONS

Dtype = Literal["float32", "bfloat16", "float16"]
Quantisation = Literal["int8", "nf4"]
ImageBackend = Literal["pil", "torchvision"]


@dataclass(frozen=True)
class HfSpec:
    """Which model to load, and how.

    `id` is a folder, a `pkg://` name or a Hugging Face id. `dtype` is always explicit: transformers would take the one
    that the file was saved in, and float16 on a CPU is several times slower. `chat=None` uses the chat template when
    the checkpoint has one; `prompt` is a format of one's own (see `PromptFormat`). `image_backend` is the library that
    resizes pictures: torchvision gives slightly other pixels than PIL, so it is never taken because it is there.
    `placement` (device map, attention) is this machine's business: no identity holds it.
    """

    id: str
    revision: str | None = None
    dtype: Dtype = "float32"
    quantisation: Quantisation | None = None
    trust_remote_code: bool = False
    chat: bool | None = None
    prompt: str | None = None
    image_backend: ImageBackend = "pil"
    placement: Placement = field(default_factory=Placement)

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise Fp2Error(f"unknown dtype {self.dtype!r}", where="model.dtype", fix=nearest(str(self.dtype), DTYPES))
        if self.quantisation is not None and self.quantisation not in QUANTISATIONS:
            hint = nearest(str(self.quantisation), QUANTISATIONS)
            raise Fp2Error(f"unknown quantisation {self.quantisation!r}", where="model.quantisation", fix=hint)
        if self.image_backend not in IMAGE_BACKENDS:
            hint = nearest(str(self.image_backend), IMAGE_BACKENDS)
            raise Fp2Error(f"unknown image backend {self.image_backend!r}", where="model.image_backend", fix=hint)
        check_prompt(self.prompt, self.chat)


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to answer, its processor (pictures resized once), where it lives, and what its family is like."""

    model: Any
    processor: Any
    device: str
    attention: str
    facts: FamilyFacts
    lock: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)
    """Held by whoever uses tokenizer or processor: two engines may share a warm model."""

    @property
    def spread(self) -> dict[str, int]:
        """Modules on each device, where there are several (for `runtime()`)."""
        return places(self.model)

    @property
    def pictures(self) -> OncePerPicture:
        """The memory of resized pictures."""
        memo: OncePerPicture = self.processor.image_processor
        return memo


def resolve_device(name: str, where: str = "engine.device") -> str:
    """Return the torch device for `auto`, `cpu`, `mps`, `cuda` or `cuda:N`; `where` is the setting it comes from.

    Raises
    ------
    Fp2Error
        If the device is not known, or is a GPU that torch does not see.
    """
    import torch

    kind, _, index = name.partition(":")
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if kind not in {"cpu", "cuda", "mps"} or (index and not index.isdigit()):
        raise Fp2Error(f"unknown device {name!r}", where=where, fix=nearest(name, ("auto", "cpu", "cuda", "mps")))
    missing = (kind == "cuda" and not torch.cuda.is_available()) or (
        kind == "mps" and not torch.backends.mps.is_available()
    )
    if missing or (kind == "cuda" and index and int(index) >= torch.cuda.device_count()):
        raise Fp2Error(
            f"the device {name} was asked for, and torch {torch.__version__} does not see it",
            where=where,
            fix="Set engine.device=auto or cpu, or install the torch build for this GPU",
        )
    return name


def default_threads(small: bool) -> int | None:
    """Return the CPU threads for a model, or None (torch's own choice) where OMP_NUM_THREADS decides.

    A small model's steps are too short to share: with another process on the machine, two threads that wait for each
    other were measured ten times slower than one. A larger model takes the cores that this process may use.
    """
    if os.environ.get("OMP_NUM_THREADS"):
        return None
    if small:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _transformers() -> Any:
    """Return transformers, imported now: its names are looked up lazily and only half typed."""
    return importlib.import_module("transformers")


def _load(checkpoint: Checkpoint, path: Path, spec: HfSpec, device: str) -> LoadedModel:
    """Load processor and model from a folder."""
    if asked_by_code(checkpoint, spec):
        return load_by_code(checkpoint, path, spec, device)
    processor = _processor(path, checkpoint, spec)
    model = load_weights(auto_class(checkpoint), path, spec, device)
    attention = str(getattr(model.config, "_attn_implementation", ""))
    return LoadedModel(model, processor, input_device(model, device), attention, facts_for(checkpoint.config))


def load(checkpoint: Checkpoint, spec: HfSpec, device: str) -> LoadedModel:
    """Load the model of `checkpoint`, fetching its weights if they are not on this disk.

    Parameters
    ----------
    checkpoint : Checkpoint
    spec : HfSpec
    device : str
        Where it goes (see `resolve_device`), unless `spec.placement` spreads it over several devices.

    Raises
    ------
    Fp2Error
        If the checkpoint is no vision-language model, its weights are damaged or incomplete, its processor is missing,
        it needs code or a library that is not allowed or not there, a device of its map is not there, or it does not
        fit into memory.
    """
    check_allowed(checkpoint, spec)
    check_code(checkpoint, spec)
    check_placement(spec, device)
    quieten()
    auto_class(checkpoint)  # no gigabytes are fetched of what is no model for pictures and text
    path = with_weights(checkpoint)
    same = ("vlm", checkpoint, path, replace(spec, prompt=None, chat=None), device)  # prompts are no part of a model
    return kept(same, lambda: _load(checkpoint, path, spec, device))


def check_placement(spec: HfSpec, device: str) -> None:
    """Refuse a device map or an attention that this machine has not got.

    Raises
    ------
    Fp2Error
        Naming what is missing.
    """
    spec.placement.check(device, spec.dtype)
    for place in spec.placement.devices:
        resolve_device(place, "engine.device_map")


def quieten() -> None:
    """Stop the loaders' progress bars, and warnings that bitsandbytes and accelerate give for each layer and call."""
    noise = _transformers().utils.logging
    noise.set_verbosity_error()
    noise.disable_progress_bar()
    for name in ("bitsandbytes", "accelerate"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _processor(path: Path, checkpoint: Checkpoint, spec: HfSpec) -> Any:
    try:
        return load_processor(path, checkpoint, backend=spec.image_backend, remote_code=spec.trust_remote_code)
    except Fp2Error:
        raise
    except Exception as error:  # missing files, missing libraries, remote code: many kinds, one line
        raise cannot_load("its processor", spec, error) from error


def load_weights(auto_class: str, path: Path, spec: HfSpec, device: str) -> Any:
    """Return the model in the folder `path`, every weight of it read, ready to be asked.

    Parameters
    ----------
    auto_class : str
        The class of transformers that finds the model's own.
    path, spec, device
        See `load`.

    Raises
    ------
    Fp2Error
        If it cannot be loaded, or weights are missing.
    """
    import torch

    options: dict[str, Any] = {"dtype": getattr(torch, spec.dtype), "trust_remote_code": spec.trust_remote_code}
    options |= spec.placement.options(device, spec.quantisation is not None)
    if spec.quantisation:
        options["quantization_config"] = bits_config(spec.quantisation, spec.dtype)
    try:
        auto = getattr(_transformers(), auto_class)
        model, report = auto.from_pretrained(path, output_loading_info=True, **options)
    except Exception as error:  # safetensors, transformers and torch each raise their own kinds
        raise cannot_load("its weights", spec, error) from error
    check_names(model, spec.placement)
    if spec.quantisation == "nf4":
        check_nf4(model)
    wrong = sorted(str(key) for name in ("missing_keys", "mismatched_keys") for key in report.get(name, ()))
    if wrong:
        raise Fp2Error(
            f"{len(wrong)} weights of the model {spec.id} are missing or of the wrong size, {wrong[0]} among them",
            where=str(path),
            fix="transformers would fill them with random numbers: copy or download the checkpoint again",
        )
    return model.eval()


_COPY_AGAIN = "Check the folder: copy or download the checkpoint again"
_READ_CODE = "Read that code, pin model.revision to its commit, then set model.trust_remote_code=true"
_UNINSTALL = "Uninstall it (`pip uninstall torchvision`), since it is not needed, or install the one for this torch"
_FITTING = "Install the torchvision that fits this torch, and set model.image_backend=torchvision"
_KNOWN_TROUBLE = {  # what the loaders say -> what it means, what to do
    "operator torchvision::": ("the torchvision that is installed does not fit this torch", _UNINSTALL),
    "Torchvision library": ("its image processor needs torchvision, which is not installed here", _FITTING),
    "trust_remote_code": ("it runs code of its own", _READ_CODE),
    "Unrecognized configuration class": ("it is not a model that looks at a picture and writes text", NOT_VLM),
    "does not recognize this architecture": ("this version of transformers does not know its architecture", NOT_VLM),
    "ignore_mismatched_sizes": ("some weights are of the wrong size for its config.json", _COPY_AGAIN),
    "load image processor": ("it has no processor_config.json or preprocessor_config.json", _COPY_AGAIN),
    "instantiate the backend tokenizer": ("its tokenizer files are missing or damaged", _COPY_AGAIN),
    "deserializing header": ("a weights file is truncated or damaged", _COPY_AGAIN),
}


def cannot_load(part: str, spec: HfSpec, error: Exception) -> Fp2Error:
    """Return the one line for what a loader raised."""
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    usual = "It needs a library that is not installed here" if isinstance(error, ImportError) else _COPY_AGAIN
    whole = f"{error} {error.__cause__}"
    said, fix = next((known for sign, known in _KNOWN_TROUBLE.items() if sign in whole), (said, usual))
    if is_out_of_memory(error):
        said, fix = "it does not fit into memory", "Choose a smaller dtype (bfloat16) or model.quantisation=int8"
    return Fp2Error(f"the model {spec.id} cannot be loaded ({part}): {said[:300]}", where="model.id", fix=fix)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` means that memory ran out, on the GPU or on the CPU."""
    import torch

    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
