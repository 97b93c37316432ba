"""MLflow, and nothing else here knows MLflow: one flat run per evaluation, on a SQLite store that starts safely.

Runs are flat and grouped by tags, because the UI hides the metrics of nested runs. The store lies in
`mlruns/mlflow.db` with its artifacts in `mlruns/artifacts/<experiment>`; both places are always given explicitly.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fp2.config import Config
from fp2.errors import Fp2Error

PREFIX = "fp2."


def tracking_uri(config: Config) -> str:
    """Return the configured store, or the SQLite file below `paths.mlruns`."""
    return config.tracking.uri or f"sqlite:///{Path(config.paths.mlruns).resolve() / 'mlflow.db'}"


def ui_command(config: Config) -> str:
    """Return the command that opens the MLflow UI on this store."""
    return f"mlflow ui --backend-store-uri {tracking_uri(config)}"


def slug(name: str) -> str:
    """Return `name` with only the characters that MLflow takes in a metric's name."""
    return re.sub(r"[^\w\-. /]+", "_", name)


def _mlflow() -> Any:
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    # A run id in the environment would make every evaluation write into one run.
    os.environ.pop("MLFLOW_RUN_ID", None)
    import logging

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    import mlflow

    return mlflow


@dataclass
class Tracker:
    """One MLflow run under way."""

    client: Any
    run_id: str
    experiment_id: str

    def log(self, folder: Path, results: Mapping[str, Any], table: Mapping[str, list[Any]]) -> None:
        """Log metrics, the comparison table and every file of `folder`."""
        from mlflow.entities import Metric

        stamp = results_time()
        values = metrics_of(results)
        self.client.log_batch(self.run_id, metrics=[Metric(k, v, stamp, 0) for k, v in values.items()])
        self.client.log_table(self.run_id, dict(table), "disparities.json")
        self.client.log_artifacts(self.run_id, str(folder))

    def tag(self, tags: Mapping[str, Any]) -> None:
        """Set tags that are known only at the end."""
        for key, value in tags.items():
            self.client.set_tag(self.run_id, PREFIX + key, str(value))

    def finish(self, status: str) -> None:
        """End the run: FINISHED, FAILED or KILLED."""
        self.client.set_terminated(self.run_id, status=status)


def results_time() -> int:
    """Return now in milliseconds."""
    import time

    return int(time.time() * 1000)


def start(config: Config, tags: Mapping[str, Any], name: str) -> Tracker:
    """Start a run, initialising the store under a lock if this process is the first.

    Raises
    ------
    Fp2Error
        If the store cannot be opened.
    """
    mlflow = _mlflow()
    uri = tracking_uri(config)
    try:
        experiment_id = _experiment(mlflow, config, uri)
        client = mlflow.MlflowClient(tracking_uri=uri)
        all_tags = {PREFIX + key: str(value) for key, value in tags.items() if value is not None}
        run = client.create_run(experiment_id, run_name=name, tags=all_tags)
        tracker = Tracker(client, run.info.run_id, experiment_id)
        from mlflow.entities import Param

        client.log_batch(tracker.run_id, params=[Param(k, str(v)) for k, v in params_of(config).items()])
    except mlflow.exceptions.MlflowException as error:
        raise Fp2Error(f"the MLflow store cannot be used: {str(error).splitlines()[0]}", where=uri) from error
    return tracker


def _experiment(mlflow: Any, config: Config, uri: str) -> str:
    """Return the experiment's id. A cold SQLite store is made by one process at a time: a race would ruin it."""
    from filelock import FileLock

    name = config.tracking.experiment
    if not uri.startswith("sqlite:///"):
        mlflow.set_tracking_uri(uri)
        return str(mlflow.set_experiment(name).experiment_id)
    folder = Path(config.paths.mlruns).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n!.gitignore\n", encoding="utf-8")
    with FileLock(folder / ".init.lock"):
        mlflow.set_tracking_uri(uri)
        client = mlflow.MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(name)
        _use_wal(folder / "mlflow.db")
        if found is not None:
            return str(found.experiment_id)
        return str(client.create_experiment(name, artifact_location=(folder / "artifacts" / slug(name)).as_uri()))


