"""The story of one evaluation: people -> questions -> answers -> scores -> disparities -> fingerprint -> report."""

from __future__ import annotations

import json
import traceback
import uuid
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.config import Config, config_hash
from fp2.data.shown import ORIGINAL, whose_picture
from fp2.errors import EXIT_ERROR_BUDGET, EXIT_INTERRUPTED, Fp2Error
from fp2.places import remember
from fp2.prepare import Prepared, comparison_of, prepare
from fp2.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from fp2.respond import Asked
    from fp2.store.responses import ResponseStore
    from fp2.tracking import Tracker


@dataclass(frozen=True)
class Outcome:
    """A finished run: its results, its folder, where it was logged, and the exit status it deserves."""

    results: dict[str, Any]
    folder: Path
    run_id: str
    experiment_id: str | None
    exit_status: int
    message: str | None


def run(config: Config, folder: Path, overrides: Sequence[str], progress: Progress) -> Outcome:
    """Run one evaluation and write everything it found into `folder`.

    Raises
    ------
    Fp2Error
        For the user's mistakes. Whatever was answered stays in the store.
    """
    from fp2.store.responses import ResponseStore

    with ResponseStore(Path(config.paths.store)) as store:
        prepared = prepare(config, store, progress)
        with artifacts.told_plainly(folder):
            folder.mkdir(parents=True, exist_ok=True)
            places = artifacts.write_config(folder, config, overrides)
        register_origins(prepared, store)
        with _tracked(prepared, folder) as tracker:
            asked = _ask(prepared, store, progress)
            progress.note("Analysing" if asked.complete else "Analysing what there is (Ctrl-C stops at once)")
            results, answers, scores = _analyse(prepared, asked, tracker, progress)
            with artifacts.told_plainly(folder):
                remember(Path(config.paths.state), results["run_id"], places)
                _write(prepared, folder, results, answers, scores, progress)
            _log(prepared, tracker, folder, results)
    return _outcome(asked, results, folder, tracker)


def register_origins(prepared: Prepared, store: ResponseStore) -> None:
    """Remember whose picture each planned answer comes from, so that it can be removed with them."""
    from fp2.data.identity import local_salt, salted
    from fp2.store.origins import Origin, register

    people, salt = prepared.people, local_salt(Path(prepared.config.paths.state))
    keys: dict[str, list[str]] = {}
    for (image_id, _), key in prepared.plan.keys.items():
        keys.setdefault(whose_picture(image_id), []).append(key)
    heads = zip(
        people["image_id"], people["image_path"], salted(people["image_id"], salt, "image"),
        salted(people["subject_id"], salt), strict=True,
    )  # fmt: skip
    found = [
        Origin(image, subject, str(Path(path).absolute()), tuple(keys[image_id]))
        for image_id, path, image, subject in heads
        if image_id in keys
    ]
    register(store.connection, store.path, prepared.config.data.kind, prepared.dataset.release, found)


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
    from fp2.protocols.attention import attention_block, per_person
    from fp2.protocols.balance import balance_warnings
    from fp2.protocols.fingerprint import fingerprint
    from fp2.respond import answers_table
    from fp2.results import results_of
    from fp2.scoring import flag_refusals, score_answers

    config, cuts = prepared.config, prepared.cuts
    with progress.steps("Scoring and comparing groups", 1 + len(cuts)) as step:
        answers = flag_refusals(answers_table(prepared.plan, asked), prepared.scorers)
        scores = score_answers(answers, prepared.scorers)
        if prepared.battery.people == 2:
            scores = per_person(scores, prepared.people)
        step()
        comparison = comparison_of(config, len(prepared.battery.probes), len(cuts))
        found = fingerprint(scores, prepared.people, cuts, prepared.scorers, comparison, config.analysis.severity, step)
    run_id = tracker.run_id if tracker else uuid.uuid4().hex
    results = results_of(prepared, asked, answers, found, comparison, run_id)
    for line in balance_warnings(results["balance"]):
        progress.note(line)
    if prepared.battery.people == 2:
        results["attention"] = attention_block(scores, prepared.people, cuts, comparison)
    return results, answers, scores


