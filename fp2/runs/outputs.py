"""What every run writes and logs: config, tables, results, figures, dashboard, passport, and its MLflow run."""

from __future__ import annotations

import json
import tempfile
import traceback
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.config import Config
from fp2.errors import EXIT_NOT_LOGGED, EXIT_UNSOUND, Fp2Error
from fp2.progress import Progress
from fp2.runs.local_paths import remember
from fp2.text import printable

if TYPE_CHECKING:
    from fp2.ask.answers import RunTables
    from fp2.protocols.base import EvaluationProtocol
    from fp2.report.section import Section
    from fp2.results import Method
    from fp2.tracking.client import Tracker


def code_tags(code: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags that name the code of a run, from the generator that its passport states."""
    dirty = code.get("dirty")
    found = {
        **{key: code.get(key) for key in ("version", "git_commit")},
        "dirty": None if dirty is None else str(dirty).lower(),
    }
    return {key: str(value) for key, value in found.items() if value is not None}


def fresh_folder(outputs: Path) -> Path:
    """Create an output folder that no other process uses, readable by its owner only: it has rows about people."""
    now = datetime.now()
    day = outputs.expanduser().resolve() / now.strftime("%Y-%m-%d")
    try:
        day.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{now.strftime('%H-%M-%S')}-", dir=day))
    except OSError as error:
        raise Fp2Error(f"cannot make an output folder: {error.strerror}", where=str(error.filename or day)) from error
    return folder


@dataclass(frozen=True)
class RunOutcome:
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
    told : sequence of str
        Limitations that the terminal showed before anything was asked.
    """

    results: dict[str, Any]
    folder: Path
    run_id: str
    experiment_id: str | None
    exit_status: int
    message: str | None
    sections: Sequence[Section] = ()
    methods: Sequence[Method] = ()
    told: Sequence[str] = ()


@dataclass
class Record:
    """The record of a run in MLflow. A store that fails costs the record, never the run or an answer.

    Attributes
    ----------
    run_id : str
        The run's id in its results: that of the MLflow run, if it could be started in time.
    tags, name
        The run's digests, and its name in the UI.
    tracker : Tracker or None
        The MLflow run; None where tracking is switched off or has failed so far.
    fault : Fp2Error or None
        Why the run is not logged.
    streams : bool
        Whether metrics are logged while the run goes on.
    """

    run_id: str
    tags: Mapping[str, Any]
    name: str
    tracker: Tracker | None = None
    fault: Fp2Error | None = None
    streams: bool = True

    def start(self, config: Config, *, waiting: bool = False) -> None:
        """Start the MLflow run, or keep the reason why it cannot be started; `waiting`: answers wait for it.

        Raises
        ------
        ForeignArtifactsError
            If the project was copied: the user decides where its artifacts go before anything is asked.
        """
        from fp2.report.passport import generator
        from fp2.tracking import client

        try:
            tags = {"sweep_id": config.tracking.sweep_id, **code_tags(generator()), **self.tags}
            self.tracker = client.start(config, tags, self.name, waiting=waiting)
        except client.ForeignArtifactsError:
            raise
        except Fp2Error as error:
            self.fault = error

    @property
    def logged(self) -> bool:
        """Whether the run is logged in MLflow."""
        return self.tracker is not None and self.fault is None

    def stream(self, metrics: Mapping[str, float], step: int) -> None:
        """Log metrics while the run goes on; the first failure ends that, and only that."""
        if self.tracker is not None and self.streams:
            try:
                self.tracker.stream(metrics, step)
            except Exception:
                self.streams = False

    def earlier_looks(self) -> dict[str, int]:
        """Return how often the answers were analysed before (key `earlier_looks`); nothing where that is unknown."""
        from fp2.tracking.client import as_user_error

        if self.tracker is None or self.tags["response_set"] is None:
            return {}
        with suppress(Fp2Error), as_user_error(self.name):  # what fails here fails, and is said, when the run is logged
            return {"earlier_looks": self.tracker.earlier_looks(self.tags["response_set"], self.tags["config_hash"])}
        return {}

    def outcome(
        self, results: dict[str, Any], folder: Path, ended: tuple[int, str | None], sections: Sequence[Section],
        methods: Sequence[Method], failed: Sequence[str],
    ) -> RunOutcome:  # fmt: skip
        """Return the outcome of the finished run.

        Parameters
        ----------
        ended : (int, str or None)
            The exit status of a run that ended early, and the line that says why; 0 and None of any other.
        failed : sequence of str
            A line per failed check (`fp2.runs.checks`).
        """
        status, said = ended
        messages = [said] if said else []
        run_id, experiment = (self.run_id, None) if self.tracker is None else self.tracker.ids
        if self.fault is not None:
            run_id, experiment, status = self.run_id, None, status or EXIT_NOT_LOGGED
            messages.append(f"the results are written, but not logged: {self.fault.what}. Log them: fp2 log {folder}")
        if failed:
            status = EXIT_UNSOUND
            messages.append(f"the run is written, and failed {len(failed)} check(s): {' | '.join(failed)}")
        return RunOutcome(results, folder, run_id, experiment, status, "; ".join(messages) or None, sections, methods)


def name_with(name: str, settings: Sequence[str]) -> str:
    """Return a run's name in the UI with the settings by which it differs in its sweep first: legends cut the end."""
    said = name.split(" · ")
    own = [(key, value.strip("'")) for key, _, value in (word.lstrip("+~").partition("=") for word in settings)]
    first = [value if value in said else f"{key}={value}" for key, value in own]
    return " · ".join([*first, *(part for part in said if part not in first)])


@contextmanager
def tracked(
    config: Config, folder: Path, tags: Mapping[str, Any], name: str, progress: Progress
) -> Iterator[Record]:  # fmt: skip
    """Log the run from here on; an exception ends it as FAILED, with the traceback among its local files.

    `tags` hold the run's digests, `name` is its name in the UI. A store that cannot be used is noted; the run goes on.
    """
    record = Record(uuid.uuid4().hex, tags, name)
    if config.tracking.enabled:
        record.start(config, waiting=True)
    if record.tracker is not None:
        record.run_id = record.tracker.run_id
        if record.tracker.note:
            progress.note(record.tracker.note)
    if record.fault is not None:
        progress.note(f"{record.fault.what}; the run continues, and logging is tried again at its end")
    try:
        yield record
    except BaseException as error:
        if record.tracker is not None:
            with suppress(Exception):  # report what ended the run, not what its record then lacks
                record.tracker.tag({"error": printable(error, 500) or type(error).__name__})
                record.tracker.finish("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
        if not isinstance(error, (Fp2Error, KeyboardInterrupt)):
            with suppress(OSError):
                (folder / "traceback.txt").write_text(traceback.format_exc(), encoding="utf-8")
        raise


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
    from fp2.report.keys import load_or_create_key
    from fp2.report.passport import generator, write_passport
    from fp2.report.reproduce import how_to_repeat
    from fp2.report.section import write_figures

    with (
        artifacts.as_user_error(folder),
        progress.steps("Writing the report", 5 + len(results["cuts"])) as step,
    ):
        tables.write(folder)
        sample = write_rows(config, folder, tables, results)
        artifacts.write_results(folder, results)
        step()
        key, created = load_or_create_key(Path(config.paths.keys))
        if config.report.figures:
            write_figures(results, folder / artifacts.FIGURES, sections, step, config.report.suppress_below)
        if config.report.dashboard:
            write_dashboard(
                results,
                tables.answers.examples(config.report.examples_per_probe),
                _leaderboard(config, results),
                folder / artifacts.DASHBOARD,
                config.report.suppress_below,
                sections,
                sample,
                key.keyid,
                how_to_repeat(folder, results, generator()),
            )
        step()
        write_passport(folder, results, artifacts.files_of(folder), extra, key, config.report.suppress_below)
        step()
    if created:
        progress.note(f"Created a signing key, readable by its owner only: {key.private_path}")


def finish(
    config: Config, record: Record, folder: Path, places: Mapping[str, Any], protocol: EvaluationProtocol[Any],
    tables: RunTables, results: dict[str, Any], extra: Mapping[str, Any], progress: Progress,
    *, interrupted: bool = False,
) -> Sequence[Section]:  # fmt: skip
    """Write and log a finished run; return its report sections.

    Parameters
    ----------
    places : mapping
        Where this machine has the run's inputs (`fp2.runs.local_paths.write_config`).
    tables : RunTables
        As they leave: salted keys, and the attributes that the run used.
    extra : mapping
        What the passport says beyond the results.
    """
    from fp2.report.section import load_sections

    remember(Path(config.paths.state), record.run_id, places)
    sections = load_sections(protocol.section_targets(results))
    write_run(config, folder, tables, results, sections, extra, progress)
    progress.stage("Logging the run")
    log_run(config, record, folder, results, interrupted=interrupted)
    return sections


def write_rows(
    config: Config, folder: Path, tables: RunTables, results: Mapping[str, Any]
) -> Sequence[Mapping[str, Any]]:
    """Write the disparities and a sample of answers as the tables that MLflow shows; return the sample.

    The disparities of scored answers are written as Parquet too.
    """
    from fp2.cuts import resolve_cuts
    from fp2.report.samples import sample_answers
    from fp2.tables import attribute_columns

    report, scorer = config.report, str(results["analysis"].get("primary", ""))
    cuts = resolve_cuts(asdict(config.cut), attribute_columns(tables.people))
    sample = sample_answers(tables, cuts, scorer, report.sample_per_group, report.suppress_below)
    artifacts.write_sample(folder, sample, scorer)
    if tables.scores is None:
        artifacts.write_table(folder, list(results["disparities"]))
    else:
        artifacts.write_disparities(folder, list(results["disparities"]))
    return sample


def _leaderboard(config: Config, results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the summaries of this run and of the finished ones in the MLflow store."""
    from fp2.report.leaderboard import summarise

    own = summarise(results)
    if not config.tracking.enabled or not own:
        return own
    from fp2.tracking.client import summaries

    same = {tag: results[tag] for tag in ("config_hash", "response_set", "dataset_digest")}
    try:
        return own + summaries(config, without=same)
    except Fp2Error:  # `tracked` has noted it; the leaderboard has this run only
        return own


def log_run(
    config: Config, record: Record, folder: Path, results: dict[str, Any], *, interrupted: bool = False
) -> None:
    """Log the run's files, numbers and tags, and end its MLflow run; `record.fault` says why that failed.

    A store that could not be used when the run started is tried once more.
    """
    if not config.tracking.enabled:
        return
    if record.tracker is None:
        record.tags = {**record.tags, "response_set": results["response_set"], "run_id": record.run_id}
        record.fault = None
        record.start(config)
    if record.tracker is None:
        return
    try:
        log_files(config, record.tracker, folder, results, interrupted=interrupted)
    except Fp2Error as error:
        record.fault = error
        with suppress(Exception):
            record.tracker.tag({"error": printable(error, 500)})
            record.tracker.finish("FAILED")


def log_files(
    config: Config, tracker: Tracker, folder: Path, results: dict[str, Any], *, interrupted: bool = False
) -> None:
    """Log files, numbers and tags, and end the MLflow run: KILLED if interrupted, FAILED if incomplete."""
    from fp2.hashing import sha256_file
    from fp2.report.leaderboard import summarise
    from fp2.report.reading import calibration_of, calibration_words
    from fp2.tracking import client

    passport = folder / artifacts.PASSPORT
    with client.as_user_error(client.tracking_uri(config)):
        tracker.log({**artifacts.files_of(folder), passport.name: passport}, results)
        client.describe(config, tracker, results)
        tracker.tag(
            {
                "response_set": results["response_set"],
                "complete": str(results["complete"]).lower(),
                "severity": results["severity"],
                **({"answers": "supplied, not asked here"} if "supplied" in results["model"] else {}),
                **({"calibration": said} if (said := calibration_words([calibration_of(results)])) else {}),
                "passport_sha256": sha256_file(passport),
                "summary": json.dumps(summarise(results)),
            }
        )
        tracker.finish("KILLED" if interrupted else "FINISHED" if results["complete"] else "FAILED")
