"""Logging to MLflow: one flat run per evaluation, on a SQLite store that several processes may create at once.

Only this package knows MLflow. Runs are flat and grouped by tags, because the UI hides the metrics of nested runs. The
store is `mlruns/mlflow.db` with its artifacts in `mlruns/artifacts/<experiment>`; both are always given explicitly.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fp2.artifacts import UI_TABLES
from fp2.config import SWEEP_ID, Config
from fp2.errors import Fp2Error, nearest
from fp2.results import Summary
from fp2.stats.rows import METRIC, PRIMARY_METRIC, columns_read_by
from fp2.text import printable
from fp2.tracking.database import init_lock, is_half_made, prepare_database, server_lock
from fp2.tracking.liveness import Alive, dead_runs
from fp2.tracking.metadata import KIND, KIND_TAG, log_dataset, log_model, origin_tags
from fp2.verdicts import Verdict

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

SERVERS = ("http://", "https://")
"""How the address of an MLflow server begins."""
PREFIX = "fp2."
CODE_TAGS = tuple(f"{PREFIX}{key}" for key in ("version", "git_commit", "dirty"))
"""What identifies the code of a run."""
TABLES_TAG = "mlflow.loggedArtifacts"  # marks a table for the UI and for `mlflow.load_table`
NOTE, DESCRIPTION = "mlflow.note.content", f"{PREFIX}description"
"""The description of a run that the UI shows, and the one that we wrote."""
FREE_TEXT = (f"{PREFIX}error", NOTE, DESCRIPTION, "mlflow.runName")
"""Our tags that hold free text; every other tag of ours and of MLflow has a meaning to a program."""
METRICS_AT_ONCE = 1000
_SQLITE = "sqlite:///"
FIRST = "summary/"
"""The charts of the UI are in sections by what precedes the slash, before those of metrics without one.

