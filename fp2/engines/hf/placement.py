"""Where a model runs on this machine: devices, threads, and how its attention is computed.

None of it enters a response key: answers agree within the rounding of the dtype, and `runtime()` records it.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fp2.engines.base import Positive
from fp2.engines.worker_options import WorkerOptions
from fp2.errors import Fp2Error, nearest

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Attention = Literal["sdpa", "eager", "flash_attention_2"]
DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
_MAP_FIX = "Use null, auto, or a mapping from module names to 0, 1, ..., cpu or disk"
_LIMITS_FIX = "Use a mapping from devices to sizes, for instance {0: 20GiB, cpu: 60GiB}"
_SIZE = re.compile(r"\d+(\.\d+)?\s*([KMGT]i?)?B?", re.IGNORECASE)

DeviceName = int | str
Pairs = tuple[tuple[DeviceName, DeviceName], ...]


@dataclass(frozen=True, kw_only=True)
class LocalOptions(WorkerOptions):
    """The options of an engine that runs a model on this machine, in this process or in workers.

    Attributes
    ----------
    batch_size : int, optional
        Items computed together; by model size and device if not given; halved when memory runs out.
    device, devices, ray
        See `WorkerOptions`; a device is `auto` (a GPU if torch sees one), `cpu`, `cuda`, `cuda:N` or `mps`.
    device_map : str or mapping, optional
        None puts the whole model on one device; `auto` spreads it; a mapping names the device of each module.
    max_memory : mapping, optional
        The memory that each device may use, for `device_map=auto`.
    attention : {"sdpa", "eager", "flash_attention_2"}, optional
        None takes sdpa where the model has it.
    threads : int, optional
        CPU threads; see `default_threads` if not given.
    """

    batch_size: Positive | None = None
    device_map: object = None
    max_memory: object = None
    attention: Attention | None = None
    threads: Positive | None = None

    def instead_of_devices(self) -> dict[str, object]:
        """Return also how the model is spread over devices."""
        return {**super().instead_of_devices(), "device_map": self.device_map}

    def summary(self) -> dict[str, str]:
        """Return the batch size."""
        return {"batch size": str(self.batch_size or "automatic")}


GPU_BATCH = 64
"""Items computed together on a GPU, unless given or memory runs out."""


@dataclass(frozen=True)
class Placement:
    """How the layers are spread over devices, and which attention they use; hashable, since it is part of a cache key.

    Attributes
    ----------
    device_map : str, tuple of (module, device), optional
        None puts the whole model on one device. `auto` and accelerate's other strategies fill the GPUs, then the
        memory, then the disk. A mapping names the device of each module.
    max_memory : tuple of (device, size), optional
        The most memory that each device may use (`20GiB`, or bytes), for `auto`.
    attention : {"sdpa", "eager", "flash_attention_2"}, optional
        None takes what transformers chooses: sdpa wherever the model has it.
    """

    device_map: str | Pairs | None = None
    max_memory: Pairs | None = None
    attention: Attention | None = None

    def __post_init__(self) -> None:
        if isinstance(self.device_map, str) and self.device_map not in DEVICE_MAPS:
            raise Fp2Error(f"unknown device map {self.device_map!r}", where="engine.device_map", fix=_MAP_FIX)
        if self.max_memory is not None and not isinstance(self.device_map, str):
            fix = "Set engine.device_map=auto, or remove engine.max_memory"
            raise Fp2Error("max_memory limits nothing without a device map", where="engine.max_memory", fix=fix)
        for device, size in self.max_memory or ():
            if isinstance(size, str) and not _SIZE.fullmatch(size.strip()):
                fix = "For instance 20GiB"
                raise Fp2Error(f"{size!r} is not a size", where=f"engine.max_memory.{device}", fix=fix)

    @classmethod
    def of(cls, options: LocalOptions) -> Placement:
        """Return the placement that an engine's options ask for."""
        spread, limits = options.device_map, options.max_memory
        if spread is not None and options.device != "auto":
            fix = "Set engine.device=auto, or engine.device_map=null"
            message = f"the model cannot be on {options.device} alone and on several devices"
            raise Fp2Error(message, where="engine.device_map", fix=fix)
        return cls(
            spread if spread is None or isinstance(spread, str) else _pairs(spread, "device_map", _MAP_FIX),
            None if limits is None else _pairs(limits, "max_memory", _LIMITS_FIX),
            options.attention,
        )

    def check_machine(self, device: str, dtype: str) -> None:
        """Raise if this machine lacks the device that is named, or the attention; else torch is not loaded."""
        if device not in ("auto", "cpu") or self != Placement():
            self.check(resolve_device(device), dtype)

    def check(self, device: str, dtype: str) -> None:
        """Raise if this machine lacks a device or the attention, before anything is loaded."""
        if self.device_map is not None and not isinstance(self.device_map, str):
            for place in sorted({place for _, place in self.device_map} - {"disk"}, key=str):
                resolve_device(f"cuda:{place}" if isinstance(place, int) else place, "engine.device_map")
        if self.attention != "flash_attention_2":
            return
        if importlib.util.find_spec("flash_attn") is None:
            missing = "the package flash-attn is not installed"
        elif not device.startswith("cuda"):
            missing = f"it runs on a GPU only, and the device is {device}"
        elif dtype == "float32":
            missing = "it computes in 16 bits only, and model.dtype is float32"
        else:
            return
        fix = "Set engine.attention=sdpa, or null"
        raise Fp2Error(f"flash_attention_2 cannot be used: {missing}", where="engine.attention", fix=fix)

    def loading_options(self, device: str, quantised: bool) -> dict[str, object]:
        """Return the arguments of transformers' `from_pretrained` for this placement.

        Parameters
        ----------
        device : str
            The device of a model that is on one device.
        quantised : bool
            bitsandbytes needs the device named, even the CPU.
        """
        options: dict[str, object] = {}
        if self.attention is not None:
            options["attn_implementation"] = self.attention
        if self.device_map is not None:
            spread = self.device_map if isinstance(self.device_map, str) else dict(self.device_map)
            options |= {"device_map": spread, "offload_folder": _offload_folder()}
            if self.max_memory is not None:
                options["max_memory"] = dict(self.max_memory)
        elif device != "cpu" or quantised:
            options["device_map"] = {"": device}
        return options

    def check_modules(self, model: PreTrainedModel) -> None:
        """Raise if the mapping names a module that the loaded model lacks, which transformers ignores silently."""
        if self.device_map is None or isinstance(self.device_map, str):
            return
        module_names = {name for name, _ in model.named_modules()} | {name for name, _ in model.named_parameters()}
        for name, _ in self.device_map:
            if name not in module_names:
                fix = nearest(str(name), sorted(module_names - {""}))
                raise Fp2Error(f"the model has no module {name!r}", where="engine.device_map", fix=fix)


