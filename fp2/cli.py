"""The `fp2` command: declares commands and options; the work is in `fp2.commands`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fp2.errors import EXIT_INTERRUPTED, Fp2Error, terminable

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Fingerprint² Bench: which groups a vision-language model describes differently, by how much, how certainly.",
)
data_app = typer.Typer(no_args_is_help=True, help="Inspect a data set.")
app.add_typer(data_app, name="data")
OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}


def main() -> None:
    """Run the command line; a user error is one line and a non-zero exit status."""
    try:
        with terminable():
            app()
    except Fp2Error as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


@app.command(context_settings={**OVERRIDES, "help_option_names": []})
def run(ctx: typer.Context) -> None:
    """Run one evaluation, or with -m a sweep: fp2 run model=NAME data=NAME cut=NAME ..."""
    from fp2.app import main as launch

    raise typer.Exit(launch(ctx.args))


@app.command(context_settings=OVERRIDES)
def plan(ctx: typer.Context) -> None:
    """Print what a run would ask (answers, stored answers, time, disk), without loading a model."""
    from fp2.commands.plan import plan_run

    plan_run(ctx.args)


@app.command("list")
def list_choices(
    what: Annotated[
        str | None,
        typer.Argument(help="models, data, scorers, cuts, probes, protocols, engines, experiments, ... (default: all)"),
    ] = None,
) -> None:
    """List what can be chosen, installed plug-ins included, and which package it comes from."""
    from fp2.commands.listing import list_choices as show

    show(what)


@app.command(context_settings=OVERRIDES)
def rerun(ctx: typer.Context, run_id: str) -> None:
    """Repeat a logged run from its config, and compare the numbers row by row."""
    from fp2.commands.rerun import rerun as again

    raise typer.Exit(again(run_id, ctx.args))


@app.command(context_settings=OVERRIDES)
def rescore(
    ctx: typer.Context, run_id: Annotated[str, typer.Argument(help="A run's id, or a folder with its files.")]
) -> None:
    """Score a logged run's answers again: fp2 rescore RUN_ID scorer=NAME cut=NAME analysis.alpha=0.01 ..."""
    from fp2.commands.rerun import rescore as again

    raise typer.Exit(again(run_id, ctx.args))


@app.command(context_settings=OVERRIDES)
def compare(
    ctx: typer.Context,
    first: Annotated[str, typer.Argument(metavar="A", help="A run's id, or a folder with its files.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The run to compare it with.")],
    json: Annotated[Path | None, typer.Option(help="Write the whole comparison to this file.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the two profiles to this PNG.")] = None,
) -> None:
    """Compare the fingerprints of two runs on the subjects that both have: distance, interval, p-value."""
    from fp2.commands.compare import compare_runs

    compare_runs(first, second, ctx.args, json, figure)


@app.command(context_settings=OVERRIDES)
def leaderboard(
    ctx: typer.Context,
    sweep_id: Annotated[str | None, typer.Argument()] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the rows as CSV.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the rows as a Markdown table.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the rank intervals to this PNG.")] = None,
) -> None:
    """Rank the finished runs of a sweep with rank intervals and ties; without an id all runs, without intervals."""
    from fp2.commands.leaderboard import Outputs, show

    words = ctx.args
    if sweep_id is not None and "=" in sweep_id:  # no id given: the first word is an override
        words = [sweep_id, *words]
        sweep_id = None
    show(sweep_id, words, Outputs(csv, markdown, figure))


@app.command(context_settings=OVERRIDES)
def log(ctx: typer.Context, folder: Annotated[Path, typer.Argument(help="The folder of a finished run.")]) -> None:
    """Log a finished run from its folder, when MLflow could not be used while it ran."""
    from fp2.compose import load_config
    from fp2.runs.late_logging import log_folder

    run_id, experiment = log_folder(folder, load_config(ctx.args))
    print(f"run         {run_id}\nexperiment  {experiment}")


@app.command()
def verify(
    passport: Path,
    key: Annotated[list[Path], typer.Option(help="A public key (PEM) that you trust; may be repeated.")],
    threshold: Annotated[int, typer.Option(help="How many of the keys must have signed.")] = 1,
) -> None:
    """Verify the signature of a passport, and the digest of every file beside it."""
    from fp2.commands.passports import verify as check

    raise typer.Exit(check(passport, key, threshold))


@app.command()
def keygen(
    path: Annotated[Path, typer.Argument(help="Path of the private key; the public key is written beside it.")],
    passphrase: Annotated[bool, typer.Option(help="Ask for a passphrase.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing key.")] = False,
) -> None:
    """Create an Ed25519 key for signing passports."""
    from fp2.commands.passports import keygen as make

    make(path, typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True) if passphrase else None, overwrite)


@app.command(context_settings=OVERRIDES)
def doctor(ctx: typer.Context) -> None:
    """Check the environment: versions, torchvision, device, disk, stores, drawing."""
    from fp2.commands.doctor import examine

    raise typer.Exit(examine(ctx.args))


@app.command(context_settings=OVERRIDES)
def relocate(ctx: typer.Context) -> None:
    """Correct the artifact addresses of the MLflow store after the project was moved to another folder."""
    from fp2.compose import load_config
    from fp2.tracking.client import relocate as move

    print(f"{move(load_config(ctx.args))} addresses changed")


@app.command(context_settings=OVERRIDES)
def purge(
    ctx: typer.Context,
    subject: Annotated[list[str] | None, typer.Option(help="Id of a subject; may be repeated.")] = None,
    image: Annotated[list[str] | None, typer.Option(help="Id of an image; may be repeated.")] = None,
    release: Annotated[str | None, typer.Option(help="Version of a whole release.")] = None,
    absent: Annotated[bool, typer.Option("--absent", help="All that is not in the release at data.root.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove everything derived from a subject, an image or a release; recompute and sign what is left."""
    from fp2.commands.purge import run as remove

    raise typer.Exit(remove(subject or [], image or [], release, absent, dry_run, yes, ctx.args))


@data_app.command("verify", context_settings=OVERRIDES)
def data_verify(
    ctx: typer.Context,
    pixels: Annotated[bool, typer.Option(help="Decode every image: finds damaged and repeated images.")] = True,
    newer: Annotated[Path | None, typer.Option(help="A newer FHIBE release: count what it lacks.")] = None,
    ids_to: Annotated[Path | None, typer.Option(help="Write the ids that it lacks to this file.")] = None,
) -> None:
    """Check the files, sizes, repeats and groups of a data set: fp2 data verify data=fhibe data.root=PATH."""
    from fp2.commands.data_verify import verify as check

    raise typer.Exit(check(ctx.args, pixels=pixels, newer=newer, ids_to=ids_to))


if __name__ == "__main__":
    main()
