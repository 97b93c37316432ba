"""Withdrawn subjects and images: who was purged, as salted keys, so that nothing is written of them again.

A purge appends the keys under an exclusive lock. Whoever writes what was derived from people reads them under the
shared lock and holds it until it has written (`writing`): what it writes was either written before the withdrawal, and
the purge finds it, or it knows of the withdrawal.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.errors import Fp2Error

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


def read_withdrawn(state: Path) -> Withdrawn:
    """Return who was withdrawn on this machine; nobody where nothing was purged.

    Raises
    ------
    Fp2Error
        If the file cannot be read.
    """
    path = state / KEYS
    keys: dict[str, set[str]] = {"subject": set(), "image": set()}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            for kind, key in json.loads(line).items():
                keys[kind].add(key)
    except FileNotFoundError:
        return Withdrawn()
    except (OSError, ValueError, KeyError, AttributeError) as error:
        fix = "Restore it from a copy: without it, withdrawn people would be asked about again"
        raise Fp2Error(f"the list of withdrawn people cannot be read: {error}", where=str(path), fix=fix) from error
    return Withdrawn(frozenset(keys["subject"]), frozenset(keys["image"]))


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
        _replace(state / KEYS, [*_lines(there), *lines])


def _lines(there: Withdrawn) -> list[dict[str, str]]:
    return [{"subject": key} for key in sorted(there.subjects)] + [{"image": key} for key in sorted(there.images)]


def _replace(path: Path, lines: list[dict[str, Any]]) -> None:
    """Write the file in one step, so that a kill leaves the old one or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as handle:
        handle.writelines(json.dumps(line) + "\n" for line in lines)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(temporary, path)


@contextmanager
def _locked(state: Path, mode: int) -> Iterator[None]:
    state.mkdir(parents=True, exist_ok=True)
    with (state / LOCK).open("a") as handle:
        fcntl.flock(handle, mode)
        yield
