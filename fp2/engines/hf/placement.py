"""Where a model's layers lie and how its attention is computed: what this machine decides, and no answer depends on.

Nothing of it enters a response key: answers agree within the rounding of the dtype, and `runtime()` records it.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fp2.errors import Fp2Error, nearest

ATTENTIONS = ("sdpa", "eager", "flash_attention_2")
DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
_MAP_FIX = "Use null, auto, or a mapping from module names to 0, 1, ..., cpu or disk"
_SIZE = re.compile(r"\d+(\.\d+)?\s*([KMGT]i?)?B?", re.IGNORECASE)

Place = int | str
Pairs = tuple[tuple[Place, Place], ...]


@dataclass(frozen=True)
class Placement:
    """How the layers are spread over devices, and which attention they use; hashable, so that loads are remembered.

    Attributes
    ----------
    device_map : str, tuple of (module, device), optional
        None puts the whole model onto one device. `auto` and accelerate's other ways fill the GPUs, then the memory,
        then the disk. A mapping says it module by module.
    max_memory : tuple of (device, size), optional
        The most that each device may hold (`20GiB`, bytes), for `auto`.
    attention : {"sdpa", "eager", "flash_attention_2"}, optional
        None leaves it to transformers: sdpa wherever the model has it.
    """

    device_map: str | Pairs | None = None
    max_memory: Pairs | None = None
    attention: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.device_map, str) and self.device_map not in DEVICE_MAPS:
            raise Fp2Error(f"unknown device map {self.device_map!r}", where="engine.device_map", fix=_MAP_FIX)
        if self.attention is not None and self.attention not in ATTENTIONS:
            hint = nearest(self.attention, ATTENTIONS)
            raise Fp2Error(f"unknown attention {self.attention!r}", where="engine.attention", fix=hint)
        if self.max_memory is not None and not isinstance(self.device_map, str):
            fix = "Set engine.device_map=auto, or leave engine.max_memory out"
            raise Fp2Error("max_memory has nothing to limit", where="engine.max_memory", fix=fix)
        for device, size in self.max_memory or ():
            if isinstance(size, str) and not _SIZE.fullmatch(size.strip()):
                raise Fp2Error(f"no size: {size!r}", where=f"engine.max_memory.{device}", fix="For instance 20GiB")

    @classmethod
    def of(cls, engine: Mapping[str, Any]) -> Placement:
        """Return the placement that an engine's settings ask for.

        Raises
        ------
        Fp2Error
            If a value is not known.
        """
        spread, device = engine.get("device_map"), engine.get("device") or "auto"
        if spread is not None and device != "auto":
            fix = "Set engine.device=auto, or engine.device_map=null"
            what = f"the model cannot be on {device} alone and spread over several devices"
            raise Fp2Error(what, where="engine.device_map", fix=fix)
        return cls(
            device_map=spread if spread is None or isinstance(spread, str) else _pairs(spread, "device_map"),
            max_memory=None if engine.get("max_memory") is None else _pairs(engine["max_memory"], "max_memory"),
            attention=engine.get("attention"),
        )

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that a mapping names, as torch names them (the disk is none)."""
        if self.device_map is None or isinstance(self.device_map, str):
            return ()
        named = {place for _, place in self.device_map}
        return tuple(sorted(f"cuda:{place}" if isinstance(place, int) else place for place in named if place != "disk"))

    def check(self, device: str, dtype: str) -> None:
        """Refuse what this machine cannot do before anything is loaded.

        Raises
        ------
        Fp2Error
            If flash attention is asked for and its package, a GPU or a 16-bit dtype is missing.
        """
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

    def options(self, device: str, quantised: bool) -> dict[str, Any]:
        """Return what transformers' `from_pretrained` takes for it.

        Parameters
        ----------
        device : str
            The device of a model that is not spread.
        quantised : bool
            bitsandbytes needs to be told the device, the CPU too.
        """
        options: dict[str, Any] = {}
        if self.attention is not None:
            options["attn_implementation"] = self.attention
        if self.device_map is not None:
            spread = self.device_map if isinstance(self.device_map, str) else dict(self.device_map)
            options |= {"device_map": spread, "offload_folder": _scratch()}
            if self.max_memory is not None:
                options["max_memory"] = dict(self.max_memory)
        elif device != "cpu" or quantised:
            options["device_map"] = {"": device}
        return options


def check_names(model: Any, placement: Placement) -> None:
    """Refuse a mapping that names modules which the model does not have: they would lie on the CPU without a word.

    Raises
    ------
    Fp2Error
        Naming the first, and the nearest that exists.
    """
    if placement.device_map is None or isinstance(placement.device_map, str):
        return
    known = {name for name, _ in model.named_modules()} | {name for name, _ in model.named_parameters()}
    for name, _ in placement.device_map:
        if name not in known:
            what = f"the model has no module {name!r}"
            raise Fp2Error(what, where="engine.device_map", fix=nearest(str(name), sorted(known - {""})))


def input_device(model: Any, device: str) -> str:
    """Return where a loaded model's inputs go: the first device that computes, where it is spread over several."""
    spread = getattr(model, "hf_device_map", None)
    if not spread:
        return device
    computing = [place for place in spread.values() if str(place) not in ("cpu", "disk")]
    if not computing:
        return "cpu"
    first = computing[0]
    return f"cuda:{first}" if isinstance(first, int) else str(first)


def places(model: Any) -> dict[str, int]:
    """Return how many modules of a spread model lie on each device (empty for a model on one), for `runtime()`."""
    found: dict[str, int] = {}
    for place in (getattr(model, "hf_device_map", None) or {}).values():
        found[str(place)] = found.get(str(place), 0) + 1
    return found if len(found) > 1 else {}


def _pairs(value: Any, name: str) -> Pairs:
    """Return a mapping as sorted pairs, devices that are numbers as such."""
    if not isinstance(value, Mapping) or not value:
        fix = (
            _MAP_FIX if name == "device_map" else "A mapping from devices to sizes, for instance {0: 20GiB, cpu: 60GiB}"
        )
        raise Fp2Error(f"{value!r} is no mapping", where=f"engine.{name}", fix=fix)
    pairs = [(_place(key), _place(item)) for key, item in value.items()]
    return tuple(sorted(pairs, key=str))


def _place(value: Any) -> Place:
    """Return a device number as one (YAML and Hydra may hand it over as text), anything else as text."""
    text = str(value)
    return int(text) if text.isdigit() else text


@functools.cache
def _scratch() -> str:
    """Return a folder for layers on the disk that the checkpoint's own files do not hold as they are; gone at exit."""
    folder = tempfile.mkdtemp(prefix="fp2-offload-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
