"""`fp2 rescore`: the answers of a logged run with other scorers, cuts or analysis settings, without a model."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fp2 import artifacts
from fp2.commands.output import Output
from fp2.compose import compose_config, hydra_overrides, validate
from fp2.errors import Fp2Error
from fp2.runs.again import OPTIONAL


def rescore(run_id: str, overrides: Sequence[str], as_json: bool = False) -> int:
    """Score the answers of `run_id` (an MLflow run, or a folder with its files) again; return the exit status."""
    from fp2.app import places_of
    from fp2.progress import Progress
    from fp2.report.terminal import print_results
    from fp2.run import finish_purges
    from fp2.runs.outputs import fresh_folder
    from fp2.runs.reader import run_folder
    from fp2.runs.rescore import composable
    from fp2.runs.rescore import rescore as again

    config = validate(compose_config(hydra_overrides(composable(overrides))))
    finish_purges(config, Progress())
    with tempfile.TemporaryDirectory(prefix="fp2-rescore-") as scratch:
        source = run_folder(run_id, config, Path(scratch), (artifacts.CONFIG, artifacts.RESULTS), OPTIONAL)
        folder = fresh_folder(Path(config.paths.outputs))
        try:
            outcome = again(source, config, overrides, folder, Progress())
        except Fp2Error:
            with suppress(OSError):  # unless something is in it
                folder.rmdir()
                folder.parent.rmdir()
            raise
    paths, min_cell = places_of(config, outcome), config.report.suppress_below
    asked_by_scorers = any("model" in scorer for scorer in outcome.results["scorers"])
    message = "no model was asked, but by scorers" if asked_by_scorers else "no model was asked"
    with Output(as_json) as out:
        print_results(outcome.results, out.console, paths, outcome.sections, min_cell=min_cell)
        out.say(f"rescored from run {outcome.results['rescored_from']['run_id']}: {message}", **outcome.results)
    if outcome.message:
        print(f"error: {outcome.message}", file=sys.stderr)
    return outcome.exit_status
