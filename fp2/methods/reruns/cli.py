"""`fp2 rerun`: its arguments."""

from __future__ import annotations

from typing import Annotated

import typer

from fp2.extension import EVALUATE, CommandEntry, Json, RunWord


def rerun(
    ctx: typer.Context,
    run_id: RunWord,
    fresh: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Ask this random share of the run's stored answers again, and compare them."),
    ] = None,
    json: Json = False,
) -> None:
    """Repeat a logged run from its config, and compare the numbers row by row. Stored answers are not asked again."""
    from fp2.methods.reruns.command import rerun as again

    raise typer.Exit(again(run_id, ctx.args, json, fresh))


RERUN = CommandEntry(rerun, EVALUATE, ("fp2 rerun RUN", "fp2 rerun RUN --fresh 0.05"))
