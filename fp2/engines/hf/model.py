"""Which model to load and how (`HfSpec`), the loaded model (`LoadedModel`), and the one kept for the next run."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from fp2.engines.base import version, version_family
from fp2.engines.hf.families import FamilyFacts
from fp2.engines.hf.placement import Placement, device_counts
from fp2.engines.hf.prompts import check_prompt
from fp2.errors import Fp2Error
from fp2.plugins import read_options

if TYPE_CHECKING:
    from fp2.engines.hf.processors import LastImageProcessor

Dtype = Literal["float32", "bfloat16", "float16"]
Quantisation = Literal["int8", "nf4"]
ImageBackend = Literal["pil", "torchvision"]
PICKLED = "model.pickled_weights"
NEEDS_ID = {"id": "Give a folder or a Hugging Face id (owner/name)"}


@dataclass(frozen=True)
class HfSpec:
    """Which model to load, and how.

    Attributes
    ----------
    id : str
        A folder, a `pkg://` name or a Hugging Face id.
    revision : str, optional
        A commit, tag or branch of a Hugging Face id.
    dtype : {"float32", "bfloat16", "float16"}
        Always explicit: transformers would take the dtype of the file, and float16 on a CPU is several times slower.
    quantisation : {"int8", "nf4"}, optional
    trust_remote_code : bool
        Whether code of the checkpoint may run.
    pickled_weights : bool
        Whether weights may be read from pickled files (`*.bin`), where there are no safetensors; only tensors are read.
    chat : bool, optional
        Whether to use the chat template; None uses it if the checkpoint has one.
    prompt : str, optional
        The user's prompt format (see `PromptFormat`).
    image_backend : {"pil", "torchvision"}
        The library that resizes images. The two give slightly different pixels, so the choice is always explicit.
    adapter : str, optional
        A LoRA adapter that is merged into the weights (see `adapters`).
    yes_no : (str, str), optional
        The words whose first token is read as the answer of a yes/no question; None is Yes and No.
    softmax_dtype : {"float32", "bfloat16", "float16"}
        In which the probability of these tokens is computed (published code: in that of the model).
    placement : Placement
        Device map and attention of this machine; not part of the identity.
    """

    id: str
    revision: str | None = None
    dtype: Dtype = "float32"
    quantisation: Quantisation | None = None
    trust_remote_code: bool = False
    pickled_weights: bool = False
    chat: bool | None = None
    prompt: str | None = None
    image_backend: ImageBackend = "pil"
    adapter: str | None = None
    yes_no: tuple[str, str] | None = None
    softmax_dtype: Dtype = "float32"
    placement: Placement = field(default_factory=Placement)

    def __post_init__(self) -> None:
        check_prompt(self.prompt, self.chat)
        if self.yes_no is not None and [word.strip().casefold() for word in self.yes_no] != ["yes", "no"]:
            fix = 'Write the spelling of each, for instance model.yes_no=[" Yes"," No"]'
            raise Fp2Error(f"{list(self.yes_no)} does not read yes and no", where="model.yes_no", fix=fix)
        if self.adapter and self.quantisation:
            raise Fp2Error("a quantised model cannot take an adapter", where="model.adapter", fix="Set one to null")

    @classmethod
    def of(cls, model: Mapping[str, object], placement: Placement) -> HfSpec:
        """Return the spec of a config group `model`."""
        names = {entry.name for entry in fields(cls)} - {"placement"}
        settings = {name: model[name] for name in names if model.get(name) is not None}
        return replace(read_options(cls, settings, "model"), placement=placement)

    def version_families(self) -> dict[str, str]:
        """Return the version families of the packages that can change an answer: they compute, or resize images."""
        resizing = "pillow" if self.image_backend == "pil" else "torchvision"
        names = ("transformers", "torch", resizing, *(("bitsandbytes",) if self.quantisation else ()))
        return {name: version_family(version(name)) for name in names}


@dataclass(frozen=True)
class LoadedModel:
    """A model, its processor (which resizes each image once), its device, its attention and the facts of its family.

    `session` is the class of its sessions, where that is not `fp2.engines.hf.session.Session`.
    """

    model: Any
    processor: Any
    device: str
    attention: str
    facts: FamilyFacts
    session: type[Any] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)
    """Held while the tokenizer or the processor is used: two engines may share a loaded model."""

    @property
    def modules_per_device(self) -> dict[str, int]:
        """The number of modules on each device, if there are several (for `runtime()`)."""
        return device_counts(self.model)

    @property
    def image_processor(self) -> LastImageProcessor:
        """The image processor, which remembers its last image."""
        processor: LastImageProcessor = self.processor.image_processor
        return processor


T = TypeVar("T")
_cached: list[tuple[object, Any]] = []


def cached_model(key: object, load: Callable[[], T]) -> T:
    """Return the result of `load`, or of the last call if that had the same `key`.

    A model that was kept under another key is released first: two models at once may not fit into memory.
    """
    if _cached and _cached[0][0] == key:
        value: T = _cached[0][1]
        return value
    release()
    loaded = load()
    _cached.append((key, loaded))
    return loaded


def release() -> None:
    """Drop the model that is kept."""
    if not _cached:
        return
    _cached.clear()
    free_memory()


def free_memory() -> None:
    """Collect garbage, and return unused memory of the GPU."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` means that memory ran out, on the GPU or on the CPU."""
    import torch

    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
