"""`fp2 passport`: its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fp2.extension import PUBLISH, CommandEntry, Json


def passport_page(
    ctx: typer.Context,
    passport: Annotated[Path, typer.Argument(help="The passport.json of a run.")],
    html: Annotated[Path | None, typer.Option(help="Write the page as HTML.")] = None,
    pdf: Annotated[Path | None, typer.Option(help="Write the page as PDF.")] = None,
    eval_result: Annotated[
        Path | None, typer.Option(help="Write it as in-toto's proposed eval-result, signed by this machine.")
    ] = None,
    key: Annotated[
        list[Path] | None, typer.Option(help="A public key (PEM) to verify it with; may be repeated.")
    ] = None,
    threshold: Annotated[int, typer.Option(help="How many of the keys must have signed.")] = 1,
    json: Json = False,
) -> None:
    """Write a passport as a page to read: what it states, who signed it, how to verify it."""
    from fp2.methods.passport_page.command import readable

    raise typer.Exit(readable(passport, key or [], threshold, html, pdf, eval_result, ctx.args, json))


PASSPORT = CommandEntry(
    passport_page,
    PUBLISH,
    (
        "fp2 passport passport.json --html passport.html",
        "fp2 passport passport.json --pdf passport.pdf --key PUBLIC_KEY.pem",
    ),
    name="passport",
)
