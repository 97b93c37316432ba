"""Leases on questions: several runs on one store share the work, and none asks what another is asking.

A lease is a row of the table `leases`: a key, the run that holds it, and when it expires. A run renews its leases every
few seconds while it lives. It also holds a lock on a file beside the store, which the system releases however its
process ends, so that a killed run's questions are free at once on this machine, and after `EXPIRES` on another one.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from fp2.store.database import BUSY_SECONDS, add_table, as_user_error, select_in, transaction

EXPIRES = 120.0
"""Seconds until a lease that is not renewed is free."""
HEARTBEAT = 20.0
"""Seconds between renewals."""
_CREATE = "CREATE TABLE leases (key TEXT PRIMARY KEY, owner TEXT NOT NULL, expires REAL NOT NULL) WITHOUT ROWID"
Answered = Callable[[sqlite3.Connection, Sequence[str]], set[str]]


class Leases:
    """The leases of one run; a context manager, which releases them at its end. May be used from several threads.

    `answered` returns which of some keys have been answered since the run read the store.
    """

    def __init__(self, path: Path, answered: Answered) -> None:
        self.path, self.owner = path, uuid.uuid4().hex
        self._answered = answered
        self._guard, self._ended = threading.Lock(), threading.Event()
        self._lock = FileLock(self._file(self.owner), timeout=0, thread_local=False)
        self._thread = threading.Thread(target=self._renew, name="leases", daemon=True)

    def __enter__(self) -> Leases:
        with as_user_error(self.path):
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            add_table(self._connection, "leases", _CREATE.replace("TABLE", "TABLE IF NOT EXISTS", 1))
        with contextlib.suppress(OSError, NotImplementedError):  # no locks here: leases end when they expire
            self._lock.acquire()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        with self._guard:
            with contextlib.suppress(sqlite3.Error):  # they expire
                self._connection.execute("DELETE FROM leases WHERE owner = ?", (self.owner,))
            self._connection.close()
        self._lock.release()
        with contextlib.suppress(OSError):
            self._file(self.owner).unlink(missing_ok=True)

    def claim(self, keys: Iterable[str]) -> set[str]:
        """Return the keys that this run may ask: nobody else holds them, and they have not been answered meanwhile."""
        wanted = list(dict.fromkeys(keys))
        with self._guard, transaction(self._connection, self.path):
            query = "SELECT key, owner FROM leases WHERE expires > ? AND key"
            held = dict(select_in(self._connection, query, wanted, time.time()))
            mine = {key for key, owner in held.items() if owner == self.owner}
            held = {key: owner for key, owner in held.items() if key not in mine}
            if gone := [owner for owner in set(held.values()) if self._is_dead(owner)]:
                self._connection.executemany("DELETE FROM leases WHERE owner = ?", [(owner,) for owner in gone])
                held = {key: owner for key, owner in held.items() if owner not in gone}
            free = [key for key in wanted if key not in held]
            done = self._answered(self._connection, [key for key in free if key not in mine])
            free = [key for key in free if key not in done]
            rows = [(key, self.owner, time.time() + EXPIRES) for key in free]
            self._connection.executemany("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", rows)
        return set(free)

    def _is_dead(self, owner: str) -> bool:
        """Whether the lock of another run is free: its process is gone."""
        path = self._file(owner)
        if not path.exists():
            return False  # another machine's, or no locks here
        try:
            with FileLock(path, timeout=0, thread_local=False):
                path.unlink(missing_ok=True)
                return True
        except (Timeout, OSError, NotImplementedError):
            return False

    def _renew(self) -> None:
        while not self._ended.wait(HEARTBEAT):
            with self._guard, contextlib.suppress(sqlite3.Error):
                renewed = (time.time() + EXPIRES, self.owner)
                self._connection.execute("UPDATE leases SET expires = ? WHERE owner = ?", renewed)

    def _file(self, run: str) -> Path:
        return self.path.with_name(f".{self.path.name}-{run}.lock")


def parts(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yield `items` in parts of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
