"""Changing logged runs of the MLflow store: fetch, replace or remove their files and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fp2.config import Config
from fp2.tracking.client import (
    PREFIX,
    Tracker,
    _client,
    _mlflow,
    as_user_error,
    database_file,
    describe,
    logged_run,
    tracking_uri,
)


@dataclass(frozen=True)
class Logged:
    """A run of the store, which may be marked as deleted, and the address of its files."""

    run_id: str
    experiment_id: str
    artifact_uri: str
    tags: Mapping[str, str]


def has_store(config: Config) -> bool:
    """Whether there is a store."""
    database = database_file(tracking_uri(config))
    return database is None or database.is_file()


def logged_runs(config: Config) -> list[Logged]:
    """Return every run of every experiment in the store, deleted ones included; none where there is no store yet."""
    if not has_store(config):
        return []
    mlflow = _mlflow()
    from mlflow.entities import ViewType

    client = _client(mlflow, config)
    with as_user_error(tracking_uri(config)):
        ids = [found.experiment_id for found in client.search_experiments(view_type=ViewType.ALL)]
        runs: list[Any] = []
        token: str | None = None
        while True:
            page = client.search_runs(ids, "", ViewType.ALL, 500, page_token=token)
            runs += page
            token = page.token
            if not token:
                break
    return [
        Logged(run.info.run_id, run.info.experiment_id, run.info.artifact_uri, dict(run.data.tags))
        for run in runs
        if any(tag.startswith(PREFIX) for tag in run.data.tags)
    ]


def fetch(run: Logged, config: Config, folder: Path) -> None:
    """Download the files of a run into `folder` (none where it has none)."""
    with as_user_error(tracking_uri(config)):
        repository = _repository(run)
        if repository.list_artifacts():
            repository.download_artifacts("", str(folder))


def replace(
    run: Logged, config: Config, files: Mapping[str, Path], results: Mapping[str, Any] | None,
    tags: Mapping[str, str],
) -> None:  # fmt: skip
    """Replace the files of a run by `files`, and its metrics by those of `results` (None: no metrics)."""
    client = _client(_mlflow(), config)
    with as_user_error(tracking_uri(config)):
        hidden = client.get_run(run.run_id).info.lifecycle_stage == "deleted"
        if hidden:  # deleted in the UI, its files remain: only an active run can be changed
            client.restore_run(run.run_id)
        _repository(run).delete_artifacts()
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
        if hidden:
            client.delete_run(run.run_id)


def remove(run: Logged, config: Config) -> None:
    """Remove a run with its files and metrics permanently."""
    client = _client(_mlflow(), config)
    with as_user_error(tracking_uri(config)):
        _repository(run).delete_artifacts()
        _drop_metrics(config, run.run_id)
        client.delete_run(run.run_id)
        store = client._tracking_client.store
        if hasattr(store, "_hard_delete_run"):  # what `mlflow gc` calls
            store._hard_delete_run(run.run_id)


def clear_tags(runs: Iterable[Logged], config: Config, words: Iterable[str]) -> int:
    """Overwrite the tags (such as the text of an error) that contain one of `words`; return how many there were."""
    wanted = [word for word in words if word]
    changed = 0
    for run in runs:
        for name, value in run.tags.items():
            if any(word in value for word in wanted):
                with as_user_error(tracking_uri(config)):
                    _client(_mlflow(), config).set_tag(run.run_id, name, "removed")
                changed += 1
    return changed


def _repository(run: Logged) -> Any:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    return get_artifact_repository(run.artifact_uri)


def _drop_metrics(config: Config, run_id: str) -> None:
    """Delete the metrics of a run and its links to data sets, which MLflow cannot do; not through a server."""
    uri = tracking_uri(config)
    if uri.startswith(("http://", "https://")):
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

    Raises
    ------
    Fp2Error
        If the store cannot be read.
    """
    if not has_store(config):
        return None
    client = _client(_mlflow(), config)
    with as_user_error(tracking_uri(config)):
        found = logged_run(client, config, run_id)
    return None if found is None else (str(found.info.status), found.data.tags.get(f"{PREFIX}passport_sha256"))
