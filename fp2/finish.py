"""What every kind of run shares: how it is tracked, reported, signed and logged, and what it ends as."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fp2 import artifacts
from fp2.config import Config, config_hash
from fp2.errors import EXIT_ERROR_BUDGET, EXIT_INTERRUPTED, Fp2Error
from fp2.progress import Progress
from fp2.tables import ORIGINAL

if TYPE_CHECKING:
    from fp2.prepare import Prepared
    from fp2.run_blocks import PreparedBlocks
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


class Ending(Protocol):
    """How an asking ended (`fp2.respond.Asked` and `fp2.block_asking.BlocksAsked` have it)."""

    interrupted: bool
    over_budget: str | None


def outcome_of(ending: Ending, results: dict[str, Any], folder: Path, tracker: Tracker | None) -> Outcome:
    """Return what a run that asked ends as."""
    status, message = 0, None
    if ending.over_budget:
        status = EXIT_ERROR_BUDGET
        message = f"{ending.over_budget}. What was answered is kept; mend the cause and run the same command again"
    elif ending.interrupted:
        status = EXIT_INTERRUPTED
        done, planned = results["answers"]["answered"], results["answers"]["planned"]
        message = f"interrupted: {done} of {planned} answers are kept; the same command goes on from there"
    experiment = tracker.experiment_id if tracker else None
    return Outcome(results, folder, results["run_id"], experiment, status, message)


def tags_of(prepared: Prepared | PreparedBlocks, *words: str) -> tuple[dict[str, Any], str]:
    """Return what a run that asks is found by in the UI, and its name there: the model, `words`, the cuts."""
    config = prepared.config
    tags = {
        "config_hash": config_hash(config),
        "response_set": prepared.plan.response_set,
        "dataset_digest": prepared.dataset_digest,
        "variant": config.variant.name,
    }
    shown = "" if config.variant.kind == ORIGINAL else f" · {config.variant.name}"
    cuts = "+".join(cut.name for cut in prepared.cuts)
    return tags, " · ".join([config.model.name, *words, cuts]) + shown


def extra_of(prepared: Prepared | PreparedBlocks, results: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the passport of a run that asked says beyond its results."""
    config = prepared.config
    return {
        "decoding": asdict(prepared.battery.decoding),
        "preprocessing": results["model"]["processor"],
        "seeds": {"analysis": config.seed, "data": config.data.seed},
    }


@contextmanager
def tracked(config: Config, folder: Path, tags: Mapping[str, Any], title: str) -> Iterator[Tracker | None]:
    """Log the run from here on; a failure ends it as FAILED, with the traceback among its files.

    Yields None where tracking is switched off. `tags` hold the run's digests, `title` is its name in the UI.
    """
    if not config.tracking.enabled:
        yield None
        return
    from fp2 import tracking

    tracker = tracking.start(config, {"sweep_id": config.tracking.sweep_id, **tags}, title)
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


def write_report(
    config: Config, folder: Path, results: dict[str, Any], examples: Sequence[Mapping[str, Any]],
    extra: Mapping[str, Any], progress: Progress,
) -> None:  # fmt: skip
    """Write `results.json`, figures and dashboard, and sign everything that lies in `folder` with the passport.

    `examples` are distinct answers with their counts (`fp2.artifacts.examples`); `extra` is what the passport says
    beyond the results (`decoding`, `preprocessing`, `seeds`).
    """
    from fp2.report.dashboard import write_dashboard
    from fp2.report.figures import write_figures
    from fp2.report.keys import load_or_create_key
    from fp2.report.passport import write_passport

    with progress.steps("Writing the report", 5 + len(results["cuts"])) as step:
        artifacts.write_results(folder, results)
        step()
        if config.report.figures:
            write_figures(results, folder / artifacts.FIGURES, step)
        if config.report.dashboard:
            write_dashboard(
                results,
                examples,
                _leaderboard(config, results),
                folder / artifacts.DASHBOARD,
                config.report.suppress_below,
                folder / artifacts.FIGURES,
            )
        step()
        key, created = load_or_create_key(Path(config.paths.keys))
        write_passport(folder, results, artifacts.files_of(folder), extra, key)
        step()
    if created:
        progress.note(f"Made a signing key, readable by its owner only: {key.private_path}")


def _leaderboard(config: Config, results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the summaries of this run and of the finished ones in the store."""
    from fp2.report.leaderboard import summarise

    own = summarise(results)
    if not config.tracking.enabled or not own:
        return own
    from fp2.tracking import summaries

    same = {tag: results[tag] for tag in ("config_hash", "response_set", "dataset_digest")}
    return own + summaries(config, without=same)


def log(config: Config, tracker: Tracker | None, folder: Path, results: dict[str, Any]) -> None:
    """Log the run's files, numbers and tags, and end it."""
    if tracker is None:
        return
    from fp2 import tracking
    from fp2.hashing import sha256_file
    from fp2.report.leaderboard import summarise

    passport = folder / "passport.json"
    with tracking.told_plainly(tracking.tracking_uri(config)):
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
