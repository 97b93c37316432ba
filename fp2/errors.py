"""Errors that a user can fix: one clear line (what, where, how to fix it) and an exit status, never a stack trace."""

from __future__ import annotations

import difflib
import os
import re
import signal
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fp2.text import printable

EXIT_BAD_INPUT = 2
EXIT_ERROR_BUDGET = 3
EXIT_NOT_LOGGED = 4  # the run is complete, only its MLflow record is missing
EXIT_UNSOUND = 5  # the run is written, and a check of its files, answers and records failed
EXIT_INTERRUPTED = 130


class Fp2Error(Exception):
    """A user error, reported in one line; file names and what others said in it cannot break that line.

    Parameters
    ----------
    what : str
        What is wrong.
    where : str, optional
        The file, option or row that is wrong.
    fix : str, optional
        How to fix it.
    """

    exit_status = EXIT_BAD_INPUT

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        self.what, self.where, self.fix = what, where, fix
        message = what if not where else f"{what} ({where})"
        super().__init__(printable(message if not fix else f"{message}. {fix}"))


@contextmanager
def terminable() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C inside the block: a scheduler's preemption, too, leaves a message and what is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the closest valid choice to `name` and all choices."""
    choices = sorted(known)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return f"{hint}Choose from: {', '.join(choices)}"


def check_names(names: Iterable[object], known: Collection[str], what: str, where: str = "") -> None:
    """Raise `what` with the first of the names that is not known, and the nearest known one as the fix."""
    for name in names:
        if name not in known:
            raise Fp2Error(f"{what} {name!r}", where=where, fix=nearest(str(name), known))


def without_path(error: BaseException, path: Path) -> str:
    """Return the message of `error` with "the file" in place of `path` and its name: rows of answers name no file.

    The path is replaced as given, absolute and resolved, each plain and as `repr` writes it (as errors of the system
    and of Pillow do); the bare name only where it is a word of its own.
    """
    message = str(error) or type(error).__name__
    forms = {str(path), os.path.abspath(path), os.path.realpath(path)}
    names = {path.name, os.path.basename(os.path.realpath(path))}
    all_forms = {name for name in forms | names if name.strip(". ")}
    longest_first = sorted(all_forms | {repr(name)[1:-1] for name in all_forms}, key=len, reverse=True)
    for name in longest_first:  # and quotes around it, unless it is part of a longer word
        message = re.sub(rf"(?<!\w)(['\"]?){re.escape(name)}\1(?!\w)", "the file", message)
    return message
