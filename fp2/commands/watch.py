"""`fp2 watch`: what a run that goes on in another terminal is doing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fp2.compose import load_config
from fp2.errors import Fp2Error
from fp2.progress import Progress
from fp2.runs.live import line_of, newest, read

SECONDS = 1.0


def watch(run: str | None, overrides: list[str], as_json: bool) -> None:
    """Show a run's counts until it ends; as JSON, print them once.

    Parameters
    ----------
    run : str, optional
        The run's folder; by default the run that answered last.

    Raises
    ------
    Fp2Error
        If no run goes on.
    """
    outputs = Path(load_config(overrides).paths.outputs)
    folder = Path(run) if run is not None else newest(outputs)
    facts = None if folder is None else read(folder)
    if folder is None or facts is None:
        raise Fp2Error("no run is asking", where=str(folder or outputs), fix="Start one, or see: fp2 leaderboard")
    if as_json:
        from fp2.commands.output import print_json

        print_json(facts)
        return
    _follow(folder, facts)


def _follow(folder: Path, facts: dict[str, Any] | None) -> None:
    progress = Progress()
    progress.note(f"{folder} (Ctrl-C ends the watching, not the run)")
    assert facts is not None
    with progress.answers(facts["title"]) as bar:
        while facts is not None:
            bar.show(facts["done"], facts["planned"], line_of(facts))
            time.sleep(SECONDS)
            facts = read(folder)
    progress.note(f"Asking has ended; the results will be in {folder}")
