"""Changing logged runs of the MLflow store: fetch, replace or remove their files and metrics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.tracking.client import (
    PREFIX,
    SERVERS,
    Tracker,
    _client,
    _pages,
    as_user_error,
    database_file,
    describe,
    end_dead_runs,
    is_free_text,
    logged_run,
    tracking_uri,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient

_RUN_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Logged:
    """A run of the store, the address of its files, its tags and parameters; whether it goes on, or was deleted."""

    run_id: str
    experiment_id: str
    artifact_uri: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    running: bool = False
    hidden: bool = False


def has_store(config: Config) -> bool:
    """Whether there is a store."""
    database = database_file(tracking_uri(config))
    return database is None or database.is_file()


def logged_runs(config: Config) -> list[Logged]:
    """Return every run of every experiment in the store, deleted ones included; none where there is no store yet."""
    if not has_store(config):
        return []
    client = _client(config)
    from mlflow.entities import ViewType

    with as_user_error(tracking_uri(config)):
        end_dead_runs(client, config, tracking_uri(config))
        ids = [experiment.experiment_id for experiment in client.search_experiments(view_type=ViewType.ALL)]
        runs = _pages(client, ids, "", ViewType.ALL)
    return [
        Logged(
            run.info.run_id,
            run.info.experiment_id,
            run.info.artifact_uri,
            dict(run.data.tags),
            dict(run.data.params),
            run.info.status == "RUNNING",
            run.info.lifecycle_stage == "deleted",
        )
        for run in runs
        if any(tag.startswith(PREFIX) for tag in run.data.tags)
    ]


def files_of(run: Logged, config: Config, scratch: Path) -> Path:
    """Return the folder with a run's files: where they are on this machine, else a copy below `scratch`."""
    folder = scratch / run.run_id
    with as_user_error(tracking_uri(config)):
        repository = _repository(run, config)
        if isinstance(local := getattr(repository, "artifact_dir", None), str):
            return Path(local)
        if not folder.exists():
            folder.mkdir(parents=True)
            if repository.list_artifacts():
                repository.download_artifacts("", str(folder))
    return folder


def replace(
    run: Logged,
    config: Config,
    files: Mapping[str, Path],
    results: Mapping[str, Any] | None,
    tags: Mapping[str, str],
) -> None:
    """Replace the files of a run by `files`, and its metrics by those of `results` (None: no metrics)."""
    client = _client(config)
    with as_user_error(tracking_uri(config)), _active(client, "run", run.run_id, run.hidden):
        _repository(run, config).delete_artifacts()
        _drop_metrics(config, run.run_id)
        tracker = Tracker(client, run.run_id, run.experiment_id)
        if results is None:
            for name, path in files.items():
                client.log_artifact(run.run_id, str(path), name.rpartition("/")[0] or None)
        else:
            tracker.log(files, results)
        tracker.tag(tags)
        if results is not None:
            describe(config, tracker, results)


@contextmanager
def _active(client: MlflowClient, kind: str, number: str, hidden: bool) -> Iterator[None]:
    """Make a run or experiment that was deleted in the UI active in the block: no other can be changed."""
    if hidden:
        getattr(client, f"restore_{kind}")(number)
    yield
    if hidden:
        getattr(client, f"delete_{kind}")(number)


def remove(run: Logged, config: Config) -> None:
    """Remove a run with its files and metrics permanently."""
    client = _client(config)
    with as_user_error(tracking_uri(config)):
        _repository(run, config).delete_artifacts()
        _drop_metrics(config, run.run_id)
        client.delete_run(run.run_id)
        store = client._tracking_client.store
        if hasattr(store, "_hard_delete_run"):  # what `mlflow gc` calls
            store._hard_delete_run(run.run_id)


def free_texts(config: Config, runs: Sequence[Logged]) -> Iterator[tuple[str, str, Callable[[str], object]]]:
    """Yield each tag of these runs and of experiments that has free text: what it is, the text, what replaces it."""
    if not has_store(config):
        return
    client = _client(config)
    from mlflow.entities import ViewType

    def write(kind: str, number: str, hidden: bool, name: str, text: str) -> None:
        with as_user_error(tracking_uri(config)), _active(client, kind, number, hidden):
            (client.set_tag if kind == "run" else client.set_experiment_tag)(number, name, text)

    tagged = [("run", run.run_id, run.run_id, run.hidden, run.tags) for run in runs]
    with as_user_error(tracking_uri(config)):
        tagged += [
            (
                "experiment",
                experiment.experiment_id,
                experiment.name,
                experiment.lifecycle_stage == "deleted",
                experiment.tags,
            )
            for experiment in client.search_experiments(view_type=ViewType.ALL)
        ]
    for kind, number, label, hidden, tags in tagged:
        for name, text in tags.items():
            if is_free_text(name):
                yield f"MLflow {kind} {label}, {name}", text, partial(write, kind, number, hidden, name)


def _repository(run: Logged, config: Config) -> Any:
    """Return what has the files of a run; a purge must not empty another folder that a server names."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    location = urlsplit(run.artifact_uri)
    if tracking_uri(config).startswith(SERVERS) and location.scheme in ("", "file"):
        path = PurePath(unquote(location.path))
        if ".." in path.parts or path.parts[-2:] != (run.run_id, "artifacts") or not _RUN_ID.fullmatch(run.run_id):
            fix = "Use another tracking.uri, or correct the run there"
            raise Fp2Error(f"the server names {path} as the files of a run", where=tracking_uri(config), fix=fix)
    return get_artifact_repository(run.artifact_uri)


def _drop_metrics(config: Config, run_id: str) -> None:
    """Delete the metrics of a run and its links to data sets, which MLflow cannot do; not through a server."""
    uri = tracking_uri(config)
    if uri.startswith(SERVERS):
        return
    import sqlalchemy

    engine = sqlalchemy.create_engine(uri, poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:
        if uri.startswith("sqlite:"):
            connection.exec_driver_sql("PRAGMA secure_delete = ON")
        for rows in (
            "metrics WHERE run_uuid = :run",
            "latest_metrics WHERE run_uuid = :run",
            "logged_model_metrics WHERE run_id = :run",
            "inputs WHERE source_type = 'DATASET' AND destination_id = :run",
        ):
            connection.execute(sqlalchemy.text(f"DELETE FROM {rows}"), {"run": run_id})


def ending_of(config: Config, run_id: str) -> tuple[str, str | None] | None:
    """Return how the MLflow run of an evaluation ended, and the digest of the passport that it logged.

    None where the store does not have the run, or there is no store.
    """
    if not has_store(config):
        return None
    client = _client(config)
    with as_user_error(tracking_uri(config)):
        run = logged_run(client, config, run_id)
    return None if run is None else (str(run.info.status), run.data.tags.get(f"{PREFIX}passport_sha256"))
