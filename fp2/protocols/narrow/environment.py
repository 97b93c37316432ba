"""An environment of its own for a package that cannot live beside ours: made with venv and pip when first used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from fp2.errors import Fp2Error
from fp2.hashing import digest

FOLDER = "environments"
"""Below the state folder."""
_READY = "READY"


def place_of(state: Path, name: str, requirements: Sequence[str]) -> Path:
    """Return the folder of the environment that holds `requirements`, whether it is there or not."""
    return state / FOLDER / f"{name}-{digest(sorted(requirements))[:12]}"


def python_of(folder: Path) -> Path | None:
    """Return the environment's Python, or None if it is not (wholly) there."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    return python if (folder / _READY).is_file() and python.exists() else None


def ensure(state: Path, name: str, requirements: Sequence[str]) -> Path:
    """Return the Python of the environment, making it first if it is not there.

    The variable `FP2_<NAME>_PYTHON` names one that was made by hand, for machines without a package index.
    It is made in place (an environment cannot be moved) and marked when complete, under a lock: what an interrupted
    call leaves is removed by the next.

    Raises
    ------
    Fp2Error
        If it cannot be made: no network, no such package for this Python, no room.
    """
    variable = f"FP2_{name.upper()}_PYTHON"
    if given := os.environ.get(variable):
        if not Path(given).is_file():
            raise Fp2Error(f"there is no Python {given!r}", where=variable)
        return Path(given)
    folder = place_of(state, name, requirements).absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if python := python_of(folder):
            return python
        shutil.rmtree(folder, ignore_errors=True)
        _step([sys.executable, "-m", "venv", str(folder)], name, requirements)
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        _step([str(python), "-m", "pip", "install", "--quiet", "--no-compile", *requirements], name, requirements)
        (folder / _READY).write_text("\n".join(requirements) + "\n", encoding="utf-8")
        return python


def _step(command: list[str], name: str, requirements: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip().startswith("ERROR")]
        reason = (said or done.stderr.strip().splitlines() or ["no reason given"])[-1].removeprefix("ERROR: ")
        raise Fp2Error(
            f"the environment for {name} cannot be made: {reason}",
            where=" ".join(requirements),
            fix="It needs pip's package index once; or leave these tasks out (task.options.models)",
        )
