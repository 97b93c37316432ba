"""`fp2 batch`: its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fp2.extension import EVALUATE, CommandEntry, Fp2Error, Json


def batch(
    ctx: typer.Context,
    action: Annotated[str, typer.Argument(metavar="write|read", help="Write requests, or read FILE... of results.")],
    form: Annotated[
        str | None, typer.Option(help="openai, anthropic or gemini (default: the model's name, else openai).")
    ] = None,
    to: Annotated[Path, typer.Option(help="The folder for the files of requests.")] = Path("batch"),
    json: Json = False,
) -> None:
    """Write what a run has left to ask as files for a batch API, or take the results into the store."""
    from fp2.methods.batch.command import read, write

    settings = [word for word in ctx.args if "=" in word or word.startswith(("~", "+"))]
    files = [Path(word) for word in ctx.args if word not in settings]
    if action not in ("write", "read"):
        raise Fp2Error(f"unknown action {action!r}", where="fp2 batch", fix="fp2 batch write, or fp2 batch read FILE")
    if action == "write" and files:
        raise Fp2Error(f"{files[0]} is no setting", where="fp2 batch write", fix="Name the folder by --to")
    if action == "read" and not files:
        raise Fp2Error("no file of results is given", where="fp2 batch read", fix="fp2 batch read FILE... key=value")
    if action == "write":
        write(settings, form, to, as_json=json)
    else:
        read(settings, form, files, as_json=json)


BATCH = CommandEntry(
    batch,
    EVALUATE,
    ("fp2 batch write model=openai model.id=NAME", "fp2 batch read results.jsonl model=openai model.id=NAME"),
)
