"""An engine whose model runs in several processes: it plans and names answers here, and answers with workers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from fp2.engines.base import Engine
from fp2.engines.workers.dispatch import Dispatcher, Transport
from fp2.engines.workers.options import WorkerOptions, worker_devices
from fp2.engines.workers.serve import Build
from fp2.hashing import digest
from fp2.tables import Answer, ImageTask

Rebuild = Callable[[Mapping[str, Any]], Build]


class WorkersEngine:
    """The engine `inner`, with its answers from workers; everything else is what `inner` says.

    Parameters
    ----------
    inner : Engine
        Loads no model here.
    connect : callable
        Returns the transport to the workers; called when the first question arrives.
    places : sequence of str
        Where the workers are, for the record.
    """

    def __init__(self, inner: Engine, connect: Callable[[], Transport], places: Sequence[str]) -> None:
        self.inner, self._connect, self.places = inner, connect, list(places)

    def __getattr__(self, name: str) -> Any:
        """Return what `inner` has of this name."""
        return getattr(self.inner, name)

    @cached_property
    def _dispatcher(self) -> Dispatcher:
        found = Dispatcher(self._connect(), len(self.places), digest(self.inner.identity()))
        weakref.finalize(self, found.close)
        return found

    @property
    def model_calls(self) -> int:
        """Calls of the model in all workers."""
        return self._dispatcher.model_calls if "_dispatcher" in self.__dict__ else 0

    @property
    def notices(self) -> Sequence[str]:
        """What `inner` reports, and which workers were lost."""
        lost = self._dispatcher.reports if "_dispatcher" in self.__dict__ else []
        return [*self.inner.notices, *lost]

    def runtime(self) -> dict[str, Any]:
        """Return what the worker of the last batch records, and where the workers are."""
        last = self._dispatcher.runtime if "_dispatcher" in self.__dict__ else {}
        return {**(last or self.inner.runtime()), "workers": self.places}

    def learn(self, texts: Mapping[str, Sequence[str]]) -> None:
        """Do nothing: each worker drafts from its own answers."""

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield the answers of the workers in batches; raises as `Dispatcher.answer`."""
        return self._dispatcher.answer(tasks)


def with_workers(inner: Engine, options: WorkerOptions, rebuild: Rebuild) -> Engine:
    """Return `inner`, or the same engine in worker processes where the options ask for them.

    Parameters
    ----------
    inner : Engine
    options : WorkerOptions
    rebuild : callable
        Returns, for options that replace the engine's, a picklable callable that builds the engine.

    Raises
    ------
    Fp2Error
        If a device is unknown, or Ray is asked for and missing.
    """
    alone = {"devices": None, "ray": None}
    if devices := worker_devices(options):
        from fp2.engines.workers.processes import Processes

        own = [device.partition(":")[0] for device in devices]  # a worker sees one GPU
        builds = [rebuild({**alone, "device": device}) for device in own]
        processes = Processes(builds, devices)
        return WorkersEngine(inner, lambda: processes, devices)
    if options.ray is not None:
        from fp2.engines.workers.on_ray import RayActors, check_ray

        check_ray()
        ray, build = options.ray, rebuild(alone)
        return WorkersEngine(inner, lambda: RayActors(build, ray), ["ray"] * ray.actors)
    return inner
