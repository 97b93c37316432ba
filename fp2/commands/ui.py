"""`fp2 ui`: the MLflow UI of this project, on this machine only."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence

from fp2.compose import load_config
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.progress import Terminal

START_SECONDS = 120.0


def serve(overrides: Sequence[str], port: int | None) -> int:
    """Serve the UI until Ctrl-C; print its address once it answers, or that of the one that is served already.

    Raises
    ------
    Fp2Error
        If there is no store, the port is taken, or the server ends or does not answer in two minutes.
    """
    from fp2.tracking import ui
    from fp2.tracking.client import tracking_uri
    from fp2.tracking.files import has_store

    config = load_config(overrides)
    uri = tracking_uri(config)
    if uri.startswith(("http://", "https://")) or (ui.running_port(config) is not None and port is None):
        Terminal().print(_address(config), soft_wrap=True)
        return 0
    if not has_store(config):
        raise Fp2Error("there is no MLflow store yet", where=uri, fix="Run an evaluation first")
    port = ui.free_port(port)
    server = subprocess.Popen(
        ui.server_command(port), env=ui.server_environment(config), stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    note = None
    try:
        with Terminal(stderr=True).status("Starting the MLflow UI"):
            _wait(server, port)
        note = ui.remember_port(config, port)
        Terminal().print(f"{_address(config)}  (Ctrl-C ends it)", soft_wrap=True)
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


def _address(config: Config) -> str:
    """Return the address of the configured experiment, or of the UI where it does not exist."""
    from fp2.tracking.client import experiment_id
    from fp2.tracking.ui import base_url, experiment_url

    found = experiment_id(config)
    return base_url(config) if found is None else experiment_url(base_url(config), found)


def _wait(server: subprocess.Popen[str], port: int) -> None:
    """Return once the server answers."""
    from fp2.tracking.ui import is_ready

    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            lines = (server.stderr.read() if server.stderr else "").strip().splitlines()
            raise Fp2Error(f"the MLflow UI ended: {lines[-1] if lines else 'without a message'}", where=f"port {port}")
        if is_ready(port):
            return
        time.sleep(0.3)
    raise Fp2Error(f"the MLflow UI did not answer in {START_SECONDS:.0f} s", where=f"port {port}")