Titles of charts show about 20 characters: disparities are named by their probes."""
_HEADLINE = re.compile(r"composite|magnitude|n_biased|n_tested|refusal_rate|disparity\..*")
_SHARED = re.compile(r"composite|magnitude|n_biased|n_tested|refusal_rate|(disparity|gap)\..*")
"""The metrics that have the same names in every run; they are shown for the model too."""


def tracking_uri(config: Config) -> str:
    """Return the configured store, or the SQLite file below `paths.mlruns`."""
    return config.tracking.uri or f"{_SQLITE}{Path(config.paths.mlruns).resolve() / 'mlflow.db'}"


def database_file(uri: str) -> Path | None:
    """Return the file of a SQLite store, None for any other store."""
    return Path(uri.removeprefix(_SQLITE)) if uri.startswith(_SQLITE) else None


def shown_uri(uri: str) -> str:
    """Return the address of a store without the user and password in it."""
    return re.sub(r"^([\w+.-]+://)[^/]*@", r"\1", uri)


_STORES = ("databricks", "http", "https", "mssql", "mysql", "postgresql", "sqlite")
_DRIVERS = {
    "postgresql": ("psycopg", "'fp2[postgres]'"),
    "postgresql+psycopg": ("psycopg", "'fp2[postgres]'"),
    "postgresql+psycopg2": ("psycopg2", "psycopg2-binary"),
    "s3": ("boto3", "'fp2[s3]'"),
}
"""What a database or a place of files needs: the package, and what installs it."""


def check_store(config: Config) -> None:
    """Raise if MLflow 3 has no such kind of store, or if a package that it or its place of files needs is missing."""
    uri = tracking_uri(config)
    scheme, separator, _ = uri.partition("://")
    kind = scheme.partition("+")[0]
    if kind == "file" or (not separator and kind not in _STORES):
        cure = "mlflow migrate-filestore --source FOLDER --target sqlite:///FILE, then tracking.uri=sqlite:///FILE"
        raise Fp2Error("MLflow no longer takes a folder as a store", where=f"tracking.uri={uri}", fix=cure)
    if kind not in (*_STORES, *entry_points(group="mlflow.tracking_store").names):
        raise Fp2Error(f"MLflow has no store {kind}://", where="tracking.uri", fix=nearest(kind, _STORES))
    for place in (scheme, (config.tracking.artifacts or "").partition(":")[0]):
        package, cure = _DRIVERS.get(place, ("", ""))
        if package and importlib.util.find_spec(package) is None:
            raise Fp2Error(f"{place} needs {package}", where="tracking", fix=f"pip install {cure}")


def is_free_text(tag: str) -> bool:
    """Whether a tag holds free text, which may name a person: an error, a description, a name, and any tag of users."""
    return tag in FREE_TEXT or not tag.startswith((PREFIX, "mlflow."))


def slug(name: str) -> str:
    """Return `name` with only the characters that MLflow allows in the name of a metric."""
    return re.sub(r"[^\w\-. /]+", "_", name)


def _mlflow() -> ModuleType:
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")  # a bar per file; ours count runs
    # A server that does not answer must not hold up a run for hours, which is MLflow's own default.
    for name, value in _PATIENT.items():
        os.environ.setdefault(name, value)
    # A run id in the environment would make every evaluation write into one run.
    os.environ.pop("MLFLOW_RUN_ID", None)
    import logging

    import mlflow

    for name in ("mlflow", "alembic", "mlflow.store.db.utils"):  # set after the import, which sets its own
        logging.getLogger(name).setLevel(logging.ERROR)
    return mlflow


_PATIENT = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "30", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
_HASTY = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "5", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}


@contextmanager
def _hasty() -> Iterator[None]:
    """Give a server five seconds for each request, and no second try, while answers wait; the user's limits stay.

    What fails so is logged when the run ends, with more patience.
    """
    own_variables = {name: value for name, value in _HASTY.items() if os.environ.get(name) == _PATIENT[name]}
    os.environ.update(own_variables)
    try:
        yield
    finally:
        os.environ.update({name: _PATIENT[name] for name in own_variables})


class ForeignArtifactsError(Fp2Error):
    """The store sends artifacts to the folder of another project: nothing may be logged into it."""


@dataclass
class Tracker:
    """An active MLflow run; `note` is a line for the user about its store, empty where there is none."""

    client: MlflowClient
    run_id: str
    experiment_id: str
    note: str = ""
    alive: Alive | None = None

    @property
    def ids(self) -> tuple[str, str]:
        """The ids of the run and of its experiment."""
        return self.run_id, self.experiment_id

    def log(self, files: Mapping[str, Path], results: Mapping[str, Any]) -> None:
        """Log metrics and `files` (name -> path)."""
        from mlflow.entities import Metric

        stamp = int(time.time() * 1000)
        metrics = [Metric(name, value, stamp, 0) for name, value in metrics_of(results).items()]
        for first in range(0, len(metrics), METRICS_AT_ONCE):
            self.client.log_batch(self.run_id, metrics=metrics[first : first + METRICS_AT_ONCE])
        for name, path in files.items():
            folder = name.rpartition("/")[0]
            self.client.log_artifact(self.run_id, str(path), folder or None)
        tables_shown = [{"path": name, "type": "table"} for name in UI_TABLES if name in files]
        self.client.set_tag(self.run_id, TABLES_TAG, json.dumps(tables_shown))

    def stream(self, metrics: Mapping[str, float], step: int) -> None:
        """Log metrics at a step while the run goes on."""
        from mlflow.entities import Metric

        stamp = int(time.time() * 1000)
        rows = [Metric(slug(name), value, stamp, step) for name, value in metrics.items()]
        with _hasty():
            self.client.log_batch(self.run_id, rows)

    def earlier_looks(self, response_set: str, config_hash: str) -> int:
        """Return how many finished runs of the experiment analysed the same answers with another config."""
        query = f"attributes.status = 'FINISHED' and tags.`{PREFIX}response_set` = '{response_set}'"
        with _hasty():
            runs = self.client.search_runs([self.experiment_id], query, max_results=1000)
        return len({run.data.tags.get(f"{PREFIX}config_hash") for run in runs} - {config_hash})

    def tag(self, tags: Mapping[str, object]) -> None:
        """Set tags; a `description` is what the UI shows of the run, unless a user wrote another one."""
        if "description" in tags:
            before = self.client.get_run(self.run_id).data.tags
            if before.get(NOTE) in (None, before.get(DESCRIPTION)):
                self.client.set_tag(self.run_id, NOTE, printable(tags["description"], None))
        for key, value in tags.items():
            self.client.set_tag(self.run_id, PREFIX + key, printable(value, None))

    def finish(self, status: str) -> None:
        """End the run: FINISHED, FAILED or KILLED."""
        self.client.set_terminated(self.run_id, status=status)
        if self.alive is not None:
            self.alive.release()


def start_run(config: Config, tags: Mapping[str, object], name: str, *, waiting: bool = False) -> Tracker:
    """Start a run; the store is created under a lock if there is none, and repaired if it was left half made.

    `waiting`: answers wait for it, so that a server that does not reply is given up after seconds.
    """
    uri = tracking_uri(config)
    refuse_foreign_artifacts(config)
    mlflow = _mlflow()
    with as_user_error(uri), _hasty() if waiting else nullcontext():
        experiment_id, aside = _experiment(mlflow, config, uri)
        client = mlflow.MlflowClient(tracking_uri=uri)
        end_dead_runs(client, config, uri)
        alive = Alive(Path(config.paths.state))
        origin = origin_tags("fp2", Path(config.paths.root))
        all_tags = {PREFIX + key: printable(value, None) for key, value in tags.items() if value is not None}
        run = client.create_run(experiment_id, run_name=printable(name, 200), tags=origin | all_tags)
        note = f"The MLflow store was incomplete; a new one was created, and the old file is {aside}" if aside else ""
        tracker = Tracker(client, run.info.run_id, experiment_id, note, alive)
        alive.register(tracker.run_id, uri)
        from mlflow.entities import Param

        client.log_batch(tracker.run_id, params=[Param(k, printable(v, 500)) for k, v in params_of(config).items()])
    return tracker


def end_dead_runs(client: MlflowClient, config: Config, uri: str) -> None:
    """End the runs as KILLED whose process is gone."""
    from mlflow.exceptions import MlflowException

    for run_id in dead_runs(Path(config.paths.state), uri):
        with suppress(MlflowException):  # removed since
            if client.get_run(run_id).info.status == "RUNNING":
                client.set_tag(run_id, f"{PREFIX}error", "the process ended without a message")
                client.set_terminated(run_id, status="KILLED")


@contextmanager
def as_user_error(where: str) -> Iterator[None]:
    """Turn errors of MLflow, its database or its artifact folder into one line."""
    from alembic.util.exc import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except ModuleNotFoundError as error:  # the driver of a database, or of where files are kept
        fix = f"pip install 'fp2[{'s3' if error.name == 'boto3' else 'postgres'}]'"
        raise Fp2Error(f"the package {error.name} is missing", where=shown_uri(where), fix=fix) from error
    except (MlflowException, SQLAlchemyError, CommandError, sqlite3.Error, OSError) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        cure = next((cure for sign, cure in _CURES.items() if sign in first), "repair the MLflow store")
        fix = f"All answers are stored; {cure}, or run with tracking=none"
        raise Fp2Error(f"the MLflow store cannot be used: {first}", where=shown_uri(where), fix=fix) from error


_CURES = {  # part of what a server answers -> what to do about it
    "error code 401": "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN",
    "Invalid Host header": "start the server with --allowed-hosts and the host (and port) of tracking.uri",
    "error code 403": "ask the server's owner for permission on its experiments",
}


def _experiment(mlflow: ModuleType, config: Config, uri: str) -> tuple[str, Path | None]:
    """Return the id of the experiment, and where a half-made database was moved, if there was one."""
    name = config.tracking.experiment
    if uri.startswith(SERVERS):  # the server decides where artifacts are
        mlflow.set_tracking_uri(uri)
        experiment = mlflow.set_experiment(name)
        _set_kind(mlflow.MlflowClient(tracking_uri=uri), experiment)
        return str(experiment.experiment_id), None
    path = database_file(uri)
    if path is None:
        with server_lock(uri):
            mlflow.set_tracking_uri(uri)
            return _own_experiment(mlflow.MlflowClient(tracking_uri=uri), config), None
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n!.gitignore\n", encoding="utf-8")
    except OSError as error:
        raise Fp2Error(f"the folder of the MLflow store cannot be used: {error.strerror}", where=str(folder)) from error
    with init_lock(path):
        aside = prepare_database(path)
        mlflow.set_tracking_uri(uri)
        return _own_experiment(mlflow.MlflowClient(tracking_uri=uri), config), aside


def _own_experiment(client: MlflowClient, config: Config) -> str:
    """Return the id of the experiment in a database; its artifacts are below `tracking.artifacts` or the project."""
    name, root = config.tracking.experiment, config.tracking.artifacts
    if not root:
        database = database_file(tracking_uri(config))
        folder = (database.parent if database else Path(config.paths.mlruns).resolve()) / "artifacts"
        # answers are in it, and `mlruns` of a checkout is readable by everybody
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        root = folder.as_uri()
    experiment = client.get_experiment_by_name(name)
    if experiment is not None:
        _set_kind(client, experiment)
        return str(experiment.experiment_id)
    return str(client.create_experiment(name, f"{root.rstrip('/')}/{slug(name)}", tags={KIND_TAG: KIND}))


def _set_kind(client: MlflowClient, experiment: Experiment) -> None:
    """Mark an experiment of an earlier version as one of evaluations; a kind that the user chose stays."""
    if KIND_TAG not in experiment.tags:
        client.set_experiment_tag(experiment.experiment_id, KIND_TAG, KIND)


def describe(config: Config, tracker: Tracker, results: Mapping[str, Any]) -> None:
    """Link a run to its data set and its model, which the runs of an experiment share."""
    uri = tracking_uri(config)
    shared = {key: value for key, value in metrics_of(results).items() if _SHARED.fullmatch(key)}
    database = database_file(uri)
    tags = tracker.client.get_run(tracker.run_id).data.tags
    code = {tag: tags[tag] for tag in CODE_TAGS if tag in tags}
    with init_lock(database) if database else server_lock(uri):
        log_dataset(tracker.client, tracker.run_id, results, code)
        log_model(tracker.client, tracker.experiment_id, tracker.run_id, results, shared)


def params_of(config: Config) -> dict[str, object]:
    """Return the parameters by which runs are compared in the UI: few, short scalars."""
    return {
        "model": config.model.name,
        "engine": config.engine.name,
        "dtype": config.model.dtype,
        "probe": config.probe.name,
        "cut": config.cut.name or "_".join(config.cut.by or config.cut.each or []),
        "scorers": ",".join(config.scorer),
        "data": config.data.name,
        "variant": config.variant.name,
        "limit": config.data.limit,
        "seed": config.seed,
        "correction": config.analysis.correction,
    }


def metrics_of(results: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that the UI plots: per probe, scorer and cut, refusal rates, composites, those of blocks."""
    values: dict[str, float | None] = {"composite": results["composite"]}
    for cut, row in results["composites"].items():
        for key in ("value", "null_mean", "excess", "p_value", "magnitude"):
            values[f"composite.{cut}.{key}"] = row.get(key)
    primary, first = results["analysis"].get("primary"), next(iter(results["cuts"]), None)
    if first in results["composites"]:  # of the cut of `composite`
        values["magnitude"] = results["composites"][first].get("magnitude")
    if tested := [row for row in results["disparities"] if row["scorer"] == primary and row["status"] == "ok"]:
        values["n_tested"] = len(tested)
        values["n_biased"] = sum(row["verdict"] == Verdict.BIASED for row in tested)
    for row in results["disparities"]:
        if row["scorer"] == primary and row["cut"] == first:  # named alike in every run, to be compared over a sweep
            values |= {f"disparity.{row['probe']}": row["raw"], f"gap.{row['probe']}": row["shrunken"]}
        name = f"{row['probe']}.{row['scorer']}.{row['cut']}"
        for key in (*columns_read_by(METRIC), *(columns_read_by(PRIMARY_METRIC) if row["scorer"] == primary else ())):
            values[f"{name}.{key}"] = row[key]
    answers = results["answers"]
    values.update({f"answers.{key}": float(value) for key, value in answers.items()})
    if answers["answered"]:
        values["refusal_rate"] = answers["refused"] / answers["answered"]
    for row in results["refusal_rates"]:
        values[f"{row['probe']}.refusal_rate"] = row["rate"]
    values |= {f"{FIRST}{key.removeprefix('disparity.')}": values[key] for key in [*values] if _HEADLINE.fullmatch(key)}
    for name, block in results.items():
        if isinstance(block, Mapping) and isinstance(metrics := block.get("metrics"), Mapping):
            values.update({f"{name}.{key}": value for key, value in metrics.items()})
    return {slug(key): float(value) for key, value in values.items() if value is not None}


