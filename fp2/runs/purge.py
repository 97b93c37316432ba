"""Purge: remove everything derived from subjects, images or a release, from the store, the runs and their results.

A purge is a plan (`plan_purge`, which a dry run prints), a journal of it, tombstones (`fp2.store.withdrawn`), the
steps, a search for what is left, and a signed certificate. A run's new files are ready before its old ones are touched,
and the response store comes last: its index records which answers belong to which image. So every step can be
repeated, and a killed purge is finished by the next one, or by the next run (`finish_pending`).
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.ask.answers import RunTables, read_tables
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.hashing import sha256_file
from fp2.identifiers import normal_id
from fp2.plugins import PURGES, installed, load
from fp2.progress import Progress
from fp2.report.leaderboard import summarise
from fp2.report.section import load_sections
from fp2.report.summary import description
from fp2.results import Results
from fp2.runs.folders import forget_folder, recorded_folders
from fp2.runs.logged import logged_config, logged_protocol, passport_part
from fp2.runs.multiverse import forget
from fp2.runs.outputs import code_tags
from fp2.runs.purge_journal import Journal, Step, alone, drafts, pending
from fp2.runs.purge_search import remaining
from fp2.runs.purge_selection import Selection, ids_in, kind_of
from fp2.runs.reissue import reissue, strip
from fp2.runs.sweep_report import FOLDER as REPORT
from fp2.store import origins
from fp2.store.rows import ResponseStore
from fp2.store.salted_keys import local_salt, salted
from fp2.store.withdrawn import halted, withdraw
from fp2.tracking.client import tracking_uri
from fp2.tracking.files import Logged, files_of, logged_runs, redact_tags, redacted_tags, remove, replace

if TYPE_CHECKING:
    import pandas as pd

Select = Callable[[bytes, list[origins.RecordedImage]], Selection]
WRITTEN_OUT = "hf"  # below `paths.data`: images that were extracted from a data set's own files
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z")
OF_PEOPLE = (
    artifacts.PEOPLE, artifacts.RESPONSES, artifacts.SCORES, artifacts.RESULTS, artifacts.SAMPLE, artifacts.DASHBOARD,
)  # fmt: skip
OF_FILES = (AttributeError, LookupError, TypeError, ValueError)
"""What a run's files may cause that say something odd: no purge stops there."""
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


