"""`fp2 view`: its arguments."""

from __future__ import annotations

from typing import Annotated

import typer

from fp2.extension import READ_AND_COMPARE, RUN_HELP, CommandEntry, run_names, words_and_settings


def view(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN [RUN]", help=RUN_HELP, autocompletion=run_names)],
    port: Annotated[int, typer.Option(help="The port (default: a free one).", show_default=False)] = 0,
    row: Annotated[
        str,
        typer.Option(
            help="Open at a difference, CUT/PROBE or CUT/PROBE/SCORER: answers about its two groups.",
            metavar="CUT/PROBE",
        ),
    ] = "",
) -> None:
    """Read a run's answers beside its images, or those of two runs side by side, in a browser on this machine only."""
    from fp2.methods.viewer.command import view as serve

    serve(*words_and_settings(run, ctx.args), port, row)


VIEW = CommandEntry(
    view, READ_AND_COMPARE, ("fp2 view RUN", "fp2 view RUN --row region/lifestyle", "fp2 view RUN OTHER_RUN")
)