def _write(
    prepared: Prepared, folder: Path, results: dict[str, Any], answers: pd.DataFrame, scores: pd.DataFrame,
    progress: Progress,
) -> None:  # fmt: skip
    """Write tables, results, figures and dashboard, and sign them."""
    from fp2.data.identity import local_salt
    from fp2.report.dashboard import write_dashboard
    from fp2.report.figures import write_figures
    from fp2.report.keys import load_or_create_key
    from fp2.report.passport import write_passport

    config = prepared.config
    salt = local_salt(Path(config.paths.state))
    used = {attribute for cut in prepared.cuts for attribute in cut.by}
    with progress.steps("Writing the report", 5 + len(results["cuts"])) as step:
        artifacts.write_tables(folder, prepared.people, answers, scores, results["disparities"], salt, used)
        artifacts.write_results(folder, results)
        step()
        if config.report.figures:
            write_figures(results, folder / "figures", step)
        if config.report.dashboard:
            shown = artifacts.examples(answers, config.report.examples_per_probe)
            write_dashboard(
                results,
                shown,
                _leaderboard(config, results),
                folder / artifacts.DASHBOARD,
                config.report.suppress_below,
            )
        step()
        key, created = load_or_create_key(Path(config.paths.keys))
        extra = {
            "decoding": asdict(prepared.battery.decoding),
            "preprocessing": results["model"]["processor"],
            "seeds": {"analysis": config.seed, "data": config.data.seed},
        }
        write_passport(folder, results, artifacts.files_of(folder), extra, key)
        step()
    if created:
        progress.note(f"Made a signing key, readable by its owner only: {key.private_path}")


def _leaderboard(config: Config, results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the summaries of this run and of the finished ones in the store."""
    from fp2.report.leaderboard import summarise

    own = summarise(results)
    if not config.tracking.enabled:
        return own
    from fp2.tracking import summaries

    same = {tag: results[tag] for tag in ("config_hash", "response_set", "dataset_digest")}
    return own + summaries(config, without=same)


@contextmanager
def _tracked(prepared: Prepared, folder: Path) -> Iterator[Tracker | None]:
    """Log the run from here on; a failure ends it as FAILED, with the traceback among its files."""
    config = prepared.config
    if not config.tracking.enabled:
        yield None
        return
    from fp2 import tracking

    tags = {
        "sweep_id": config.tracking.sweep_id,
        "config_hash": config_hash(config),
        "response_set": prepared.plan.response_set,
        "dataset_digest": prepared.dataset_digest,
        "variant": config.variant.name,
    }
    shown = "" if config.variant.kind == ORIGINAL else f" · {config.variant.name}"
    cuts = "+".join(cut.name for cut in prepared.cuts)
    tracker = tracking.start(config, tags, f"{config.model.name} · {cuts}{shown}")
    try:
        yield tracker
    except BaseException as error:
        with suppress(Exception):  # what ended the run is told, not what its record then lacks
            tracker.tag({"error": str(error)[:500] or type(error).__name__})
            tracker.finish("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
        if not isinstance(error, (Fp2Error, KeyboardInterrupt)):
            with suppress(OSError):
                (folder / "traceback.txt").write_text(traceback.format_exc(), encoding="utf-8")
        raise


def _log(prepared: Prepared, tracker: Tracker | None, folder: Path, results: dict[str, Any]) -> None:
    if tracker is None:
        return
    from fp2 import tracking
    from fp2.hashing import sha256_file
    from fp2.report.leaderboard import summarise

    passport = folder / "passport.json"
    with tracking.told_plainly(tracking.tracking_uri(prepared.config)):
        tracker.log({**artifacts.files_of(folder), passport.name: passport}, results, artifacts.TABLE)
        tracker.tag(
            {
                "complete": str(results["complete"]).lower(),
                "severity": results["severity"],
                "passport_sha256": sha256_file(passport),
                "summary": json.dumps(summarise(results)),
            }
        )
        tracker.finish("FINISHED" if results["complete"] else "FAILED")


def _outcome(asked: Asked, results: dict[str, Any], folder: Path, tracker: Tracker | None) -> Outcome:
    status, message = 0, None
    if asked.over_budget:
        status = EXIT_ERROR_BUDGET
        message = f"{asked.over_budget}. What was answered is kept; mend the cause and run the same command again"
    elif asked.interrupted:
        status = EXIT_INTERRUPTED
        done = results["answers"]["answered"]
        planned = results["answers"]["planned"]
        message = f"interrupted: {done} of {planned} answers are kept; the same command goes on from there"
    experiment = tracker.experiment_id if tracker else None
    return Outcome(results, folder, results["run_id"], experiment, status, message)
