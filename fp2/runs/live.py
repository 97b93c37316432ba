"""What a run is doing now: its stage, and counts while it asks; shown by its terminal, `fp2 watch` and MLflow."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.artifacts import LIVE
from fp2.tables import TRACE
from fp2.text import printable

if TYPE_CHECKING:
    from fp2.progress import Progress
    from fp2.tables import Answer

FILE_SECONDS, METRIC_SECONDS = 0.5, 10.0
"""Shortest time between two writes of the file, and between two sets of metrics."""
_KIND_LENGTH, _LAST_LENGTH = 60, 160


@dataclass
class LiveRun:
    """What a run is doing, and its counts while it asks.

    Parameters
    ----------
    folder : Path
        The run's folder: `live.json` is there while the run goes on.
    names : dict
        The run's id and config hash, once they are known.
    """

    folder: Path
    names: dict[str, str] = field(default_factory=dict)
    stage: str = "Starting"
    steps: tuple[int, int | None] = (0, None)
    planned: int = 0
    done: int = 0
    failed: int = 0
    asked: int = 0
    refused: int = 0
    tokens: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    last: str = ""
    _show: Callable[[int, int, str], None] = lambda done, planned, line: None
    _log: Callable[[Mapping[str, float], int], None] = lambda metrics, step: None
    _refusals: Callable[[Sequence[Answer]], int] = lambda batch: 0
    _began: float | None = None
    _seconds: float = 0.0
    _written: float = 0.0
    _logged: float = 0.0

    def at(self, stage: str, done: int = 0, total: int | None = None) -> None:
        """Say which stage the run is in, and how many of its steps are done."""
        if stage != self.stage:
            self._written = 0.0
        self.stage, self.steps = stage, (done, total)
        self._write()

    @contextmanager
    def asking(
        self,
        title: str,
        show: Callable[[int, int, str], None],
        log: Callable[[Mapping[str, float], int], None],
        refusals: Callable[[Sequence[Answer]], int],
    ) -> Iterator[None]:
        """Count the answers that are asked for in the block.

        Parameters
        ----------
        title : str
            What is asked.
        show : callable
            Called with (answers so far, planned, one line of counts).
        log : callable
            Called with metrics by name, and the number of answers as their step.
        refusals : callable
            How many answers of a batch are refusals.
        """
        self._show, self._log, self._refusals = show, log, refusals
        self.at(title)
        try:
            yield
        finally:
            self._seconds, self._began = self.seconds, None

    def start(self, planned: int, stored: int) -> None:
        """Begin: `stored` of the planned answers are there already."""
        self.planned, self.done = planned, stored
        self._began = self._logged = time.monotonic()
        self._publish()

    def saw(self, batch: Sequence[Answer]) -> None:
        """Count a batch as the engine returned it."""
        self.asked += len(batch)
        self.tokens += sum(answer.tokens for answer in batch)
        self.refused += self._refusals(batch)
        for answer in batch:
            if answer.error is not None:
                self.errors[printable(answer.error.partition(":")[0], _KIND_LENGTH)] += 1
            elif answer.text is not None and (answer.numbers is None or TRACE in answer.numbers):
                self.last = printable(answer.text, _LAST_LENGTH)

    def tick(self, done: int, failed: int) -> None:
        """Move on by `done` answers; `failed` answers have failed so far."""
        self.done += done
        self.failed = failed
        self._publish()

    @property
    def seconds(self) -> float:
        """Seconds that were spent on asking."""
        return self._seconds if self._began is None else time.monotonic() - self._began

    def facts(self) -> dict[str, Any]:
        """Return stage, counts, rates per second and the expected seconds left (None where nothing is being asked)."""
        seconds = max(self.seconds, 1e-9)
        rate = self.asked / seconds
        asks = self._began is not None and rate
        return {
            **self.names,
            "stage": self.stage,
            "steps": list(self.steps),
            "planned": self.planned,
            "done": self.done,
            "failed": self.failed,
            "refused": self.refused,
            "answers_per_second": rate,
            "tokens_per_second": self.tokens / seconds,
            "seconds_left": (self.planned - self.done) / rate if asks else None,
            "errors": dict(self.errors),
            "last": self.last,
            "pid": os.getpid(),
            "updated": time.time(),
        }

    def _publish(self) -> None:
        facts = self.facts()
        self._show(self.done, self.planned, line_of(facts) if self.asked else "")
        self.at(self.stage, self.done, self.planned)
        now = time.monotonic()
        if now - self._logged >= METRIC_SECONDS:
            self._logged = now
            names = ("failed", "refused", "answers_per_second", "tokens_per_second")
            self._log({"live.answers": self.done, **{f"live.{name}": facts[name] for name in names}}, self.done)

    def _write(self) -> None:
        now = time.monotonic()
        if now - self._written < FILE_SECONDS:
            return
        self._written = now
        with suppress(OSError):  # a full disk stops the store, which reports it
            draft = self.folder / f".{LIVE}"
            draft.write_text(json.dumps(self.facts()), encoding="utf-8")
            os.replace(draft, self.folder / LIVE)


@contextmanager
def watched(folder: Path, progress: Progress) -> Iterator[LiveRun]:
    """Say in the run's folder what the run is doing, by the stages of its `progress`, until the block ends."""
    live_run = LiveRun(folder)
    live_run.at("Reading the data")
    before, progress.listener = progress.listener, live_run.at
    try:
        yield live_run
    finally:
        progress.listener = before
        with suppress(OSError):
            (folder / LIVE).unlink(missing_ok=True)


def line_of(facts: Mapping[str, Any]) -> str:
    """Return the counts in one line: rates, refusals, failures by kind, and the last answer."""
    rates = {unit: facts[f"{unit}_per_second"] for unit in ("answers", "tokens")}
    segments = [
        f"{rate:,.0f} {unit}/s" if rate >= 100 else f"{rate:.3g} {unit}/s"
        for unit, rate in rates.items()
        if rate or unit == "answers"
    ]
    if facts["refused"]:
        segments.append(f"{facts['refused']:,} refusals")
    if facts["failed"] or facts["errors"]:
        kinds = ", ".join(f"{kind} ({n:,})" for kind, n in Counter(facts["errors"]).most_common(3))
        segments.append(f"{facts['failed']:,} failed" + (f": {kinds}" if kinds else ""))
    if facts["last"]:
        segments.append(f"last: {facts['last']}")
    return " · ".join(segments)
