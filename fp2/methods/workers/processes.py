"""Workers as processes of this machine, one a device, each started afresh (no fork) and reached by a socket.

    python -m fp2.methods.workers.processes FD      a worker, on the socket with this descriptor

A worker is in a session of its own and ignores signals, so that Ctrl-C and a scheduler's SIGTERM reach the run alone,
which ends its workers. It ends by itself when the run's process is gone.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import IO, Any

from fp2.extension import Fp2Error, plural, printable
from fp2.methods.workers.serve import Build, Ended, Item, Message, Raised, serve

_CUDA = "CUDA_VISIBLE_DEVICES"
_KILL_SECONDS = 5.0


@dataclass
class _Process:
    popen: subprocess.Popen[bytes]
    connection: Connection
    said: IO[bytes]


class Processes:
    """The workers of this machine; see `fp2.methods.workers.engine.Transport`.

    Parameters
    ----------
    builds : sequence of callable
        What builds the engine of each worker; it is pickled.
    devices : sequence of str
        The device of each: `cuda:N` hides the other GPUs from the worker.
    """

    def __init__(self, builds: Sequence[Build], devices: Sequence[str]) -> None:
        self._builds, self._devices = builds, devices
        self._environments = [_environment(device, list(devices).count("cpu")) for device in devices]
        self._processes: dict[int, _Process] = {}
        self._started = 0

    def start(self, place: int) -> int:
        """Start the worker of a device; return its number."""
        ours, theirs = socket.socketpair()
        said = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the worker)
        with theirs:
            popen = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                env=self._environments[place],
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        self._started += 1
        self._processes[self._started] = _Process(popen, Connection(ours.detach()), said)
        self._send(self._started, self._builds[place])
        return self._started

    def label(self, place: int) -> str:
        """Return the worker's place and device."""
        return f"worker {place + 1} ({self._devices[place]})"

    def give(self, number: int, items: Sequence[Item]) -> None:
        """Send items; a worker that is gone is found by `receive`."""
        for item in items:
            self._send(number, item)

    def _send(self, number: int, what: Any) -> None:
        with suppress(OSError):
            self._processes[number].connection.send(what)

    def receive(self, timeout: float) -> list[tuple[int, Message]]:
        """Return what has come: of each worker that has sent something one message, or that it ended."""
        there = wait([process.connection for process in self._processes.values()], timeout)
        found: list[tuple[int, Message]] = []
        for number, process in list(self._processes.items()):
            if process.connection in there:
                try:
                    found.append((number, process.connection.recv()))
                except (EOFError, OSError):
                    found.append((number, Ended(self._end(number))))
        return found

    def _end(self, number: int) -> str:
        """End a worker; return how it ended, with the last line that it wrote."""
        process = self._processes.pop(number)
        process.connection.close()
        with suppress(subprocess.TimeoutExpired):
            process.popen.wait(1.0)
        status = process.popen.poll()
        process.popen.kill()
        process.popen.wait(_KILL_SECONDS)
        with process.said:
            process.said.seek(max(0, process.said.seek(0, os.SEEK_END) - 4000))
            lines = process.said.read().decode(errors="replace").split("\n")
        how = "no sign of it" if status is None else f"exit status {status}" if status >= 0 else _signal(-status)
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"{how}: {printable(last, 200)}" if last else how

    def close(self) -> None:
        """End all workers at once; they keep nothing."""
        ended = list(self._processes.values())
        self._processes.clear()
        for process in ended:
            process.popen.kill()
        for process in ended:
            process.popen.wait(_KILL_SECONDS)
            process.connection.close()
            process.said.close()


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _environment(device: str, n_cpu: int) -> dict[str, str]:
    """Return the environment of a worker: its GPU alone, or its share of the cores."""
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    kind, _, index = device.partition(":")
    if kind == "cuda" and index:
        visible = [name for name in os.environ.get(_CUDA, "").split(",") if name]
        if visible and int(index) >= len(visible):
            fix = f"Use numbers below {len(visible)}, or change the variable"
            raise Fp2Error(f"{_CUDA} shows {plural(len(visible), 'GPU')}, not {index}", where="engine.devices", fix=fix)
        found[_CUDA] = visible[int(index)] if visible else index
    elif kind == "cpu" and n_cpu > 1:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        found.setdefault("OMP_NUM_THREADS", str(max(1, cores // n_cpu)))
    return found


def main(descriptor: int) -> None:
    """Be a worker, until the run ends it or is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    connection = Connection(descriptor)
    inbox: queue.SimpleQueue[Item] = queue.SimpleQueue()
    lock = threading.Lock()

    def send(message: Message) -> None:
        with lock:
            connection.send(message)

    try:
        build = connection.recv()
    except Exception as error:  # what a plug-in raises on import is unknown
        send(Raised(f"{type(error).__name__}: {error}"))
        return

    def read() -> None:
        try:
            while True:
                inbox.put(connection.recv())
        except (EOFError, OSError):
            os._exit(0)  # the run is gone; the engine may be inside a long call

    threading.Thread(target=read, name="inbox", daemon=True).start()
    serve(build, inbox.get, send)


if __name__ == "__main__":
    main(int(sys.argv[1]))
