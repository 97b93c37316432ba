"""The journal of a purge, `STATE/purges/ID.json`: its plan, how far it is, and at last its certificate of deletion.

The journal holds ids and texts of the people until everything is removed; the certificate that replaces it holds none.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    DELETION_TYPE,
    STATEMENT_TYPE,
    Config,
    Fp2Error,
    PathsConfig,
    digest,
    everyone_shown,
    generator,
    load_or_create_key,
    replace_file,
    sign,
)
from fp2.methods.withdrawal.selection import Selection

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import RecordedImage, Results, RunTables

FOLDER, CERTIFICATE = "purges", ".certificate.json"
_WRITTEN = ("started", "where", "people", "unindexed", "texts", "store", "unreached", "remaining")
RUNS = ("run", "report")
"""Kinds of steps that users are shown one by one."""


@dataclass
class Step:
    """One thing that a purge removes or replaces, which may be done again.

    Attributes
    ----------
    kind : str
        `run`, `report` (any file that was written from runs), `texts` or `store`.
    target : str
        The path; of a run that is only in the MLflow store, its id there.
    run_id, people, answers
        Of a run: its id, and how many of both leave it.
    logged : str
        Of a run: its id in the MLflow store, empty where it is only in a folder.
    staged : bool
        Whether what replaces the run is ready; before that, nothing of the run is changed.
    before, after : dict
        Of a run: the SHA-256 of its passport and results.
    """

    kind: str
    target: str
    run_id: str = ""
    people: int = 0
    answers: int = 0
    logged: str = ""
    outcome: str = ""
    staged: bool = False
    done: bool = False
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path | None:
        """Of a run: its output folder, if that was there when the purge began."""
        return None if self.target == self.logged else Path(self.target)

    @property
    def where(self) -> str:
        """Of a run: whether it is in a folder, the MLflow store, or both."""
        return "mlflow" if not self.folder else "folder and mlflow" if self.logged else "folder"

    @property
    def line(self) -> str:
        """What is removed, and how that went."""
        logged = f"MLflow run {self.logged}" if self.logged else ""
        name = f"{self.folder} and {logged}" if self.folder and logged else logged or self.target
        counts = f": {self.people} people and {self.answers} answers" if self.people or self.answers else ""
        return f"{name}{counts}{': ' if self.outcome else ''}{self.outcome}"


@dataclass
class Journal:
    """What one purge removes, and how far it is; before it is written, a plan.

    Attributes
    ----------
    path, started, where
        Of the journal; when it was begun; the paths and the MLflow store then.
    people, unindexed : set of str
        Salted keys of everyone who is removed, and of answers about them that are not in the store's index.
    texts : list of str
        Long answers that nobody else gave.
    store : dict
        How many rows of the store are deleted, by table.
    unreached, remaining : list of str
        What a purge cannot change, and what is still there after it.
    keys, raw_keys
        Salted keys of the answers that are removed; salted key -> response key of every stored answer.
    pictures, paths
        The images of the store's index that are removed; their paths, and those of images that it has digests of only.
    ids : list of dict
        How much each given id selects.
    lost : set of str
        The runs that cannot be recomputed: they lose results, figures and passport.
    """

    path: Path
    started: str
    where: dict[str, Any]
    selection: Selection
    people: set[str] = field(default_factory=set)
    unindexed: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    store: dict[str, int] = field(default_factory=dict)
    unreached: list[str] = field(default_factory=list)
    remaining: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    # searched for each time, and not written
    keys: set[str] = field(default_factory=set)
    raw_keys: dict[str, str] = field(default_factory=dict)
    pictures: list[RecordedImage] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    ids: list[dict[str, Any]] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)

    @classmethod
    def begin(cls, here: Config, selection: Selection, unindexed: Iterable[str] = ()) -> Journal:
        """Return the journal of a new purge; nothing is written yet."""
        now = datetime.now(UTC)
        path = Path(here.paths.state).absolute() / FOLDER / f"{now:%Y%m%dT%H%M%S%f}.json"
        paths = {
            name: os.path.abspath(os.path.expanduser(value)) if isinstance(value, str) else value
            for name, value in asdict(here.paths).items()
        }
        where = {"paths": paths, "tracking": asdict(here.tracking)}
        return cls(path, now.isoformat(timespec="seconds"), where, selection, unindexed=set(unindexed))

    @classmethod
    def read(cls, path: Path) -> Journal:
        """Return the journal of a purge that was not finished."""
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            selection, steps = Selection.of(body.pop("selection")), [Step(**step) for step in body.pop("steps")]
            sets: dict[str, Any] = {name: set(body.pop(name)) for name in ("people", "unindexed")}
            return cls(path, selection=selection, steps=steps, **sets, **body)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            fix = "Delete this file, and purge the same people again"
            raise Fp2Error(f"the journal of a purge cannot be read: {error}", where=str(path), fix=fix) from error

    def write(self) -> None:
        """Write the journal in one step."""
        body = {name: getattr(self, name) for name in _WRITTEN}
        body |= {"selection": self.selection.plain, "steps": [asdict(step) for step in self.steps]}
        replace_file(self.path, json.dumps(body, indent=1, default=sorted))

    def add(self, step: Step) -> None:
        """Add a step; what an earlier attempt prepared or did stays so, unless there is something to do again."""
        for before in self.steps:
            if before.kind == step.kind and (before.target == step.target or before.logged == step.logged != ""):
                before.logged = before.logged or step.logged
                if before.done:
                    before.done = before.staged = False
                return
        self.steps.append(step)

    @property
    def runs(self) -> list[Step]:
        """The steps that remove people from runs."""
        return [step for step in self.steps if step.people or step.answers]

    def leaving(self, people: pd.DataFrame, results: Results | None) -> pd.Series[bool]:
        """Return which rows of a run's people leave; without results, its release is that of the index's images."""
        if results is None and self.selection.release is not None:
            return people["image_id"].isin({picture.image for picture in self.pictures})
        shown = everyone_shown(people)
        selected = self.selection.rows(shown["image_id"], shown["subject_id"])
        return selected if shown is people else people["image_id"].isin(shown.loc[selected, "image_id"])

    def reduce(self, tables: RunTables, results: Results | None) -> RunTables:
        """Return the tables without what is removed."""
        leaving = self.leaving(tables.people, results)
        return tables.without(tables.people[~leaving], set(tables.people.loc[leaving, "image_id"]), self.keys)

    def response_keys(self) -> set[str]:
        """Return the response keys of the stored answers that are removed."""
        return {self.raw_keys[key] for key in self.keys & self.raw_keys.keys()}

    def config(self, here: Config) -> Config:
        """Return the config with the paths and the MLflow store that the purge began with, unless it was moved."""
        if self.where["paths"]["state"] != os.path.abspath(here.paths.state):
            return here
        paths, tracking = PathsConfig(**self.where["paths"]), type(here.tracking)(**self.where["tracking"])
        return replace(here, paths=paths, tracking=tracking)

    def stage(self, step: Step) -> Path:
        """Return the folder of what replaces a run."""
        return self.path.with_suffix("") / digest(step.target)[:16]

    @property
    def certificate(self) -> Path:
        """Where the certificate of deletion is written."""
        return self.path.with_name(self.path.stem + CERTIFICATE)

    @property
    def lines(self) -> list[str]:
        """A line for each run and report, and for what was not reached and is still there."""
        return [
            *(step.line for step in self.steps if step.kind in RUNS),
            *(f"not reached: {reason}" for reason in self.unreached),
            *(f"still there: {reason}" for reason in self.remaining),
        ]

    def certify(self, here: Config) -> None:
        """Write and sign the certificate of deletion, which has no id in clear, and delete the journal."""
        key, _ = load_or_create_key(Path(here.paths.keys))
        chosen = self.selection
        keys = {"subjects": sorted(chosen.subjects), "images": sorted(chosen.images)}
        runs = [
            {
                "run": chosen.redact(step.run_id, "…"),
                "where": step.where,
                "people": step.people,
                "answers": step.answers,
                "outcome": chosen.redact(step.outcome, "…"),
                "before": step.before,
                "after": step.after,
            }
            for step in self.steps
            if step.kind == "run"
        ]
        other_steps = [step.kind for step in self.steps if step.kind not in ("run", "store")]
        statement = {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": "selection", "uri": "urn:fp2:selection", "digest": {"sha256": digest(keys)}}],
            "predicateType": DELETION_TYPE,
            "predicate": {
                "schema_version": 1,
                "started": self.started,
                "issued": datetime.now(UTC).isoformat(timespec="seconds"),
                "generator": generator(),
                "selection": {**keys, "release": chosen.release, "data": chosen.source},
                "removed": {
                    "people": len(self.people),
                    "store": {name: n for name, n in self.store.items() if n},
                    "runs": runs,
                    "other": {kind: other_steps.count(kind) for kind in dict.fromkeys(other_steps)},
                },
                "not_reached": [chosen.redact(reason, "…") for reason in self.unreached],
                "remaining": [chosen.redact(reason, "…") for reason in self.remaining],
            },
        }
        replace_file(self.certificate, json.dumps(sign(statement, key), indent=2) + "\n", 0o644)
        shutil.rmtree(self.path.with_suffix(""), ignore_errors=True)
        self.path.unlink()


def pending(state: Path) -> list[Path]:
    """Return the journals of the purges that were not finished."""
    return [path for path in sorted((state / FOLDER).glob("[!.]*.json")) if not path.name.endswith(CERTIFICATE)]


def drafts(state: Path) -> list[Path]:
    """Return what a kill left of journals that were being written: ids are in them."""
    return list((state / FOLDER).glob(".*.json.*"))


@contextmanager
def alone(state: Path, *, wait: bool = False) -> Iterator[Path]:
    """Let no other purge plan or run, or `wait` for it; give a folder for downloads. What a kill left is deleted."""
    folder = state / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            raise Fp2Error("another purge is running", where=str(state), fix="Try again when it has ended") from None
        for draft in drafts(state):
            draft.unlink()
        for download in folder.glob(".download-*"):
            shutil.rmtree(download)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as downloads:
            yield Path(downloads)