MIN_PREFIX = 4


def find_run(config: Config, word: str) -> str:
    """Return the id of the run that `word` names: an id, a config hash, or the beginning of one of them.

    Four characters are the shortest beginning. Of runs with the config hash it is the newest finished one (`newest`).
    """
    uri = tracking_uri(config)
    client = _client(config)
    candidates: list[tuple[list[str], str, bool]] = []  # ids, config hash, whether it finished; newest first
    with as_user_error(uri):
        ids = [experiment.experiment_id for experiment in client.search_experiments()]
        token: str | None = None
        while len(word) >= MIN_PREFIX:
            page = client.search_runs(ids, max_results=500, order_by=["attributes.start_time DESC"], page_token=token)
            candidates += [
                (_ids(run), run.data.tags.get(f"{PREFIX}config_hash", ""), run.info.status == "FINISHED")
                for run in page
            ]
            token = page.token
            if not token:
                break
    runs = [run for names, *_ in candidates for run in names if run.startswith(word)]
    hashes = list(dict.fromkeys(config_hash for _, config_hash, _ in candidates if config_hash.startswith(word)))
    if len(runs) + len(hashes) > 1 and word not in runs:
        several = [f"run {run}" for run in runs] + [f"config {experiment}" for experiment in hashes]
        raise Fp2Error(f"{word!r} matches {len(several)} runs: {', '.join(several[:4])}", where=shown_uri(uri))
    if not runs and not hashes:
        fix = "Give the id of a run, a config hash, the first characters of one, or a run's folder (fp2 leaderboard)"
        raise Fp2Error(f"there is no run {word!r}", where=shown_uri(uri), fix=fix)
    if word in runs:
        return word
    if runs:
        return runs[0]
    return newest(word, [(names[0], finished) for names, config_hash, finished in candidates if config_hash in hashes])


