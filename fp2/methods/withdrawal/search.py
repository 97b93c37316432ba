"""The search of a purge: what can be reached, what of it is about the selected, and what that makes necessary.

It is done before a purge, whose steps it gives, and after it, when there has to be nothing.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    TRACE,
    Config,
    Fp2Error,
    Logged,
    ResponseStore,
    RunTables,
    artifacts,
    everyone_shown,
    files_of,
    folders_of_original,
    free_texts,
    has_table,
    load_sections,
    local_salt,
    logged_config,
    logged_protocol,
    logged_runs,
    normal_id,
    origins,
    read_tables,
    recorded_folders,
    recorded_written,
    salted,
    tracking_uri,
)
from fp2.methods.withdrawal.journal import Journal, Step, alone
from fp2.methods.withdrawal.selection import Selection, absent, ids_in, kind_of

if TYPE_CHECKING:
    import pandas as pd

Select = Callable[[bytes, list[origins.RecordedImage]], Selection]
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z")
READABLE = (".json", ".jsonl", ".html", ".svg", ".txt", ".yaml", ".yml", ".csv", ".md", ".log")
OF_PEOPLE = (
    artifacts.PEOPLE, artifacts.RESPONSES, artifacts.SCORES, artifacts.RESULTS, artifacts.SAMPLE, artifacts.DASHBOARD,
)  # fmt: skip
LONG_TEXT, MOST_TEXTS = 20, 2000  # of the answers that are searched for at last
_KEY = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")


@dataclass(frozen=True)
class Source:
    """The files of a run: in its output folder, or in the MLflow store (`logged`)."""

    files: Path
    run_id: str
    results: dict[str, Any] | None
    logged: Logged | None = None

    @property
    def tables(self) -> RunTables | None:
        """The tables of the run, read anew; None where they cannot be read."""
        try:
            return read_tables(self.files)
        except Fp2Error:
            return None


@dataclass(frozen=True)
class Text:
    """A text that can be reached: where it is, and what replaces it, if it is not derived from a run's tables.

    Of `is_list`, only lists in JSON are changed, as those of chosen images that are kept for reruns: paths stay.
    """

    where: str
    source: str | Path
    write: Callable[[str], object] | None = None
    is_list: bool = False

    @property
    def text(self) -> str:
        """The text; of a signed envelope, its payload."""
        if isinstance(self.source, str):
            return self.source
        text = self.source.read_text(encoding="utf-8", errors="replace")
        try:
            return base64.b64decode(json.loads(text)["payload"]).decode() if '"payload"' in text[:4096] else text
        except (ValueError, KeyError, TypeError, RecursionError):
            return text

    def without(self, selection: Selection) -> str | None:
        """Return the text without the ids, None where it has none or cannot be changed; keys of JSON stay."""
        if self.write is None:
            return None

        def clean(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: clean(item) for key, item in value.items()}
            if isinstance(value, list):
                return [clean(item) for item in value if normal_id(item) not in selection.words]
            return selection.redact(value) if isinstance(value, str) and not self.is_list else value

        text = self.text
        try:
            body = json.loads(text)
            if isinstance(body, dict):
                return json.dumps(new) if (new := clean(body)) != body else None
        except (ValueError, RecursionError):
            pass
        return new if (new := clean(text)) != text else None


def texts_of(here: Config, logged: Sequence[Logged], downloads: Path | None = None) -> Iterator[Text]:
    """Yield the texts that a purge may change; with a folder for `downloads`, all that can be reached."""
    state = Path(here.paths.state).absolute()
    places = state / "places"
    runs = [files_of(run, here, downloads) for run in logged] if downloads else []
    roots = [Path(here.paths.outputs).expanduser().absolute(), *recorded_folders(state).values(), places, *runs]
    for path in dict.fromkeys(path for root in roots for path in sorted(root.rglob("*"))):
        if path.suffix in READABLE and path.is_file():
            may_change = path.name in artifacts.LOCAL_FILES or path.parent == places
            write = partial(artifacts.replace_file, path) if may_change else None
            yield Text(str(path), path, write, is_list=path.parent == places)
    for where, text, replace in free_texts(here, logged):
        yield Text(where, text, replace)
    for run in logged if downloads else ():
        for name, text in {**run.tags, **run.params}.items():
            yield Text(f"MLflow run {run.run_id}, {name}", text)


def plan_purge(here: Config, select: Select) -> Journal:
    """Return what a purge removes; nothing is changed. `select` gets this machine's salt and the store's index."""
    journal = Journal.begin(here, Selection())
    with alone(Path(here.paths.state)) as downloads:
        search(here, journal, downloads, select)
    return journal


def count_absent(config: Config, people: pd.DataFrame) -> dict[str, int]:
    """Count what is stored of `people` or images that a release lacks: people, answers, rows, runs."""
    source = config.data.source
    plan = plan_purge(config, lambda salt, recorded: absent(source, people, salt))
    rows = plan.store
    return {"people": len(plan.people), "answers": rows["answers"], "rows": sum(rows.values()), "runs": len(plan.runs)}


def search(here: Config, journal: Journal, downloads: Path, select: Select | None = None) -> None:
    """Add to a journal what is to be done now; `select`: in place of its selection."""
    salt = local_salt(Path(here.paths.state))
    with ResponseStore(Path(here.paths.store)) as store, artifacts.as_user_error(Path(here.paths.outputs)):
        recorded = origins.recorded_images(store.connection, store.path)
        if select is not None:
            journal.selection = select(salt, recorded)
        journal.pictures = [image for image in recorded if journal.selection.selects(image)]
        every = sorted(origins.all_keys(store.connection, store.path))
        indexed = set(salted(origins.keys_of(store.connection, store.path, journal.pictures), salt, "response"))
        journal.raw_keys = dict(zip(salted(every, salt, "response"), every, strict=True))
        journal.keys = journal.unindexed | indexed
        logged = logged_runs(here)
        sources = list(_sources(here, logged, downloads, journal))
        _resolve(journal, sources, salt)
        journal.unindexed = journal.keys - indexed
        _search_written(journal, _search_runs(journal, sources, here), here)
        for text in texts_of(here, logged):
            if text.without(journal.selection) is not None:
                journal.add(Step("texts", text.where))
        digested = origins.digested_paths(store.connection, store.path)
        files = journal.selection.files
        named = {
            name
            for name, path in ((name, PurePath(name)) for name in digested)
            if files & {normal_id(path.name), normal_id(path.stem)}
        }
        journal.paths = {os.path.abspath(image.path) for image in journal.pictures} | named
        keys, counts = journal.response_keys(), dict[str, int]()
        for table, column in (("answers", "key"), ("failures", "key"), ("blocks", "lower(hex(context))")):
            query = f"SELECT {column} FROM {table}"
            rows = store.connection.execute(query) if has_table(store.connection, table) else ()
            counts[table] = sum(str(key) in keys for (key,) in rows)
        counts |= {"pictures": len(journal.pictures), "pixel_digests": len(journal.paths & set(digested))}
        if any(counts.values()):
            journal.add(Step("store", str(store.path)))
        journal.store = {table: max(n, journal.store.get(table, 0)) for table, n in counts.items()}
    journal.unreached = list(dict.fromkeys(journal.unreached))


def left(here: Config, journal: Journal, downloads: Path) -> list[str]:
    """Search again after a purge, also in every text; return where something of the people still is."""
    after = Journal.begin(here, journal.selection, journal.unindexed)
    search(here, after, downloads)
    remaining = [step.line for step in after.steps if step.kind != "run" or step.people or step.answers]
    keys = journal.selection.subjects | journal.selection.images
    answers = {form for text in journal.texts for form in (text, json.dumps(text, ensure_ascii=False)[1:-1])}
    answers |= {html.escape(text) for text in journal.texts}
    changed = {name for step in journal.runs for name in (f"{step.folder}{os.sep}", step.logged) if name}
    for text in texts_of(here, logged_runs(here), downloads):
        content = text.text
        if keys.intersection(_KEY.findall(content)):
            remaining.append(f"{text.where}: a key")
        elif journal.selection.names_in(content):
            remaining.append(f"{text.where}: an id")
        elif any(name in text.where for name in changed) and any(answer in content for answer in answers):
            # in a run that changes: another one's people may have been given the same words
            remaining.append(f"{text.where}: an answer")
    return list(dict.fromkeys(remaining))


def results_in(folder: Path) -> dict[str, Any] | None:
    """Return the results of a run; None where there are none that can be read."""
    results = artifacts.json_object(folder / artifacts.RESULTS)
    dataset = results.get("dataset")
    return results if isinstance(dataset, dict) and "release" in dataset and "run_id" in results else None


def _sources(here: Config, logged: list[Logged], downloads: Path, journal: Journal) -> Iterator[Source]:
    """Yield the runs that may have what is selected, folders first; name what cannot be reached."""
    outputs, state = Path(here.paths.outputs).expanduser().absolute(), Path(here.paths.state).absolute()
    folders = {path.parent for name in (artifacts.PEOPLE, artifacts.RESPONSES) for path in outputs.rglob(name)}
    for run_id, folder in recorded_folders(state).items():
        if folder.is_dir():
            folders.add(folder)
        else:
            journal.unreached.append(f"{folder}: the folder of run {run_id} was moved or deleted")
    for folder, original in folders_of_original(state).items():
        if folder.is_dir() and folder not in folders:
            what = f"of the project that this one is a copy of ({original}): purge there, too"
            journal.unreached.append(f"{folder}: {what}")
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
    pairs = {(image.image, image.subject) for image in journal.pictures}
    counts = [
        (typed, {image for image, subject in pairs if {image, subject} & typed.keys}, dict[str, int](), set[str]())
        for typed in journal.selection.given
    ]
    for source in sources:
        if (tables := source.tables) is None:
            continue
        people = everyone_shown(tables.people[journal.leaving(tables.people, source.results)])
        pairs |= set(zip(people["image_id"], people["subject_id"], strict=True))
        journal.keys |= tables.answers.keys_of(set(people["image_id"]))
        for typed, images, answers, runs in counts:
            selected = people["image_id"].isin(typed.keys) | people["subject_id"].isin(typed.keys)
            theirs = people.loc[selected, "image_id"]
            images |= set(theirs)
            answers |= dict.fromkeys(tables.answers.keys_of(set(theirs)), getattr(tables.answers, "per_image", 1))
            runs |= {source.run_id} if len(theirs) else set()
    journal.people |= {subject for _, subject in pairs}
    journal.ids = [
        {
            "kind": typed.kind,
            "id": typed.id,
            "by": typed.by,
            "images": len(images),
            "answers": sum(answers.values()),
            "runs": len(runs),
        }
        for typed, images, answers, runs in counts
    ]
    names = (name for image in journal.pictures for name in (image.path, *ids_in(image.path, image.image, salt)))
    without_images = (typed for typed, images, *_ in counts if typed.kind == "image" and not images)
    unseen = frozenset(key for typed in without_images for key in typed.keys)
    journal.selection = journal.selection.resolved(pairs, names, unseen)


def _search_runs(journal: Journal, sources: list[Source], here: Config) -> set[str]:
    """Add a step for each run that has rows of the selected, whose ids it returns, and for incomplete tables."""
    recorded = {folder.resolve() for folder in recorded_folders(Path(here.paths.state)).values()}
    texts, others, asked, changed, complete = set[str](), set[str](), set[str](), set[str](), dict[str, str]()
    for source in sources:
        tables, run = source.tables, source.logged
        if run is None and tables is not None:
            complete[source.run_id] = str(source.files)
        folder = complete.get(source.run_id) if run else str(source.files)
        logged = run.run_id if run else ""
        step = Step("run", folder or logged, source.run_id, logged=logged)
        if tables is None:
            if why := _untouchable(source, recorded):
                journal.unreached.append(why)
            elif any((source.files / name).exists() for name in OF_PEOPLE):
                step.outcome = f"its tables are incomplete; it {'is replaced' if run and folder else 'is removed'}"
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
    if any(step.logged for step in journal.steps) and tracking_uri(here).startswith("http"):
        journal.unreached.append("the MLflow server's database, which keeps earlier values of metrics")
    return changed


def _untouchable(source: Source, recorded: Collection[Path]) -> str:
    """Return why a purge leaves a run without readable tables as it is; nothing where it does not."""
    if source.logged:
        goes_on = source.logged.running
        return f"MLflow run {source.run_id}, which goes on: it leaves them out by itself" if goes_on else ""
    if (source.files / artifacts.PASSPORT).is_file():
        return f"{source.files}: the tables of a signed run, which cannot be read"
    if source.files.resolve() not in recorded:
        return f"{source.files}: incomplete tables in a folder that no run has recorded"
    return ""


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


def _search_written(journal: Journal, changed: set[str], here: Config) -> None:
    """Add a step for each file that was written from a run that changes; name those that were changed or moved."""
    for report in (
        Path(here.paths.outputs).expanduser().absolute().rglob(f"{artifacts.REPORT_FOLDER}/{artifacts.RESULTS}")
    ):
        if {str(run.get("run_id")) for run in artifacts.json_object(report).get("runs") or ()}.intersection(changed):
            outcome = f"a report of several runs; fp2 report {report.parent.parent} makes it again"
            for name in artifacts.REPORT_FILES:
                if (report.parent / name).is_file():
                    journal.add(Step("report", str(report.parent / name), outcome=outcome))
    for written in recorded_written(Path(here.paths.state)):
        if theirs := sorted(changed.intersection(written.runs)):
            outcome = f"written from run {', '.join(theirs)}"
            if written.is_unchanged:
                journal.add(Step("report", written.path, outcome=outcome))
            elif not any(step.target == written.path for step in journal.steps):
                what = "changed since" if Path(written.path).exists() else "moved or deleted"
                journal.unreached.append(f"{written.path}: {outcome}, {what}")
