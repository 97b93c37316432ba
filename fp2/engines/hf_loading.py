"""Loading a Hugging Face vision-language model, and one clear line when it cannot be loaded."""

from __future__ import annotations

import functools
import importlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fp2.engines.base import DTYPES, IMAGE_BACKENDS, QUANTISATIONS
from fp2.engines.checkpoint import Checkpoint, with_weights
from fp2.engines.families import FamilyFacts, facts_for
from fp2.engines.picture_memo import OncePerPicture
from fp2.engines.processors import NOT_VLM, load_processor
from fp2.engines.prompts import check_prompt
from fp2.errors import Fp2Error, nearest

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
    """

    id: str
    revision: str | None = None
    dtype: Dtype = "float32"
    quantisation: Quantisation | None = None
    trust_remote_code: bool = False
    chat: bool | None = None
    prompt: str | None = None
    image_backend: ImageBackend = "pil"

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

    @property
    def pictures(self) -> OncePerPicture:
        """The memory of resized pictures."""
        memo: OncePerPicture = self.processor.image_processor
        return memo


def resolve_device(name: str) -> str:
    """Return the torch device for `auto`, `cpu`, `mps`, `cuda` or `cuda:N`.

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
        raise Fp2Error(
            f"unknown device {name!r}", where="engine.device", fix=nearest(name, ("auto", "cpu", "cuda", "mps"))
        )
    missing = (kind == "cuda" and not torch.cuda.is_available()) or (
        kind == "mps" and not torch.backends.mps.is_available()
    )
    if missing or (kind == "cuda" and index and int(index) >= torch.cuda.device_count()):
        raise Fp2Error(
            f"the device {name} was asked for, and torch {torch.__version__} does not see it",
            where="engine.device",
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


@functools.lru_cache(maxsize=1)
def _load(checkpoint: Checkpoint, path: Path, spec: HfSpec, device: str) -> LoadedModel:
    """Load processor and model from a folder; the last one stays warm for the other runs of a sweep."""
    processor = _processor(path, checkpoint, spec)
    model = _model(path, spec, device)
    attention = str(getattr(model.config, "_attn_implementation", ""))
    return LoadedModel(model, processor, device, attention, facts_for(checkpoint.config))


def load(checkpoint: Checkpoint, spec: HfSpec, device: str) -> LoadedModel:
    """Load the model of `checkpoint` onto `device`, fetching its weights if they are not on this disk.

    Raises
    ------
    Fp2Error
        If the checkpoint is no vision-language model, its weights are damaged or incomplete, its processor is missing,
        it needs code or a library that is not allowed or not there, or it does not fit into memory.
    """
    _check_code(checkpoint, spec)
    noise = _transformers().utils.logging
    noise.set_verbosity_error()
    noise.disable_progress_bar()
    path = with_weights(checkpoint)
    return _load(checkpoint, path, spec, device)


def _processor(path: Path, checkpoint: Checkpoint, spec: HfSpec) -> Any:
    try:
        return load_processor(path, checkpoint, backend=spec.image_backend, remote_code=spec.trust_remote_code)
    except Fp2Error:
        raise
    except Exception as error:  # missing files, missing libraries, remote code: many kinds, one line
        raise _cannot_load("its processor", spec, error) from error


def _check_code(checkpoint: Checkpoint, spec: HfSpec) -> None:
    """Refuse code of a checkpoint's own that nothing pins: it could be another code tomorrow.

    A folder is pinned by its digests, a hub model by a whole commit (a branch or tag can move).
    """
    if not (spec.trust_remote_code and checkpoint.code):
        return
    elsewhere = sorted(name.split("--")[0] for name in checkpoint.code.values() if "--" in name)
    if elsewhere:
        raise Fp2Error(
            f"the model {spec.id} runs code from another repository ({elsewhere[0]}), which nothing pins",
            where="model.trust_remote_code",
            fix="Copy that code into the model's folder, and mend auto_map in its config.json",
        )
    if checkpoint.revision is not None and not re.fullmatch(r"[0-9a-f]{40}", spec.revision or ""):
        raise Fp2Error(
            f"the model {spec.id} runs code of its own, and model.revision is {spec.revision!r}",
            where="model.revision",
            fix=f"Read that code at a commit and pin it, for instance model.revision={checkpoint.revision}",
        )


def _model(path: Path, spec: HfSpec, device: str) -> Any:
    import torch

    options: dict[str, Any] = {"dtype": getattr(torch, spec.dtype), "trust_remote_code": spec.trust_remote_code}
    if device != "cpu" or spec.quantisation:
        options["device_map"] = {"": device}
    if spec.quantisation:
        options["quantization_config"] = _bits(spec)
    try:
        auto = _transformers().AutoModelForImageTextToText
        model, report = auto.from_pretrained(path, output_loading_info=True, **options)
    except Exception as error:  # safetensors, transformers and torch each raise their own kinds
        raise _cannot_load("its weights", spec, error) from error
    wrong = sorted(str(key) for name in ("missing_keys", "mismatched_keys") for key in report.get(name, ()))
    if wrong:
        raise Fp2Error(
            f"{len(wrong)} weights of the model {spec.id} are missing or of the wrong size, {wrong[0]} among them",
            where=str(path),
            fix="transformers would fill them with random numbers: copy or download the checkpoint again",
        )
    return model.eval()


def _bits(spec: HfSpec) -> Any:
    import torch

    bits = _transformers().BitsAndBytesConfig
    if spec.quantisation == "int8":
        return bits(load_in_8bit=True)
    compute = getattr(torch, spec.dtype)
    return bits(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=compute)


_COPY_AGAIN = "Check the folder: copy or download the checkpoint again"
_KNOWN_TROUBLE = {  # what the loaders say -> what it means, what to do
    "trust_remote_code": ("it runs code of its own", "Read that code, then set model.trust_remote_code=true"),
    "Unrecognized configuration class": ("it is not a model that looks at a picture and writes text", NOT_VLM),
    "does not recognize this architecture": ("this version of transformers does not know its architecture", NOT_VLM),
    "ignore_mismatched_sizes": ("some weights are of the wrong size for its config.json", _COPY_AGAIN),
    "load image processor": ("it has no processor_config.json or preprocessor_config.json", _COPY_AGAIN),
    "instantiate the backend tokenizer": ("its tokenizer files are missing or damaged", _COPY_AGAIN),
}


def _cannot_load(part: str, spec: HfSpec, error: Exception) -> Fp2Error:
    """Return the one line for what a loader raised."""
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    said, fix = next((known for sign, known in _KNOWN_TROUBLE.items() if sign in str(error)), (said, _COPY_AGAIN))
    if isinstance(error, ImportError):
        fix = "It needs a library that is not installed here"
    elif is_out_of_memory(error):
        said, fix = "it does not fit into memory", "Choose a smaller dtype (bfloat16) or model.quantisation=int8"
    return Fp2Error(f"the model {spec.id} cannot be loaded ({part}): {said[:300]}", where="model.id", fix=fix)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` means that memory ran out, on the GPU or on the CPU."""
    import torch

    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
