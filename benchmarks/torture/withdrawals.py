"""A person is purged while something else is killed, or goes on: afterwards nothing is left of them, all of the others.

Answers about the person have a text that nobody else's have. One project with two logged runs is put back before each
try. A command is killed at a random moment; then the person is purged and the command is given again, or the other way
round. It has to end as it does when it is not killed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.torture.project import Ended, Patch, Project, Row, Yard, every_byte

LOGGED = ("tracking=mlflow", "report=default", "report.figures=false")
MARK = "Zyzzyva"
"""In every answer about the person."""
N_LABELS = 80
MOMENTS = {
    "asking": ("fp2.runs.live", "LiveRun.saw"),
    "analysing": ("fp2.runs.stages", "count_tables"),
    "writing": ("fp2.runs.outputs", "write_run"),
    "logging": ("fp2.runs.outputs", "log_files"),
}
"""Where a run is while somebody is purged: what it calls then."""


@dataclass
class Scene:
    """The project with its two runs, whom to purge, and how it was before."""

    yard: Yard
    project: Project
    saved: Path
    person: str
    words: list[str]
    runs: list[Path]
    others: dict[str, Any]

    def put_back(self) -> None:
        """Put the project back as it was."""
        shutil.rmtree(self.project.bench.root, ignore_errors=True)
        shutil.copytree(self.saved, self.project.bench.root)

    def call(self, *words: str) -> Callable[[], int]:
        """Return the command `fp2 WORDS` on the project."""
        from bench import fp2

        return lambda: fp2(*words, *self.project.bench.paths)

    @property
    def purge(self) -> Callable[[], int]:
        """The command that purges the person."""
        return self.call("purge", "--subject", self.person, "--yes", "tracking=mlflow")

    def remains(self) -> list[str]:
        """Return what is left of the person, and which rows of others have changed."""
        root = self.project.bench.root
        hide(root / "state" / "withdrawn.jsonl", *(root / "state" / "purges").glob("*.certificate.json"))
        everything = every_byte(root)
        wrong = [f"{word} is left" for word in self.words if word.encode() in everything]
        now = rows_of(root)
        changed = [key for key, row in self.others.items() if now.get(key) != row]
        return wrong + ([f"{len(changed)} rows of others changed: {changed[:2]}"] if changed else [])


def hide(*paths: Path) -> None:
    """Delete what states the keys of the person by intent."""
    for path in paths:
        path.unlink(missing_ok=True)


def rows_of(root: Path) -> dict[str, Any]:
    """Return the rows of the store and of the runs' tables by place and key."""
    import pandas as pd

    with closing(sqlite3.connect(root / "state" / "responses.sqlite")) as connection:
        rows = {f"store {row[0]}": row for row in connection.execute("SELECT key, text, numbers FROM answers")}
    for path in sorted((root / "outputs").rglob("responses.parquet")):
        frame = pd.read_parquet(path)
        for row in frame[["response_key", "image_id", "question_id", "text"]].itertuples(index=False):
            rows[f"{path.parent.name} {row.image_id} {row.question_id}"] = tuple(row)
    return rows


def withdrawals(yard: Yard) -> Iterator[Row]:
    """Yield a row for each command that is killed, for the steps of a purge, and for a purge beside a run."""
    scene = _scene(yard)
    for name in list(COMMANDS)[:: 2 if yard.short else 1]:
        yield _killed(scene, name)
    yield _steps(scene)
    yield _beside(scene)
    scene.project.remove()
    shutil.rmtree(scene.saved)


def _scene(yard: Yard) -> Scene:
    import pandas as pd

    from fp2.store.salted_keys import local_salt, salted

    project = yard.project()
    rows = pd.read_csv(yard.pictures / "people.csv")
    person = str(rows["person"].iloc[0])
    images = rows.loc[rows["person"] == person, "file"].tolist()
    for words in (LOGGED, (*LOGGED, "cut.by=[region]")):
        ended = project.run(*words, patch=lambda: _mark(images))
        if ended.status:
            raise SystemExit(f"an undisturbed run ended with {ended.status}:\n{ended.said}")
    root = project.bench.root
    salt = local_salt(root / "state")
    words = [MARK, person, *images, *salted([person], salt), *salted(images, salt, "image")]
    others = {key: row for key, row in rows_of(root).items() if MARK not in str(row)}
    saved = shutil.copytree(root, root.with_name("saved"))
    runs = project.bench.run_folders()
    return Scene(yard, project, saved, person, words, runs, others)


