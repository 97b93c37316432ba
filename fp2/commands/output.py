"""What a command prints: lines and tables to read, or with --json one JSON document of the same facts."""

from __future__ import annotations

import json
from typing import Any

from rich.console import RenderableType

from fp2.progress import Terminal
from fp2.text import printable


def print_json(value: Any) -> None:
    """Print a JSON value."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


class Output:
    """The output of one command.

    Parameters
    ----------
    as_json : bool
        Print nothing until the end of the block, and then the facts as one JSON object.
    """

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.facts: dict[str, Any] = {}
        self.console = Terminal(quiet=as_json)

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self.as_json and kind is None:
            print_json(self.facts)

    def say(self, line: str | None = None, **facts: Any) -> None:
        """Print a line (its control characters as escapes), and keep facts for the JSON object."""
        if line is not None and not self.as_json:
            print("\n".join(printable(text, None) for text in line.split("\n")))
        self.facts.update(facts)

    def show(self, what: RenderableType, **style: Any) -> None:
        """Print a table or text for readers only."""
        self.console.print(what, **style)

    def path(self, name: str, path: object) -> None:
        """Print the name and place of what was written."""
        self.say(f"{name:<12} {path}", **{name: str(path)})
