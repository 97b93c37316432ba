"""What a run is doing now: counted while it asks; shown in its terminal, by `fp2 watch`, and as metrics in MLflow."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.artifacts import LIVE
from fp2.text import printable

if TYPE_CHECKING:
    from fp2.tables import Answer

FILE_SECONDS, METRIC_SECONDS = 0.5, 10.0
"""Shortest time between two writes of the file, and between two sets of metrics."""
_KIND_LENGTH, _LAST_LENGTH = 60, 160
_LOOKED_AT = 10_000
"""Characters of an answer in which refusals are looked for while the run goes on."""


@dataclass
class LiveRun:
    """The counts of a run while it asks.

    Parameters
    ----------
    folder : Path
        The run's folder: `live.json` is there while the run goes on.
    title : str
        What is asked.
    show : callable
        Called with (answers so far, planned, one line of counts).
    log : callable
        Called with metrics by name, and the number of answers as their step.
    refuses : callable
        Whether a text declines the question.
    """

    folder: Path
    title: str
    show: Callable[[int, int, str], None]
    log: Callable[[Mapping[str, float], int], None]
    refuses: Callable[[str], bool]
    planned: int = 0
    done: int = 0
    failed: int = 0
    asked: int = 0
    refused: int = 0
    tokens: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    last: str = ""
    _began: float = 0.0
    _written: float = 0.0
    _logged: float = 0.0

    def start(self, planned: int, stored: int) -> None:
        """Begin: `stored` of the planned answers are there already."""
        self.planned, self.done = planned, stored
        self._began = self._logged = time.monotonic()
        self._publish()

    def saw(self, batch: Sequence[Answer]) -> None:
        """Count a batch as the engine returned it."""
        self.asked += len(batch)
        self.tokens += sum(answer.tokens for answer in batch)
        for answer in batch:
            if answer.error is not None:
                self.errors[printable(answer.error.partition(":")[0], _KIND_LENGTH)] += 1
            elif answer.numbers is None and answer.text is not None:
                self.last = answer.text[:_LOOKED_AT]
                self.refused += self.refuses(self.last)

    def tick(self, done: int, failed: int) -> None:
        """Move on by `done` answers; `failed` answers have failed so far."""
        self.done += done
        self.failed = failed
        self._publish()

    def end(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            (self.folder / LIVE).unlink(missing_ok=True)

    @property
    def seconds(self) -> float:
        """Seconds since asking began."""
        return time.monotonic() - self._began

    def facts(self) -> dict[str, Any]:
        """Return the counts, rates per second and the expected seconds left (None before the first answer)."""
        seconds = max(self.seconds, 1e-9)
        rate = self.asked / seconds
        return {
            "title": self.title, "planned": self.planned, "done": self.done, "failed": self.failed,
            "refused": self.refused, "answers_per_second": rate, "tokens_per_second": self.tokens / seconds,
            "seconds_left": (self.planned - self.done) / rate if rate else None, "errors": dict(self.errors),
            "last": printable(self.last, _LAST_LENGTH), "pid": os.getpid(), "updated": time.time(),
        }  # fmt: skip

    def _publish(self) -> None:
        facts = self.facts()
        self.show(self.done, self.planned, line_of(facts) if self.asked else "")
        now = time.monotonic()
        if now - self._written >= FILE_SECONDS:
            self._written = now
            with suppress(OSError):  # a full disk stops the store, which reports it
                draft = self.folder / f".{LIVE}"
                draft.write_text(json.dumps(facts), encoding="utf-8")
                os.replace(draft, self.folder / LIVE)
        if now - self._logged >= METRIC_SECONDS:
            self._logged = now
            names = ("failed", "refused", "answers_per_second", "tokens_per_second")
            self.log({"live.answers": self.done, **{f"live.{name}": facts[name] for name in names}}, self.done)


def line_of(facts: Mapping[str, Any]) -> str:
    """Return the counts in one line: rates, refusals, failures by kind, and the last answer."""
    parts = [f"{facts['answers_per_second']:.3g} answers/s"]
    if facts["tokens_per_second"]:
        parts.append(f"{facts['tokens_per_second']:.3g} tokens/s")
    if facts["refused"]:
        parts.append(f"{facts['refused']:,} refusals")
    if facts["failed"] or facts["errors"]:
        kinds = ", ".join(f"{kind} ({n:,})" for kind, n in Counter(facts["errors"]).most_common(3))
        parts.append(f"{facts['failed']:,} failed" + (f": {kinds}" if kinds else ""))
    if facts["last"]:
        parts.append(f"last: {facts['last']}")
    return " · ".join(parts)


def newest(outputs: Path) -> Path | None:
    """Return the folder of the run that wrote its counts last, below the folder of all outputs; None if none does."""
    found = [path for depth in ("*/*", "*/*/*") for path in outputs.glob(f"{depth}/{LIVE}")]
    stamped = []
    for path in found:
        with suppress(OSError):  # it ended meanwhile
            stamped.append((path.stat().st_mtime, path.parent))
    return max(stamped)[1] if stamped else None


def read(folder: Path) -> dict[str, Any] | None:
    """Return the counts of the run in `folder`; None if it has ended, or its process is gone."""
    try:
        facts: dict[str, Any] = json.loads((folder / LIVE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return facts if _lives(int(facts["pid"])) else None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
