"""`fp2 label`: its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fp2.extension import READ_AND_COMPARE, CommandEntry, Json, RunWord


def label(
    ctx: typer.Context,
    run: RunWord,
    scorer: Annotated[
        str | None, typer.Option(help="The scorer whose dimension is labelled (default: the primary).")
    ] = None,
    n: Annotated[int | None, typer.Option("--n", help="Answers to draw (default: 300).")] = None,
    by: Annotated[str | None, typer.Option(help="The cut whose groups share the sample (default: the first).")] = None,
    probe: Annotated[list[str] | None, typer.Option(help="Draw answers to this probe; may be repeated.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the draw and of the order (default: the run's).")] = None,
    labeller: Annotated[str, typer.Option(help="The name of the labeller, which is kept with the labels.")] = "a",
    disagreements: Annotated[
        bool, typer.Option("--disagreements", help="Decide the answers on which others differ, as 'resolver'.")
    ] = False,
    status: Annotated[bool, typer.Option("--status", help="Print counts and Cohen's kappa.")] = False,
    analyse: Annotated[bool, typer.Option("--analyse", help="Rescore the run with the labels given.")] = False,
    labels: Annotated[Path | None, typer.Option(help="Rescore the run with a CSV file of labels.")] = None,
    port: Annotated[int, typer.Option(help="The port (default: a free one).", show_default=False)] = 0,
    json: Json = False,
) -> None:
    """Label a sample of a run's answers on this machine, and correct its disparities for the scorer's error."""
    from fp2.methods.labels.command import label as serve
    from fp2.methods.labels.sample import Wanted
    from fp2.methods.labels.table import RESOLVER

    wanted = Wanted(scorer, n, by, seed, None if probe is None else tuple(probe))
    who = RESOLVER if disagreements else labeller
    raise typer.Exit(
        serve(run, wanted, who, ctx.args, port=port, status=status, analyse=analyse, labels=labels, as_json=json)
    )


LABEL = CommandEntry(label, READ_AND_COMPARE, ("fp2 label RUN --n 100", "fp2 label RUN --analyse"))