def _mark(images: list[str]) -> None:
    """Let the model say something about the person that it says about nobody else."""
    from fp2.methods.peeps.planted.engine import PlantedEngine

    plain = PlantedEngine.answer

    def answer(self: Any, tasks: Any) -> Iterator[Any]:
        for batch in plain(self, tasks):
            for one in batch:
                if one.text is not None and one.image_id in images:
                    one.text = f"{one.text} {MARK}"
            yield batch

    PlantedEngine.answer = answer  # type: ignore[method-assign]


def _label(scene: Scene) -> int:
    """Label the answers of a sample, a few a second; those that are labelled already are passed over."""
    from fp2.methods.labels.sample import Wanted, sheet_of

    here = scene.project.bench.config(*LOGGED)
    sheet = sheet_of(scene.runs[0], here, Wanted(scorer="valence", n=N_LABELS))
    labels = sheet.given("a")
    for answer in sheet.order("a"):
        if answer not in labels:
            sheet.append("a", answer, 0.0)
            time.sleep(0.002)
    sheet.merge()
    return 0


def _merge(scene: Scene) -> int:
    state = scene.project.bench.root / "state"
    sources = (str(state / name) for name in ("responses.sqlite", "empty.sqlite"))
    return scene.call("store", "merge", *sources, "--into", str(state / "merged.sqlite"))()


COMMANDS: dict[str, Callable[[Scene], Callable[[], int]]] = {
    "purge": lambda scene: scene.purge,
    "label": lambda scene: lambda: _label(scene),
    "rescore": lambda scene: scene.call("rescore", str(scene.runs[0]), "scorer=refusal", *LOGGED),
    "store merge": lambda scene: lambda: _merge(scene),
    "log": lambda scene: scene.call("log", str(scene.runs[0]), "tracking=mlflow"),
    "relocate": lambda scene: scene.call("relocate", "tracking=mlflow"),
    "report": lambda scene: scene.call("report", *map(str, scene.runs), "report.figures=false", "tracking=mlflow"),
}
DONE = {"log": "logged already", "store merge": "the file exists"}
"""What a command says that was killed after it had done everything."""


def _prepared(scene: Scene, name: str) -> None:
    """Put the project back, and make what the command needs."""
    scene.put_back()
    database = scene.project.bench.root / "mlruns" / "mlflow.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        if name == "log":  # as after a failure of MLflow
            run = scene.runs[0].joinpath("results.json")
            query = "UPDATE runs SET status = 'RUNNING' WHERE run_uuid = ?"
            connection.execute(query, (json.loads(run.read_text())["run_id"],))
        if name == "store merge":
            from fp2.store.rows import ResponseStore

            ResponseStore(database.parents[1] / "state" / "empty.sqlite").close()
        if name == "relocate":
            for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
                connection.execute(f"UPDATE {table} SET {column} = replace({column}, '/mlruns/', '/moved/mlruns/')")


def _killed(scene: Scene, name: str) -> Row:
    """Kill a command at random moments, and purge the person before or after it is given again."""
    row = Row(f"kill -9 of {name}, and somebody is purged")
    command = COMMANDS[name](scene)
    length = 1.5
    if not scene.yard.short:
        _prepared(scene, name)
        ended = scene.project.run(command=command)
        length = ended.seconds
        if ended.status:
            row.broken.append(f"it ends with {ended.status} undisturbed: {ended.said[-300:]}")
    for number in range(scene.yard.times(20, 1)):
        _prepared(scene, name)
        killed = scene.project.run(command=command, after=scene.yard.random.uniform(0.0, length))
        wrong: list[str] = []
        if name == "store merge":  # a purge does not reach a store that is merged already
            (scene.project.bench.root / "state" / "merged.sqlite").unlink(missing_ok=True)
        first_purged = name == "store merge" or (number % 2 == 1 and name not in ("purge", "relocate"))
        for step in (scene.purge, command) if first_purged else (command, scene.purge):
            again = scene.project.run(command=step)
            if again.status and not (step is command and DONE.get(name, "\0") in again.said):
                which = name if step is command else "the purge"
                wrong.append(f"{which} ends with {again.status}: {again.said[-300:]}")
        row.add("killed" if killed.status == -signal.SIGKILL else "it was quicker", [*wrong, *scene.remains()])
    return row


