"""What every run writes and logs: config, tables, results, figures, dashboard, passport, and its MLflow run."""

from __future__ import annotations

import json
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.progress import Progress

if TYPE_CHECKING:
    from fp2.ask.answers import RunTables
    from fp2.report.section import Section
    from fp2.results import Method
    from fp2.tracking.client import Tracker


def fresh_folder(outputs: Path) -> Path:
    """Create an output folder that no other process uses."""
    now = datetime.now()
    day = outputs.expanduser().resolve() / now.strftime("%Y-%m-%d")
    try:
        day.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{now.strftime('%H-%M-%S')}-", dir=day))
        folder.chmod(0o755)
    except OSError as error:
        raise Fp2Error(f"cannot make an output folder: {error.strerror}", where=str(error.filename or day)) from error
    return folder


@dataclass(frozen=True)
class Outcome:
    """A finished run.

    Attributes
    ----------
    results : dict
        What `results.json` holds.
    folder : Path
        Where its files are.
    run_id, experiment_id : str
        Where it was logged; without tracking the experiment is None.
    exit_status : int
        0, or why it ended early (`fp2.errors`).
    message : str or None
        The line that says so.
    sections : sequence of Section
        The report sections of its protocol.
    methods : sequence of Method
        The methods of its protocol.
    """

    results: dict[str, Any]
    folder: Path
    run_id: str
    experiment_id: str | None
    exit_status: int
    message: str | None
    sections: Sequence[Section] = ()
    methods: Sequence[Method] = ()


@contextmanager
def tracked(config: Config, folder: Path, tags: Mapping[str, Any], name: str) -> Iterator[Tracker | None]:
    """Log the run from here on; an exception ends it as FAILED, with the traceback among its local files.

    Yields None where tracking is switched off. `tags` hold the run's digests, `name` is its name in the UI.
    """
    if not config.tracking.enabled:
        yield None
        return
    from fp2.tracking import client

    tracker = client.start(config, {"sweep_id": config.tracking.sweep_id, **tags}, name)
    try:
        yield tracker
    except BaseException as error:
        with suppress(Exception):  # report what ended the run, not what its record then lacks
            tracker.tag({"error": str(error)[:500] or type(error).__name__})
            tracker.finish("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
        if not isinstance(error, (Fp2Error, KeyboardInterrupt)):
            with suppress(OSError):
                (folder / "traceback.txt").write_text(traceback.format_exc(), encoding="utf-8")
        raise


def earlier_looks(config: Config, tags: Mapping[str, Any]) -> dict[str, int]:
    """Return how often the answers were analysed before (key `earlier_looks`); nothing without a MLflow store.

    `tags` hold the `response_set` and `config_hash` of the run, which is not in the store yet.
    """
    if not config.tracking.enabled or tags["response_set"] is None:
        return {}
    from fp2.tracking import client

    return {"earlier_looks": client.earlier_looks(config, tags)}


def write_run(
    config: Config, folder: Path, tables: RunTables, results: dict[str, Any], sections: Sequence[Section],
    extra: Mapping[str, Any], progress: Progress,
) -> None:  # fmt: skip
    """Write tables (ids are salted keys already), results, figures and dashboard, and sign everything in `folder`.

    Parameters
    ----------
    sections : sequence of Section
        The report sections of the run's protocol.
    extra : mapping
        What the passport says beyond the results (`decoding`, `preprocessing`, `seeds`).

    Raises
    ------
    Fp2Error
        If something cannot be written.
    """
    from fp2.report.dashboard import write_dashboard
    from fp2.report.figures import write_figures
    from fp2.report.keys import load_or_create_key
    from fp2.report.passport import write_passport

    with (
        artifacts.as_user_error(folder),
        progress.steps("Writing the report", 5 + len(results["cuts"])) as step,
    ):
        tables.write(folder)
        write_rows(folder, tables, results)
        artifacts.write_results(folder, results)
        step()
        if config.report.figures:
            write_figures(results, folder / artifacts.FIGURES, sections, step, config.report.suppress_below)
        if config.report.dashboard:
            write_dashboard(
                results,
                tables.answers.examples(config.report.examples_per_probe),
                _leaderboard(config, results),
                folder / artifacts.DASHBOARD,
                config.report.suppress_below,
                folder / artifacts.FIGURES,
                sections,
            )
        step()
        key, created = load_or_create_key(Path(config.paths.keys))
        write_passport(folder, results, artifacts.files_of(folder), extra, key)
        step()
    if created:
        progress.note(f"Created a signing key, readable by its owner only: {key.private_path}")


def write_rows(folder: Path, tables: RunTables, results: Mapping[str, Any]) -> None:
    """Write the disparities: as Parquet where answers have scores, and as the table that MLflow shows."""
    if tables.scores is None:
        artifacts.write_table(folder, list(results["disparities"]))
    else:
        artifacts.write_disparities(folder, list(results["disparities"]))


def _leaderboard(config: Config, results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the summaries of this run and of the finished ones in the MLflow store."""
    from fp2.report.leaderboard import summarise

    own = summarise(results)
    if not config.tracking.enabled or not own:
        return own
    from fp2.tracking.client import summaries

    same = {tag: results[tag] for tag in ("config_hash", "response_set", "dataset_digest")}
    return own + summaries(config, without=same)


def log_run(
    config: Config, tracker: Tracker | None, folder: Path, results: dict[str, Any], *, interrupted: bool = False
) -> None:
    """Log the run's files, numbers and tags, and end its MLflow run: KILLED if interrupted, FAILED if incomplete."""
    if tracker is None:
        return
    from fp2.hashing import sha256_file
    from fp2.report.leaderboard import summarise
    from fp2.tracking import client

    passport = folder / artifacts.PASSPORT
    with client.as_user_error(client.tracking_uri(config)):
        tracker.log({**artifacts.files_of(folder), passport.name: passport}, results, artifacts.TABLE)
        tracker.tag(
            {
                "response_set": results["response_set"],
                "complete": str(results["complete"]).lower(),
                "severity": results["severity"],
                "passport_sha256": sha256_file(passport),
                "summary": json.dumps(summarise(results)),
            }
        )
        tracker.finish("KILLED" if interrupted else "FINISHED" if results["complete"] else "FAILED")
