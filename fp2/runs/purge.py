"""Purge: remove everything derived from subjects, images or a release, from the store, the runs and their results.

A purge is a plan (`plan_purge`, which a dry run prints), a journal of it, tombstones (`fp2.store.withdrawn`), the steps,
a search for what is left, and a signed certificate. A run's new files are ready before its old ones are touched, and
the response store comes last: its index records which answers belong to which image. So every step can be repeated,
and a killed purge is finished by the next one, or by the next run (`finish_pending`).
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.ask.answers import RunTables, read_tables
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.hashing import sha256_file
from fp2.identifiers import normal_id
from fp2.plugins import PURGES, installed, load
from fp2.progress import Progress
from fp2.results import Results
from fp2.runs.folders import recorded_folders
from fp2.runs.logged import logged_config, logged_protocol, passport_part
from fp2.runs.multiverse import forget
from fp2.runs.outputs import code_tags
from fp2.runs.purge_journal import FOLDER as JOURNALS
from fp2.runs.purge_journal import Journal, Step, alone, pending, replace_file
from fp2.runs.purge_search import remaining
from fp2.runs.purge_selection import Selection, ids_in, kind_of
from fp2.runs.reissue import reissue, strip
from fp2.runs.sweep_report import FOLDER as REPORT
from fp2.store import origins
from fp2.store.salted_keys import local_salt, salted
from fp2.store.withdrawn import halted, withdraw

if TYPE_CHECKING:
    import pandas as pd

    from fp2.store.origins import RecordedImage
    from fp2.tracking.files import Logged

Select = Callable[[bytes, list["RecordedImage"]], Selection]
WRITTEN_OUT = "hf"  # below `paths.data`: images that were extracted from a data set's own files
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z")
LONG_TEXT, MOST_TEXTS = 20, 2000  # of the answers that are searched for at last


@dataclass(frozen=True)
class Source:
    """The files of a run: in its output folder, or in the MLflow store (`logged`)."""

    files: Path
    run_id: str
    results: Results | None
    logged: Logged | None = None


@dataclass
class Plan:
    """What is removed: the selection by keys, the steps, and what they need.

    Attributes
    ----------
    selection : Selection
    pictures : list of RecordedImage
        The images of the store's index that are removed.
    paths : set of str
        Of these and other images that the store has digests of.
    keys, unindexed, raw_keys
        Salted keys of the answers that are removed, and those of them that are not in the store's index; salted key ->
        response key of every stored answer.
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
    pictures: list[RecordedImage]
    paths: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    unindexed: set[str] = field(default_factory=set)
    raw_keys: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    store: dict[str, int] = field(default_factory=dict)
    people: set[str] = field(default_factory=set)
    ids: list[dict[str, Any]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def leaving(self, people: pd.DataFrame, results: Results | None) -> pd.Series[bool]:
        """Return which rows of a run's people leave; without results, its release is that of the index's images."""
        if results is None and self.selection.release is not None:
            return people["image_id"].isin({one.image for one in self.pictures})
        return self.selection.rows(people["image_id"], people["subject_id"])

    def reduce(self, tables: RunTables, results: Results | None) -> RunTables:
        """Return the tables without what is removed."""
        leaving = self.leaving(tables.people, results)
        return tables.without(tables.people[~leaving], set(tables.people.loc[leaving, "image_id"]), self.keys)


def plan_purge(here: Config, select: Select, keys: Iterable[str] = ()) -> Plan:
    """Return what a purge removes; nothing is changed.

    Parameters
    ----------
    here : Config
        Where outputs, state and the MLflow store are.
    select : callable
        Returns the selection, given this machine's salt and the images in the store's index.
    keys : iterable of str
        Further salted keys of answers that are removed.
    """
    from fp2.store.rows import ResponseStore

    salt, outputs = local_salt(Path(here.paths.state)), Path(here.paths.outputs).expanduser()
    with ResponseStore(Path(here.paths.store)) as store, tempfile.TemporaryDirectory(prefix="fp2-purge-") as scratch:
        recorded = origins.recorded_images(store.connection, store.path)
        plan = Plan(select(salt, recorded), [])
        plan.pictures = [image for image in recorded if plan.selection.selects(image)]
        every = sorted(origins.all_keys(store.connection, store.path))
        plan.raw_keys = dict(zip(salted(every, salt, "response"), every, strict=True))
        indexed = origins.keys_of(store.connection, store.path, plan.pictures)
        plan.keys = {*keys, *salted(indexed, salt, "response")}
        logged = _logged(here)
        with artifacts.as_user_error(outputs):
            sources = list(_sources(here, logged, Path(scratch), plan))
            readable = _resolve(plan, sources, salt)
            plan.unindexed = plan.keys - set(salted(indexed, salt, "response"))
            _plan_runs(plan, sources, readable, here)
            _plan_texts(plan, logged, here)
        digested = origins.digested_paths(store.connection, store.path)
        ids = {one.id for one in plan.selection.given if one.kind == "image"}
        plan.paths = {os.path.abspath(image.path) for image in plan.pictures}
        plan.paths |= {path for path in digested if ids & {normal_id(Path(path).name), normal_id(Path(path).stem)}}
        extracted = Path(here.paths.data).absolute() / WRITTEN_OUT
        plan.steps += [Step("picture", path) for path in sorted(plan.paths)
                       if Path(path).is_relative_to(extracted) and Path(path).exists()]  # fmt: skip
        plan.store = _stored(store.connection, {plan.raw_keys[key] for key in plan.keys & plan.raw_keys.keys()})
        plan.store |= {"pictures": len(plan.pictures), "pixel_digests": len(plan.paths & set(digested))}
        if any(plan.store.values()):
            plan.steps.append(Step("store", str(store.path)))
    return plan


def _stored(connection: Any, keys: set[str]) -> dict[str, int]:
    """Return how many answers (rows) and how many arrays of answers the store has under `keys`."""
    queries = {"answers": "SELECT key FROM answers", "failures": "SELECT key FROM failures",
               "blocks": "SELECT hex(context) FROM blocks"}  # fmt: skip
    return {
        table: sum(str(key) in keys or str(key).lower() in keys for (key,) in connection.execute(query))
        for table, query in queries.items()
    }


def _logged(here: Config) -> list[Logged]:
    from fp2.tracking.files import logged_runs

    return logged_runs(here)


def results_in(folder: Path) -> Results | None:
    """Return the results in a run's folder, None where there are none that can be read."""
    try:
        results = json.loads((folder / artifacts.RESULTS).read_text(encoding="utf-8"))
        return results if isinstance(results, dict) and "dataset" in results else None
    except (OSError, ValueError):
        return None


def _sources(here: Config, logged: list[Logged], scratch: Path, plan: Plan) -> Iterator[Source]:
    """Yield the runs that may have what is selected; name what cannot be reached."""
    from fp2.tracking.files import files_of

    outputs, state = Path(here.paths.outputs).expanduser(), Path(here.paths.state).absolute()
    folders = {path.parent for name in (artifacts.PEOPLE, artifacts.RESPONSES) for path in outputs.rglob(name)}
    for run_id, folder in recorded_folders(state).items():
        if folder.is_dir():
            folders.add(folder)
        elif not any(run.run_id == run_id for run in logged):
            plan.unreached.append(f"{folder}: the folder of run {run_id} was moved or deleted")
    by_path = {folder.resolve(): folder for folder in sorted(folders)}
    journals = (state / JOURNALS).resolve()
    sources = [
        Source(folder, str((results := results_in(folder) or {}).get("run_id", folder)), results or None)
        for path, folder in by_path.items() if not path.is_relative_to(journals)
    ]  # fmt: skip
    sources += [Source(files := files_of(run, here, scratch), run.run_id, results_in(files), run) for run in logged]
    for source in sources:
        results = source.results
        if results and not plan.selection.concerns(kind_of(results, source.files), results["dataset"]["release"]):
            continue
        yield source
    plan.unreached += [f"{path}: a seed store, which is only read" for path in here.paths.seed_stores]
    plan.unreached += [f"{path}: an archive" for path in sorted(outputs.rglob("*")) if path.suffix in ARCHIVES]


def _tables(source: Source) -> RunTables | None:
    """Return the tables of a run, None where it has none that can be read."""
    try:
        return read_tables(source.files)
    except Fp2Error:
        return None


def _resolve(plan: Plan, sources: list[Source], salt: bytes) -> list[Source]:
    """Find everyone who is selected in the tables and the index, and all answers about them; return readable runs."""
    readable = []
    pairs = {(one.image, one.subject) for one in plan.pictures}
    tallies = [(one, {image for image, subject in pairs if {image, subject} & one.keys}, set[str](), set[str]())
               for one in plan.selection.given]  # fmt: skip
    for source in sources:
        if (tables := _tables(source)) is None:
            continue
        readable.append(source)
        people = tables.people[plan.leaving(tables.people, source.results)]
        pairs |= set(zip(people["image_id"], people["subject_id"], strict=True))
        plan.keys |= tables.answers.keys_of(set(people["image_id"]))
        for one, images, answers, runs in tallies:
            theirs = people[people["image_id"].isin(one.keys) | people["subject_id"].isin(one.keys)]
            images |= set(theirs["image_id"])
            answers |= tables.answers.keys_of(set(theirs["image_id"]))
            runs |= {source.run_id} if len(theirs) else set()
    plan.people = {subject for _, subject in pairs}
    plan.ids = [
        {
            "kind": one.kind,
            "id": one.id,
            "by": one.by,
            "images": len(images),
            "answers": len(answers),
            "runs": len(runs),
        }
        for one, images, answers, runs in tallies
    ]
    names = {name for one in plan.pictures for name in (one.path, *ids_in(one.path, one.image, salt))}
    plan.selection = plan.selection.resolved(pairs, names if plan.selection.release is None else ())
    return readable


def _plan_runs(plan: Plan, sources: list[Source], readable: list[Source], here: Config) -> None:
    """Plan a step for each run that has rows of the selected, and for each whose tables are incomplete."""
    folders = {source.run_id: source for source in readable if source.logged is None}
    texts: set[str] = set()
    others: set[str] = set()
    changed: set[str] = set()
    for source in sources:
        kind, folder = ("mlflow", folders.get(source.run_id)) if source.logged else ("folder", None)
        target = source.logged.run_id if source.logged else str(source.files)
        step = Step(kind, target, source.run_id, source=str(folder.files) if folder else "")
        if (tables := _tables(source)) is None:
            if source.logged is None and (source.files / artifacts.PASSPORT).is_file():
                plan.unreached.append(f"{source.files}: the tables of a signed run, which cannot be read")
            elif _has_data(source):
                step.outcome = f"its tables are incomplete; it {'is replaced' if folder else 'is removed'}"
                plan.steps.append(step)
            continue
        left = plan.reduce(tables, source.results)
        step.people = tables.people["subject_id"].nunique() - left.people["subject_id"].nunique()
        step.answers = tables.n_answers - left.n_answers
        if step.people or step.answers or len(tables.people) > len(left.people):
            changed.add(source.run_id)
        elif kind == "folder" or source.run_id not in changed:
            continue
        step.outcome = "all that it has: the run is removed" if left.people.empty else ""
        plan.steps.append(step)
        texts |= _texts(tables) - _texts(left)
        others |= _texts(left) | {json.dumps((source.results or {}).get("probes"), ensure_ascii=False)}
        if source.results is not None and not left.people.empty and (line := _not_recomputable(source, left, here)):
            plan.lost += [line] if line not in plan.lost else []
    said = "\n".join(others)
    if plan.selection.release is None:
        plan.texts = [text for text in sorted(texts, key=len) if len(text) >= LONG_TEXT and text not in said]
    for path in sorted(Path(here.paths.outputs).expanduser().rglob(f"{REPORT}/{artifacts.RESULTS}")):
        report = json.loads(path.read_text(encoding="utf-8"))
        if any(run.get("run_id") in changed for run in report.get("runs") or ()):
            again = f"a report of several runs; fp2 report {path.parents[1]} makes it again"
            plan.steps.append(Step("report", str(path.parent), outcome=again))


def _has_data(source: Source) -> bool:
    """Whether a run without readable tables has files that say something of people."""
    parts = (artifacts.PEOPLE, artifacts.RESPONSES, artifacts.SCORES)
    if source.logged is not None:
        parts += (artifacts.RESULTS, artifacts.SAMPLE, artifacts.DASHBOARD)
    return any((source.files / name).exists() for name in parts)


def _texts(tables: RunTables) -> set[str]:
    frame = getattr(tables.answers, "frame", None)
    return set() if frame is None else {text for text in frame["text"] if isinstance(text, str)}


def _not_recomputable(source: Source, tables: RunTables, here: Config) -> str | None:
    """Return why a run cannot be recomputed: a plug-in or a file that it used is not here."""
    from fp2.report.section import load_sections

    try:
        protocol, _ = logged_protocol(logged_config(source.files, here, source.run_id), tables.people)
        load_sections(protocol.section_targets())
    except Fp2Error as error:
        return f"run {source.run_id}: {error}"
    return None


def _plan_texts(plan: Plan, logged: list[Logged], here: Config) -> None:
    """Plan the removal of ids from free text: MLflow tags, notes of failed runs, lists of chosen images."""
    from fp2.tracking.files import tags_with

    words = plan.selection.pattern
    if words is None:
        return
    plan.steps += [
        Step("tags", run.run_id, outcome=", ".join(names)) for run in logged if (names := tags_with(run, words))
    ]
    roots = [Path(here.paths.outputs).expanduser(), *recorded_folders(Path(here.paths.state)).values()]
    notes = {path.resolve(): path for root in roots for name in artifacts.LOCAL_FILES for path in root.rglob(name)}
    for path in sorted(notes.values()):
        text = path.read_text(encoding="utf-8", errors="replace")
        if redacted(text, plan.selection) != text:
            plan.steps.append(Step("note", str(path)))
    for path in sorted((Path(here.paths.state) / "places").glob("*.json")):
        places = json.loads(path.read_text(encoding="utf-8"))
        if any(normal_id(name) in plan.selection.words for name in places.get("data.ids") or ()):
            plan.steps.append(Step("ids", str(path)))


def redacted(text: str, selection: Selection) -> str:
    """Return a note with "removed" in place of the selection's words; in JSON, only in values that are text."""
    words = selection.pattern
    assert words is not None

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items()}
        if isinstance(value, list):
            return [clean(item) for item in value]
        return (
            words.sub("removed", normal_id(value))
            if isinstance(value, str) and words.search(normal_id(value))
            else value
        )

    try:
        body = json.loads(text)
    except ValueError:
        return str(clean(text))
    cleaned = clean(body)
    return text if cleaned == body else json.dumps(cleaned)


