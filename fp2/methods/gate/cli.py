"""`fp2 gate`: its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fp2.extension import PUBLISH, CommandEntry, Json, RunWord


def gate(
    ctx: typer.Context,
    run: RunWord,
    max_disparity: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Fail unless the interval of every disparity of the primary scorer lies below this, in every probe "
            "and cut.",
        ),
    ] = None,
    min_subjects: Annotated[
        int | None, typer.Option(min=1, help="Fail if a group has fewer subjects than this.")
    ] = None,
    max_refusal_gap: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Fail if the refusal rates of two groups of a cut, over all probes together, differ by more than this "
            "(0.05 is 5 points); `scorer=refusal` tests each probe.",
        ),
    ] = None,
    allow_biased: Annotated[
        bool, typer.Option("--allow-biased", help="Do not fail for rows with the verdict 'biased'.")
    ] = False,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Do not fail because planned answers are missing.")
    ] = False,
    allow_untested: Annotated[
        int, typer.Option(min=0, help="Do not fail because of up to this many conditions that could not be tested.")
    ] = 0,
    junit: Annotated[
        Path | None, typer.Option(help="Write the conditions as JUnit XML, which CI servers show as tests.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the conditions that are not met as a Markdown table.")
    ] = None,
    json: Json = False,
) -> None:
    """Fail in CI if a run, or one of a sweep, does not meet conditions: exit status 0 if all are met, else 1.

    Without options three are checked: the run is complete, no row has the verdict biased, and every row could be
    tested. A condition that nothing in the run could be checked for is not met.
    """
    from fp2.methods.gate.command import gate as check
    from fp2.methods.gate.conditions import Limits

    limits = Limits(max_disparity, min_subjects, max_refusal_gap, allow_biased, allow_partial, allow_untested)
    raise typer.Exit(check(run, limits, ctx.args, junit, markdown, json))


GATE = CommandEntry(
    gate,
    PUBLISH,
    ("fp2 gate RUN --max-disparity 0.2 --max-refusal-gap 0.05 --allow-biased", "fp2 gate RUN --junit gate.xml"),
)
