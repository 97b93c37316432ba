"""`fp2 purge`: its arguments."""

from __future__ import annotations

from typing import Annotated

import typer

from fp2.extension import MAINTAIN, CommandEntry, Json


def purge(
    ctx: typer.Context,
    subject: Annotated[list[str] | None, typer.Option(help="Id of a subject; may be repeated.")] = None,
    image: Annotated[list[str] | None, typer.Option(help="Id of an image; may be repeated.")] = None,
    release: Annotated[str | None, typer.Option(help="Version of a whole release.")] = None,
    absent: Annotated[
        bool, typer.Option("--absent", help="Every subject and image that the configured release lacks.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
    drop_reports: Annotated[
        bool,
        typer.Option(
            "--drop-reports", help="Purge runs that cannot be recomputed, too: they lose results, figures and passport."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    json: Json = False,
) -> None:
    """Remove everything derived from a subject, an image or a release; recompute and sign what is left."""
    from fp2.methods.withdrawal.command import run as remove

    raise typer.Exit(remove(subject or [], image or [], release, absent, dry_run, yes, drop_reports, ctx.args, json))


PURGE = CommandEntry(
    purge, MAINTAIN, ("fp2 purge --subject ID --dry-run", "fp2 purge --absent data=fhibe data.root=PATH")
)
