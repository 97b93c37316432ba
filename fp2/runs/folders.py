"""Where the folder of each run of this machine is, wherever it lies: a purge has to reach all of them."""

from __future__ import annotations

from pathlib import Path

from fp2.errors import Fp2Error

FOLDER = "folders"
"""In the state folder: a file per run, named by its id, with the absolute path of its folder."""


def record_folder(state: Path, run_id: str, folder: Path) -> None:
    """Record where a run writes, before it writes anything of people there."""
    place = state / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    (place / run_id).write_text(str(folder.expanduser().absolute()), encoding="utf-8")


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
