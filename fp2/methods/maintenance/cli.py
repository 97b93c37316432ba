"""Commands that keep a project in order: their arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fp2.extension import (
    EVALUATE,
    MAINTAIN,
    READ_AND_COMPARE,
    RUN_HELP,
    CommandEntry,
    Json,
    run_names,
    words_and_settings,
)


def pin(
    ctx: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]...", help="Models, or a run's settings."),
    ] = None,
    json: Json = False,
) -> None:
    """Write down the commit of each hub model in the local cache, for all later runs: fp2 pin experiment=page"""
    from fp2.methods.maintenance.pin import pin as write

    raise typer.Exit(write(*words_and_settings(model, ctx.args), json))


def list_choices(
    ctx: typer.Context,
    what: Annotated[
        str | None,
        typer.Argument(help="models, data, scorers, cuts, probes, protocols, engines, forms, ... (default: all)"),
    ] = None,
    json: Json = False,
) -> None:
    """List what can be chosen, and which package or folder (hydra.searchpath=[file://...]) it comes from."""
    from fp2.methods.maintenance.listing import list_choices as show

    show(*words_and_settings(what, ctx.args), json)


def watch(
    ctx: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help=f"{RUN_HELP} By default the one last active.", autocompletion=run_names),
    ] = None,
    json: Json = False,
) -> None:
    """Show what a run in another terminal is doing: stage, rates, refusals, failures, time left, last answer."""
    from fp2.methods.maintenance.watch import watch as follow

    runs, settings = words_and_settings(run, ctx.args)
    follow(runs[0] if runs else None, settings, json)


def new(
    kind: Annotated[str, typer.Argument(help="scorer, dataset, engine or protocol")],
    name: Annotated[str, typer.Argument(help="Its name: small letters, digits and _.")],
    folder: Annotated[Path, typer.Option(help="Where the package is written.")] = Path(),
    json: Json = False,
) -> None:
    """Write a package of your own with a scorer, data set, engine or protocol that runs, and its test."""
    from fp2.methods.maintenance.new import new as write

    write(kind, name, folder, json)


def doctor(ctx: typer.Context, json: Json = False) -> None:
    """Check the environment: versions, torchvision, device, disk, stores, drawing."""
    from fp2.methods.maintenance.doctor import examine

    raise typer.Exit(examine(ctx.args, json))


def data_verify(
    ctx: typer.Context,
    pixels: Annotated[bool, typer.Option(help="Decode every image: finds damaged and repeated images.")] = True,
    newer: Annotated[
        Path | None,
        typer.Option(help="The folder of a newer release: count the subjects and images that the newer one lacks."),
    ] = None,
    ids_to: Annotated[
        Path | None, typer.Option(help="Write the ids that the newer release lacks to this file.")
    ] = None,
    json: Json = False,
) -> None:
    """Validate a data set (files, sizes, repeats, groups): fp2 data verify data=fhibe data.root=PATH"""
    from fp2.methods.maintenance.data_verify import verify as check

    raise typer.Exit(check(ctx.args, pixels=pixels, newer=newer, ids_to=ids_to, as_json=json))


def store_merge(
    ctx: typer.Context,
    stores: Annotated[list[Path], typer.Argument(help="Two response stores or more; they are only read.")],
    into: Annotated[Path, typer.Option(help="The new store.")],
    json: Json = False,
) -> None:
    """Merge the answers, failures and origins of several stores in a new one, without people who were withdrawn."""
    from fp2.methods.maintenance.store import merge

    paths, settings = words_and_settings(None, [*map(str, stores), *ctx.args])
    merge(list(map(Path, paths)), into, settings, json)


def store_check(
    ctx: typer.Context,
    path: Annotated[Path | None, typer.Argument(help="A response store (default: the configured one).")] = None,
    json: Json = False,
) -> None:
    """Check the database of a response store, and the checksum of every row in it."""
    from fp2.methods.maintenance.store import check as check_store

    if path is None:
        from fp2.extension import load_config

        path = Path(load_config(ctx.args).paths.store)
    raise typer.Exit(check_store(path, json))


def ui(
    ctx: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]...",
            help=f"{RUN_HELP} Or the id of a sweep (default: the newest one).",
            autocompletion=run_names,
        ),
    ] = None,
    port: Annotated[int | None, typer.Option(help="The port (default: the first free one from 5000 on).")] = None,
) -> None:
    """Open the MLflow UI on this machine only, and print the link that compares runs; Ctrl-C ends it."""
    from fp2.methods.maintenance.ui import serve

    raise typer.Exit(serve(*words_and_settings(run, ctx.args), port))


PIN = CommandEntry(pin, EVALUATE, ("fp2 pin qwen2_5_vl_3b", "fp2 pin experiment=page"))
LIST_CHOICES = CommandEntry(
    list_choices, EVALUATE, ("fp2 list models", "fp2 list scorers hydra.searchpath=[file:///my/conf]"), name="list"
)
UI = CommandEntry(ui, READ_AND_COMPARE, ("fp2 ui", "fp2 ui RUN OTHER_RUN", "fp2 ui --port 5001"))
WATCH = CommandEntry(watch, EVALUATE, ("fp2 watch", "fp2 watch RUN --json"))
NEW = CommandEntry(new, MAINTAIN, ("fp2 new scorer politeness",), settings=False)
DOCTOR = CommandEntry(doctor, MAINTAIN, ("fp2 doctor",))
DATA_VERIFY = CommandEntry(
    data_verify,
    MAINTAIN,
    ("fp2 data verify", "fp2 data verify data=fhibe data.root=PATH --newer PATH"),
    name="verify",
    group="data",
)
STORE_MERGE = CommandEntry(
    store_merge, MAINTAIN, ("fp2 store merge 1.sqlite 2.sqlite --into all.sqlite",), name="merge", group="store"
)
STORE_CHECK = CommandEntry(
    store_check, MAINTAIN, ("fp2 store check", "fp2 store check all.sqlite"), name="check", group="store"
)