@dataclass
class Plan:
    """What is removed: the selection by keys, the steps, and what they need.

    Attributes
    ----------
    selection : Selection
    pictures, paths
        The images of the store's index that are removed; their paths, and those of images that it has digests of only.
    raw_keys : dict
        Salted key -> response key of every stored answer.
    keys, unindexed : set of str
        Salted keys of the answers that are removed, and those of them that are not in the store's index.
    steps, store
        What is done, and how many rows of the store are deleted.
    people : set of str
        Salted keys of everyone who is removed.
    ids : list of dict
        How much each given id selects.
    lost : list of str
        The runs that cannot be recomputed: they lose results, figures and passport.
    unreached : list of str
        What a purge cannot change.
    texts : list of str
        Long answers that nobody else gave.
    """

    selection: Selection
    pictures: list[origins.RecordedImage]
    raw_keys: dict[str, str]
    keys: set[str]
    paths: set[str] = field(default_factory=set)
    unindexed: set[str] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    store: dict[str, int] = field(default_factory=dict)
    people: set[str] = field(default_factory=set)
    ids: list[dict[str, Any]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def runs(self) -> list[Step]:
        """The steps that remove people from runs."""
        return [step for step in self.steps if step.people or step.answers]

    def leaving(self, people: pd.DataFrame, results: Results | None) -> pd.Series[bool]:
        """Return which rows of a run's people leave; without results, its release is that of the index's images."""
        if results is None and self.selection.release is not None:
            return people["image_id"].isin({one.image for one in self.pictures})
        return self.selection.rows(people["image_id"], people["subject_id"])

    def reduce(self, tables: RunTables, results: Results | None) -> RunTables:
        """Return the tables without what is removed."""
        leaving = self.leaving(tables.people, results)
        return tables.without(tables.people[~leaving], set(tables.people.loc[leaving, "image_id"]), self.keys)

    def response_keys(self) -> set[str]:
        """Return the response keys of the stored answers that are removed."""
        return {self.raw_keys[key] for key in self.keys & self.raw_keys.keys()}


def plan_purge(here: Config, select: Select, keys: Iterable[str] = ()) -> Plan:
    """Return what a purge removes; nothing is changed.

    Parameters
    ----------
    here : Config
        Where outputs, state and the MLflow store are.
    select : callable
        Returns the selection, given this machine's salt and the images in the store's index.
    keys : iterable of str
        Salted keys of further answers that are removed.
    """
    salt, outputs = local_salt(Path(here.paths.state)), Path(here.paths.outputs).expanduser()
    with ResponseStore(Path(here.paths.store)) as store, tempfile.TemporaryDirectory(prefix="fp2-purge-") as scratch:
        recorded = origins.recorded_images(store.connection, store.path)
        selection = select(salt, recorded)
        pictures = [image for image in recorded if selection.selects(image)]
        every = sorted(origins.all_keys(store.connection, store.path))
        indexed = set(salted(origins.keys_of(store.connection, store.path, pictures), salt, "response"))
        raw_keys = dict(zip(salted(every, salt, "response"), every, strict=True))
        plan = Plan(selection, pictures, raw_keys, {*keys, *indexed})
        with artifacts.as_user_error(outputs):
            logged = logged_runs(here)
            sources = list(_sources(here, logged, Path(scratch), plan))
            _resolve(plan, sources, salt)
            plan.unindexed = plan.keys - indexed
            _plan_runs(plan, sources, here)
            _plan_texts(plan, logged, here)
        _plan_store(plan, store, Path(here.paths.data).absolute() / WRITTEN_OUT)
    return plan


def _read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object, an empty one where there is none that can be read."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _results(folder: Path) -> Results | None:
    results = _read_json(folder / artifacts.RESULTS)
    dataset = results.get("dataset")
    return results if isinstance(dataset, dict) and "release" in dataset and "run_id" in results else None


def _sources(here: Config, logged: list[Logged], scratch: Path, plan: Plan) -> Iterator[Source]:
    """Yield the runs that may have what is selected, folders first; name what cannot be reached."""
    outputs, state = Path(here.paths.outputs).expanduser(), Path(here.paths.state).absolute()
    folders = {path.parent for name in (artifacts.PEOPLE, artifacts.RESPONSES) for path in outputs.rglob(name)}
    for run_id, folder in recorded_folders(state).items():
        if folder.is_dir():
            folders.add(folder)
        else:
            plan.unreached.append(f"{folder}: the folder of run {run_id} was moved or deleted")
    plan.unreached += [f"{path}: a seed store, which is only read" for path in here.paths.seed_stores]
    plan.unreached += [f"{path}: an archive" for path in sorted(outputs.rglob("*")) if path.suffix in ARCHIVES]
    unique = {folder.resolve(): folder for folder in sorted(folders)}
    places: list[tuple[Path, Logged | None]] = [(folder, None) for folder in unique.values()]
    places += [(files_of(run, here, scratch), run) for run in logged]
    for files, run in places:
        results = _results(files)
        if not results or plan.selection.concerns(kind_of(results, files), results["dataset"]["release"]):
            yield Source(files, run.run_id if run else str((results or {}).get("run_id", files)), results, run)


def _resolve(plan: Plan, sources: list[Source], salt: bytes) -> None:
    """Find everyone who is selected in the tables and the index, and all answers about them."""
    pairs = {(one.image, one.subject) for one in plan.pictures}
    counts = [
        (one, {image for image, subject in pairs if {image, subject} & one.keys}, dict[str, int](), set[str]())
        for one in plan.selection.given
    ]
    for source in sources:
        if (tables := source.tables) is None:
            continue
        people = tables.people[plan.leaving(tables.people, source.results)]
        pairs |= set(zip(people["image_id"], people["subject_id"], strict=True))
        plan.keys |= tables.answers.keys_of(set(people["image_id"]))
        for one, images, answers, runs in counts:
            theirs = people.loc[people["image_id"].isin(one.keys) | people["subject_id"].isin(one.keys), "image_id"]
            images |= set(theirs)
            answers |= dict.fromkeys(tables.answers.keys_of(set(theirs)), getattr(tables.answers, "per_image", 1))
            runs |= {source.run_id} if len(theirs) else set()
    plan.people = {subject for _, subject in pairs}
    plan.ids = [
        {"kind": one.kind, "id": one.id, "by": one.by,
         "images": len(images), "answers": sum(answers.values()), "runs": len(runs)}
        for one, images, answers, runs in counts
    ]  # fmt: skip
    names = (name for one in plan.pictures for name in (one.path, *ids_in(one.path, one.image, salt)))
    plan.selection = plan.selection.resolved(pairs, names)


def _plan_runs(plan: Plan, sources: list[Source], here: Config) -> None:
    """Plan a step for each run that has rows of the selected, and for each whose tables are incomplete."""
    folders: dict[str, Path] = {}
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
                plan.unreached.append(f"{source.files}: the tables of a signed run, which cannot be read")
            elif run and run.running:
                plan.unreached.append(f"MLflow run {run.run_id}, which goes on: it leaves them out by itself")
            elif any((source.files / name).exists() for name in OF_PEOPLE):
                step.outcome = f"its tables are incomplete; it {'is replaced' if folder else 'is removed'}"
                plan.steps.append(step)
            continue
        left = plan.reduce(tables, source.results)
        others |= _texts(left)
        asked.add(json.dumps((source.results or {}).get("probes"), ensure_ascii=False))
        step.people = tables.people["subject_id"].nunique() - left.people["subject_id"].nunique()
        step.answers = tables.n_answers - left.n_answers
        if step.people or step.answers or len(tables.people) > len(left.people):
            changed.add(source.run_id)
        elif run is None or source.run_id not in changed:
            continue
        plan.steps.append(step)
        texts |= _texts(tables) - _texts(left)
        if left.people.empty:
            step.outcome = "all that it has: the run is removed"
        elif source.results is not None and (line := _not_recomputable(source, left, here)) and line not in plan.lost:
            plan.lost.append(line)
    if plan.selection.release is None:
        theirs = (text for text in sorted(texts - others, key=len) if len(text) >= LONG_TEXT)
        plan.texts = [text for text in theirs if not any(text in questions for questions in asked)]
    for path in sorted(Path(here.paths.outputs).expanduser().rglob(f"{REPORT}/{artifacts.RESULTS}")):
        if any(one.get("run_id") in changed for one in _read_json(path).get("runs") or ()):
            again = f"a report of several runs; fp2 report {path.parents[1]} makes it again"
            plan.steps.append(Step("report", str(path.parent), outcome=again))
    if any(step.kind == "mlflow" for step in plan.steps) and tracking_uri(here).startswith("http"):
        plan.unreached.append("the MLflow server's database, which keeps earlier values of metrics")


def _texts(tables: RunTables) -> set[str]:
    frame = getattr(tables.answers, "frame", None)
    return set() if frame is None else {text for text in frame["text"] if isinstance(text, str)}


def _not_recomputable(source: Source, tables: RunTables, here: Config) -> str | None:
    """Return why a run cannot be recomputed: a plug-in or a file that it used is not here."""
    try:
        protocol, _ = logged_protocol(logged_config(source.files, here, source.run_id), tables.people)
        load_sections(protocol.section_targets())
    except Fp2Error as error:
        return f"run {source.run_id}: {error}"
    return None


def _plan_texts(plan: Plan, logged: list[Logged], here: Config) -> None:
    """Plan the removal of ids from free text: MLflow tags, notes of failed runs, lists of chosen images."""
    chosen = plan.selection
    plan.steps += [Step("tags", run.run_id) for run in logged if redacted_tags(run, chosen.redact)]
    roots = [Path(here.paths.outputs).expanduser(), *recorded_folders(Path(here.paths.state)).values()]
    notes = sorted({path.absolute() for root in roots for name in artifacts.LOCAL_FILES for path in root.rglob(name)})
    plan.steps += [Step("note", str(path)) for path in notes if redacted_note(path, chosen) is not None]
    places = sorted((Path(here.paths.state) / "places").glob("*.json"))
    plan.steps += [Step("ids", str(path)) for path in places if _chosen_ids(_read_json(path)) & chosen.words]


def _chosen_ids(places: Mapping[str, Any]) -> set[str]:
    ids = places.get("data.ids")
    return {normal_id(name) for name in ids} if isinstance(ids, list) else set()


def redacted_note(path: Path, selection: Selection) -> str | None:
    """Return a note without the ids, None where it has none; in JSON, only values that are text are looked at."""

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items()}
        if isinstance(value, list):
            return [clean(item) for item in value]
        return selection.redact(value) if isinstance(value, str) else value

    text = path.read_text(encoding="utf-8", errors="replace")
    body: Any = _read_json(path) or text
    try:
        new = clean(body)
    except RecursionError:
        body, new = text, clean(text)
    return None if new == body else new if isinstance(new, str) else json.dumps(new)


