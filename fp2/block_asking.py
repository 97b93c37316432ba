"""Getting the answers of a run in blocks: what the store has is taken from there, and only the rest is asked.

A block is written as soon as its picture is complete, and what is half done is written every few seconds and when the
asking ends, however it ends.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fp2.asking import NOT_ASKED, Budget, in_passes
from fp2.block_plan import BlockPlan, with_questions
from fp2.engines.base import Engine
from fp2.store.dense import DenseStore, Numbers, Piece, answered
from fp2.tables import YES_NO_NUMBERS, Answer, ImageTask

_FLUSH_SECONDS = 10.0
_WIDTH = len(YES_NO_NUMBERS)


@dataclass
class BlocksAsked:
    """What came of a plan.

    Attributes
    ----------
    numbers : array (contexts, `YES_NO_NUMBERS`, questions of the set), float32
        NaN where there is no answer.
    failed : dict
        (context, place in the set) -> why there is no answer.
    stored : array (contexts, questions of the set), bool
        What the store had before anything was asked.
    model_calls : int
        Batches sent.
    """

    numbers: Numbers
    failed: dict[tuple[int, int], str]
    stored: NDArray[np.bool_]
    model_calls: int
    interrupted: bool = False
    over_budget: str | None = None

    @property
    def complete(self) -> bool:
        """Whether every planned answer was tried as often as allowed."""
        return not self.interrupted and self.over_budget is None


@dataclass
class _Pending:
    """What came for one context and is not written yet."""

    places: list[int] = field(default_factory=list)
    numbers: list[tuple[float, ...]] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0

    def piece(self, context: str) -> Piece:
        values = np.array(self.numbers, dtype=np.float32).reshape(-1, _WIDTH).T
        return Piece(context, np.array(self.places, dtype=np.int64), values, tuple(self.failures), self.seconds)


class _Asking:
    """The state of one run's asking."""

    def __init__(self, plan: BlockPlan, engine: Engine, store: DenseStore, budget: Budget, tick: _Tick) -> None:
        self.plan, self.engine, self.store, self.budget, self.tick = plan, engine, store, budget, tick
        shape = (len(plan.contexts), _WIDTH, len(plan.question_set.questions))
        self.numbers: Numbers = np.full(shape, np.nan, dtype=np.float32)
        self.failed: dict[tuple[int, int], str] = {}
        self._context = {task.image_id: place for place, task in enumerate(plan.tasks)}
        self._place = {question.question_id: place for place, question in enumerate(plan.asked)}
        self._left: NDArray[np.int64] = np.zeros(shape[0], dtype=np.int64)
        self._pending: dict[int, _Pending] = {}
        self._flushed = time.monotonic()
        if len(self._context) < len(plan.tasks):
            raise ValueError("a picture id stands for two contexts")

    def load(self) -> None:
        """Take what the store has."""
        number = {context: place for place, context in enumerate(self.plan.contexts)}
        for context, numbers in self.store.read(self.plan.contexts, self.plan.question_set):
            self.numbers[number[context]] = numbers

    def open_tasks(self) -> list[ImageTask]:
        """Return the tasks with the questions that have no answer yet."""
        open_ones = ~answered(self.numbers)
        self._left = open_ones.sum(axis=1)
        full = self._left == open_ones.shape[1]
        return [
            with_questions(self.plan, context, open_ones[context], bool(full[context]))
            for context in np.flatnonzero(self._left).tolist()
        ]

    def keep(self, batch: Sequence[Answer]) -> None:
        """Take a batch; write the blocks that are complete now."""
        done = 0
        for answer in batch:
            done += self._take(answer)
        self.budget.count(len(batch), len(batch) - done)
        complete = [context for context in self._pending if not self._left[context]]
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()
        elif complete:
            self._write(complete)
        self.tick(done, len(self.failed))

    def _take(self, answer: Answer) -> bool:
        """Take one answer; return whether it is one."""
        context, place = self._context[answer.image_id], self._place[answer.question_id]
        pending = self._pending.setdefault(context, _Pending())
        self._left[context] -= 1
        pending.seconds += answer.seconds
        numbers, error = _numbers(answer)
        if error is not None:
            pending.failures.append((place, error))
            self.failed[context, place] = error
            return False
        pending.places.append(place)
        pending.numbers.append(numbers)
        self.numbers[context, :, place] = numbers
        self.failed.pop((context, place), None)
        return True

    def flush(self) -> None:
        """Write all that is not written yet."""
        self._write(list(self._pending))
        self._flushed = time.monotonic()

    def _write(self, contexts: Sequence[int]) -> None:
        pieces = [self._pending[context].piece(self.plan.contexts[context]) for context in contexts]
        if pieces:
            self.store.put(pieces, self.plan.question_set, self.engine.runtime())
        for context in contexts:
            del self._pending[context]

    def reason(self) -> str:
        """Return the reason of the first failure that stands."""
        return next(iter(self.failed.values()), next(iter(self.plan.errors.values()), ""))


