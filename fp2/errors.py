"""Errors that a user can mend: one clear line (what, where, how to mend it) and an exit status, never a stack trace."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_BAD_INPUT = 2
EXIT_ERROR_BUDGET = 3
EXIT_INTERRUPTED = 130


class Fp2Error(Exception):
    """A mistake in what the user gave us, said in one line.

    Parameters
    ----------
    what : str
        What is wrong.
    where : str, optional
        The file, option or row that it is in.
    fix : str, optional
        What to do about it.
    """

    exit_status = EXIT_BAD_INPUT

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        self.what, self.where, self.fix = what, where, fix
        line = what if not where else f"{what} ({where})"
        super().__init__(line if not fix else f"{line}. {fix}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the closest valid choice to `name`, and the whole list."""
    choices = sorted(known)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return f"{hint}Choose from: {', '.join(choices)}"