def _plan_store(plan: Plan, store: ResponseStore, extracted: Path) -> None:
    """Plan the deletion of rows, and of images that were extracted from a data set's own files."""
    digested = origins.digested_paths(store.connection, store.path)
    named = {path for path in digested if plan.selection.files & {normal_id(PurePath(path).name),
                                                                 normal_id(PurePath(path).stem)}}  # fmt: skip
    plan.paths = {os.path.abspath(image.path) for image in plan.pictures} | named
    pictures = [Path(path) for path in sorted(plan.paths) if Path(path).is_relative_to(extracted)]
    plan.steps += [Step("picture", str(path)) for path in pictures if path.exists()]
    keys = plan.response_keys()
    for table, column in (("answers", "key"), ("failures", "key"), ("blocks", "lower(hex(context))")):
        rows = store.connection.execute(f"SELECT {column} FROM {table}")
        plan.store[table] = sum(str(key) in keys for (key,) in rows)
    plan.store |= {"pictures": len(plan.pictures), "pixel_digests": len(plan.paths & set(digested))}
    if any(plan.store.values()):
        plan.steps.append(Step("store", str(store.path)))


def purge(here: Config, plan: Plan) -> Journal:
    """Remove what a plan says; return what was removed, what is still there, and where the certificate is.

    Raises
    ------
    Fp2Error
        If another purge is running, or something cannot be written; then the next purge or run finishes this one.
    """
    with alone(Path(here.paths.state)):
        journal = Journal.begin(here, plan.selection)
        _execute(here, journal)
    return journal