@dataclass(frozen=True)
class Purged:
    """A purge that has ended: its journal, what is still there, and its certificate."""

    journal: Journal
    remaining: list[str]
    certificate: Path

    @property
    def said(self) -> list[str]:
        """A line for each run and report, and for what was not reached and is still there."""
        steps = [step.line for step in self.journal.steps if step.kind in ("folder", "mlflow", "report")]
        return [
            *steps, *(f"not reached: {line}" for line in self.journal.unreached),
            *(f"still there: {line}" for line in self.remaining),
        ]  # fmt: skip


def purge(here: Config, plan: Plan) -> Purged:
    """Remove what a plan says.

    Raises
    ------
    Fp2Error
        If another purge is running, or something cannot be written; then the next purge or run finishes this one.
    """
    with alone(Path(here.paths.state)):
        return _execute(here, Journal.begin(here, plan.selection))


def finish_pending(config: Config, progress: Progress) -> list[str]:
    """Finish the purges that were interrupted; return what was done, in lines.

    Raises
    ------
    Fp2Error
        As `purge` does.
    """
    state = Path(config.paths.state)
    if not pending(state):
        return []
    lines = []
    progress.stage("Finishing a purge")
    with alone(state):
        for path in pending(state):
            journal = Journal.read(path)
            done = _execute(journal.config(config), journal)
            lines += [f"finished the purge that began at {journal.started}: {done.certificate}", *done.said]
    return lines


