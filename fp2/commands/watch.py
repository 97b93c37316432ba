"""`fp2 watch`: what a run that goes on in another terminal is doing."""

from __future__ import annotations

import time
from pathlib import Path

from fp2.compose import load_config
from fp2.errors import Fp2Error
from fp2.progress import Progress
from fp2.runs.live import line_of, read, running

SECONDS = 1.0
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
        from fp2.commands.output import print_json

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
