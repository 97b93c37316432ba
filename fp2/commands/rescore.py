"""`fp2 rescore`: score the answers of a logged run with other scorers, cuts or analysis settings, without a model."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from fp2 import artifacts
from fp2.compose import load_config

OPTIONAL = (artifacts.PEOPLE, artifacts.RESPONSES, artifacts.PASSPORT)
"""Files that runs without answers in rows lack."""


def rescore(run_id: str, overrides: Sequence[str]) -> int:
    """Score the answers of `run_id` (an MLflow run, or a folder with its files) again; return the exit status.

    Raises
    ------
    Fp2Error
        If the run cannot be read or its answers cannot be scored again.
    """
    from fp2.app import fresh_folder, places_of
    from fp2.progress import Progress
    from fp2.report.terminal import print_results
    from fp2.runs.reader import run_folder
    from fp2.runs.rescore import composable
    from fp2.runs.rescore import rescore as again

    given = load_config(composable(overrides))
    with tempfile.TemporaryDirectory(prefix="fp2-rescore-") as scratch:
        source = run_folder(run_id, given, Path(scratch), (artifacts.CONFIG, artifacts.RESULTS), OPTIONAL)
        folder = fresh_folder(Path(given.paths.outputs))
        outcome = again(source, given, overrides, folder, Progress())
    print_results(outcome.results, Console(), places_of(given, outcome), outcome.sections)
    print(f"rescored from run {outcome.results['rescored_from']['run_id']}: no model was asked")
    return outcome.exit_status