def _execute(here: Config, journal: Journal) -> Purged:
    state = Path(here.paths.state)
    with artifacts.as_user_error(Path(here.paths.outputs)):
        journal.write()
        if journal.selection.release is None:
            withdraw(state, journal.selection.subjects, journal.selection.images)
        with halted(state):  # what was being written is complete, and what is written later leaves them out
            plan = plan_purge(here, lambda salt, recorded: journal.selection, journal.keys)
        _merge(journal, plan)
        journal.write()
        for step in journal.steps:
            if not step.done:
                _STEPS[step.kind](step, here, plan, journal)
                step.done = True
                journal.write()
        after = plan_purge(here, lambda salt, recorded: journal.selection, journal.keys)
        left = [step.line for step in after.steps if not step.run_id or step.people or step.answers]
        left += remaining(here, journal, _logged(here))
        journal.unreached = list(dict.fromkeys([*journal.unreached, *after.unreached]))
        return Purged(journal, left, journal.certify(here, left))


def _merge(journal: Journal, plan: Plan) -> None:
    """Add to the journal what is to be done; what an earlier attempt prepared or did stays so, unless it is back."""
    known = {(step.kind, step.target): step for step in journal.steps}
    for step in plan.steps:
        earlier = known.get((step.kind, step.target))
        if earlier is None:
            journal.steps.append(step)
        elif earlier.done:
            earlier.done = earlier.staged = False
    journal.steps.sort(key=lambda step: list(_STEPS).index(step.kind))
    journal.selection = plan.selection
    journal.people = max(journal.people, len(plan.people))
    journal.keys = sorted({*journal.keys, *plan.unindexed})
    journal.texts = list(dict.fromkeys([*journal.texts, *plan.texts]))[-MOST_TEXTS:]
    journal.store = {table: max(n, journal.store.get(table, 0)) for table, n in plan.store.items()} or journal.store
    journal.unreached = list(dict.fromkeys([*journal.unreached, *plan.unreached]))


