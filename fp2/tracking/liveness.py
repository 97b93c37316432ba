"""Which runs of this machine are still going: a killed process cannot end its MLflow run, so the next one does.

Every logged run holds a lock in `STATE/running` while its process lives; the system releases it however the process
ends. A run whose lock is free and whose MLflow run is still RUNNING was killed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from fp2.hashing import digest

FOLDER = "running"


class Alive:
    """The lock of one run. It is taken before the run exists, so that no other process finds a run without it."""

    def __init__(self, state: Path) -> None:
        self._file = state / FOLDER / f"{uuid.uuid4().hex}.json"
        self._lock = FileLock(self._file.with_suffix(".lock"), timeout=0)
        with suppress(OSError, NotImplementedError):  # no locks on this file system: the run is not watched
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()

    def register(self, run_id: str, uri: str) -> None:
        """Store which run of which MLflow store this is."""
        if self._lock.is_locked:
            with suppress(OSError):
                self._file.write_text(json.dumps({"run_id": run_id, "store": digest(uri)}), encoding="utf-8")

    def release(self) -> None:
        """Remove the record of a run that has ended."""
        _forget(self._file)
        self._lock.release()


def dead_runs(state: Path, uri: str) -> Iterator[str]:
    """Yield the ids of the runs of this MLflow store whose process is gone; each is forgotten once handled."""
    for path in sorted((state / FOLDER).glob("*.json")):
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            lock = FileLock(path.with_suffix(".lock"), timeout=0)
            with lock:
                if record["store"] != digest(uri):
                    continue
                yield str(record["run_id"])
                _forget(path)
        except (OSError, ValueError, KeyError, TypeError, Timeout, NotImplementedError):
            continue  # it lives, or another process handles it, or its record was cut short


def _forget(path: Path) -> None:
    for name in (path, path.with_suffix(".lock")):
        with suppress(OSError):
            name.unlink(missing_ok=True)
