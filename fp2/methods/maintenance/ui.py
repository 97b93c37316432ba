"""`fp2 ui`: the MLflow UI of this project, on this machine only."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from fp2.extension import (
    UI_FILE,
    UI_HOST,
    UI_TRAINING,
    Config,
    Fp2Error,
    Terminal,
    compare_url,
    digest,
    experiment_id,
    find_run,
    has_store,
    load_config,
    newest_sweep,
    open_url,
    place_of,
    read_results,
    running_port,
    runs_named,
    shown_uri,
    tracking_uri,
    ui_answers,
)

FIRST_PORT, N_PORTS = 5000, 100
START_SECONDS = 120.0
_FIRST = "Run an evaluation first"


def serve(words: Sequence[str], overrides: Sequence[str], port: int | None) -> int:
    """Serve the UI until Ctrl-C; print its addresses once it answers, or those of the one that is served already.

    The addresses are that of the experiment, and of the page that compares the runs that `words` name (runs, sweeps),
    by default those of the newest sweep.
    """
    config = load_config(overrides)
    if not has_store(config):
        raise Fp2Error("there is no MLflow store yet", where=shown_uri(tracking_uri(config)), fix=_FIRST)
    runs = _runs(words, config)
    base = open_url(config)
    if base is not None and (port is None or running_port(config) is None):
        _print_addresses(base, config, runs)
        return 0
    port = free_port(port)
    server = subprocess.Popen(
        server_command(port),
        env=server_environment(config),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    note = None
    try:
        with Terminal(stderr=True).status("Starting the MLflow UI"):
            _wait(server, port)
        note = remember_port(config, port)
        _print_addresses(f"http://{UI_HOST}:{port}", config, runs)
        Terminal(stderr=True).print("Ctrl-C ends it")
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        if note is not None:
            note.unlink(missing_ok=True)
        server.terminate()
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()


def _runs(names: Sequence[str], config: Config) -> list[tuple[str, str]]:
    """Return (run id, id of its experiment) of the MLflow runs that `names` name, or of the newest sweep's.

    A word is a run, a sweep's id, or a folder of either.
    """
    named = names or [sweep for sweep in (newest_sweep(config),) if sweep]
    runs = []
    for word in runs_named(named, config)[0]:
        folder = Path(word)
        run_id = str(read_results(folder)["run_id"]) if folder.is_dir() else find_run(config, word)
        if (run_place := place_of(config, run_id)) is None:
            raise Fp2Error("this run is not logged in this MLflow store", where=word, fix=f"Log it: fp2 log {word}")
        runs.append(run_place)
    if names and not runs:
        raise Fp2Error("no finished run", where=" ".join(names))
    return list(dict.fromkeys(runs))


def _print_addresses(base: str, config: Config, runs: Sequence[tuple[str, str]]) -> None:
    """Print the address of the configured experiment, or of the UI where it does not exist, and that of `runs`."""
    experiment = experiment_id(config)
    out = Terminal()
    out.print(f"{'MLflow':<12} {base if experiment is None else experiment_url(base, experiment)}", soft_wrap=True)
    if runs:
        name = "run" if len(runs) == 1 else f"{len(runs)} runs"
        out.print(f"{name:<12} {compare_url(base, runs)}", soft_wrap=True)


def _wait(server: subprocess.Popen[str], port: int) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            output = (server.stderr.read() if server.stderr else "").strip().splitlines()
            problem = f"the MLflow UI ended: {output[-1] if output else 'without a message'}"
            raise Fp2Error(problem, where=f"port {port}")
        if ui_answers(port):
            return
        time.sleep(0.3)
    raise Fp2Error(f"the MLflow UI did not answer in {START_SECONDS:.0f} s", where=f"port {port}")


def experiment_url(base: str, experiment_id: str) -> str:
    """Return the address of an experiment's runs with their charts."""
    return f"{base}/#/experiments/{quote(experiment_id, safe='')}/runs?{UI_TRAINING}&compareRunsMode=CHART"


def free_port(wanted: int | None = None) -> int:
    """Return `wanted` if it is free, or the first free port from 5000 on."""
    for port in [wanted] if wanted is not None else range(FIRST_PORT, FIRST_PORT + N_PORTS):
        with socket.socket() as probe, suppress(OSError, OverflowError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
            probe.bind((UI_HOST, port))
            return port
    if wanted is not None:
        raise Fp2Error(f"port {wanted} cannot be used", where="--port", fix="Omit it to take the first free one")
    raise Fp2Error(f"no port from {FIRST_PORT} to {FIRST_PORT + N_PORTS - 1} is free", fix="Give --port")


def server_command(port: int) -> list[str]:
    """Return the command of the server: this machine only, one worker; the store is in its environment."""
    return [sys.executable, "-m", "mlflow", "server", "--host", UI_HOST, "--port", str(port), "--workers", "1"]


def server_environment(config: Config) -> dict[str, str]:
    """Return the environment of the server: the store (whose password no list of processes shows), and nothing else."""
    off = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return {**os.environ, **off, "MLFLOW_BACKEND_STORE_URI": tracking_uri(config)}


def remember_port(config: Config, port: int) -> Path:
    """Store on which port the UI is served; return the file, to be removed when the server ends."""
    path = Path(config.paths.state) / UI_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"port": port, "store": digest(tracking_uri(config))}), encoding="utf-8")
    return path
