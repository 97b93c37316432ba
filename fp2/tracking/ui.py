"""The addresses of the MLflow UI of a project, which `fp2 ui` serves on this machine."""

from __future__ import annotations

import json
import os
import shlex
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from fp2.config import Config
from fp2.hashing import digest
from fp2.tracking.client import SERVERS, shown_uri, tracking_uri

UI_HOST = "127.0.0.1"
UI_FILE = "ui.json"
"""In the state folder: the port on which the UI is served, and a digest of the store."""
UI_TRAINING = "workflowType=machine_learning"
"""Opens a page among runs and charts; without it the UI opens on its pages for traces of applications."""


def run_url(base: str, experiment_id: str, run_id: str) -> str:
    """Return the address of a run's page."""
    return f"{base}/#/experiments/{quote(experiment_id, safe='')}/runs/{quote(run_id, safe='')}?{UI_TRAINING}"


def compare_url(base: str, runs: Sequence[tuple[str, str]]) -> str:
    """Return the address of the page that compares runs: (run id, id of its experiment); of one run, its page.

    It is percent-encoded, so that a terminal links all of it.
    """
    if len(runs) == 1:
        return run_url(base, runs[0][1], runs[0][0])
    run_ids, experiments = (list(dict.fromkeys(ids)) for ids in zip(*runs, strict=True))
    lists = (quote(json.dumps(ids, separators=(",", ":"))) for ids in (run_ids, experiments))
    return "{}/#/compare-runs?runs={}&experiments={}&{}".format(base, *lists, UI_TRAINING)


def open_url(config: Config) -> str | None:
    """Return the address of the project's UI: a tracking server, or the running `fp2 ui`; None if none runs."""
    uri = tracking_uri(config)
    if uri.startswith(SERVERS):
        return shown_uri(uri).rstrip("/")
    port = running_port(config)
    return None if port is None else f"http://{UI_HOST}:{port}"


def ui_command(config: Config, *named: str) -> str:
    """Return the command that opens the UI on this store, as typed in this folder, and links what is `named`."""
    command = ["fp2", "ui", *named]
    mlruns = Path(config.paths.mlruns).resolve()
    if config.tracking.uri is not None:
        command.append(f"tracking.uri={shown_uri(config.tracking.uri)}")
    elif mlruns != Path(os.environ.get("FP2_ROOT", ".")).resolve() / "mlruns":
        command.append(f"paths.mlruns={mlruns}")
    return shlex.join(command)


def running_port(config: Config) -> int | None:
    """Return the port on which `fp2 ui` serves this store now, or None."""
    try:
        remembered = json.loads((Path(config.paths.state) / UI_FILE).read_text(encoding="utf-8"))
        port, store = int(remembered["port"]), remembered["store"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return port if store == digest(tracking_uri(config)) and ui_answers(port) else None


def ui_answers(port: int) -> bool:
    """Whether an MLflow server answers on this port of this machine."""
    try:
        with urllib.request.urlopen(f"http://{UI_HOST}:{port}/health", timeout=2) as reply:
            return bool(reply.read(16) == b"OK")
    except OSError:
        return False