def newest(word: str, runs: Sequence[tuple[str, bool]]) -> str:
    """Return which run the config hash `word` names, and say so on standard error where there are several.

    Parameters
    ----------
    word : str
    runs : sequence of (str, bool)
        Id, and whether the run finished; the newest first.

    Returns
    -------
    str
        The newest that finished; where none did, the newest.
    """
    finished = [run for run, ended in runs if ended]
    chosen = finished[0] if finished else runs[0][0]
    if len(runs) > 1:
        choice = "the newest that finished" if finished else "the newest; none has finished"
        _say_once(f"note: {len(runs)} runs have the config hash {word}: {chosen} is used, {choice}")
    return chosen


@cache
def _say_once(message: str) -> None:
    print(printable(message), file=sys.stderr)


def _ids(run: Run) -> list[str]:
    """Return the id of a MLflow run, and that of its evaluation where it was logged late (`logged_run`)."""
    own_id = run.info.run_id
    return list(dict.fromkeys((own_id, run.data.tags.get(f"{PREFIX}run_id", own_id))))


def download(config: Config, run_id: str, names: Sequence[str], folder: Path) -> None:
    """Download the artifacts `names` of a logged run into `folder`."""
    client = _client(config)
    from mlflow.exceptions import MlflowException

    try:
        run = logged_run(client, config, run_id) or client.get_run(run_id)
        for name in names:
            client.download_artifacts(run.info.run_id, name, str(folder))
    except (MlflowException, OSError) as error:
        fix = "Check the id; if the project was moved, run: fp2 relocate"
        problem = f"run {run_id!r} or its artifacts cannot be read: {str(error).splitlines()[0]}"
        raise Fp2Error(problem, where=shown_uri(tracking_uri(config)), fix=fix) from error


