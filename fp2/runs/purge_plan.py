"""The plan of a purge: which rows of runs, of the MLflow store and of the response store are about whom it removes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from fp2 import artifacts
from fp2.ask.answers import RunTables, read_tables
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.identifiers import normal_id
from fp2.report.section import load_sections
from fp2.results import Results
from fp2.runs.folders import recorded_folders, recorded_written
from fp2.runs.logged import logged_config, logged_protocol
from fp2.runs.purge_journal import Journal, Step, scratch
from fp2.runs.purge_selection import Selection, ids_in, kind_of
from fp2.runs.sweep_report import FOLDER as REPORT
from fp2.store import origins
from fp2.store.rows import ResponseStore
from fp2.store.salted_keys import local_salt, salted
from fp2.tables import TRACE
from fp2.tracking.client import shown_uri, tracking_uri
from fp2.tracking.files import Logged, files_of, free_texts, logged_runs

Select = Callable[[bytes, list[origins.RecordedImage]], Selection]
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z")
OF_PEOPLE = (
    artifacts.PEOPLE, artifacts.RESPONSES, artifacts.SCORES, artifacts.RESULTS, artifacts.SAMPLE, artifacts.DASHBOARD,
)  # fmt: skip
LONG_TEXT, MOST_TEXTS = 20, 2000  # of the answers that are searched for at last


@dataclass(frozen=True)
class Source:
    """The files of a run: in its output folder, or in the MLflow store (`logged`)."""

    files: Path
    run_id: str
    results: Results | None
    logged: Logged | None = None

    @property
    def tables(self) -> RunTables | None:
        """The tables of the run, read anew; None where they cannot be read."""
        try:
            return read_tables(self.files)
        except Fp2Error:
            return None


def plan_purge(here: Config, select: Select) -> Journal:
    """Return what a purge removes; nothing is changed.

    Parameters
    ----------
    here : Config
        Where outputs, state and the MLflow store are.
    select : callable
        Returns the selection, given this machine's salt and the images in the store's index.
    """
    journal = Journal.begin(here, Selection())
    plan_steps(here, journal, select)
    return journal


def plan_steps(here: Config, journal: Journal, select: Select | None = None) -> None:
    """Add to a journal what is to be done now; `select`: in place of its selection."""
    state, outputs = Path(here.paths.state), Path(here.paths.outputs).expanduser()
    salt = local_salt(state)
    with ResponseStore(Path(here.paths.store)) as store, scratch(state) as downloads:
        recorded = origins.recorded_images(store.connection, store.path)
        if select is not None:
            journal.selection = select(salt, recorded)
        journal.pictures = [image for image in recorded if journal.selection.selects(image)]
        every = sorted(origins.all_keys(store.connection, store.path))
        indexed = set(salted(origins.keys_of(store.connection, store.path, journal.pictures), salt, "response"))
        journal.raw_keys = dict(zip(salted(every, salt, "response"), every, strict=True))
        journal.keys = journal.unindexed | indexed
        with artifacts.as_user_error(outputs):
            logged = logged_runs(here)
            sources = list(_sources(here, logged, downloads, journal))
            _resolve(journal, sources, salt)
            journal.unindexed = journal.keys - indexed
            changed = _plan_runs(journal, sources, here)
            _plan_written(journal, changed, here)
            _plan_texts(journal, logged, here)
        _plan_store(journal, store)
    journal.unreached = list(dict.fromkeys(journal.unreached))


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object, an empty one where there is none that can be read."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def results_in(folder: Path) -> Results | None:
    """Return the results of a run; None where there are none that can be read."""
    results = read_json(folder / artifacts.RESULTS)
    dataset = results.get("dataset")
    return results if isinstance(dataset, dict) and "release" in dataset and "run_id" in results else None


def _sources(here: Config, logged: list[Logged], downloads: Path, journal: Journal) -> Iterator[Source]:
    """Yield the runs that may have what is selected, folders first; name what cannot be reached."""
    outputs, state = Path(here.paths.outputs).expanduser(), Path(here.paths.state).absolute()
    folders = {path.parent for name in (artifacts.PEOPLE, artifacts.RESPONSES) for path in outputs.rglob(name)}
    for run_id, folder in recorded_folders(state).items():
        if folder.is_dir():
            folders.add(folder)
        else:
            journal.unreached.append(f"{folder}: the folder of run {run_id} was moved or deleted")
    journal.unreached += [f"{path}: a seed store, which is only read" for path in here.paths.seed_stores]
    journal.unreached += [f"{path}: an archive" for path in sorted(outputs.rglob("*")) if path.suffix in ARCHIVES]
    unique = {folder.resolve(): folder for folder in sorted(folders)}
    places: list[tuple[Path, Logged | None]] = [(folder, None) for folder in unique.values()]
    places += [(files_of(run, here, downloads), run) for run in logged]
    for files, run in places:
        results = results_in(files)
        if not results or journal.selection.concerns(kind_of(results, files), results["dataset"]["release"]):
            yield Source(files, run.run_id if run else str((results or {}).get("run_id", files)), results, run)


def _resolve(journal: Journal, sources: list[Source], salt: bytes) -> None:
    """Find everyone who is selected in the tables and the index, and all answers about them."""
    pairs = {(one.image, one.subject) for one in journal.pictures}
    counts = [
        (one, {image for image, subject in pairs if {image, subject} & one.keys}, dict[str, int](), set[str]())
        for one in journal.selection.given
    ]
    for source in sources:
        if (tables := source.tables) is None:
            continue
        people = tables.people[journal.leaving(tables.people, source.results)]
        pairs |= set(zip(people["image_id"], people["subject_id"], strict=True))
        journal.keys |= tables.answers.keys_of(set(people["image_id"]))
        for one, images, answers, runs in counts:
            theirs = people.loc[people["image_id"].isin(one.keys) | people["subject_id"].isin(one.keys), "image_id"]
            images |= set(theirs)
            answers |= dict.fromkeys(tables.answers.keys_of(set(theirs)), getattr(tables.answers, "per_image", 1))
            runs |= {source.run_id} if len(theirs) else set()
    journal.people |= {subject for _, subject in pairs}
    journal.ids = [
        {"kind": one.kind, "id": one.id, "by": one.by,
         "images": len(images), "answers": sum(answers.values()), "runs": len(runs)}
        for one, images, answers, runs in counts
    ]  # fmt: skip
    names = (name for one in journal.pictures for name in (one.path, *ids_in(one.path, one.image, salt)))
    unseen = frozenset(key for one, images, *_ in counts if one.kind == "image" and not images for key in one.keys)
    journal.selection = journal.selection.resolved(pairs, names, unseen)


def _plan_runs(journal: Journal, sources: list[Source], here: Config) -> set[str]:
    """Plan a step for each run that has rows of the selected, whose ids it returns, and for incomplete tables."""
    folders: dict[str, Path] = {}
    recorded = {folder.resolve() for folder in recorded_folders(Path(here.paths.state)).values()}
    texts, others, asked, changed = set[str](), set[str](), set[str](), set[str]()
    for source in sources:
        tables, run = source.tables, source.logged
        if run is None and tables is not None:
            folders[source.run_id] = source.files
        folder = folders.get(source.run_id) if run else None
        step = Step("mlflow" if run else "folder", run.run_id if run else str(source.files), source.run_id,
                    source=str(folder or ""))  # fmt: skip
        if tables is None:
            if run is None and (source.files / artifacts.PASSPORT).is_file():
                journal.unreached.append(f"{source.files}: the tables of a signed run, which cannot be read")
            elif run and run.running:
                journal.unreached.append(f"MLflow run {run.run_id}, which goes on: it leaves them out by itself")
            elif not any((source.files / name).exists() for name in OF_PEOPLE):
                continue
            elif run is None and source.files.resolve() not in recorded:
                journal.unreached.append(f"{source.files}: incomplete tables in a folder that no run has recorded")
            else:
                step.outcome = f"its tables are incomplete; it {'is replaced' if folder else 'is removed'}"
                journal.add(step)
            continue
        left = journal.reduce(tables, source.results)
        others |= _texts(left)
        asked.add(json.dumps((source.results or {}).get("probes"), ensure_ascii=False))
        step.people = tables.people["subject_id"].nunique() - left.people["subject_id"].nunique()
        step.answers = tables.n_answers - left.n_answers
        if step.people or step.answers or len(tables.people) > len(left.people):
            changed.add(source.run_id)
        elif run is None or source.run_id not in changed:
            continue
        if left.people.empty:
            step.outcome = "all that it has: the run is removed"
        journal.add(step)
        texts |= _texts(tables) - _texts(left)
        if not left.people.empty and source.results is not None:
            journal.lost |= _not_recomputable(source, left, here)
    if journal.selection.release is None:
        theirs = (text for text in sorted(texts - others, key=len) if len(text) >= LONG_TEXT)
        new = [text for text in theirs if not any(text in questions for questions in asked)]
        journal.texts = list(dict.fromkeys([*journal.texts, *new]))[-MOST_TEXTS:]
    if any(step.kind == "mlflow" for step in journal.steps) and tracking_uri(here).startswith("http"):
        journal.unreached.append("the MLflow server's database, which keeps earlier values of metrics")
    return changed


def _plan_written(journal: Journal, changed: Collection[str], here: Config) -> None:
    """Plan the deletion of reports of several runs, one of which has `changed`; name what was exported."""
    written = recorded_written(Path(here.paths.state))
    for path in Path(here.paths.outputs).expanduser().absolute().rglob(f"{REPORT}/{artifacts.RESULTS}"):
        written[path.parent] = {str(one.get("run_id")) for one in read_json(path).get("runs") or ()}
    for path, runs in sorted(written.items()):
        if not (theirs := runs.intersection(changed)):
            continue
        if read_json(path / artifacts.RESULTS).get("runs"):
            again = f"a report of several runs; fp2 report {path.parent} makes it again"
            journal.add(Step("report", str(path), outcome=again))
        else:
            where = "" if path.exists() else ", moved or deleted"
            journal.unreached.append(f"{path}: exported from run {', '.join(sorted(theirs))}{where}")


def _texts(tables: RunTables) -> set[str]:
    frame = getattr(tables.answers, "frame", None)
    columns = [] if frame is None else [frame[name] for name in ("text", TRACE) if name in frame]
    return {text for column in columns for text in column if isinstance(text, str)}


def _not_recomputable(source: Source, tables: RunTables, here: Config) -> set[str]:
    """Return why a run cannot be recomputed: a plug-in or a file that it used is not here."""
    try:
        protocol, _ = logged_protocol(logged_config(source.files, here, source.run_id), tables.people)
        load_sections(protocol.section_targets())
    except Fp2Error as error:
        return {f"run {source.run_id}: {error}"}
    return set()


def _plan_texts(journal: Journal, logged: list[Logged], here: Config) -> None:
    """Plan the removal of ids from free text: MLflow tags, notes of failed runs, lists of chosen images."""
    chosen = journal.selection
    if any(chosen.redact(text) != text for _, text, _ in free_texts(here, logged)):
        journal.add(Step("tags", shown_uri(tracking_uri(here))))
    state = Path(here.paths.state)
    roots = [Path(here.paths.outputs).expanduser(), *recorded_folders(state).values()]
    notes = sorted({path.absolute() for root in roots for name in artifacts.LOCAL_FILES for path in root.rglob(name)})
    notes += sorted((state / "places").absolute().glob("*.json"))
    for path in notes:
        if redacted_note(path, chosen) is not None:
            journal.add(Step("note", str(path)))


def redacted_note(path: Path, selection: Selection) -> str | None:
    """Return a note without the ids, None where it has none; in JSON, only values that are text are looked at.

    Lists, as those of chosen images that are kept for reruns, lose items that are an id; paths for reruns stay.
    """
    is_note = path.name in artifacts.LOCAL_FILES

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items()}
        if isinstance(value, list):
            return [clean(item) for item in value if normal_id(item) not in selection.words]
        return selection.redact(value) if isinstance(value, str) and is_note else value

    text = path.read_text(encoding="utf-8", errors="replace")
    body: Any = read_json(path) or text
    try:
        new = clean(body)
    except RecursionError:
        body, new = text, clean(text)
    return None if new == body else new if isinstance(new, str) else json.dumps(new)


def _plan_store(journal: Journal, store: ResponseStore) -> None:
    """Plan the deletion of rows."""
    digested = origins.digested_paths(store.connection, store.path)
    named = {path for path in digested if journal.selection.files & {normal_id(PurePath(path).name),
                                                                 normal_id(PurePath(path).stem)}}  # fmt: skip
    journal.paths = {os.path.abspath(image.path) for image in journal.pictures} | named
    keys, counts = journal.response_keys(), dict[str, int]()
    for table, column in (("answers", "key"), ("failures", "key"), ("blocks", "lower(hex(context))")):
        rows = store.connection.execute(f"SELECT {column} FROM {table}")
        counts[table] = sum(str(key) in keys for (key,) in rows)
    counts |= {"pictures": len(journal.pictures), "pixel_digests": len(journal.paths & set(digested))}
    if any(counts.values()):
        journal.add(Step("store", str(store.path)))
    journal.store = {table: max(n, journal.store.get(table, 0)) for table, n in counts.items()}
