"""`fp2 multiverse RUN`: the claims of a finished run under every specification of the analysis."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from fp2 import artifacts
from fp2.commands.output import print_json
from fp2.compose import load_config
from fp2.progress import Progress, Terminal


def show_multiverse(run: str, overrides: Sequence[str], as_json: bool = False) -> None:
    """Compute the specification curve of a run (its id, config hash or folder), write it, and print its table.

    Raises
    ------
    Fp2Error
        If there is no such run, or it has no scored answers that are compared.
    """
    from fp2.report.reading import plain
    from fp2.runs.multiverse import BLOCK, FILE, NEEDED, TABLES, multiverse
    from fp2.runs.reader import run_folder

    here = load_config(overrides)
    with tempfile.TemporaryDirectory(prefix="fp2-multiverse-") as scratch:
        found = multiverse(run_folder(run, here, Path(scratch), NEEDED, TABLES), here, Progress())
    if as_json:
        print_json(found.document)
        return
    console = Terminal()
    for line in found.section.lines(found.results[BLOCK], found.results, here.report.suppress_below):
        console.print(line)
    for name in (FILE, artifacts.DASHBOARD, artifacts.FIGURES):
        console.print(f"{name.partition('.')[0]:<12} {plain(found.folder / name)}", soft_wrap=True, highlight=False)
