"""Withdrawn subjects and images: who was purged, as salted keys, so that nothing is written of them again.

A purge appends the keys under an exclusive lock. Whoever writes what was derived from people reads them under the
shared lock and holds it until it has written (`writing`): what it writes was either written before the withdrawal, and
the purge finds it, or it knows of the withdrawal.

Both take a second lock on the way to the first. A purge keeps it while it waits, so that whoever wants to write the
next batch waits behind the purge. The kernel releases both locks of a process that is killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from fp2.artifacts import replace_file
from fp2.errors import Fp2Error
from fp2.store.salted_keys import local_salt, salted
from fp2.tables import everyone_shown
from fp2.text import normal_id

if TYPE_CHECKING:
    import pandas as pd

KEYS, LOCK, QUEUE = "withdrawn.jsonl", "withdrawn.lock", "withdrawn.queue"
"""Files of the state folder: one line per key (`{"subject": key}`, `image` or `name`), the lock, the one before it."""
_HERE = threading.local()
"""Of a thread: `depth`, how often it has the lock. A purge waits for it to finish, so it must not wait for a purge."""
_PATIENCE = 5.0  # seconds until a purge says what it waits for
_MOST_WORDS = 12
"""Of an id in a text: a path has one per folder."""


@dataclass(frozen=True)
class Withdrawn:
    """Salted keys of the subjects and images that were withdrawn.

    `names` are those of the images that nothing had when they were withdrawn: they may be a file's name, or its stem.
    """

    subjects: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.subjects or self.images)

    def rows(self, images: pd.Series[str], subjects: pd.Series[str]) -> pd.Series[bool]:
        """Return which rows (salted keys) are withdrawn: of an image, or of anybody in an image with a subject."""
        theirs = subjects.isin(self.subjects)
        return theirs | images.isin(self.images | set(images[theirs]))

    def image_ids(self, people: pd.DataFrame, salt: bytes | None) -> frozenset[str]:
        """Return the ids of the withdrawn images in a table of people; `salt`: None where its ids are salted keys.

        Ids also say which image a face crop was cut from, and paths whether a file has a withdrawn name.
        """
        if not self:
            return frozenset()
        people = everyone_shown(people)
        images, subjects = people["image_id"], people["subject_id"]
        if salt is None:
            return frozenset(images[self.rows(images, subjects)])

        import pandas as pd

        def keys(ids: Iterable[str]) -> pd.Series[str]:
            return pd.Series(salted(ids, salt, "image"), index=people.index, dtype=object)

        gone = self.rows(keys(images), subjects.map(lambda name: salted([name], salt)[0]))
        image_names = (image.removesuffix(f"_{subject}") for image, subject in zip(images, subjects, strict=True))
        gone |= keys(image_names).isin(self.images)
        names = self.names - set(keys(images))
        for field in ("name", "stem") if "image_path" in people else ():
            files = keys(normal_id(getattr(PurePath(path), field)) for path in people["image_path"])
            gone |= files.isin(names)
            names -= set(files)
        return frozenset(images[images.isin(set(images[gone]))])

    def redact(self, text: str, salt: bytes) -> str:
        """Return a text without the ids of the withdrawn: of every run of words, it is asked whether it is one."""
        tokens = list(re.finditer(r"[\w-]+", text)) if self else []
        at, pieces = 0, []
        for first, word in enumerate(tokens):
            if word.start() < at:
                continue
            for last in reversed(tokens[first : first + _MOST_WORDS]):
                name = [normal_id(text[word.start() : last.end()])]
                if salted(name, salt)[0] in self.subjects or salted(name, salt, "image")[0] in self.images:
                    pieces += [text[at : word.start()], "removed"]
                    at = last.end()
                    break
        return "".join([*pieces, text[at:]])


NOBODY = Withdrawn()


def read_withdrawn(state: Path) -> Withdrawn:
    """Return who was withdrawn on this machine; nobody where nothing was purged. An unchanged file is read once."""
    path = state / KEYS
    try:
        status = path.stat()
    except FileNotFoundError:
        return NOBODY
    return _read(path, status.st_ino, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, *_stamp: int) -> Withdrawn:
    keys: dict[str, set[str]] = {"subject": set(), "image": set(), "name": set()}
    try:
        for text in path.read_text(encoding="utf-8").splitlines():
            for kind, key in json.loads(text).items():
                keys[kind].add(key)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        fix = "Restore it from a copy: without it, withdrawn people would be asked about again"
        raise Fp2Error(f"the list of withdrawn people cannot be read: {error}", where=str(path), fix=fix) from error
    return Withdrawn(frozenset(keys["subject"]), frozenset(keys["image"]), frozenset(keys["name"]))


class WithdrawnImages:
    """The withdrawn images among those of a run, by the ids in its table of people; it changes while the run goes on.

    Parameters
    ----------
    state : Path
        The state folder.
    people : DataFrame
    keyed : bool
        Whether the ids in `people` are salted keys already.
    """

    def __init__(self, state: Path, people: pd.DataFrame, *, keyed: bool = False) -> None:
        self._state, self._people, self._keyed = state, people, keyed
        self._withdrawn, self._images = NOBODY, frozenset[str]()
        self._locks: tuple[int, int] | None = None
        self._holders = 0

    @contextmanager
    def writing(self) -> Iterator[frozenset[str]]:
        """Hold the shared lock while something of these people is written; give the withdrawn images.

        A run does this for each batch of answers: the lock stays open, and an unchanged list costs five system calls.
        """
        if self._locks is None:
            self._locks = _open_locks(self._state)
            for lock in self._locks:
                weakref.finalize(self, os.close, lock)
        _acquire(self._locks, fcntl.LOCK_SH, self._state)
        self._holders += 1
        try:
            withdrawn = read_withdrawn(self._state)
            if withdrawn is not self._withdrawn:
                salt = None if self._keyed else local_salt(self._state)
                self._withdrawn, self._images = withdrawn, withdrawn.image_ids(self._people, salt)
            yield self._images
        finally:
            self._holders -= 1
            _HERE.depth -= 1
            if not self._holders:
                fcntl.flock(self._locks[0], fcntl.LOCK_UN)


@contextmanager
def writing(state: Path) -> Iterator[Withdrawn]:
    """Hold the shared lock while something derived from people is written; give who is withdrawn."""
    with _locked(state, fcntl.LOCK_SH):
        yield read_withdrawn(state)


@contextmanager
def redacting(state: Path) -> Iterator[Callable[[str], str]]:
    """Hold the shared lock while free text is written, as of an error; give what leaves ids of the withdrawn out."""
    with writing(state) if state.is_dir() else nullcontext(NOBODY) as withdrawn:
        yield lambda text: withdrawn.redact(text, local_salt(state)) if withdrawn else text


@contextmanager
def halted(state: Path) -> Iterator[None]:
    """Hold the exclusive lock: nothing derived from people is being written."""
    with _locked(state, fcntl.LOCK_EX):
        yield


def withdraw(state: Path, subjects: Iterable[str], images: Iterable[str], names: Iterable[str] = ()) -> None:
    """Append salted keys, after all that are writing have finished; keys that are there already are not repeated."""
    with _locked(state, fcntl.LOCK_EX):
        before = read_withdrawn(state)
        kinds = {
            "subject": before.subjects.union(subjects),
            "image": before.images.union(images),
            "name": before.names.union(names),
        }
        records = [json.dumps({kind: key}) + "\n" for kind, keys in kinds.items() for key in sorted(keys)]
        replace_file(state / KEYS, "".join(records))


@contextmanager
def _locked(state: Path, mode: int) -> Iterator[None]:
    locks = _open_locks(state)
    try:
        _acquire(locks, mode, state)
        try:
            yield
        finally:
            _HERE.depth -= 1
    finally:
        for lock in locks:
            os.close(lock)


def _acquire(locks: tuple[int, int], mode: int, state: Path) -> None:
    """Take the first of two locks, after whoever waits for it with the second one."""
    lock, queue = locks
    _HERE.depth = getattr(_HERE, "depth", 0)
    if not _HERE.depth:
        fcntl.flock(queue, mode)
    try:
        if mode == fcntl.LOCK_EX:
            _wait_briefly(lock, state / LOCK)
        fcntl.flock(lock, mode)
        _HERE.depth += 1
    finally:
        fcntl.flock(queue, fcntl.LOCK_UN)


def _wait_briefly(lock: int, path: Path) -> None:
    """Try to get the exclusive lock; after some seconds, say which processes are writing."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        with suppress(BlockingIOError):
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(0.01)
    holders, file = set[str](), f":{os.fstat(lock).st_ino}"
    with suppress(OSError):  # a file of Linux
        locks = (fields.split() for fields in Path("/proc/locks").read_text().splitlines())
        holders = {
            lock_fields[4] for lock_fields in locks if lock_fields[1] == "FLOCK" and lock_fields[5].endswith(file)
        }
    who = f": process {', '.join(sorted(holders))}" if holders else ""
    print(f"waiting for runs that write answers or results ({path}){who}", file=sys.stderr)


def _open_locks(state: Path) -> tuple[int, int]:
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock, queue = (os.open(state / name, os.O_RDWR | os.O_CREAT, 0o600) for name in (LOCK, QUEUE))
    except OSError as error:
        where = str(state / LOCK)
        raise Fp2Error(f"the list of withdrawn people cannot be locked: {error.strerror}", where=where) from error
    return lock, queue