def _use_wal(path: Path) -> None:
    """Let writers and readers work side by side; the mode stays with the file."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()


def params_of(config: Config) -> dict[str, Any]:
    """Return the few short scalars by which runs are compared in the UI."""
    return {
        "model": config.model.name,
        "engine": config.engine.name,
        "dtype": config.model.dtype,
        "probe": config.probe.name,
        "cut": config.cut.name or "_".join(config.cut.by or config.cut.each or []),
        "scorers": ",".join(config.scorer),
        "data": config.data.name,
        "limit": config.data.limit,
        "seed": config.seed,
        "correction": config.analysis.correction,
    }


def metrics_of(results: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers that the UI charts: per probe and cut for the primary scorer, refusal rates, composites."""
    values: dict[str, float | None] = {"composite": results["composite"]}
    for cut, row in results["composites"].items():
        for key in ("value", "null_mean", "excess", "p_value"):
            values[f"composite.{cut}.{key}"] = row[key]
    for row in results["disparities"]:
        name = f"{row['probe']}.{row['scorer']}.{row['cut']}"
        kept = ("raw", "adjusted_p", "hedges_g", "epsilon_squared", "shrunken") if row["scorer"] == results["analysis"]["primary"] else ("raw", "adjusted_p")
        for key in kept:
            values[f"{name}.{key}"] = row[key]
    answers = results["answers"]
    values.update({f"answers.{key}": float(value) for key, value in answers.items()})
    if answers["answered"]:
        values["refusal_rate"] = answers["refused"] / answers["answered"]
    for row in results["refusal_rates"]:
        values[f"{row['probe']}.refusal_rate"] = row["rate"]
    return {slug(key): float(value) for key, value in values.items() if value is not None}


def download(config: Config, run_id: str, names: tuple[str, ...]) -> tuple[Path, dict[str, str]]:
    """Return a folder that holds artifacts `names` of a logged run, and the run's `fp2.` tags without the prefix.

    Raises
    ------
    Fp2Error
        If the store, the run or an artifact is not there.
    """
    import tempfile

    mlflow = _mlflow()
    client = _client(mlflow, config)
    try:
        run = client.get_run(run_id)
        folder = Path(tempfile.mkdtemp(prefix="fp2-rerun-"))
        for name in names:
            client.download_artifacts(run_id, name, str(folder))
    except (mlflow.exceptions.MlflowException, OSError) as error:
        raise Fp2Error(
            f"run {run_id!r} or its artifacts cannot be read: {str(error).splitlines()[0]}",
            where=tracking_uri(config),
            fix="Check the id; if the project was moved, run: fp2 relocate",
        ) from error
    tags = {key.removeprefix(PREFIX): value for key, value in run.data.tags.items() if key.startswith(PREFIX)}
    return folder, tags


def _client(mlflow: Any, config: Config) -> Any:
    uri = tracking_uri(config)
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).is_file():
        raise Fp2Error("there is no MLflow store yet", where=uri, fix="Run an evaluation first")
    return mlflow.MlflowClient(tracking_uri=uri)


def summaries(config: Config, sweep_id: str | None = None) -> list[dict[str, Any]]:
    """Return the leaderboard summaries (one per cut) of the finished runs in the store, or of one sweep, newest first."""
    mlflow = _mlflow()
    client = _client(mlflow, config)
    found = client.get_experiment_by_name(config.tracking.experiment)
    if found is None:
        return []
    query = "attributes.status = 'FINISHED'" + (f" and tags.`{PREFIX}sweep_id` = '{sweep_id}'" if sweep_id else "")
    runs = client.search_runs([found.experiment_id], query, max_results=500)
    return [row for run in runs for row in json.loads(run.data.tags.get(PREFIX + "summary", "[]"))]


def relocate(config: Config) -> int:
    """Point the artifact addresses of a moved SQLite store at where it lies now; return how many were changed.

    Raises
    ------
    Fp2Error
        If the store is not there, or is not SQLite.
    """
    uri = tracking_uri(config)
    path = Path(uri.removeprefix("sqlite:///"))
    if not uri.startswith("sqlite:///") or not path.is_file():
        raise Fp2Error("there is no SQLite store to relocate", where=uri)
    here = (Path(config.paths.mlruns).resolve() / "artifacts").as_uri()
    changed = 0
    with sqlite3.connect(path) as connection:
        for table, column, key in (("experiments", "artifact_location", "experiment_id"), ("runs", "artifact_uri", "run_uuid")):
            for row_id, address in connection.execute(f"SELECT {key}, {column} FROM {table}").fetchall():
                moved = re.sub(r"^file://.*?/mlruns/artifacts(?=/)", lambda _: here, address or "")
                if address and moved != address:
                    connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (moved, row_id))
                    changed += 1
    connection.close()
    return changed
