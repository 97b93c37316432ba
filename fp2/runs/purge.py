"""Purge: remove everything derived from subjects, images or a release, from the store, the runs and their results.

Runs are purged first, in the output folders and in the MLflow store, and the response store last: its index records
which answers belong to which image, so an interrupted purge is completed by giving the same command again.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fp2 import artifacts
from fp2.ask.answers import RunTables, read_tables
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.plugins import PURGES, installed, load
from fp2.results import Results
from fp2.runs.logged import logged_config, logged_protocol, passport_part
from fp2.runs.multiverse import forget
from fp2.runs.outputs import code_tags
from fp2.runs.purge_selection import ByIds, Selection, kind_of
from fp2.runs.reissue import reissue, strip
from fp2.runs.sweep_report import FOLDER
from fp2.store import origins
from fp2.store.salted_keys import local_salt, salted

if TYPE_CHECKING:
    from fp2.store.rows import ResponseStore
    from fp2.tracking.files import Logged

MARK = ".purging"  # in a run's folder while it is worked on
WRITTEN_OUT = "hf"  # below `paths.data`: images that were extracted from a data set's own files


@dataclass
class Purged:
    """What was removed (or would be): rows of the store by table, one line per run, and the number of people.

    `lost` is one line per run that cannot be recomputed: it loses its results, figures and passport. Only a dry purge
    fills it.
    """

    store: dict[str, int] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)
    people: int = 0
    lost: list[str] = field(default_factory=list)

    @property
    def anything(self) -> bool:
        """Whether there was anything to remove."""
        return bool(self.runs) or any(self.store.values())


@dataclass
class _Work:
    """The state of one purge."""

    here: Config
    selection: Selection
    chosen: list[origins.RecordedImage]
    raw_keys: dict[str, str]
    gone_keys: set[str]
    dry: bool
    people: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)

    def drop(self, tables: RunTables, known: bool) -> tuple[RunTables, int]:
        """Return the tables without the selected rows, and how many people that removes; collect their answers' keys.

        `known`: whether the run's results say which data set it is of; otherwise the store's index decides.
        """
        people = tables.people
        if known or isinstance(self.selection, ByIds):
            leaving = self.selection.rows(people["image_id"], people["subject_id"])
        else:
            leaving = people["image_id"].isin({image.image for image in self.chosen})
        images, left = set(people.loc[leaving, "image_id"]), people[~leaving]
        self.people |= set(people.loc[leaving, "subject_id"])
        theirs = tables.answers.keys_of(images)
        self.gone_keys |= {self.raw_keys[key] for key in theirs if key in self.raw_keys}
        salted_gone = {key for key, raw in self.raw_keys.items() if raw in self.gone_keys}
        n_people = people["subject_id"].nunique() - left["subject_id"].nunique()
        return tables.without(left, images, salted_gone), n_people


def purge(
    here: Config, make_selection: Callable[[bytes, list[origins.RecordedImage]], Selection], *, dry: bool = False
) -> Purged:
    """Remove everything that was derived from the selected people and images.

    Parameters
    ----------
    here : Config
        Where outputs, state and the MLflow store are.
    make_selection : callable
        Returns the selection, given this machine's salt and the images in the store's index.
    dry : bool
        Only count.
    """
    from fp2.store.rows import ResponseStore

    salt = local_salt(Path(here.paths.state))
    done = Purged()
    with ResponseStore(Path(here.paths.store)) as store:
        known = origins.recorded_images(store.connection, store.path)
        selection = make_selection(salt, known)
        chosen = [image for image in known if selection.selects(image)]
        every = sorted(origins.all_keys(store.connection, store.path))
        raw_keys = dict(zip(salted(every, salt, "response"), every, strict=True))
        gone = origins.keys_of(store.connection, store.path, chosen)
        work = _Work(here, selection, chosen, raw_keys, gone, dry, {image.subject for image in chosen})
        folders = _run_folders(Path(here.paths.outputs))
        with artifacts.as_user_error(Path(here.paths.outputs)):
            for folder in folders:  # a store without an index of origins: the runs' tables say which answers go
                _purge_folder(folder, work, look=True)
            done.runs += [line for folder in folders if (line := _purge_folder(folder, work))]
            done.runs += _purge_logged(work, {_run_id(folder): folder for folder in folders})
            done.runs += _purge_reports(Path(here.paths.outputs), work)
            done.store = _purge_store(store, work)
        done.people, done.lost = len(work.people), list(work.lost.values())
    return done


def _run_folders(outputs: Path) -> list[Path]:
    """Return the folders of runs that have tables."""
    return sorted({path.parent for path in outputs.expanduser().rglob(artifacts.PEOPLE)})


def _results(folder: Path) -> Results | None:
    try:
        found = json.loads((folder / artifacts.RESULTS).read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else None
    except (OSError, ValueError):
        return None


def _run_id(folder: Path) -> str:
    return str((_results(folder) or {}).get("run_id", folder))


def _purge_folder(folder: Path, work: _Work, look: bool = False) -> str | None:
    """Purge one run, or only `look`; return one line on it, None if nothing of it is selected."""
    results = _results(folder)
    release = results["dataset"]["release"] if results else None
    if results is not None and not work.selection.concerns(kind_of(results, folder), release):
        return None
    tables, n_people = work.drop(before := read_tables(folder), results is not None)
    n_answers = before.n_answers - tables.n_answers
    started = (folder / MARK).exists()
    if not (n_people or n_answers or started or len(before.people) > len(tables.people)):
        return None
    what = f"{folder}: {n_people} people and {n_answers} answers"
    work.changed.add(str(results["run_id"]) if results else folder.name)
    if work.dry and results is not None and not tables.people.empty:
        _check_recomputable(folder, tables, results, work)
    if work.dry or look:
        return what
    if results is not None:
        forget(Path(work.here.paths.outputs), str(results["run_id"]))
        for name in installed(PURGES):
            forget_in = load(PURGES, name, PURGES)
            forget_in(Path(work.here.paths.outputs), str(results["run_id"]), set(tables.people["image_id"]))
    if tables.people.empty:
        shutil.rmtree(folder)
        return f"{what}, all that it had: the run was removed"
    return f"{what}: {_rewrite(folder, tables, work, results, n_people)}"


def _check_recomputable(folder: Path, tables: RunTables, results: Results, work: _Work) -> None:
    """Record why a run cannot be recomputed: a plug-in or a file that it used is not here."""
    from fp2.report.section import load_sections

    try:
        protocol, _ = logged_protocol(logged_config(folder, work.here, results["run_id"]), tables.people)
        load_sections(protocol.section_targets())
    except Fp2Error as error:
        work.lost[str(results["run_id"])] = f"run {results['run_id']}: {error}"


def _rewrite(folder: Path, tables: RunTables, work: _Work, results: Results | None, n_people: int) -> str:
    """Write the tables that are left, then everything that follows from them; return how that went."""
    mark = folder / MARK
    n_people = max(n_people, int(mark.read_text() or 0) if mark.exists() else 0)
    mark.write_text(str(n_people))
    tables.write(folder)
    try:
        if results is None:
            raise Fp2Error("the run has no results")
        write = reissue(folder, tables, work.here, results, work.raw_keys, n_people)
        said = "recomputed and signed again"
    except Fp2Error as error:
        strip(folder)
        said = f"removed from its tables; results, figures and passport were deleted as well, since {error}"
    else:
        write()  # where nothing can be written the mark stays, and the same command finishes
    mark.unlink()
    return said


def _purge_logged(work: _Work, folders: dict[str, Path]) -> list[str]:
    """Purge the runs in the MLflow store, from their output folder if it still exists, else from their logged files."""
    from fp2.tracking.files import clear_tags, fetch, logged_runs

    lines = []
    runs = logged_runs(work.here)
    for run in runs:
        with tempfile.TemporaryDirectory(prefix="fp2-purge-") as scratch:
            logged = Path(scratch)
            fetch(run, work.here, logged)
            if not (logged / artifacts.PEOPLE).is_file():
                continue
            if line := _purge_logged_run(run, logged, folders.get(run.run_id), work):
                lines.append(line)
    if not work.dry and isinstance(work.selection, ByIds):
        clear_tags(runs, work.here, (*work.selection.subject_ids, *work.selection.image_ids))
    return lines


def _purge_logged_run(run: Logged, logged: Path, folder: Path | None, work: _Work) -> str | None:
    """Purge one run of the MLflow store; a run whose output folder exists is replaced by it: one passport for both."""
    from fp2.tracking.files import remove, replace

    line = _purge_folder(logged, work, look=folder is not None)
    if line is None:
        return None
    line = line.replace(str(logged), f"MLflow run {run.run_id}")
    if work.dry:
        return line
    source = logged if folder is None else folder
    if not source.is_dir():
        remove(run, work.here)
        return f"{line}: removed"
    results = _results(source)
    files = artifacts.files_of(source)
    if (source / artifacts.PASSPORT).is_file():
        files[artifacts.PASSPORT] = source / artifacts.PASSPORT
    replace(run, work.here, files, results, _tags(results, source))
    return line if folder is None else f"{line}: now as in {folder}"


def _purge_reports(outputs: Path, work: _Work) -> list[str]:
    """Delete the reports of several runs in which a purged run is counted; return one line on each."""
    lines = []
    for path in sorted(outputs.expanduser().rglob(f"{FOLDER}/{artifacts.RESULTS}")):
        runs = (_results(path.parent) or {}).get("runs")
        if isinstance(runs, list) and any(run.get("run_id") in work.changed for run in runs):
            lines.append(f"{path.parent}: a report of several runs; fp2 report {path.parents[1]} makes it again")
            if not work.dry:
                shutil.rmtree(path.parent)
    return lines


def _tags(results: Results | None, source: Path) -> dict[str, str]:
    """Return the tags that follow from the results."""
    from fp2.hashing import sha256_file
    from fp2.report.leaderboard import summarise

    if results is None:
        return {"summary": "[]", "severity": "None", "passport_sha256": "None"}
    return {
        "severity": str(results["severity"]),
        "summary": json.dumps(summarise(results)),
        "passport_sha256": sha256_file(source / artifacts.PASSPORT),
        **{name: str(results[name]) for name in ("response_set", "dataset_digest")},
        **code_tags(passport_part(source, "generator")),
    }


def _purge_store(store: ResponseStore, work: _Work) -> dict[str, int]:
    """Delete the store's rows, and mentions of the ids in notes of failed runs."""
    words = (*work.selection.subject_ids, *work.selection.image_ids) if isinstance(work.selection, ByIds) else ()
    paths = {os.path.abspath(image.path) for image in work.chosen}
    paths |= {path for path in origins.digested_paths(store.connection, store.path) if any(w in path for w in words)}
    if work.dry:
        return {**_there(store, work.gone_keys), "pictures": len(work.chosen)}
    _clear_notes(Path(work.here.paths.outputs).expanduser(), words)
    _clear_chosen_ids(Path(work.here.paths.state), words)
    for name in paths:
        if Path(name).is_relative_to(Path(work.here.paths.data).absolute() / WRITTEN_OUT):
            Path(name).unlink(missing_ok=True)
    return origins.delete(store.connection, store.path, work.gone_keys, work.chosen, paths)