def finish_pending(config: Config, progress: Progress) -> list[str]:
    """Finish the purges that were interrupted; return what was done, in lines. It waits for one that is running.

    Raises
    ------
    Fp2Error
        If something cannot be read or written.
    """
    state, lines = Path(config.paths.state), list[str]()
    if not (pending(state) or drafts(state)):
        return lines
    progress.stage("Finishing a purge")
    with alone(state, wait=True):
        for path in pending(state):
            journal = Journal.read(path)
            _execute(journal.config(config), journal)
            lines += [f"finished the purge that began at {journal.started}: {journal.certificate}", *journal.said]
    return lines


def _execute(here: Config, journal: Journal) -> None:
    state = Path(here.paths.state)

    def plan_again() -> Plan:
        return plan_purge(here, lambda salt, recorded: journal.selection, journal.keys)

    with artifacts.as_user_error(Path(here.paths.outputs)):
        journal.write()
        if journal.selection.release is None:
            withdraw(state, journal.selection.subjects, journal.selection.images)
        with halted(state):  # what was being written is complete, and what is written later leaves them out
            plan = plan_again()
        _merge(journal, plan)
        for step in journal.steps:
            journal.write()
            if not step.done:
                _STEPS[step.kind](step, here, plan, journal)
                step.done = True
        journal.write()
        after = plan_again()
        left = [step.line for step in after.steps if not step.run_id or step.people or step.answers]
        journal.remaining = [*left, *remaining(here, journal)]
        journal.certify(here)


