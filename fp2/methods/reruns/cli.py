"""`fp2 rerun` and `fp2 rescore`: their arguments."""

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


def rescore(
    ctx: typer.Context,
    run_id: RunWord,
    json: Json = False,
) -> None:
    """Score a logged run's answers again: fp2 rescore RUN_ID scorer=NAME cut=NAME analysis.alpha=0.01 ..."""
    from fp2.methods.reruns.rescore_command import rescore as again

    raise typer.Exit(again(run_id, ctx.args, json))


RERUN = CommandEntry(rerun, EVALUATE, ("fp2 rerun RUN", "fp2 rerun RUN --fresh 0.05"))
RESCORE = CommandEntry(
    rescore,
    EVALUATE,
    (
        "fp2 rescore RUN scorer=stereotype analysis.primary=stereotype",
        "fp2 rescore RUN cut=region analysis.alpha=0.01",
    ),
)