def resolve_device(name: str, where: str = "engine.device") -> str:
    """Return the torch device for `auto`, `cpu`, `mps`, `cuda` or `cuda:N`; `where` is the setting that names it."""
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
            f"torch {torch.__version__} does not see the device {name}",
            where=where,
            fix=f"Set {where}=auto or cpu, or install the torch build for this GPU",
        )
    return name


def default_threads(small: bool) -> int | None:
    """Return the CPU threads for a model, or None (torch's default) where OMP_NUM_THREADS decides.

    A small model gets one thread: its steps are too short to be split, and with another process on the machine two
    threads were measured ten times slower than one. A larger model gets the cores that this process may use.
    """
    if os.environ.get("OMP_NUM_THREADS"):
        return None
    if small:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def input_device(model: PreTrainedModel, device: str) -> str:
    """Return the device of a loaded model's inputs: the first that computes, if it is on several."""
    spread = getattr(model, "hf_device_map", None)
    if not spread:
        return device
    computing = [place for place in spread.values() if str(place) not in ("cpu", "disk")]
    if not computing:
        return "cpu"
    first = computing[0]
    return f"cuda:{first}" if isinstance(first, int) else str(first)


def device_counts(model: PreTrainedModel) -> dict[str, int]:
    """Return the number of modules on each device, or nothing for a model on one device."""
    counts: dict[str, int] = {}
    for device in (getattr(model, "hf_device_map", None) or {}).values():
        counts[str(device)] = counts.get(str(device), 0) + 1
    return counts if len(counts) > 1 else {}


def _pairs(value: object, name: str, fix: str) -> Pairs:
    """Return a mapping as sorted pairs, device numbers as integers."""
    if not isinstance(value, Mapping) or not value:
        raise Fp2Error(f"{value!r} is not a mapping", where=f"engine.{name}", fix=fix)
    return tuple(sorted(((_device_name(key), _device_name(item)) for key, item in value.items()), key=str))


def _device_name(value: object) -> DeviceName:
    """Return a device number as an integer (YAML and Hydra may give it as text), anything else as text."""
    text = str(value)
    return int(text) if text.isdigit() else text


@functools.cache
def _offload_folder() -> str:
    """Return a folder for layers on the disk that cannot be read from the checkpoint; removed at exit."""
    folder = tempfile.mkdtemp(prefix="fp2-offload-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