def _merge(journal: Journal, plan: Plan) -> None:
    """Add to the journal what is to be done; what an earlier attempt prepared or did stays so, unless it is back."""
    earlier = {(step.kind, step.target): step for step in journal.steps}
    for step in plan.steps:
        same = earlier.get((step.kind, step.target))
        if same is None:
            journal.steps.append(step)
        elif same.done:
            same.done = same.staged = False
    journal.steps.sort(key=lambda step: list(_STEPS).index(step.kind))
    journal.selection = plan.selection
    journal.people = max(journal.people, len(plan.people))
    journal.keys = sorted({*journal.keys, *plan.unindexed})
    journal.texts = list(dict.fromkeys([*journal.texts, *plan.texts]))[-MOST_TEXTS:]
    journal.store = {table: max(n, journal.store.get(table, 0)) for table, n in plan.store.items()}
    journal.unreached = list(dict.fromkeys([*journal.unreached, *plan.unreached]))


def _replace_folder(step: Step, here: Config, plan: Plan, journal: Journal) -> None:
    folder, stage, outputs = Path(step.target), journal.stage(step), Path(here.paths.outputs)
    if not step.staged:
        _prepare(folder, stage, step, here, plan)
        step.staged = True
        journal.write()
    kept = set(read_tables(stage).people["image_id"]) if stage.is_dir() else set()
    forget(outputs, step.run_id)
    for name in installed(PURGES):
        load(PURGES, name, PURGES)(outputs, step.run_id, kept)
    if not stage.is_dir():
        shutil.rmtree(folder, ignore_errors=True)
        forget_folder(Path(here.paths.state), folder)
    elif folder.is_dir():
        _mirror(stage, folder)
    else:
        step.outcome = "it was gone already, or moved"


def _replace_logged(step: Step, here: Config, plan: Plan, journal: Journal) -> None:
    """Replace a run of the MLflow store by its output folder, so that there is one passport for both, or reduce it."""
    run = next((run for run in logged_runs(here) if run.run_id == step.target), None)
    if run is None:
        return
    source = Path(step.source or os.devnull)
    if source.is_dir():
        step.outcome, step.before = f"now as in {source}", step.before or _digests(source)
    else:
        source = journal.stage(step)
        if not step.staged:
            with tempfile.TemporaryDirectory(prefix="fp2-purge-") as scratch:
                _prepare(files_of(run, here, Path(scratch)), source, step, here, plan)
            step.staged = True
            journal.write()
    if not source.is_dir():
        remove(run, here)
        return
    results = _results(source)
    files = artifacts.files_of(source)
    if (source / artifacts.PASSPORT).is_file():
        files[artifacts.PASSPORT] = source / artifacts.PASSPORT
    replace(run, here, files, results, _tags(results, source))
    step.after = _digests(source)