def _replace_folder(step: Step, here: Config, plan: Plan, journal: Journal) -> None:
    folder, stage = Path(step.target), journal.stage(step)
    if not step.staged:
        _prepare(folder, stage, step, here, plan)
        step.staged = True
        journal.write()
    kept = set(read_tables(stage).people["image_id"]) if stage.is_dir() else set()
    outputs = Path(here.paths.outputs)
    forget(outputs, step.run_id)
    for name in installed(PURGES):
        load(PURGES, name, PURGES)(outputs, step.run_id, kept)
    if stage.is_dir():
        _mirror(stage, folder)
    elif folder.is_dir():
        shutil.rmtree(folder)


def _replace_logged(step: Step, here: Config, plan: Plan, journal: Journal) -> None:
    """Replace a run of the MLflow store by its output folder, so that there is one passport for both, or reduce it."""
    from fp2.tracking.files import files_of, remove, replace

    run = next((run for run in _logged(here) if run.run_id == step.target), None)
    if run is None:
        return
    source, stage = Path(step.source), journal.stage(step)
    if step.source and source.is_dir():
        step.outcome, step.before = f"now as in {source}", step.before or _digests(source)
    elif not step.staged:
        with tempfile.TemporaryDirectory(prefix="fp2-purge-") as scratch:
            if any(each.kind == "folder" and each.target == step.source for each in journal.steps):
                step.outcome = "all that it had: the run was removed"
            else:
                _prepare(files_of(run, here, Path(scratch)), stage, step, here, plan)
        step.staged = True
        journal.write()
    if not (step.source and source.is_dir()):
        source = stage
    if not source.is_dir():
        remove(run, here)
        return
    results = results_in(source)
    files = artifacts.files_of(source)
    if (source / artifacts.PASSPORT).is_file():
        files[artifacts.PASSPORT] = source / artifacts.PASSPORT
    replace(run, here, files, results, _tags(results, source))
    step.after = _digests(source)