def _client(config: Config) -> MlflowClient:
    mlflow, uri = _mlflow(), tracking_uri(config)
    with as_user_error(uri):
        if (path := database_file(uri)) is not None:
            if not path.is_file():
                raise Fp2Error("there is no MLflow store yet", where=uri, fix="Run an evaluation first")
            if is_half_made(path):
                fix = "The next run creates a new one and keeps this file"
                raise Fp2Error("the MLflow store is incomplete: its creation was interrupted", where=uri, fix=fix)
        client: MlflowClient = mlflow.MlflowClient(tracking_uri=uri)
        return client


def experiment_id(config: Config) -> str | None:
    """Return the id of the configured experiment, or None."""
    client = _client(config)
    with as_user_error(tracking_uri(config)):
        experiment = client.get_experiment_by_name(config.tracking.experiment)
    return None if experiment is None else str(experiment.experiment_id)


def logged_run(client: MlflowClient, config: Config, run_id: str) -> Run | None:
    """Return the MLflow run of the evaluation `run_id`, or None; one logged late has the id in a tag."""
    from mlflow.exceptions import MlflowException

    with suppress(MlflowException):
        return client.get_run(run_id)
    if not re.fullmatch(r"[0-9a-f]{32}", run_id):
        return None  # it must not reach the query
    experiment = client.get_experiment_by_name(config.tracking.experiment)
    if experiment is None:
        return None
    return next(iter(client.search_runs([experiment.experiment_id], f"tags.`{PREFIX}run_id` = '{run_id}'")), None)


