"""`fp2 plan`: its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fp2.extension import EVALUATE, CommandEntry, Fp2Error, JsonFile


def plan(
    ctx: typer.Context,
    power: Annotated[
        bool, typer.Option("--power", help="Print the sample size that finds a gap, instead of the plan.")
    ] = False,
    pilot: Annotated[str | None, typer.Option(help="Estimate the variance from this run (its id or folder).")] = None,
    icc: Annotated[
        float | None, typer.Option(min=0, max=1, help="Intraclass correlation of one subject's images.")
    ] = None,
    sd: Annotated[
        float | None, typer.Option(min=1e-9, help="Standard deviation of one answer within its group.")
    ] = None,
    gap: Annotated[float | None, typer.Option(help="The gap to find (default: smallest effect of interest).")] = None,
    groups: Annotated[int | None, typer.Option(help="Number of groups of a cut (default: the pilot's).")] = None,
    target: Annotated[float, typer.Option(help="The power to reach.")] = 0.8,
    images: Annotated[str, typer.Option(help="Numbers of images per subject.")] = "1,3,6",
    json: JsonFile = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the power curve to this PNG or SVG.")] = None,
) -> None:
    """Print what a run would ask and could find, and time and disk, without a model; --power: its sample size."""
    if not power:
        from fp2.methods.planning.plan import plan_run

        options = {
            param.name: param.default
            for param in ctx.command.params
            if param.name not in ("power", "json", "sd", "icc", "gap")
        }
        if given := [name for name, default in options.items() if ctx.params[name] != default]:
            raise Fp2Error(f"--{given[0]} needs --power", where="fp2 plan")
        raise typer.Exit(plan_run(ctx.args, json, sd, icc, gap))
    from fp2.methods.planning.sample_size import PowerQuestion, plan_power

    try:
        numbers = tuple(int(word) for word in images.split(","))
    except ValueError:
        raise Fp2Error(f"{images!r} is not a list of whole numbers", where="--images", fix="Such as 1,3,6") from None
    plan_power(PowerQuestion(pilot, icc, sd, gap, groups, target, numbers), ctx.args, json, figure)


PLAN = CommandEntry(plan, EVALUATE, ("fp2 plan experiment=page", "fp2 plan --power --icc 0.3 --sd 0.25 --groups 4"))
