"""The options of an engine that can run its model in several processes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from fp2.engines.base import FORBID_EXTRA, EngineOptions, NotNegative, Positive
from fp2.errors import Fp2Error, nearest

_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d{1,4})?")


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """Workers as actors of Ray (`engine=ray`).

    Attributes
    ----------
    address : str, optional
        Of a cluster, or `auto` for the one that this machine belongs to; None starts Ray on this machine alone.
    actors : int
        Workers, each with the model.
    cpus, gpus : float
        What Ray reserves for each.
    object_store_mb : int
        Memory that Ray shares between processes, where it is started here.
    """

    address: str | None = None
    actors: Positive = 2
    cpus: NotNegative = 1
    gpus: NotNegative = 0
    object_store_mb: Annotated[int, Ge(80)] = 256

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID_EXTRA


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(EngineOptions):
    """The options of an engine whose model can run in several processes.

    Attributes
    ----------
    device : str
        The device of the model in this process.
    devices : list, optional
        The device of each worker process: the number of a GPU, or `cpu`; None runs the model in this process.
    ray : RayOptions, optional
        Workers on Ray instead.
    """

    device: str = "auto"
    devices: list[int | str] | None = None
    ray: RayOptions | None = None

    def __post_init__(self) -> None:
        """Raise Fp2Error for a name that is no device."""
        if not _DEVICE.fullmatch(self.device):
            fix = nearest(self.device, ("auto", "cpu", "cuda", "mps"))
            raise Fp2Error(f"unknown device {self.device!r}", where="engine.device", fix=fix)

    @property
    def workers(self) -> str | None:
        """The option that asks for several processes (an entry point of the group `fp2.workers`); None for one."""
        return "devices" if self.devices is not None else "ray" if self.ray is not None else None

    def instead_of_devices(self) -> dict[str, Any]:
        """Return the options that cannot be given beside `devices`, by name; None where one is not given."""
        return {"ray": self.ray}


def worker_devices(options: WorkerOptions) -> list[str]:
    """Return the device of each worker process (`cpu`, `cuda:N`); empty if the model runs in this process.

    Raises
    ------
    Fp2Error
        If a name is no device, there is none, or another option contradicts the list.
    """
    if options.devices is None:
        return []
    devices = [f"cuda:{name}" if str(name).isdigit() else str(name) for name in options.devices]
    for name in devices:
        if not _DEVICE.fullmatch(name):
            raise Fp2Error(f"unknown device {name!r}", where="engine.devices", fix=nearest(name, ("0", "1", "cpu")))
    instead_of = options.instead_of_devices()
    if type(options).device != options.device:
        instead_of = {**instead_of, "device": options.device}
    if clash := next((name for name, value in instead_of.items() if value is not None), None):
        fix = f"Set engine.{clash}={'auto' if clash == 'device' else 'null'}, or engine.devices=null"
        raise Fp2Error(f"engine.{clash} is set beside it", where="engine.devices", fix=fix)
    if not devices:
        raise Fp2Error("no device is named", where="engine.devices", fix="Name them, such as [0,1], or set null")
    return devices


def device_of(options: object) -> str:
    """Return the device that the options of an engine name; `auto` for an engine without one."""
    return options.device if isinstance(options, WorkerOptions) else "auto"
