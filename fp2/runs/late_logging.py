"""Logging a finished run from its folder, when MLflow could not be used while it ran."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fp2 import artifacts
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.runs.outputs import log_files
from fp2.runs.reader import read_results
from fp2.runs.recompute import logged_config


def log_folder(folder: Path, here: Config) -> tuple[str, str]:
    """Log a finished run from its folder, after a failure of MLflow; return the ids of the MLflow run and experiment.

    Raises
    ------
    Fp2Error
        If the folder is not that of a finished run, or the run is logged already, or the store cannot be used.
    """
    from fp2.tracking import client

    results = read_results(folder)
    if not (folder / artifacts.PASSPORT).is_file():
        raise Fp2Error("the run has no passport: it did not end", where=str(folder), fix="Run the same command again")
    run_id = str(results["run_id"])
    config = logged_config(folder, here, run_id)
    config = replace(config, tracking=replace(here.tracking, experiment=config.tracking.experiment))
    tags = {key: results[key] for key in ("config_hash", "response_set", "dataset_digest")}
    tags = {"sweep_id": config.tracking.sweep_id, **tags, "variant": config.variant.name, "run_id": run_id}
    name = " · ".join([results["model"]["name"], "+".join(results["cuts"]), config.variant.name])
    tracker = client.resume(config, run_id) or client.start(config, tags, name)
    log_files(config, tracker, folder, results)
    return tracker.run_id, tracker.experiment_id
