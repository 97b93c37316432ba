"""`fp2 rescore`: the answers of a logged run with other scorers, cuts or analysis settings, without a model."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fp2.extension import Fp2Error, Output, artifacts, compose_config, hydra_overrides, validate
from fp2.methods.reruns.again import OPTIONAL


def rescore(run_id: str, overrides: Sequence[str], as_json: bool = False) -> int:
    """Score the answers of `run_id` (an MLflow run, or a folder with its files) again; return the exit status."""
    from fp2.extension import Progress, finish_purges, fresh_folder, places_of, print_results, run_folder
    from fp2.methods.reruns.rescoring import composable
    from fp2.methods.reruns.rescoring import rescore as again

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