_Tick = Callable[[int, int], None]


def ask_blocks(
    plan: BlockPlan,
    engine: Engine,
    store: DenseStore,
    *,
    attempts: int,
    error_budget: float,
    tick: _Tick = lambda done, failed: None,
    start: Callable[[int, int], None] = lambda planned, cached: None,
) -> BlocksAsked:
    """Get every answer of `plan` that the store does not have. Parameters as of `fp2.respond.ask`.

    Raises
    ------
    Fp2Error
        If a stored block is damaged, the store cannot be written, or the engine cannot be used at all.
    """
    store.register(plan.question_set)
    asking = _Asking(plan, engine, store, Budget(plan.n_planned, error_budget), tick)
    asking.load()
    stored = answered(asking.numbers)
    start(plan.n_planned, int(count_by_row(plan, stored).sum()))
    outcome = BlocksAsked(asking.numbers, asking.failed, stored, 0)
    unreadable = len(plan.errors) * len(plan.questions)
    if unreadable > plan.n_planned / 2:  # a broken folder ends here; a few unreadable pictures are told at the end
        outcome.over_budget = asking.budget.over(unreadable, asking.reason())
    before = engine.model_calls
    try:
        try:
            if outcome.over_budget is None:
                ended = in_passes(asking, engine, attempts)
                standing = unreadable + len(asking.failed)
                outcome.over_budget = ended or asking.budget.over(standing, asking.reason())
        finally:
            asking.flush()
    except KeyboardInterrupt:
        outcome.interrupted = True
    outcome.model_calls = engine.model_calls - before
    return outcome


def count_by_row(plan: BlockPlan, there: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return for each row of the people table how many of the battery's questions are marked in `there`.

    `there` is (contexts, questions of the set).
    """
    if not len(there):
        return np.zeros(len(plan.rows), dtype=np.int64)
    per_context = there[:, plan.places].sum(axis=1)
    return np.where(plan.rows >= 0, per_context[plan.rows], 0).astype(np.int64)


def reasons(plan: BlockPlan, asked: BlocksAsked, row: int) -> dict[int, str]:
    """Return place in the battery -> why there is no answer, for a row of the people table."""
    context = int(plan.rows[row])
    if context < 0:
        return dict.fromkeys(range(len(plan.questions)), plan.errors[row])
    there = answered(asked.numbers[context])
    places = plan.places.tolist()
    return {q: asked.failed.get((context, place), NOT_ASKED) for q, place in enumerate(places) if not there[place]}


def _numbers(answer: Answer) -> tuple[tuple[float, ...], str | None]:
    """Return an answer's numbers in the order of `YES_NO_NUMBERS`, or the reason why there are none."""
    if answer.error is not None:
        return (), answer.error
    given: Mapping[str, Any] = answer.numbers or {}
    values = []
    for name in YES_NO_NUMBERS:
        value = given.get(name)
        if value is not None and not (isinstance(value, (int, float)) and math.isfinite(value)):
            return (), f"the engine gave unusable numbers: {name} is {value!r}"
        values.append(math.nan if value is None else float(value))
    if all(map(math.isnan, values)):
        return (), "the engine gave no numbers"
    return tuple(values), None
