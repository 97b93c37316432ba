"""What every run writes and logs: config, tables, results, figures, dashboard, passport, and its MLflow run."""

from __future__ import annotations

import json
import tempfile
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fp2 import artifacts
from fp2.config import ASK, DEFAULT_PROTOCOL, Config
from fp2.errors import EXIT_NOT_LOGGED, EXIT_UNSOUND, Fp2Error
from fp2.plugins import PASSPORT, load, read_installed
from fp2.progress import Progress
from fp2.runs.folders import record_folder
from fp2.store.withdrawn import redacting
from fp2.tables import ORIGINAL
from fp2.text import plural, printable

if TYPE_CHECKING:
    from fp2.ask.answers import RunTables
    from fp2.cuts import Cut
    from fp2.protocols.base import Protocol
    from fp2.report.section import Section
    from fp2.results import Block, Method, Results, Summary
    from fp2.tracking.client import Tracker


def code_tags(code: Block) -> dict[str, str]:
    """Return the tags that name the code of a run, from the generator that its passport states."""
    dirty = code.get("dirty")
    summary = {
        **{key: code.get(key) for key in ("version", "git_commit")},
        "dirty": None if dirty is None else str(dirty).lower(),
    }
    return {key: str(value) for key, value in summary.items() if value is not None}


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

    results: Results
    folder: Path
    run_id: str
    experiment_id: str | None
    exit_status: int
    message: str | None
    sections: Sequence[Section] = ()
    methods: Sequence[Method] = ()
    told: Sequence[str] = ()

    def checked(self, failures: Sequence[str]) -> RunOutcome:
        """Return the outcome after its checks (`fp2.runs.checks`), with a line per failed one."""
        message = f"the run is written, and failed {plural(len(failures), 'check')}: {' | '.join(failures)}"
        return self.ending(EXIT_UNSOUND, message) if failures else self

    def ending(self, exit_status: int, message: str) -> RunOutcome:
        """Return the outcome with another exit status, and a further line that says why."""
        message_now = message if self.message is None else f"{self.message}; {message}"
        return replace(self, exit_status=exit_status, message=message_now)


@dataclass
class Record:
    """The folder of a run, and its record in MLflow. A store that fails costs the record, never the run or an answer.

    Attributes
    ----------
    config : Config
    folder : Path
        Where its files are written.
    progress : Progress
    tags, name
        The run's digests, and its name in the UI.
    run_id : str
        The run's id in its results: that of the MLflow run, if it could be started in time.
    tracker : Tracker or None
        The MLflow run; None where tracking is switched off or has failed so far.
    fault : Fp2Error or None
        Why the run is not logged.
    streams : bool
        Whether metrics are logged while the run goes on.
    """

    config: Config
    folder: Path
    progress: Progress
    tags: Mapping[str, str | None]
    name: str
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    tracker: Tracker | None = None
    fault: Fp2Error | None = None
    streams: bool = True

    def start(self, *, waiting: bool = False) -> None:
        """Start the MLflow run, or keep the reason why it cannot be started; `waiting`: answers wait for it.

        Raises
        ------
        ForeignArtifactsError
            If the project was copied: the user decides where its artifacts go before anything is asked.
        """
        from fp2.report.passport import generator
        from fp2.tracking import client

        try:
            tags = {"sweep_id": self.config.tracking.sweep_id, **code_tags(generator()), **self.tags}
            self.tracker = client.start_run(self.config, tags, self.name, waiting=waiting)
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

        response_set, config_hash = self.tags["response_set"], self.tags["config_hash"]
        if self.tracker is None or response_set is None or config_hash is None:
            return {}
        with suppress(Fp2Error), as_user_error(self.name):  # what fails here fails, and is said, when the run is logged
            return {"earlier_looks": self.tracker.earlier_looks(response_set, config_hash)}
        return {}

    def finish(
        self,
        protocol: Protocol,
        tables: RunTables,
        results: Results,
        extra: Block,
        *,
        ended: tuple[int, str | None] = (0, None),
        interrupted: bool = False,
    ) -> RunOutcome:
        """Write and log the finished run; a store that could not be used when it started is tried once more.

        Parameters
        ----------
        tables : RunTables
            As they leave: salted keys, and the attributes that the run used.
        extra : mapping
            What the passport says beyond the results.
        ended : (int, str or None)
            The exit status of a run that ended early, and the line that says why; 0 and None of any other.
        """
        from fp2.report.section import load_sections

        sections = load_sections(protocol.section_targets(results))
        write_run(self.config, self.folder, tables, results, sections, extra, self.progress)
        self.progress.stage("Logging the run")
        if self.config.tracking.enabled:
            if self.tracker is None:
                self.tags = {**self.tags, "response_set": results["response_set"], "run_id": self.run_id}
                self.fault = None
                self.start()
            if self.tracker is not None:
                try:
                    log_files(self.config, self.tracker, self.folder, results, sections, interrupted=interrupted)
                except Fp2Error as error:
                    self.fault = error
                    self.fail(error, "FAILED")
        run_id, experiment = (self.run_id, None) if self.tracker is None else self.tracker.ids
        outcome = RunOutcome(results, self.folder, run_id, experiment, *ended, sections, protocol.all_methods())
        if self.fault is None:
            return outcome
        problem = f"the results are written, but not logged: {self.fault.what}. Log them: fp2 log {self.folder}"
        outcome = replace(outcome, run_id=self.run_id, experiment_id=None)
        return outcome.ending(outcome.exit_status or EXIT_NOT_LOGGED, problem)

    def fail(self, error: BaseException, status: str) -> None:
        """End the MLflow run, if there is one, with the error as a tag; what its record then lacks is not reported."""
        if self.tracker is not None:
            with suppress(Exception), redacting(Path(self.config.paths.state)) as redact:
                self.tracker.tag({"error": printable(redact(str(error)), 500) or type(error).__name__})
                self.tracker.finish(status)


