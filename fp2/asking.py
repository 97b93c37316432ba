"""Asking in passes: what failed is tried again, and a run of which too much fails ends early.

Shared by the two ways of keeping answers: a row each (`fp2.respond`) and in blocks (`fp2.block_asking`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fp2.engines.base import Engine
    from fp2.tables import Answer, ImageTask

# A pass is given up early when this many answers were tried and most of them failed.
EARLY_TRIES = 100
NOT_ASKED = "not asked: the run ended before it came to this"


@dataclass
class Budget:
    """How many failures a run allows, and how many this pass has had.

    `error_budget` is a share of the planned answers up to 1, a count above.
    """

    planned: int
    error_budget: float
    tried: int = 0
    failed: int = 0

    @property
    def allowed(self) -> float:
        """The most failures that may stand."""
        return self.error_budget * self.planned if self.error_budget <= 1 else self.error_budget

    def new_pass(self) -> None:
        """Count from nothing."""
        self.tried = self.failed = 0

    def count(self, tried: int, failed: int) -> None:
        """Take note of a batch."""
        self.tried += tried
        self.failed += failed

    def over(self, n: int, reason: str) -> str | None:
        """Return how `n` failures are more than the run allows (`reason`: of the first), or None."""
        if n <= self.allowed:
            return None
        return f"{n} of {self.planned} answers failed, more than the run allows; the first: {reason}"

    def spent(self, last: bool, reason: str) -> str | None:
        """Return why asking must end now, or None: on the last pass each failure stands, before it may be mended."""
        hopeless = self.tried >= EARLY_TRIES and self.failed > self.tried / 2
        return self.over(self.failed, reason) if last or hopeless else None


class Asking(Protocol):
    """The state of one run's asking."""

    @property
    def budget(self) -> Budget:
        """What may fail."""
        ...

    def open_tasks(self) -> Sequence[ImageTask]:
        """Return the tasks with the questions that have no answer yet."""
        ...

    def keep(self, batch: Sequence[Answer]) -> None:
        """Keep a batch, and count it."""
        ...

    def reason(self) -> str:
        """Return why the first of the standing failures failed, empty where none does."""
        ...


def in_passes(asking: Asking, engine: Engine, attempts: int) -> str | None:
    """Ask up to `attempts` times for what is missing; return why the run ended early, or None."""
    for attempt in range(attempts):
        tasks = asking.open_tasks()
        if not tasks:
            return None
        asking.budget.new_pass()
        last = attempt == attempts - 1
        for batch in engine.answer(tasks):
            asking.keep(batch)
            if reason := asking.budget.spent(last, asking.reason()):
                return reason
    return None