def _prepare(files: Path, stage: Path, step: Step, here: Config, plan: Plan) -> None:
    """Write into `stage` what is left of a run; nothing where that is nobody, or its tables are incomplete."""
    shutil.rmtree(stage, ignore_errors=True)
    if not files.is_dir():
        step.outcome = "it was gone already"
        return
    stage.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copytree(files, stage)
    step.before = _digests(stage)
    source = Source(stage, step.run_id, _results(stage))
    left = plan.reduce(tables, source.results) if (tables := source.tables) else None
    if left is None or left.people.empty:
        step.outcome = f"{'all that it had' if left else 'its tables were incomplete'}: the run was removed"
        shutil.rmtree(stage)
        return
    why: Exception | None = None
    try:
        if source.results is None:
            raise Fp2Error("the run has no results")
        write = reissue(stage, left, here, source.results, plan.raw_keys, step.people)
    except (Fp2Error, *OF_FILES) as error:
        why = error
    else:
        try:
            write()
        except (Fp2Error, *OF_FILES) as error:
            if isinstance(error.__cause__, OSError):  # no space: the run is as it was
                raise
            why = error
    step.outcome = "recomputed and signed again"
    if why is not None:
        strip(stage)
        left.write(stage)
        step.outcome = f"removed from its tables; results, figures and passport were deleted as well, since {why}"
    step.after = _digests(stage)


def _digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of a run's passport and results, as far as it has them."""
    names = (artifacts.PASSPORT, artifacts.RESULTS)
    return {name: sha256_file(folder / name) for name in names if (folder / name).is_file()}


def _mirror(stage: Path, folder: Path) -> None:
    """Make `folder` equal to `stage`, file by file."""
    for path in sorted(stage.rglob("*")):
        target = folder / path.relative_to(stage)
        if path.is_dir():
            target.mkdir(exist_ok=True)
            continue
        draft = target.with_name(f".{target.name}.purged")
        shutil.copyfile(path, draft)
        os.replace(draft, target)
    for path in sorted(folder.rglob("*"), reverse=True):
        if not (stage / path.relative_to(folder)).exists():
            path.rmdir() if path.is_dir() else path.unlink()


def _tags(results: Results | None, source: Path) -> dict[str, str]:
    """Return the tags that follow from the results."""
    if results is None:
        return {"summary": "[]", "severity": "None", "passport_sha256": "None", "description": ""}
    return {
        "severity": str(results["severity"]),
        "summary": json.dumps(summarise(results)),
        "description": description(results),
        "passport_sha256": sha256_file(source / artifacts.PASSPORT),
        **{name: str(results[name]) for name in ("config_hash", "response_set", "dataset_digest")},
        **code_tags(passport_part(source, "generator")),
    }


def _redact_tags(step: Step, here: Config, plan: Plan, journal: Journal) -> None:
    for run in logged_runs(here):
        if run.run_id == step.target:
            redact_tags(run, here, journal.selection.redact)


def _redact_note(step: Step, here: Config, plan: Plan, journal: Journal) -> None:
    path = Path(step.target)
    if path.is_file() and (text := redacted_note(path, journal.selection)) is not None:
        artifacts.replace_file(path, text)


def _drop_ids(step: Step, here: Config, plan: Plan, journal: Journal) -> None:
    """Remove the ids from a list of chosen images, which is kept for reruns."""
    places, words = _read_json(Path(step.target)), journal.selection.words
    places["data.ids"] = [name for name in places["data.ids"] if normal_id(name) not in words]
    artifacts.replace_file(Path(step.target), json.dumps(places, indent=1))


def _delete_rows(step: Step, here: Config, plan: Plan, journal: Journal) -> None:
    with ResponseStore(Path(step.target)) as store:
        deleted = origins.delete(store.connection, store.path, plan.response_keys(), plan.pictures, plan.paths)
    journal.store |= {table: n for table, n in deleted.items() if n}


_STEPS: dict[str, Callable[[Step, Config, Plan, Journal], None]] = {
    "folder": _replace_folder,
    "mlflow": _replace_logged,
    "report": lambda step, here, plan, journal: shutil.rmtree(step.target, ignore_errors=True),
    "tags": _redact_tags,
    "note": _redact_note,
    "ids": _drop_ids,
    "picture": lambda step, here, plan, journal: Path(step.target).unlink(missing_ok=True),
    "store": _delete_rows,
}
"""How each kind of step is done, in the order of the steps."""
