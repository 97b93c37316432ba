"""Loading a Hugging Face vision-language model, and one clear line when it cannot be loaded."""

from __future__ import annotations

import functools
import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fp2.engines.base import DTYPES, QUANTISATIONS
from fp2.engines.checkpoint import Checkpoint, with_weights
from fp2.engines.picture_memo import OncePerPicture
from fp2.errors import Fp2Error, nearest

Dtype = Literal["float32", "bfloat16", "float16"]
Quantisation = Literal["int8", "nf4"]


@dataclass(frozen=True)
class HfSpec:
    """Which model to load, and how.

    `id` is a folder, a `pkg://` name or a Hugging Face id. `dtype` is always explicit: transformers would take the one
    that the file was saved in, and float16 on a CPU is several times slower. `chat=None` uses the chat template when
    the checkpoint has one.
    """

    id: str
    revision: str | None = None
    dtype: Dtype = "float32"
    quantisation: Quantisation | None = None
    trust_remote_code: bool = False
    chat: bool | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise Fp2Error(f"unknown dtype {self.dtype!r}", where="model.dtype", fix=nearest(str(self.dtype), DTYPES))
        if self.quantisation is not None and self.quantisation not in QUANTISATIONS:
            hint = nearest(str(self.quantisation), QUANTISATIONS)
            raise Fp2Error(f"unknown quantisation {self.quantisation!r}", where="model.quantisation", fix=hint)


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to answer, its processor (pictures resized once), and where it lives."""

    model: Any
    processor: Any
    device: str
    attention: str

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
def _load(path: Path, stamp: str, spec: HfSpec, device: str) -> LoadedModel:
    """Load processor and model from a folder; the last one stays warm for the other runs of a sweep."""
    processor = _processor(path, spec)
    model = _model(path, spec, device)
    return LoadedModel(model, processor, device, str(getattr(model.config, "_attn_implementation", "")))


def load(checkpoint: Checkpoint, spec: HfSpec, device: str) -> LoadedModel:
    """Load the model of `checkpoint` onto `device`, fetching its weights if they are not on this disk.

    Raises
    ------
    Fp2Error
        If the checkpoint is no vision-language model, its weights are damaged or incomplete, its processor is missing,
        it needs code or a library that is not allowed or not there, or it does not fit into memory.
    """
    noise = _transformers().utils.logging
    noise.set_verbosity_error()
    noise.disable_progress_bar()
    path = with_weights(checkpoint)
    return _load(path, checkpoint.revision or checkpoint.weights_digest or "", spec, device)


def _processor(path: Path, spec: HfSpec) -> Any:
    """Load the processor with the PIL image backend, padding on the left, as generation needs it."""
    remote, torchvision = spec.trust_remote_code, _transformers().image_processing_backends.TorchvisionBackend
    try:
        processor = _transformers().AutoProcessor.from_pretrained(path, trust_remote_code=remote)
        pictures = _transformers().AutoImageProcessor.from_pretrained(path, backend="pil", trust_remote_code=remote)
    except Exception as error:  # missing files, missing libraries, remote code: many kinds, one line
        raise _cannot_load("its processor", spec, error) from error
    tokenizer = getattr(processor, "tokenizer", None)
    if tokenizer is None or not hasattr(processor, "image_processor"):
        raise Fp2Error(f"the model {spec.id} has no processor for pictures and text", where="model.id", fix=_NOT_VLM)
    if isinstance(pictures, torchvision):
        raise Fp2Error(
            f"the image processor {type(pictures).__name__} has no PIL backend, which the response keys say is used",
            where=f"model {spec.id}",
        )
    processor.image_processor = OncePerPicture(pictures)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return processor


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


_NOT_VLM = "Choose a model that takes pictures and text and writes text (image-text-to-text)"


_COPY_AGAIN = "Check the folder: copy or download the checkpoint again"
_KNOWN_TROUBLE = {  # what the loaders say -> what it means, what to do
    "trust_remote_code": ("it runs code of its own", "Read that code, then set model.trust_remote_code=true"),
    "Unrecognized configuration class": ("it is not a model that looks at a picture and writes text", _NOT_VLM),
    "does not recognize this architecture": ("this version of transformers does not know its architecture", _NOT_VLM),
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