def _prepare(files: Path, stage: Path, step: Step, here: Config, plan: Plan) -> None:
    """Write into `stage` what is left of a run; nothing where that is nobody, or its tables are incomplete."""
    shutil.rmtree(stage, ignore_errors=True)
    if not files.is_dir():
        step.outcome = "was gone already"
        return
    stage.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copytree(files, stage)
    step.before = _digests(stage)
    results = results_in(stage)
    tables = _tables(Source(stage, step.run_id, results))
    left = None if tables is None else plan.reduce(tables, results)
    if left is None or left.people.empty:
        why = "its tables were incomplete" if left is None else "all that it had"
        step.outcome = f"{why}: the run was removed"
        shutil.rmtree(stage)
        return
    try:
        if results is None:
            raise Fp2Error("the run has no results")
        write = reissue(stage, left, here, results, plan.raw_keys, step.people)
        step.outcome = "recomputed and signed again"
    except Fp2Error as error:
        strip(stage)
        left.write(stage)
        step.outcome = f"removed from its tables; results, figures and passport were deleted as well, since {error}"
    else:
        write()
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
    from fp2.report.leaderboard import summarise

    if results is None:
        return {"summary": "[]", "severity": "None", "passport_sha256": "None"}
    return {
        "severity": str(results["severity"]),
        "summary": json.dumps(summarise(results)),
        "passport_sha256": sha256_file(source / artifacts.PASSPORT),
        **{name: str(results[name]) for name in ("config_hash", "response_set", "dataset_digest")},
        **code_tags(passport_part(source, "generator")),
    }


