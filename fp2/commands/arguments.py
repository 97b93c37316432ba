"""Arguments that several commands of `fp2` have, and how a package adds a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

RUN_HELP = "A run's id or config hash (the first characters will do), or a folder with its files."


def run_names(incomplete: str) -> list[tuple[str, str]]:
    """Return the runs whose name begins so, with what each is, for the shell."""
    from fp2.commands.completion import runs

    return runs(incomplete)


def words_and_settings(first: str | None, more: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of a command that are no settings, and its settings."""
    words = [*([first] if first else []), *more]
    return [word for word in words if "=" not in word], [word for word in words if "=" in word]


RunWord = Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP, autocompletion=run_names)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write JSON to this file; - prints it, and nothing else.")
]
EVALUATE, READ_AND_COMPARE, PUBLISH, MAINTAIN = "Evaluate", "Read and compare", "Publish", "Maintain"
"""Headings of the commands in the help."""


@dataclass(frozen=True)
class CommandEntry:
    """A command of a method package: an entry point of the group `fp2.commands`.

    Attributes
    ----------
    function : callable
        Its arguments are annotated as Typer reads them.
    panel : str
        The heading under which the help lists it.
    examples : tuple of str
        Command lines for its help.
    name : str, optional
        Of the command, if not that of the function.
    group : str, optional
        The command that it is below: `data` or `store`.
    settings : bool
        Whether it takes overrides: KEY=VALUE.
    """

    function: Callable[..., None]
    panel: str
    examples: tuple[str, ...] = ()
    name: str | None = None
    group: str | None = None
    settings: bool = True
