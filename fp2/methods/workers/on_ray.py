"""Workers as actors of Ray (extra `ray`), on this machine or a cluster; the images are read from a shared file system.

An actor answers in a thread; the run fetches what it has to say, one call at a time. Its outbox is bounded, so that a
worker that is ahead of the run waits.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import queue
import signal
import threading
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from fp2.extension import Fp2Error, printable
from fp2.methods.workers.serve import Build, Ended, Item, Message, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fp2.extension import RayOptions

OUTBOX = 64
"""Messages that an actor holds until the run fetches them."""
_POLL = 0.5  # seconds that an actor waits for something to say
_MB = 1 << 20


def check_ray() -> None:
    """Raise if Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise Fp2Error("Ray is not installed", where="engine.ray", fix="pip install 'fp2[ray]'")


class Actor:
    """A worker; Ray makes an actor of it."""

    def __init__(self, build: Build) -> None:
        self._inbox: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._outbox: queue.Queue[Message] = queue.Queue(OUTBOX)
        arguments = (build, self._inbox.get, self._outbox.put)
        threading.Thread(target=serve, args=arguments, name="serve", daemon=True).start()

    def give(self, items: Sequence[Item]) -> None:
        """Take items into the inbox."""
        for item in items:
            self._inbox.put(item)

    def fetch(self) -> list[Message]:
        """Return what there is to say; waits for it a moment."""
        found: list[Message] = []
        with suppress(queue.Empty):
            found.append(self._outbox.get(timeout=_POLL))
            while True:
                found.append(self._outbox.get_nowait())
        return found


class RayActors:
    """The actors; see `fp2.methods.workers.engine.Transport`.

    Parameters
    ----------
    build : callable
        What builds the engine; it is pickled.
    options : RayOptions
    """

    def __init__(self, build: Build, options: RayOptions) -> None:
        ray: Any = importlib.import_module("ray")
        self._ray = ray
        if not ray.is_initialized():
            _connect(ray, options)
        # one thread takes items in, in their order, while another waits for something to say
        threads = {"in": 1, "out": 1}
        reserved = {"num_cpus": options.cpus, "num_gpus": options.gpus, "max_restarts": 0}
        self._kind = ray.remote(concurrency_groups=threads, **reserved)(Actor)
        self._build = ray.put(build)
        self._actors: dict[int, Any] = {}
        self._fetched: dict[Any, int] = {}
        self._started = 0

    def start(self, place: int) -> int:
        """Start an actor wherever Ray has room; return its number."""
        self._started += 1
        self._actors[self._started] = self._kind.remote(self._build)
        self._fetch(self._started)
        return self._started

    def label(self, place: int) -> str:
        """Return the actor's place."""
        return f"Ray worker {place + 1}"

    def give(self, number: int, items: Sequence[Item]) -> None:
        """Send items; an actor that is gone is found by `receive`."""
        self._actors[number].give.options(concurrency_group="in").remote(list(items))

    def _fetch(self, number: int) -> None:
        self._fetched[self._actors[number].fetch.options(concurrency_group="out").remote()] = number

    def receive(self, timeout: float) -> list[tuple[int, Message]]:
        """Return what the actors have said, or that one is gone."""
        there, _ = self._ray.wait(list(self._fetched), num_returns=1, timeout=timeout)
        found: list[tuple[int, Message]] = []
        for call in there:
            number = self._fetched.pop(call)
            try:
                found += [(number, message) for message in self._ray.get(call)]
            except self._ray.exceptions.RayError as error:
                del self._actors[number]
                line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
                found.append((number, Ended(printable(line, 200))))
            else:
                self._fetch(number)
        return found

    def close(self) -> None:
        """End all actors; Ray itself, where it was started here, ends with this process."""
        actors = list(self._actors.values())
        self._actors.clear()
        self._fetched.clear()
        for actor in actors:
            with suppress(Exception):  # Ray may be gone already, as at the end of the interpreter
                self._ray.kill(actor)


def _connect(ray: Any, options: RayOptions) -> None:
    """Start Ray on this machine, or connect to the cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "include_dashboard": False}
    if options.address is not None:
        settings = {"address": options.address, "log_to_driver": False, "logging_level": logging.ERROR}
    else:
        settings |= {"num_cpus": max(1, round(options.actors * options.cpus))}
        settings |= {"object_store_memory": options.object_store_mb * _MB}
    with _own_signals():
        try:
            ray.init(**settings)
        except Exception as error:  # a node that does not start in time is a bare one
            first = next(iter(str(error).splitlines()), type(error).__name__)
            fix = "Start the cluster (ray start --head), or set engine.ray.address=null"
            if options.address is None:
                fix = "Run the command again when this machine is less busy: Ray waits 30 s for its own start"
            raise Fp2Error(f"Ray cannot be used: {first}", where="engine.ray", fix=fix) from error


@contextmanager
def _own_signals() -> Iterator[None]:
    """Put SIGTERM back: Ray makes it end the process, where it has to interrupt the run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)
