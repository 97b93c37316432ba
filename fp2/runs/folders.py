"""Where the folder of each run of this machine is, and what was written from runs: a purge has to reach all of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from fp2 import artifacts
from fp2.errors import Fp2Error
from fp2.hashing import digest, sha256_file

FOLDER, WRITTEN = "folders", "written"
"""In the state folder: a file per run, named by its id, with the absolute paths of its folder and of the state folder;
a file per report, export or the like (`Written`)."""


@dataclass(frozen=True)
class Written:
    """A file that was written from runs where the user said: its path, their ids, the state folder of the project.

    `sha256` is empty after a kill.
    """

    path: str
    runs: list[str]
    state: str
    sha256: str = ""

    @property
    def is_unchanged(self) -> bool:
        """Whether the file is as it was written."""
        return Path(self.path).is_file() and sha256_file(Path(self.path)) == self.sha256


def record_folder(state: Path, run_id: str, folder: Path) -> None:
    """Record where a run writes, before it writes anything of people there."""
    path = state / FOLDER / run_id
    with artifacts.as_user_error(path.parent):
        artifacts.replace_file(path, json.dumps([str(place.expanduser().absolute()) for place in (folder, state)]))


@contextmanager
def recording(state: Path, run_ids: Iterable[str], paths: Iterable[Path | None]) -> Iterator[None]:
    """Record files that are written from runs in the block: before it, and with their digests after it."""
    names = [str(path.expanduser().absolute()) for path in paths if path is not None]
    runs = sorted(run_ids)
    for name in names:
        folder = next(parent for parent in Path(name).parents if parent.exists())
        if not folder.is_dir():
            raise Fp2Error(
                f"cannot write: {folder.name} is a file, not a folder", where=name, fix="Name a file in a folder"
            )

    def record(name: str, sha256: str = "") -> None:
        with artifacts.as_user_error(state / WRITTEN):
            body = json.dumps(asdict(Written(name, runs, str(state.absolute()), sha256)))
            artifacts.replace_file(state / WRITTEN / digest(name)[:32], body)

    for name in names:
        record(name)
    try:
        yield
    finally:
        for name in names:
            if Path(name).is_file():
                record(name, sha256_file(Path(name)))
            else:
                forget_written(state, name)


def recorded_written(state: Path) -> list[Written]:
    """Return what was written from runs; in a copy of a project, what was written since."""
    paths = sorted((state / WRITTEN).glob("[!.]*"))
    records = {path: Written(**json.loads(path.read_text(encoding="utf-8"))) for path in paths}
    return [written for path, written in records.items() if not _is_copied(path, Path(written.state))]


def forget_written(state: Path, name: str) -> None:
    """Delete the record of a file that is gone."""
    (state / WRITTEN / digest(name)[:32]).unlink(missing_ok=True)


def relocate_folders(state: Path, outputs: Path) -> int:
    """Correct the records of runs below `outputs`, after the project was moved or copied; return how many."""
    recorded, changed = _records(state), 0
    for path in outputs.expanduser().absolute().rglob(artifacts.RESULTS):
        run_id = str(artifacts.json_object(path).get("run_id"))
        if run_id in recorded and recorded[run_id] != (path.parent, None):
            record_folder(state, run_id, path.parent)
            changed += 1
    return changed


def recorded_folders(state: Path) -> dict[str, Path]:
    """Return run id -> folder of every recorded run; one that is gone (deleted or moved by hand) is included.

    In a copy of a project, those of the original are not (`folders_of_original`).
    """
    return {run_id: folder for run_id, (folder, original) in _records(state).items() if original is None}


def folders_of_original(state: Path) -> dict[Path, Path]:
    """Return the folders that belong to the project that this one is a copy of, and the state folder of that."""
    return {folder: original for folder, original in _records(state).values() if original is not None}


def _is_copied(record: Path, state: Path) -> bool:
    """Whether a record was copied from the state folder that wrote it, which still has it."""
    original = state / record.parent.name / record.name
    return original.is_file() and not original.samefile(record)


def _records(state: Path) -> dict[str, tuple[Path, Path | None]]:
    """Return the folder of each run, and the state folder that the record was copied from."""
    try:
        records = {}
        for path in sorted((state / FOLDER).glob("[!.]*")):
            folder, recorder = map(Path, json.loads(path.read_text(encoding="utf-8")))
            records[path.name] = folder, recorder if _is_copied(path, recorder) else None
        return records
    except (OSError, ValueError, TypeError) as error:
        raise Fp2Error(f"the records of run folders cannot be read: {error}", where=str(state / FOLDER)) from error


def forget_folder(state: Path, folder: Path) -> None:
    """Delete the record of a folder that a purge has removed."""
    for run_id, path in recorded_folders(state).items():
        if path == folder:
            (state / FOLDER / run_id).unlink(missing_ok=True)
