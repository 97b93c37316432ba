"""The MLflow UI of a project: its addresses, and the server that `fp2 ui` starts on this machine only."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.hashing import digest
from fp2.tracking.client import SERVERS, shown_uri, tracking_uri

HOST, FIRST_PORT, N_PORTS = "127.0.0.1", 5000, 100
FILE = "ui.json"
TRAINING = "workflowType=machine_learning"
"""Opens a page among runs and charts; without it the UI opens on its pages for traces of applications."""


def run_url(base: str, experiment_id: str, run_id: str) -> str:
    """Return the address of a run's page."""
    return f"{base}/#/experiments/{quote(experiment_id, safe='')}/runs/{quote(run_id, safe='')}?{TRAINING}"


def experiment_url(base: str, experiment_id: str) -> str:
    """Return the address of an experiment's runs with their charts."""
    return f"{base}/#/experiments/{quote(experiment_id, safe='')}/runs?{TRAINING}&compareRunsMode=CHART"


def compare_url(base: str, runs: Sequence[tuple[str, str]]) -> str:
    """Return the address of the page that compares runs: (run id, id of its experiment); of one run, its page.

    It is percent-encoded, so that a terminal links all of it.
    """
    if len(runs) == 1:
        return run_url(base, runs[0][1], runs[0][0])
    run_ids, experiments = (list(dict.fromkeys(ids)) for ids in zip(*runs, strict=True))
    lists = (quote(json.dumps(ids, separators=(",", ":"))) for ids in (run_ids, experiments))
    return "{}/#/compare-runs?runs={}&experiments={}&{}".format(base, *lists, TRAINING)


def open_url(config: Config) -> str | None:
    """Return the address of the project's UI: a tracking server, or the running `fp2 ui`; None if none runs."""
    uri = tracking_uri(config)
    if uri.startswith(SERVERS):
        return shown_uri(uri).rstrip("/")
    port = running_port(config)
    return None if port is None else f"http://{HOST}:{port}"


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
        remembered = json.loads((Path(config.paths.state) / FILE).read_text(encoding="utf-8"))
        port, store = int(remembered["port"]), remembered["store"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return port if store == digest(tracking_uri(config)) and is_ready(port) else None


def is_ready(port: int) -> bool:
    """Whether an MLflow server answers on this port of this machine."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=2) as reply:
            return bool(reply.read(16) == b"OK")
    except OSError:
        return False


def free_port(wanted: int | None = None) -> int:
    """Return `wanted` if it is free, or the first free port from 5000 on."""
    for port in [wanted] if wanted is not None else range(FIRST_PORT, FIRST_PORT + N_PORTS):
        with socket.socket() as probe, suppress(OSError, OverflowError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
            probe.bind((HOST, port))
            return port
    if wanted is not None:
        raise Fp2Error(f"port {wanted} cannot be used", where="--port", fix="Omit it to take the first free one")
    raise Fp2Error(f"no port from {FIRST_PORT} to {FIRST_PORT + N_PORTS - 1} is free", fix="Give --port")


def server_command(port: int) -> list[str]:
    """Return the command of the server: this machine only, one worker; the store is in its environment."""
    return [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"]


def server_environment(config: Config) -> dict[str, str]:
    """Return the environment of the server: the store (whose password no list of processes shows), and nothing else."""
    off = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return {**os.environ, **off, "MLFLOW_BACKEND_STORE_URI": tracking_uri(config)}


def remember_port(config: Config, port: int) -> Path:
    """Store on which port the UI is served; return the file, to be removed when the server ends."""
    path = Path(config.paths.state) / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"port": port, "store": digest(tracking_uri(config))}), encoding="utf-8")
    return path