def run_name(config: Config, cuts: Sequence[Cut]) -> str:
    """Return the name of a run in the MLflow UI: model, cuts and image variant; task and data of a task.

    A battery of another protocol than the default is named too, and so is the model that a task is about.
    """
    if config.task.name != ASK:
        model = config.task.options.get("model")
        return " · ".join([*([str(model)] if model else []), config.task.name, config.data.name])
    battery = [] if config.probe.protocol == DEFAULT_PROTOCOL else [config.probe.name]
    variant = [] if config.variant.kind == ORIGINAL else [config.variant.name]
    return " · ".join([config.model.name, *battery, "+".join(cut.name for cut in cuts), *variant])


def name_with(name: str, settings: Sequence[str]) -> str:
    """Return a run's name in the UI with the settings by which it differs in its sweep first: legends cut the end."""
    name_parts = name.split(" · ")
    pairs = [(key, value.strip("'")) for key, _, value in (word.lstrip("+~").partition("=") for word in settings)]
    first = [value if value in name_parts else f"{key}={value}" for key, value in pairs]
    return " · ".join([*first, *(piece for piece in name_parts if piece not in first)])


@contextmanager
def tracked(
    config: Config, folder: Path, tags: Mapping[str, str | None], name: str, progress: Progress
) -> Iterator[Record]:
    """Log the run from here on; an exception ends it as FAILED, with the traceback among its local files.

    `tags` hold the run's digests, `name` is its name in the UI. A store that cannot be used is noted; the run goes on.
    """
    record = Record(config, folder, progress, tags, name)
    if config.tracking.enabled:
        record.start(waiting=True)
    if record.tracker is not None:
        record.run_id = record.tracker.run_id
        if record.tracker.note:
            progress.note(record.tracker.note)
    if record.fault is not None:
        progress.note(f"{record.fault.what}; the run continues, and logging is tried again at its end")
    record_folder(Path(config.paths.state), record.run_id, folder)
    try:
        yield record
    except BaseException as error:
        record.fail(error, "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
        if not isinstance(error, (Fp2Error, KeyboardInterrupt)):
            with suppress(OSError, Fp2Error), redacting(Path(config.paths.state)) as redact:
                (folder / "traceback.txt").write_text(redact(traceback.format_exc()), encoding="utf-8")
        raise


def write_run(
    config: Config,
    folder: Path,
    tables: RunTables,
    results: Results,
    sections: Sequence[Section],
    extra: Block,
    progress: Progress,
) -> None:
    """Write tables (ids are salted keys already), results, figures and dashboard, and sign everything in `folder`.

    Parameters
    ----------
    sections : sequence of Section
        The report sections of the run's protocol.
    extra : mapping
        What the passport says beyond the results (`decoding`, `preprocessing`, `seeds`).
    """
    from fp2.report.dashboard import write_dashboard
    from fp2.report.keys import load_or_create_key
    from fp2.report.passport import generator, write_passport
    from fp2.report.reproduce import how_to_repeat
    from fp2.report.section import write_figures
    from fp2.runs.pictures import shown_picture

    with artifacts.as_user_error(folder), progress.steps("Writing the report", 5 + len(results["cuts"])) as step:
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
                shown_picture(config),
            )
        step()
        parts = [state(config, tables, results) for state in read_installed(PASSPORT, _installed_statement).values()]
        extra = {**extra, "parts": {name: value for part in parts for name, value in part.items()}}
        write_passport(folder, results, artifacts.files_of(folder), extra, key, config.report.suppress_below)
        step()
    if created:
        progress.note(f"Created a signing key, readable by its owner only: {key.private_path}")


