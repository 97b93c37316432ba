"""`fp2 compare`, `fp2 leaderboard` and `fp2 report`: their arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fp2.extension import READ_AND_COMPARE, RUN_HELP, CommandEntry, Json, JsonFile, run_names, words_and_settings


def compare(
    ctx: typer.Context,
    first: Annotated[str, typer.Argument(metavar="A", help=RUN_HELP, autocompletion=run_names)],
    second: Annotated[
        str, typer.Argument(metavar="B [C]...", help="The runs to compare it with.", autocompletion=run_names)
    ],
    json: JsonFile = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the two profiles, or all distances, to this PNG.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the comparison as one page.")] = None,
) -> None:
    """Compare the fingerprints of runs, pair by pair, on shared subjects or two samples: distance, interval, p."""
    from fp2.methods.several_runs.compare_command import compare_runs

    more, settings = words_and_settings(None, ctx.args)
    compare_runs([first, second, *more], settings, json, figure, html)


def leaderboard(
    ctx: typer.Context,
    sweep_id: Annotated[str | None, typer.Argument(help="Printed at the end of the sweep.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the rows as CSV.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the rows as a Markdown table.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the rank intervals to this PNG.")] = None,
    json: Json = False,
) -> None:
    """Rank the finished runs of a sweep with rank intervals and ties; without an id all runs, without intervals."""
    from fp2.methods.several_runs.leaderboard_command import Outputs, show

    show(sweep_id, ctx.args, Outputs(csv, markdown, figure, json))


def report(
    ctx: typer.Context,
    run: Annotated[
        str | None, typer.Argument(metavar="SWEEP|RUN...", help="The folder of a sweep, its id, or any runs.")
    ] = None,
    to: Annotated[Path | None, typer.Option(help="The folder for the files (default: beside the runs).")] = None,
    json: Json = False,
) -> None:
    """Write one report on the runs of a sweep: HTML, Markdown and results.json. A sweep ends with it."""
    from fp2.methods.several_runs.sweep_report import report as write

    write(*words_and_settings(run, ctx.args), to, json)


COMPARE = CommandEntry(
    compare,
    READ_AND_COMPARE,
    (
        "fp2 compare RUN OTHER_RUN --html comparison.html",
        "fp2 compare RUN OTHER_RUN --json compared.json analysis.permutations=2000",
    ),
)
LEADERBOARD = CommandEntry(
    leaderboard, READ_AND_COMPARE, ("fp2 leaderboard SWEEP_ID", "fp2 leaderboard --csv ranks.csv")
)
REPORT = CommandEntry(report, READ_AND_COMPARE, ("fp2 report SWEEP", "fp2 report RUN OTHER_RUN --to report"))
