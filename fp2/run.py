"""The story of one evaluation: people -> questions -> answers -> scores -> disparities -> fingerprint -> report."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.config import Config
from fp2.data.stimuli import original_image_id
from fp2.finish import Outcome, extra_of, log, outcome_of, tags_of, tracked, write_report
from fp2.places import remember
from fp2.prepare import Prepared, prepare
from fp2.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

    from fp2.respond import Asked
    from fp2.store.rows import ResponseStore
    from fp2.tracking import Tracker


def run(config: Config, folder: Path, overrides: Sequence[str], progress: Progress) -> Outcome:
    """Run one evaluation and write everything it found into `folder`.

    Raises
    ------
    Fp2Error
        For the user's mistakes. Whatever was answered stays in the store.
    """
    from fp2.store.origins import register_origins
    from fp2.store.rows import ResponseStore

    with ResponseStore(Path(config.paths.store)) as store:
        prepared = prepare(config, store, progress)
        with artifacts.told_plainly(folder):
            folder.mkdir(parents=True, exist_ok=True)
            places = artifacts.write_config(folder, config, overrides)
        register_origins(config, prepared.dataset, _keys_by_picture(prepared), store)
        with tracked(config, folder, *tags_of(prepared)) as tracker:
            asked = _ask(prepared, store, progress)
            progress.note("Analysing" if asked.complete else "Analysing what there is (Ctrl-C stops at once)")
            results, answers, scores = _analyse(prepared, asked, tracker, progress)
            with artifacts.told_plainly(folder):
                remember(Path(config.paths.state), results["run_id"], places)
                _write(prepared, folder, results, answers, scores, progress)
            log(config, tracker, folder, results)
    return outcome_of(asked, results, folder, tracker)


def _keys_by_picture(prepared: Prepared) -> dict[str, list[str]]:
    """Return the response keys of everything that shows a picture, by its image id."""
    keys: dict[str, list[str]] = {}
    for (image_id, _), key in prepared.plan.keys.items():
        keys.setdefault(original_image_id(image_id), []).append(key)
    return keys


def _ask(prepared: Prepared, store: ResponseStore, progress: Progress) -> Asked:
    from fp2.respond import ask

    with progress.answers(f"Asking {prepared.config.model.name}") as bar:
        return ask(
            prepared.plan,
            prepared.engine,
            store,
            attempts=prepared.config.answers.attempts,
            error_budget=prepared.config.answers.error_budget,
            start=bar.start,
            tick=bar.tick,
        )


def _analyse(
    prepared: Prepared, asked: Asked, tracker: Tracker | None, progress: Progress
) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]:
    """Score the answers, compare the groups, and put the results together."""
    from fp2.analysis import compared, scored
    from fp2.protocols.balance import balance_warnings
    from fp2.respond import answers_table
    from fp2.results import results_of

    people, cuts, battery, scorers = prepared.people, prepared.cuts, prepared.battery, prepared.scorers
    with progress.steps("Scoring and comparing groups", 1 + len(cuts)) as step:
        answers, scores = scored(answers_table(prepared.plan, asked), people, battery, scorers)
        step()
        found = compared(prepared.config, battery, answers, scores, people, cuts, scorers, step)
    run_id = tracker.run_id if tracker else uuid.uuid4().hex
    results = results_of(prepared, asked, answers, found, run_id)
    for line in balance_warnings(results["balance"]):
        progress.note(line)
    return results, answers, scores


def _write(
    prepared: Prepared, folder: Path, results: dict[str, Any], answers: pd.DataFrame, scores: pd.DataFrame,
    progress: Progress,
) -> None:  # fmt: skip
    """Write tables, results, figures and dashboard, and sign them."""
    from fp2.protocols.registry import attributes_of
    from fp2.store.salted_keys import local_salt

    config = prepared.config
    salt = local_salt(Path(config.paths.state))
    used = attributes_of(prepared.battery, prepared.cuts)
    artifacts.write_tables(folder, prepared.people, answers, scores, results["disparities"], salt, used)
    shown = artifacts.examples(answers, config.report.examples_per_probe)
    write_report(config, folder, results, shown, extra_of(prepared, results), progress)