def _clear_chosen_ids(state: Path, words: Sequence[str]) -> None:
    """Remove the ids from the lists of chosen images that are kept for reruns."""
    for path in (state / "places").glob("*.json"):
        kept = json.loads(path.read_text(encoding="utf-8"))
        ids = kept.get("data.ids")
        if isinstance(ids, list) and any(str(name) in words for name in ids):
            kept["data.ids"] = [name for name in ids if str(name) not in words]
            path.write_text(json.dumps(kept, indent=1), encoding="utf-8")


def _there(store: ResponseStore, keys: set[str]) -> dict[str, int]:
    """Return how many answers (rows) and how many arrays of answers the store has under `keys`."""
    single = {str(key) for (key,) in store.connection.execute("SELECT key FROM answers")}
    blocks = [key.hex() for (key,) in store.connection.execute("SELECT context FROM blocks")]
    return {"answers": len(keys & single), "blocks": sum(key in keys for key in blocks)}


def _clear_notes(outputs: Path, words: Sequence[str]) -> None:
    """Delete the tracebacks and status files of failed runs that mention one of the ids."""
    for name in artifacts.LOCAL_FILES:
        for path in outputs.rglob(name):
            if any(word in path.read_text(encoding="utf-8", errors="replace") for word in words):
                path.unlink()