def _installed_statement(name: str) -> Callable[[Config, RunTables, Results], Block]:
    return cast("Callable[[Config, RunTables, Results], Block]", load(PASSPORT, name, "passport"))


def write_rows(config: Config, folder: Path, tables: RunTables, results: Results) -> Sequence[artifacts.SampledAnswer]:
    """Write the disparities and a sample of answers as the tables that MLflow shows; return the sample.

    The disparities of scored answers are written as Parquet too.
    """
    artifacts.write_disparities(folder, list(results["disparities"]), parquet=tables.scores is not None)
    report, scorer = config.report, str(results["analysis"].get("primary", ""))
    if not report.sample_per_group:
        return []
    from fp2.cuts import resolve_cuts
    from fp2.report.samples import sample_answers
    from fp2.tables import attribute_columns

    cuts = resolve_cuts(asdict(config.cut), attribute_columns(tables.people))
    sample = sample_answers(tables, cuts, scorer, report.sample_per_group, report.suppress_below)
    artifacts.write_sample(folder, sample, scorer)
    return sample


def _leaderboard(config: Config, results: Results) -> list[Summary]:
    """Return the summaries of this run and of the finished ones in the MLflow store."""
    from fp2.report.leaderboard import summarise

    rows = summarise(results)
    if not config.tracking.enabled or not rows:
        return rows
    from fp2.tracking.client import summaries

    same = {tag: results[tag] for tag in ("config_hash", "response_set", "dataset_digest")}
    try:
        return rows + [row for row in summaries(config, without=same) if row["run_id"] != results["run_id"]]
    except Fp2Error:  # `tracked` has noted it; the leaderboard has this run only
        return rows


def result_tags(results: Results, folder: Path, sections: Sequence[Section]) -> dict[str, Any]:
    """Return the tags that follow from the results of a run; `sections` are those of its protocol."""
    from fp2.hashing import sha256_file
    from fp2.report.leaderboard import summarise
    from fp2.report.reading import calibration_of, calibration_words
    from fp2.report.summary import description

    return {
        **{name: results[name] for name in ("response_set", "dataset_digest")},
        "complete": str(results["complete"]).lower(),
        "severity": results["severity"],
        **({"answers": "supplied, not asked here"} if "supplied" in results["model"] else {}),
        **({"calibration": calibration} if (calibration := calibration_words([calibration_of(results)])) else {}),
        "passport_sha256": sha256_file(folder / artifacts.PASSPORT),
        "summary": json.dumps(summarise(results)),
        "description": description(results, sections),
    }


def log_files(
    config: Config,
    tracker: Tracker,
    folder: Path,
    results: Results,
    sections: Sequence[Section],
    *,
    interrupted: bool = False,
) -> None:
    """Log files, numbers and tags, and end the MLflow run: KILLED if interrupted, FAILED if incomplete."""
    from fp2.tracking import client

    passport = folder / artifacts.PASSPORT
    with client.as_user_error(client.tracking_uri(config)):
        tracker.log({**artifacts.files_of(folder), passport.name: passport}, results)
        client.describe(config, tracker, results)
        tracker.tag(result_tags(results, folder, sections))
        tracker.finish("KILLED" if interrupted else "FINISHED" if results["complete"] else "FAILED")
