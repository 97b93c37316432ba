"""Logged runs, read from their files to be compared: results, people, scores, cuts, and what several runs share."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.notes import read_notes
from fp2.report.reading import model_name, primary_scorer, scorer_identity, variant_name
from fp2.results import RunResults
from fp2.runs.local_paths import MARK, overrides_without_places
from fp2.runs.origin import read_plain
from fp2.store.withdrawn import writing
from fp2.text import printable

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut

_NEEDED = {
    "run_id": str, "created": str, "config_hash": str, "fp2_version": str, "dataset_digest": str, "model": dict,
    "dataset": dict, "variant": dict, "probes": list, "scorers": list, "cuts": list, "answers": dict, "balance": list,
    "composites": dict, "disparities": list, "analysis": dict, "limitations": list,
}  # fmt: skip
"""Keys of `results.json` that are read, and their types."""
_PATH = re.compile(r"(?<![\w.:/-])[/~][^\s,;:()'\"]*/[^\s,;:()'\"]+")
"""A path in a message: a report names no folder of this machine."""
Missing = dict[str, str]
"""A run of a sweep that did not finish: its settings (`run`), and why (`reason`)."""
_SCORE_COLUMNS = ["image_id", "subject_id", "question_id", "probe", "scorer", "value", "refused"]


@dataclass(frozen=True)
class LoggedRun:
    """One run: its results, its people and scores with salted keys, and the folder of its files.

    Of a yes/no battery in dense storage the traits are the probes (`traits`: the text of each), and the outcome that
    the run analysed is the only scorer: its mean over the templates (`values`, (image_id, subject_id) x trait).
    """

    results: Mapping[str, Any]
    people: pd.DataFrame
    scores: pd.DataFrame | None
    cuts: Mapping[str, Cut]
    folder: Path | None = None
    traits: Mapping[str, str] = field(default_factory=dict)
    values: dict[str, pd.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.results["run_id"])

    @property
    def name(self) -> str:
        """The model, and the image variant if there is one."""
        variant = variant_name(self.results)
        return model_name(self.results) + (f" ({variant})" if variant else "")

    @property
    def settings(self) -> str:
        """The text of its `config.yaml`; empty without files."""
        path = self.folder / artifacts.CONFIG if self.folder else None
        return path.read_text(encoding="utf-8") if path and path.is_file() else ""

    @property
    def primary(self) -> str:
        """The primary scorer: that of the composites."""
        return primary_scorer(self.results)

    @cached_property
    def probes(self) -> dict[str, str]:
        """The text of each probe by its id."""
        return dict(self.traits) or {probe["id"]: probe["text"] for probe in self.results["probes"]}

    @cached_property
    def scorers(self) -> dict[str, str]:
        """Version and lexicon of each scorer by its name, as one string to compare."""
        if self.traits:
            return {self.primary: "mean over templates"}
        scorers = self.results["scorers"]
        return {s["name"]: scorer_identity(s) for s in scorers}

    def wide(self, scorer: str) -> pd.DataFrame:
        """Return the values of one scorer, (image_id, subject_id) x probe; NaN where there is none."""
        from fp2.scorers.outcomes import outcome_columns

        if scorer not in self.values:
            assert self.scores is not None
            columns = outcome_columns(self.scores[self.scores["scorer"] == scorer])
            self.values[scorer] = columns.droplevel("scorer", axis=1) if len(columns.columns) else columns
        return self.values[scorer]


def read_run(word: str, here: Config, scratch: Path, *, dense: bool = False, more: Sequence[str] = ()) -> LoggedRun:
    """Return a run by its MLflow id, or from a folder with its files; what is downloaded goes into `scratch`.

    `dense`: answers in dense storage will do, in place of scores. `more`: further files to have in its folder, which it
    may lack.
    """
    import pandas as pd

    from fp2.ask.storage import dense_storage

    shards = (artifacts.QUESTIONS, artifacts.SHARDS) if dense else ()
    tables = (artifacts.PEOPLE, artifacts.SCORES, *shards, *more)
    folder = run_folder(word, here, scratch, (artifacts.RESULTS, artifacts.CONFIG), tables)
    results = read_results(folder)
    is_dense = dense and (folder / artifacts.SHARDS).is_dir()
    needed = (artifacts.PEOPLE,) if is_dense else (artifacts.PEOPLE, artifacts.SCORES)
    if not all((folder / name).is_file() for name in needed):
        raise _no_tables(word)
    scores, means, outcome = None, None, primary_scorer(results)
    try:
        people = pd.read_parquet(folder / artifacts.PEOPLE)
        if is_dense:
            means = dense_storage().means(folder, outcome)
        else:
            scores = pd.read_parquet(folder / artifacts.SCORES, columns=_SCORE_COLUMNS)
    except (OSError, ValueError, KeyError) as error:
        raise Fp2Error(f"the run's tables cannot be read: {' '.join(str(error).split())}", where=word) from error
    if (means is None and (scores is None or scores.empty)) or not results["cuts"]:
        raise _no_tables(word)
    if people["set_id"].notna().any():
        raise Fp2Error("counterfactual sets are compared within sets, not between groups of subjects", where=word)
    cuts = read_cuts(folder, people, results, word)
    traits, values = ({}, {}) if means is None else (means[0], {outcome: means[1]})
    return LoggedRun(results, people, scores, cuts, folder, traits, values)


def distinct_names(named: Sequence[tuple[str, str]]) -> list[str]:
    """Return the name of each (name, run id); those that occur more than once have the start of the id appended."""
    names = [name for name, _ in named]
    return [name if names.count(name) == 1 else f"{name} {run_id[:8]}" for name, run_id in named]


def run_folder(word: str, here: Config, scratch: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> Path:
    """Return the folder of a run's files.

    Parameters
    ----------
    word : str
        A folder with the files of a run, or the id or config hash of a run in the MLflow store or in an output folder,
        or the beginning of one; files of the store are downloaded into a new folder below `scratch`.
    needed, optional : sequence of str
        The files to download; a run may lack optional ones.
    """
    from fp2.tracking.client import download, find_run

    folder = Path(word)
    if (folder / artifacts.RESULTS).is_file():
        return folder
    if folder.is_dir():
        raise Fp2Error("this folder is not a run's", where=str(folder), fix=f"It lacks {artifacts.RESULTS}")
    try:
        word = find_run(here, word)
    except Fp2Error as error:
        if (local := local_folder(word, here)) is not None:
            return local
        if repr(word) in error.what:
            raise
        fix = "Give the id of a run, or its folder"
        raise Fp2Error(f"there is no run {word!r}: {error.what}", where=error.where, fix=fix) from error
    folder = Path(tempfile.mkdtemp(dir=scratch))  # an id is whatever the server says
    download(here, word, needed, folder)
    for name in optional:
        with suppress(Fp2Error):
            download(here, word, (name,), folder)
    return folder


def runs_named(words: Sequence[str], here: Config) -> tuple[list[str], list[Missing]]:
    """Return the finished runs that `words` name, and the runs of a sweep that are missing."""
    from fp2.tracking.client import runs_of_sweep

    messages: list[str] = []
    missing: list[Missing] = []
    for word in words:
        folder = Path(word)
        jobs = [] if (folder / artifacts.RESULTS).is_file() else artifacts.job_folders(folder)
        if jobs:
            messages += [str(job) for job in jobs if (job / artifacts.RESULTS).is_file()]
            missing += _unfinished(jobs)
            continue
        logged: dict[str, str] = {}
        if not folder.exists():
            with suppress(Fp2Error):  # no MLflow store: the word names a run, or is refused as one
                logged = runs_of_sweep(here, word)
        messages += [run for run, status in logged.items() if status == "FINISHED"] if logged else [word]
        missing += [{"run": run, "reason": f"ended as {how}"} for run, how in logged.items() if how != "FINISHED"]
    return list(dict.fromkeys(messages)), missing


def _unfinished(jobs: Sequence[Path]) -> list[Missing]:
    """Return the jobs of a sweep without results: the settings in which they differ from the others, and why."""
    status = {job: artifacts.read_status(job) for job in jobs}
    settings = {job: [str(word) for word in job_status.get("overrides", ())] for job, job_status in status.items()}
    common = set.intersection(*map(set, settings.values()))
    missing = []
    for job in jobs:
        if (job / artifacts.RESULTS).is_file():
            continue
        own_overrides = overrides_without_places(
            [word for word in settings[job] if word not in common or len(jobs) == 1]
        )
        message = str(status[job].get("message") or "it did not finish")
        reason = _PATH.sub(lambda path: MARK + path[0].rstrip("/").rpartition("/")[2], message)
        missing.append({"run": printable(" ".join(own_overrides) or f"job {job.name}"), "reason": printable(reason)})
    return missing


def local_folder(word: str, here: Config) -> Path | None:
    """Return the newest output folder of the run that `word` names, for runs that were not logged to MLflow."""
    from fp2.tracking.client import MIN_PREFIX, newest

    if len(word) < MIN_PREFIX:
        return None
    by_name: dict[str, dict[str, tuple[Path, bool]]] = {}  # id or config hash -> run -> folder, whether it is complete
    paths = Path(here.paths.outputs).expanduser().rglob(artifacts.RESULTS)
    for path in sorted(paths, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        results = artifacts.json_object(path)
        run = str(results.get("run_id", ""))
        for name in (run, str(results.get("config_hash", ""))):
            if name.startswith(word):
                by_name.setdefault(name, {}).setdefault(run, (path.parent, results.get("complete") is True))
    if len(by_name) > 1 and word not in by_name:
        raise Fp2Error(f"{word!r} matches {len(by_name)} runs: {', '.join(by_name)}", where=str(here.paths.outputs))
    if not by_name:
        return None
    runs = by_name.get(word) or next(iter(by_name.values()))
    return runs[newest(word, [(run, complete) for run, (_, complete) in runs.items()])][0]


def _no_tables(word: str) -> Fp2Error:
    fix = "Compare runs with scored answers (no yes/no batteries with dense storage), or two data set reports"
    return Fp2Error("the run has no scores per subject and image", where=word, fix=fix)


@contextmanager
def writing_about(here: Config, people: Iterable[pd.DataFrame]) -> Iterator[None]:
    """Hold the lock under which something about the people of logged runs is written; none of them is withdrawn."""
    with writing(Path(here.paths.state)) as withdrawn:
        if any(withdrawn.image_ids(table, None) for table in people):
            fix = "Give the command again; if that does not help, purge them again, which lists what it cannot reach"
            raise Fp2Error("people in these runs were withdrawn: nothing was written", fix=fix)
        yield


def read_results(folder: Path) -> dict[str, Any]:
    """Return a run's `results.json`."""
    try:
        results = json.loads((folder / artifacts.RESULTS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Fp2Error(f"the run's files cannot be read: {' '.join(str(error).split())}", where=str(folder)) from error
    if not isinstance(results, dict) or any(not isinstance(results.get(name), kind) for name, kind in _NEEDED.items()):
        raise Fp2Error("this folder has no results of a run", where=str(folder), fix=f"See {artifacts.RESULTS} in it")
    return results


def lost_people(results: RunResults) -> bool:
    """Return whether people of a run were withdrawn, before it was written or since."""
    return bool(results.get("purged")) or any(
        note.code in ("withdrawn", "withdrawn_meanwhile") for note in read_notes(results)
    )


def read_cuts(folder: Path, people: pd.DataFrame, results: RunResults, word: str) -> dict[str, Cut]:
    """Return the cuts of a run's results by name."""
    from fp2.cuts import resolve_cuts
    from fp2.tables import attribute_columns

    config = read_plain(folder)
    try:
        cut_of = {cut.name: cut for cut in resolve_cuts(config["cut"], attribute_columns(people))}
    except (KeyError, TypeError, AttributeError) as error:
        raise Fp2Error("the run's config has no cut", where=word) from error
    return {name: cut_of[name] for name in results["cuts"] if name in cut_of}


KEYS = ["image_id", "subject_id"]
