"""A project to be maltreated: runs in forked processes, the log of what was asked, and the tables that must result."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))  # the small data set that the tests use

from bench import Bench, every_byte, results_of, write_pictures

TRUTH = "model.truth={seed: 4, effects: {trust: {gender: {f: -4}}}, refusals: {lifestyle: {base: 0.2}}}"
BATCH = 4  # images
PER_BATCH = BATCH * 6  # answers
WORDS = (TRUTH, f"engine.batch_size={BATCH}", "analysis.permutations=99")
PATIENCE = 600.0  # seconds until a run that does not end is a failure
Patch = Callable[[], None]


@dataclass
class Row:
    """One fault: how often it was tried, what came of it, and what must not have come of it."""

    fault: str
    tries: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def add(self, outcome: str, broken: Sequence[str] = ()) -> None:
        """Count one try."""
        self.tries += 1
        self.outcomes[outcome] += 1
        self.broken += broken


@dataclass
class Ended:
    """How a forked run ended: exit status (negative: by a signal), its output, its seconds."""

    status: int
    said: str
    seconds: float

    @property
    def one_line(self) -> bool:
        """Whether the user was spared a stack trace."""
        return "Traceback" not in self.said


class Project:
    """A project in `root`; `slow` is the pause after each batch in seconds."""

    def __init__(self, root: Path, pictures: Path, *, words: Sequence[str] = (), slow: float = 0.0) -> None:
        self.bench = Bench(root, pictures)
        self.words, self.slow, self._started = (*WORDS, *words), slow, 0
        self.asked, self.output = root.with_suffix(".asked"), root.with_suffix(".output")  # not on a disk that is full
        (root / "state").mkdir(parents=True, exist_ok=True)
        (root / "state" / "salt").write_bytes(bytes(range(32)))  # the same keys in every project

    def start(
        self, *words: str, patch: Patch | None = None, command: Callable[[], int] | None = None
    ) -> tuple[int, Path]:
        """Fork a run or another command; return its process and the file of its output, which the next overwrites."""
        self._started += 1
        output = self.output.with_suffix(f".output{self._started % 2}")  # two may run at once
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child:
            return child, output
        status = 1
        try:
            handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            os.environ["FP2_ROOT"] = str(self.bench.root)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if patch is not None:
                patch()
            self._log_questions()  # of what the patched model says
            status = command() if command is not None else self.bench.launch(*self.words, *words)
        except SystemExit as ended:
            status = int(ended.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def run(
        self,
        *words: str,
        patch: Patch | None = None,
        after: float | None = None,
        how: int = 9,
        command: Callable[[], int] | None = None,
    ) -> Ended:
        """Run to the end, or send a signal `how` after so many seconds."""
        started = time.monotonic()
        child, output = self.start(*words, patch=patch, command=command)
        return self.wait(child, output, started, after, how)

    def wait(self, child: int, output: Path, started: float, after: float | None = None, how: int = 9) -> Ended:
        """Wait for a forked run."""
        sent = False
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            seconds = time.monotonic() - started
            if done:
                return Ended(os.waitstatus_to_exitcode(status), output.read_text(errors="replace"), seconds)
            if after is not None and not sent and seconds >= after:
                os.kill(child, how)
                sent = True
            if seconds > PATIENCE:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.002)

    def _log_questions(self) -> None:
        """Log every question as it is asked, and the usable answers of every batch that was stored."""
        from fp2.methods.peeps.planted.engine import PlantedEngine

        quick, log, slow = PlantedEngine.answer, self.asked, self.slow

        def answer(self: Any, tasks: Any) -> Iterator[Any]:
            for batch in quick(self, tasks):
                with log.open("a") as handle:
                    handle.write("".join(f"{one.image_id} {one.question_id}\n" for one in batch))
                yield batch
                with log.open("a") as handle:
                    handle.write(f"stored {sum(one.error is None for one in batch)}\n")
                time.sleep(slow)

        PlantedEngine.answer = answer  # type: ignore[method-assign]

    def counted(self) -> tuple[int, int, int]:
        """Return how many questions were asked, how many different ones, and how many were reported as stored."""
        lines = self.asked.read_text().splitlines() if self.asked.exists() else []
        asked = [line for line in lines if not line.startswith("stored")]
        stored = sum(int(line.split()[1]) for line in lines if line.startswith("stored"))
        return len(asked), len(set(asked)), stored

    def stored(self) -> int:
        """Return how many answers the store has."""
        with suppress(sqlite3.Error), closing(sqlite3.connect(self.bench.store)) as connection:
            return int(connection.execute("SELECT count(*) FROM answers").fetchone()[0])
        return 0

    def tables(self) -> dict[str, bytes]:
        """Return the tables of the newest run that do not say when and whence answers came."""
        folder = self.bench.run_folders()[-1]
        names = ("people.parquet", "scores.parquet", "disparities.parquet")
        found = {name: (folder / name).read_bytes() for name in names}
        import pandas as pd

        answers = pd.read_parquet(folder / "responses.parquet").drop(columns=["seconds", "cached", "attempts"])
        return {**found, "responses.parquet": answers.to_csv().encode()}

    def finished(self, expected: dict[str, bytes], *words: str) -> list[str]:
        """Run once more, undisturbed; return what is wrong with how that ends."""
        ended = self.run(*words)
        if ended.status != 0:
            return [f"the next run ended with {ended.status}: {ended.said[-300:]}"]
        found = self.tables()
        wrong = [f"{name} differs" for name in expected if found[name] != expected[name]]
        return wrong + ([] if results_of(self.bench.run_folders()[-1])["complete"] else ["the next run is partial"])

    def remove(self) -> None:
        """Delete the project and its logs."""
        shutil.rmtree(self.bench.root, ignore_errors=True)
        for path in (self.asked, *self.bench.root.parent.glob(f"{self.output.name}*")):
            path.unlink(missing_ok=True)


class Yard:
    """A temporary folder with images, the tables that an undisturbed run writes, and fresh projects."""

    def __init__(self, folder: Path, seed: int, *, short: bool = False, share: float = 1.0) -> None:
        import random

        self.folder, self.short, self._share, self.random = folder, short, share, random.Random(seed)
        self.pictures = write_pictures(folder / "pictures")
        self._n = 0
        first = self.project()
        ended = first.run("report=default")
        if ended.status != 0:
            raise SystemExit(f"an undisturbed run ended with {ended.status}:\n{ended.said}")
        self.tables, self.seconds = first.tables(), ended.seconds
        first.remove()

    def project(self, **options: Any) -> Project:
        """Return a new project."""
        self._n += 1
        return Project(self.folder / f"p{self._n}", self.pictures, **options)

    def times(self, full: int, short: int) -> int:
        """Return how often to try: `short`, or the share of `full`."""
        return short if self.short else max(1, round(full * self._share))


__all__ = ["PER_BATCH", "Bench", "Ended", "Patch", "Project", "Row", "Yard", "every_byte"]
