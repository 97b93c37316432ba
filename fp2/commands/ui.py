"""`fp2 ui`: the MLflow UI of this project, on this machine only."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from fp2.compose import load_config
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.progress import Terminal

START_SECONDS = 120.0
_FIRST = "Run an evaluation first"


def serve(words: Sequence[str], overrides: Sequence[str], port: int | None) -> int:
    """Serve the UI until Ctrl-C; print its addresses once it answers, or those of the one that is served already.

    The addresses are that of the experiment, and of the page that compares the runs that `words` name (runs, sweeps),
    by default those of the newest sweep.
    """
    from fp2.tracking import ui
    from fp2.tracking.client import shown_uri, tracking_uri
    from fp2.tracking.files import has_store

    config = load_config(overrides)
    if not has_store(config):
        raise Fp2Error("there is no MLflow store yet", where=shown_uri(tracking_uri(config)), fix=_FIRST)
    runs = _runs(words, config)
    base = ui.open_url(config)
    if base is not None and (port is None or ui.running_port(config) is None):
        _print_addresses(base, config, runs)
        return 0
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
        _print_addresses(f"http://{ui.HOST}:{port}", config, runs)
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
    from fp2.runs.reader import read_results, runs_named
    from fp2.tracking.client import find_run, newest_sweep, place_of

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
    from fp2.tracking.client import experiment_id
    from fp2.tracking.ui import compare_url, experiment_url

    experiment = experiment_id(config)
    out = Terminal()
    out.print(f"{'MLflow':<12} {base if experiment is None else experiment_url(base, experiment)}", soft_wrap=True)
    if runs:
        name = "run" if len(runs) == 1 else f"{len(runs)} runs"
        out.print(f"{name:<12} {compare_url(base, runs)}", soft_wrap=True)


def _wait(server: subprocess.Popen[str], port: int) -> None:
    from fp2.tracking.ui import is_ready

    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            output = (server.stderr.read() if server.stderr else "").strip().splitlines()
            problem = f"the MLflow UI ended: {output[-1] if output else 'without a message'}"
            raise Fp2Error(problem, where=f"port {port}")
        if is_ready(port):
            return
        time.sleep(0.3)
    raise Fp2Error(f"the MLflow UI did not answer in {START_SECONDS:.0f} s", where=f"port {port}")
