"""`fp2 watch`: what a run that goes on in another terminal is doing."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from fp2.extension import Fp2Error, Progress, artifacts, line_of, load_config

SECONDS = 1.0
NAMES = ("run_id", "config_hash")
"""What a run can be named by."""
START = "Start one (fp2 run), or see those that have ended: fp2 leaderboard"


def watch(run: str | None, overrides: list[str], as_json: bool) -> None:
    """Show the stage and counts of a run until it ends; as JSON, print them once.

    Parameters
    ----------
    run : str, optional
        The run's folder, or the beginning of its id or config hash; by default the run that said last what it does.
    """
    outputs = Path(load_config(overrides).paths.outputs)
    folder = running(outputs, run)
    facts = None if folder is None else read(folder)
    if folder is None or facts is None:
        problem = "no such run is in progress" if run else "no run is in progress"
        raise Fp2Error(problem, where=str(run or outputs), fix=START)
    if as_json:
        from fp2.extension import print_json

        print_json(facts)
        return
    progress = Progress()
    progress.note(f"{folder} (Ctrl-C ends fp2 watch, not the run)")
    with progress.stages() as show:
        while facts is not None:
            done, total = facts["steps"]
            show(facts["stage"], done, total, line_of(facts) if facts["answers_per_second"] else "")
            time.sleep(SECONDS)
            facts = read(folder)
    progress.note(f"The run has ended; its files are in {folder}")


def running(outputs: Path, word: str | None = None) -> Path | None:
    """Return the folder of the run that said last what it does, below the folder of all outputs; None if none goes on.

    Parameters
    ----------
    word : str, optional
        The run: a folder, or the beginning of its id or config hash.
    """
    if word is not None and Path(word).is_dir():
        return Path(word)
    statuses: dict[Path, dict[str, Any]] = {}
    for path in (path for depth in ("*/*", "*/*/*") for path in outputs.glob(f"{depth}/{artifacts.LIVE}")):
        facts = read(path.parent)
        if facts is not None and any(str(facts.get(name, "")).startswith(word or "") for name in NAMES):
            statuses[path.parent] = facts
    ids = sorted(str(facts.get("run_id")) for facts in statuses.values())
    if word is not None and len(statuses) > 1:
        raise Fp2Error(f"{word!r} matches {len(statuses)} runs: {', '.join(ids)}", where=str(outputs))
    return max(statuses, key=lambda folder: statuses[folder]["updated"], default=None)


def read(folder: Path) -> dict[str, Any] | None:
    """Return what the run in `folder` is doing; None if it has ended, or its process is gone."""
    try:
        facts: dict[str, Any] = json.loads((folder / artifacts.LIVE).read_text(encoding="utf-8"))
        with suppress(PermissionError):  # a process of another user
            os.kill(int(facts["pid"]), 0)
        return facts
    except (OSError, ValueError, KeyError, TypeError):
        return None
