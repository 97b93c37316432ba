"""`fp2 multiverse`: the specification curve of a run that has ended."""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer

from fp2.extension import READ_AND_COMPARE, CommandEntry, Json, RunWord


def multiverse(ctx: typer.Context, run: RunWord, json: Json = False) -> None:
    """Test a run's claims under other choices of the analysis: specification curves, joint tests."""
    from fp2.extension import (
        Progress,
        Terminal,
        artifacts,
        finish_purges,
        load_config,
        plain,
        print_json,
        run_folder,
        states_again,
        terminal,
    )
    from fp2.methods.curves.afterwards import BLOCK, FILE, NEEDED, TABLES
    from fp2.methods.curves.afterwards import multiverse as compute

    local_config = load_config([word for word in ctx.args if not states_again(word)])
    finish_purges(local_config, Progress())
    with tempfile.TemporaryDirectory(prefix="fp2-multiverse-") as scratch:
        folder = run_folder(run, local_config, Path(scratch), NEEDED, TABLES)
        computed = compute(folder, local_config, Progress(), ctx.args)
    if json:
        print_json(computed.document)
        return
    console = Terminal()
    values = computed.section.values(computed.results[BLOCK], computed.results)
    for renderable in terminal(values, local_config.report.suppress_below):
        console.print(renderable)
    for name in (FILE, artifacts.DASHBOARD, artifacts.FIGURES):
        console.print(f"{name.partition('.')[0]:<12} {plain(computed.folder / name)}", soft_wrap=True, highlight=False)


MULTIVERSE = CommandEntry(multiverse, READ_AND_COMPARE, ("fp2 multiverse RUN",))