def place_of(config: Config, run_id: str) -> tuple[str, str] | None:
    """Return the ids of the MLflow run of an evaluation and of its experiment; None where it is not logged."""
    client = _client(config)
    with as_user_error(tracking_uri(config)):
        run = logged_run(client, config, run_id)
    return None if run is None else (str(run.info.run_id), str(run.info.experiment_id))


def resume(config: Config, run_id: str) -> Tracker | None:
    """Return the MLflow run of an evaluation, to log what it lacks; None where there is none."""
    try:
        client = _client(config)
    except Fp2Error:
        return None  # there is no store, or none that is complete: `start_run` creates it
    with as_user_error(tracking_uri(config)):
        run = logged_run(client, config, run_id)
    if run is None:
        return None
    if PREFIX + "passport_sha256" in run.data.tags and run.info.status != "RUNNING":
        raise Fp2Error("this run is logged already", where=run.info.run_id)
    return Tracker(client, run.info.run_id, run.info.experiment_id)


_RESULT_TAGS = ("config_hash", "response_set", "dataset_digest")


def summaries(config: Config, sweep_id: str | None = None, without: Mapping[str, str] | None = None) -> list[Summary]:
    """Return the leaderboard summaries (one per cut) of the finished runs, newest first.

    Only those of `sweep_id`, if given. Of runs with the same config, answers and data only the newest is returned;
    `without` (the three digests by name) excludes one result.
    """
    runs = _search(config, sweep_id, "attributes.status = 'FINISHED'")
    newest: dict[tuple[str | None, ...], Run] = {}
    left_out = tuple((without or {}).get(tag) for tag in _RESULT_TAGS)
    for run in runs:  # the same config on the same answers is one result, however often it was run
        newest.setdefault(tuple(run.data.tags.get(PREFIX + tag) for tag in _RESULT_TAGS), run)
    newest.pop(left_out, None)
    return [row for run in newest.values() for row in json.loads(run.data.tags.get(PREFIX + "summary", "[]"))]


def runs_of_sweep(config: Config, sweep_id: str) -> dict[str, str]:
    """Return the status (`FINISHED`, `FAILED`, `KILLED`, `RUNNING`) of each run of a sweep by its id, oldest first."""
    return {str(run.info.run_id): str(run.info.status) for run in reversed(_search(config, sweep_id))}


def newest_sweep(config: Config) -> str | None:
    """Return the id of the sweep of the configured experiment whose run started last; None if it has none."""
    client = _client(config)
    with as_user_error(tracking_uri(config)):
        experiment = client.get_experiment_by_name(config.tracking.experiment)
        ids = [] if experiment is None else [experiment.experiment_id]
        runs = client.search_runs(ids, f"tags.`{PREFIX}sweep_id` LIKE '%'", max_results=1) if ids else []
    return str(runs[0].data.tags[f"{PREFIX}sweep_id"]) if runs else None


