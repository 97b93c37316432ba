"""What MLflow's own pages show of a run beside its numbers: who started it, its data set, its model."""

from __future__ import annotations

import getpass
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.results import RunResults
from fp2.text import printable

if TYPE_CHECKING:
    from mlflow import MlflowClient

KIND_TAG, KIND = "mlflow.experimentKind", "custom_model_development"
"""Marks an experiment of model evaluations, so that the UI opens it on runs and charts, not on traces."""
DIGEST_LENGTH = 36
"""The longest digest of a data set that MLflow stores."""


def origin_tags(program: str, project: Path) -> dict[str, str]:
    """Return MLflow's tags of who started a run, with which program, at which git commit of the project's folder."""
    from mlflow.utils.git_utils import get_git_commit

    tags = {"mlflow.source.name": program, "mlflow.source.type": "LOCAL"}
    with suppress(OSError, KeyError, ImportError):  # no name for this user id
        tags["mlflow.user"] = getpass.getuser()
    if commit := get_git_commit(str(project)):
        tags["mlflow.source.git.commit"] = str(commit)
    return tags


def log_dataset(client: MlflowClient, run_id: str, results: RunResults, code: Mapping[str, str]) -> None:
    """Log the data set of a run as an MLflow dataset: name, release, digest and settings; no path, no row.

    Runs share a data set by its digest; `code`, the tags that identify the code that read it, are on the run's link.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag

    about = results["dataset"]
    source = {"name": about["name"], "release": about["release"], "settings": about["settings"]}
    dataset = Dataset(
        name=printable(about["name"], 200),
        digest=_digest(results),
        source_type="fp2",
        source=json.dumps(source, default=str),
    )
    tags = [InputTag(key, value) for key, value in {"mlflow.data.context": "eval", **code}.items()]
    client.log_inputs(run_id, [DatasetInput(dataset, tags)])


def log_model(
    client: MlflowClient, experiment_id: str, run_id: str, results: RunResults, metrics: Mapping[str, float]
) -> None:
    """Link a run, and `metrics` of it, to the logged model with the same name, weights and precision.

    The first run of a model creates it. The caller holds a lock, so that runs that end together create one.
    """
    from mlflow.entities import LoggedModelInput, Metric

    about = results["model"]
    names = ("id", "revision", "weights_digest", "dtype", "quantisation", "engine")
    identity = {key: printable(about[key], 250) for key in names if about.get(key) is not None}
    name = re.sub(r"[/:.%\"']+", "_", printable(about["name"], 200)) or "model"
    models = client.search_logged_models([experiment_id], f"name = '{name}'")
    logged_model = next((model for model in models if dict(model.params) == identity), None)
    if logged_model is None:
        logged_model = client.create_logged_model(experiment_id, name=name, source_run_id=run_id, params=identity)
        client.finalize_logged_model(logged_model.model_id, "READY")
    client.log_inputs(run_id, models=[LoggedModelInput(logged_model.model_id)])
    data = {"dataset_name": printable(results["dataset"]["name"], 200), "dataset_digest": _digest(results)}
    stamp = int(time.time() * 1000)
    rows = [
        Metric(key, value, stamp, 0, logged_model.model_id, run_id=run_id, **data) for key, value in metrics.items()
    ]
    client.log_batch(run_id, rows)


def _digest(results: RunResults) -> str:
    return str(results["dataset"]["digest"])[:DIGEST_LENGTH]
