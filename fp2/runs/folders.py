"""Where the folder of each run of this machine is, and what was written from runs: a purge has to reach all of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from fp2 import artifacts
from fp2.errors import Fp2Error
from fp2.hashing import digest

FOLDER, WRITTEN = "folders", "written"
"""In the state folder: a file per run, named by its id, with the absolute path of its folder; a file per report or
export, with its path and the ids of the runs that it was written from."""


def record_folder(state: Path, run_id: str, folder: Path) -> None:
    """Record where a run writes, before it writes anything of people there."""
    path = state / FOLDER / run_id
    with artifacts.as_user_error(path.parent):
        artifacts.replace_file(path, str(folder.expanduser().absolute()))


def record_written(state: Path, path: Path, run_ids: Iterable[str]) -> None:
    """Record what is written from runs where the user says, before it is written."""
    name = str(path.expanduser().absolute())
    with artifacts.as_user_error(state / WRITTEN):
        artifacts.replace_file(state / WRITTEN / digest(name)[:32], json.dumps({"path": name, "runs": sorted(run_ids)}))


def recorded_written(state: Path) -> dict[Path, set[str]]:
    """Return the path of each report and export, and the ids of the runs that it was written from."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((state / WRITTEN).glob("[!.]*"))]
    return {Path(record["path"]): set(record["runs"]) for record in records}


def relocate_folders(state: Path, outputs: Path) -> int:
    """Correct the records of runs that now are below `outputs`, after the project was moved; return how many."""
    recorded, changed = recorded_folders(state), 0
    for path in outputs.expanduser().absolute().rglob(artifacts.RESULTS):
        with suppress(OSError, ValueError, KeyError, TypeError):
            run_id = str(json.loads(path.read_text(encoding="utf-8"))["run_id"])
            if recorded.get(run_id, path.parent) != path.parent:
                record_folder(state, run_id, path.parent)
                changed += 1
    return changed


def recorded_folders(state: Path) -> dict[str, Path]:
    """Return run id -> folder of every recorded run; one that is gone (deleted or moved by hand) is included.

    Raises
    ------
    Fp2Error
        If a record cannot be read.
    """
    try:
        return {path.name: Path(path.read_text(encoding="utf-8")) for path in sorted((state / FOLDER).glob("[!.]*"))}
    except (OSError, ValueError) as error:
        raise Fp2Error(f"the records of run folders cannot be read: {error}", where=str(state / FOLDER)) from error


def forget_folder(state: Path, folder: Path) -> None:
    """Delete the record of a folder that a purge has removed."""
    for run_id, path in recorded_folders(state).items():
        if path == folder:
            (state / FOLDER / run_id).unlink(missing_ok=True)
