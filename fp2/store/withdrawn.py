"""Withdrawn subjects and images: who was purged, as salted keys, so that nothing is written of them again.

A purge appends the keys under an exclusive lock. Whoever writes what was derived from people reads them under the
shared lock and holds it until it has written (`writing`): what it writes was either written before the withdrawal, and
the purge finds it, or it knows of the withdrawal.
"""

from __future__ import annotations

import fcntl
import json
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.artifacts import replace_file
from fp2.errors import Fp2Error
from fp2.store.salted_keys import local_salt, salted

if TYPE_CHECKING:
    import pandas as pd

KEYS, LOCK = "withdrawn.jsonl", "withdrawn.lock"
"""Files of the state folder: one line per key (`{"subject": key}` or `{"image": key}`), and the lock."""


@dataclass(frozen=True)
class Withdrawn:
    """Salted keys of the subjects and images that were withdrawn."""

    subjects: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.subjects or self.images)

    def rows(self, images: pd.Series[str], subjects: pd.Series[str]) -> pd.Series[bool]:
        """Return which rows (salted keys) are withdrawn: of an image, or of anybody in an image with a subject."""
        theirs = subjects.isin(self.subjects)
        return theirs | images.isin(self.images | set(images[theirs]))

    def image_ids(self, people: pd.DataFrame, salt: bytes | None) -> frozenset[str]:
        """Return the ids of the withdrawn images in a table of people; `salt`: None where its ids are salted keys."""
        if not self:
            return frozenset()
        images, subjects = people["image_id"], people["subject_id"]
        if salt is not None:
            image_keys = dict(zip(images, salted(images, salt, "image"), strict=True))
            images, subjects = images.map(image_keys), subjects.map(lambda name: salted([name], salt)[0])
        return frozenset(people.loc[self.rows(images, subjects), "image_id"])


NOBODY = Withdrawn()


def read_withdrawn(state: Path) -> Withdrawn:
    """Return who was withdrawn on this machine; nobody where nothing was purged. An unchanged file is read once.

    Raises
    ------
    Fp2Error
        If the file cannot be read.
    """
    path = state / KEYS
    try:
        status = path.stat()
    except FileNotFoundError:
        return NOBODY
    return _read(path, status.st_ino, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, *_stamp: int) -> Withdrawn:
    keys: dict[str, set[str]] = {"subject": set(), "image": set()}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            for kind, key in json.loads(line).items():
                keys[kind].add(key)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        fix = "Restore it from a copy: without it, withdrawn people would be asked about again"
        raise Fp2Error(f"the list of withdrawn people cannot be read: {error}", where=str(path), fix=fix) from error
    return Withdrawn(frozenset(keys["subject"]), frozenset(keys["image"]))


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
        self._lock: int | None = None
        self._holders = 0

    @contextmanager
    def writing(self) -> Iterator[frozenset[str]]:
        """Hold the shared lock while something of these people is written; give the withdrawn images.

        A run does this for each batch of answers: the lock stays open, and an unchanged list costs three system calls.
        """
        if self._lock is None:
            self._lock = _open_lock(self._state)
            weakref.finalize(self, os.close, self._lock)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self._holders += 1
        try:
            withdrawn = read_withdrawn(self._state)
            if withdrawn is not self._withdrawn:
                salt = None if self._keyed else local_salt(self._state)
                self._withdrawn, self._images = withdrawn, withdrawn.image_ids(self._people, salt)
            yield self._images
        finally:
            self._holders -= 1
            if not self._holders:
                fcntl.flock(self._lock, fcntl.LOCK_UN)


@contextmanager
def writing(state: Path) -> Iterator[Withdrawn]:
    """Hold the shared lock while something derived from people is written; give who is withdrawn."""
    with _locked(state, fcntl.LOCK_SH):
        yield read_withdrawn(state)


@contextmanager
def halted(state: Path) -> Iterator[None]:
    """Hold the exclusive lock: nothing derived from people is being written."""
    with _locked(state, fcntl.LOCK_EX):
        yield


def withdraw(state: Path, subjects: Iterable[str], images: Iterable[str]) -> None:
    """Append salted keys, after all that are writing have finished; keys that are there already are not repeated."""
    with _locked(state, fcntl.LOCK_EX):
        there = read_withdrawn(state)
        lines = [{"subject": key} for key in sorted(set(subjects) - there.subjects)]
        lines += [{"image": key} for key in sorted(set(images) - there.images)]
        replace_file(state / KEYS, "".join(json.dumps(line) + "\n" for line in [*_lines(there), *lines]))


def _lines(there: Withdrawn) -> list[dict[str, str]]:
    return [{"subject": key} for key in sorted(there.subjects)] + [{"image": key} for key in sorted(there.images)]


@contextmanager
def _locked(state: Path, mode: int) -> Iterator[None]:
    lock = _open_lock(state)
    try:
        fcntl.flock(lock, mode)
        yield
    finally:
        os.close(lock)


def _open_lock(state: Path) -> int:
    path = state / LOCK
    try:
        state.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Fp2Error(f"the list of withdrawn people cannot be locked: {error.strerror}", where=str(path)) from error