def _search(config: Config, sweep_id: str | None, query: str = "") -> list[Run]:
    """Return the MLflow runs of the configured experiment that `query` selects, newest first.

    Of a sweep, its runs; where the configured experiment has none of them, those of any other.
    """
    client = _client(config)
    if sweep_id is not None:
        if not SWEEP_ID.fullmatch(sweep_id):
            return []  # no run can have it, and it must not reach the query
        query = " and ".join(filter(None, (query, f"tags.`{PREFIX}sweep_id` = '{sweep_id}'")))
    with as_user_error(tracking_uri(config)):
        experiment = client.get_experiment_by_name(config.tracking.experiment)
        runs = _pages(client, [experiment.experiment_id], query) if experiment is not None else []
        if not runs and sweep_id is not None:
            experiment_ids = [experiment.experiment_id for experiment in client.search_experiments()]
            runs = _pages(client, experiment_ids, query) if experiment_ids else []
    return runs


def _pages(client: MlflowClient, experiment_ids: list[str], query: str, view: int = 1) -> list[Run]:
    runs: list[Run] = []
    token: str | None = None
    while True:
        page = client.search_runs(experiment_ids, query, view, 500, page_token=token)
        runs += page
        if not (token := page.token):
            return runs


def refuse_foreign_artifacts(config: Config) -> None:
    """Raise if a SQLite store sends artifacts to another folder, because the project was copied or moved.

    MLflow stores absolute addresses, so a copy would write into, and purge, the artifacts of the original.

    Raises
    ------
    ForeignArtifactsError
        Naming the other folder.
    """
    path = database_file(tracking_uri(config))
    if path is None or not path.is_file():
        return
    try:
        with closing(sqlite3.connect(path)) as connection:
            moved = _misplaced(connection, path)
    except sqlite3.Error:
        return  # not a store, or one without tables: MLflow reports it when it opens it
    if moved:
        old = moved[0][2].removeprefix("file://")
        problem = f"the project was copied or moved: its MLflow store would write artifacts to {old}"
        raise ForeignArtifactsError(problem, where=str(path), fix="To use this folder, run: fp2 relocate")


def _misplaced(connection: sqlite3.Connection, path: Path) -> list[tuple[str, str, str]]:
    """Return (experiment, address here, stored address) where artifacts are outside the store.

    The stored address is that of the experiment, or the one above those of its logged models: a store that was
    relocated by version 0.3.0 has the models' addresses of its former folder.
    """
    moves = []
    for experiment, name, old in connection.execute(_EXPERIMENTS).fetchall():
        folder = f"/artifacts/{slug(name)}"
        new_uri = (path.resolve().parent / "artifacts" / slug(name)).as_uri()
        if not old.endswith(folder):  # not laid out by us
            continue
        of_models = (
            address.rpartition(f"{folder}/models/")[0] + folder
            for (address,) in connection.execute(_MODELS, (experiment,))
            if f"{folder}/models/" in address
        )
        moves += [(experiment, new_uri, old_uri) for old_uri in dict.fromkeys((old, *of_models)) if old_uri != new_uri]
    return moves


def relocate(config: Config) -> int:
    """Correct the artifact addresses of a SQLite store that was moved; return how many were changed."""
    uri = tracking_uri(config)
    path = database_file(uri)
    if path is None or not path.is_file():
        raise Fp2Error("there is no SQLite store to relocate", where=shown_uri(uri))
    changed = 0
    with as_user_error(uri), closing(sqlite3.connect(path)) as connection, connection:
        for experiment, new, old in _misplaced(connection, path):
            changed += connection.execute(_MOVE_EXPERIMENT, (new, experiment, old)).rowcount
            parameters = (new, len(old) + 1, experiment, len(old) + 1, f"{old}/")  # `old` may begin another address
            changed += connection.execute(_MOVE_RUNS, parameters).rowcount
            changed += connection.execute(_MOVE_MODELS, parameters).rowcount
    return changed


_EXPERIMENTS = "SELECT experiment_id, name, artifact_location FROM experiments WHERE artifact_location LIKE 'file:%'"
_MODELS = "SELECT artifact_location FROM logged_models WHERE experiment_id = ?"
_MOVE_EXPERIMENT = "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ? AND artifact_location = ?"
_MOVE_RUNS = """
UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?)
WHERE experiment_id = ? AND substr(artifact_uri, 1, ?) = ?
"""
_MOVE_MODELS = _MOVE_RUNS.replace("UPDATE runs", "UPDATE logged_models").replace("artifact_uri", "artifact_location")