def _redact_tags(step: Step, here: Config, plan: Plan, journal: Journal) -> None:
    from fp2.tracking.files import redact_tags

    words = journal.selection.pattern
    for run in _logged(here):
        if run.run_id == step.target and words is not None:
            redact_tags(run, here, words)


def _redact_note(step: Step, here: Config, plan: Plan, journal: Journal) -> None:
    path = Path(step.target)
    if path.is_file():
        replace_file(path, redacted(path.read_text(encoding="utf-8", errors="replace"), journal.selection))


def _drop_ids(step: Step, here: Config, plan: Plan, journal: Journal) -> None:
    """Remove the ids from a list of chosen images, which is kept for reruns."""
    places = json.loads(Path(step.target).read_text(encoding="utf-8"))
    words = journal.selection.words
    places["data.ids"] = [name for name in places.get("data.ids") or () if normal_id(name) not in words]
    replace_file(Path(step.target), json.dumps(places, indent=1))


def _delete_rows(step: Step, here: Config, plan: Plan, journal: Journal) -> None:
    from fp2.store.rows import ResponseStore

    keys = {plan.raw_keys[key] for key in plan.keys & plan.raw_keys.keys()}
    with ResponseStore(Path(step.target)) as store:
        deleted = origins.delete(store.connection, store.path, keys, plan.pictures, plan.paths)
    journal.store = {**journal.store, **{table: n for table, n in deleted.items() if n}}


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
