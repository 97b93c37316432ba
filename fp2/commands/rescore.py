"""`fp2 rescore`: score the answers of a logged run with other scorers, cuts or analysis settings, without a model."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from fp2 import artifacts
from fp2.compose import load_config
from fp2.config import Config
from fp2.errors import Fp2Error


def rescore(run_id: str, overrides: Sequence[str]) -> int:
    """Score the answers of `run_id` (an MLflow run, or a folder with its files) again; return the exit status.

    Raises
    ------
    Fp2Error
        If the run cannot be read or its answers cannot be scored again.
    """
    from fp2.app import fresh_folder, places_of
    from fp2.progress import Progress
    from fp2.report.terminal import print_fingerprint
    from fp2.runs.rescore import rescore as again
    from fp2.runs.rescore_config import composable

    given = load_config(composable(overrides))
    with tempfile.TemporaryDirectory(prefix="fp2-rescore-") as scratch:
        source = _source(run_id, given, Path(scratch))
        folder = fresh_folder(Path(given.paths.outputs))
        outcome = again(source, given, overrides, folder, Progress())
    print_fingerprint(outcome.results, Console(), places_of(given, outcome), outcome.sections)
    print(f"rescored from run {outcome.results['rescored_from']['run_id']}: no model was asked")
    return outcome.exit_status


def _source(run_id: str, here: Config, scratch: Path) -> Path:
    """Return the folder of the run's files: `run_id` if it is one, else `scratch` with the downloaded files."""
    folder = Path(run_id)
    if (folder / artifacts.RESULTS).is_file():
        return folder
    if folder.is_dir():
        raise Fp2Error("this folder is not a run's", where=run_id, fix=f"It lacks {artifacts.RESULTS}")
    from fp2.tracking.client import download

    download(here, run_id, (artifacts.CONFIG, artifacts.RESULTS), scratch)
    for name in (artifacts.PEOPLE, artifacts.RESPONSES, "passport.json"):
        try:
            download(here, run_id, (name,), scratch)
        except Fp2Error:
            continue  # a run without it; whatever needs it raises
    return scratch