def _steps(scene: Scene) -> Row:
    """Kill a purge before and after each time that it writes its journal; the next purge or run finishes it."""
    row = Row("kill -9 of purge at each step of its journal")
    for number in [5] if scene.yard.short else count(1):
        scene.put_back()
        killed = scene.project.run(command=scene.purge, patch=_killing(number))
        if killed.status != -signal.SIGKILL:
            break
        by_run = number % 2 == 0
        ended = scene.project.run(*LOGGED) if by_run else scene.project.run(command=scene.purge)
        wrong = [] if ended.status == 0 else [f"the next ends with {ended.status}: {ended.said[-300:]}"]
        row.add("finished by the next run" if by_run else "finished by the next purge", [*wrong, *scene.remains()])
    return row


def _killing(number: int) -> Patch:
    """Return what kills the process at the `number`th change of a journal, before it (odd) or after it (even)."""

    def patch() -> None:
        plain, seen = os.replace, 0

        def replace(source: Any, target: Any) -> None:
            nonlocal seen
            is_journal = re.fullmatch(r".*/purges/[^./]+\.json", str(target)) is not None
            seen += 2 * is_journal
            if is_journal and seen - 1 == number:
                os.kill(os.getpid(), signal.SIGKILL)
            plain(source, target)
            if is_journal and seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

        os.replace = replace

    return patch


def _beside(scene: Scene) -> Row:
    """Purge the person while a run asks, analyses, writes and logs."""
    row = Row("a purge while a run asks, analyses, writes and logs")
    for place in list(MOMENTS)[: scene.yard.times(4, 1)]:
        for _ in range(scene.yard.times(5, 1)):
            row.add(f"purged while {place}", _purged_while(scene, place))
    return row


def _purged_while(scene: Scene, place: str) -> list[str]:
    """Let a run on an empty store stop at a place, purge the person, and return what is wrong afterwards."""
    scene.put_back()
    root = scene.project.bench.root
    (root / "state" / "responses.sqlite").unlink()
    reached, purged = root / "reached", root / "purged"
    started = time.monotonic()
    child, output = scene.project.start(*LOGGED, patch=partial(_waiting, place, reached, purged))
    while not reached.exists() and time.monotonic() - started < 120:
        time.sleep(0.005)
    purge = scene.project.start(command=scene.purge)
    ended: list[Ended] = []
    if place in ("asking", "analysing"):  # otherwise it waits until the run is written
        ended.append(scene.project.wait(*purge, started))
    purged.touch()
    ended.append(scene.project.wait(child, output, started))
    if len(ended) == 1:
        ended.append(scene.project.wait(*purge, started))
    return [
        *(f"exit status {one.status}: {one.said[-300:]}" for one in ended if one.status),
        *replace(scene, others={}).remains(),  # the store was emptied
    ]


def _waiting(place: str, reached: Path, purged: Path) -> None:
    """Let a run stop once at a place until the other process is there, or a second has passed."""
    from importlib import import_module

    module, name = MOMENTS[place]
    owner: Any = import_module(module)
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    plain = getattr(owner, last)

    def stopping(*args: Any, **options: Any) -> Any:
        if not reached.exists():
            reached.touch()
            until = time.monotonic() + 1.0 if place in ("writing", "logging") else time.monotonic() + 120
            while not purged.exists() and time.monotonic() < until:
                time.sleep(0.005)
        return plain(*args, **options)

    setattr(owner, last, stopping)
