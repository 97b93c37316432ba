"""The asking loop: what the store lacks is asked in passes, failures are retried, and a run with too many ends early.

One loop serves every storage (`fp2.ask.storage`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fp2.ask.plan import Shard
from fp2.data.stimuli import original_image_id
from fp2.engines.base import OverspentError
from fp2.tables import NOT_SUPPLIED, Answer

if TYPE_CHECKING:
    from fp2.ask.storage import Storage
    from fp2.engines.base import Engine
    from fp2.store.leases import Leases
    from fp2.tables import ImageTask

ALL = Shard()
NO_ANSWER = "the engine gave no answer"
EARLY_TRIES = 100
"""A pass ends early once so many answers were tried and most of them failed."""
_CLAIMED_AT_ONCE = 8  # images
_POLL, _LONGEST_POLL = 0.25, 5.0  # seconds between looks at what other runs have answered


@dataclass
class Asked:
    """How the asking went.

    Attributes
    ----------
    model_calls : int
        Batches sent to the model.
    interrupted : bool
        Whether the user interrupted it.
    over_budget : str or None
        Why it ended early: how many answers failed, and the first reason.
    overspent : str or None
        Why it ended before it cost more than allowed.
    left : int
        Questions that are left to other shards.
    """

    model_calls: int = 0
    interrupted: bool = False
    over_budget: str | None = None
    overspent: str | None = None
    left: int = 0

    @property
    def complete(self) -> bool:
        """Whether every planned answer was tried as often as allowed."""
        return not self.interrupted and self.over_budget is None and self.overspent is None and not self.left


@dataclass
class _Budget:
    """How many failures a run allows, and the tries and failures of this pass.

    `error_budget` is a share of the planned answers up to 1, a count above; `planned` are those of the shard.
    """

    planned: float
    error_budget: float
    tried: int = 0
    failed: int = 0

    def over(self, n: int, reason: str) -> str | None:
        """Return how `n` failures exceed what the run allows (`reason`: of the first), or None."""
        allowed = self.error_budget * self.planned if self.error_budget <= 1 else self.error_budget
        if n <= allowed:
            return None
        return f"{n} of {self.planned:.0f} answers failed, more than the run allows; the first: {reason}"

    def spent(self, last: bool, reason: str) -> str | None:
        """Return why asking must end now, or None. Only failures of the last pass are final."""
        hopeless = self.tried >= EARLY_TRIES and self.failed > self.tried / 2
        return self.over(self.failed, reason) if last or hopeless else None


def ask(
    storage: Storage,
    engine: Engine,
    *,
    attempts: int,
    error_budget: float,
    shard: Shard = ALL,
    tick: Callable[[int, int], None] = lambda done, failed: None,
    saw: Callable[[Sequence[Answer]], None] = lambda batch: None,
    start: Callable[[int, int], None] = lambda planned, cached: None,
) -> Asked:
    """Get every planned answer that the store does not have; each batch is stored as it comes.

    A few images that cannot be read are reported at the end and cost no other image its answers; where most of them
    cannot be, nothing is asked. Who is withdrawn meanwhile is not asked about any more, and no answer is kept.

    Parameters
    ----------
    attempts : int
        How often a failed answer is tried in this run.
    error_budget : float
        Failures that end the run: a share of the planned answers up to 1, a count above.
    shard : Shard
        The part of the stimuli that is asked about.
    tick, saw, start : callable
        Called with (answers got, failures so far) per batch, with each batch before that, and with (planned, stored)
        once.
    """
    start(storage.n_planned, storage.load())
    budget = _Budget(storage.n_planned / shard.of, error_budget)
    hidden = storage.n_not_shown - storage.n_not_shown // shard.of  # counted by the other shards
    outcome = Asked()
    if storage.n_not_shown > storage.n_planned / 2:
        outcome.over_budget = budget.over(storage.n_not_shown - hidden, storage.reason())
    before = engine.model_calls
    try:
        try:
            if outcome.over_budget is None:
                with ExitStack() as stack:
                    ended = _in_passes(storage, engine, budget, attempts, shard, tick, saw, stack)
                outcome.over_budget = ended or budget.over(storage.n_failed - hidden, storage.reason())
                outcome.left = sum(len(task.questions) for task in storage.open_tasks() if not shard.has(task))
        finally:
            storage.flush()
    except KeyboardInterrupt:
        outcome.interrupted = True
    except OverspentError as error:
        outcome.overspent = str(error)
    outcome.model_calls = engine.model_calls - before
    return outcome


def _in_passes(
    storage: Storage,
    engine: Engine,
    budget: _Budget,
    attempts: int,
    shard: Shard,
    tick: Callable[[int, int], None],
    saw: Callable[[Sequence[Answer]], None],
    stack: ExitStack,
) -> str | None:
    """Ask up to `attempts` times for what is missing; return why the run ended early, or None.

    What another run is asking is left to it; its answers are taken over when it is done, and asked where it is not.
    """
    leases: Leases | None = None
    for attempt in range(attempts):
        tasks = _present(storage, [task for task in storage.open_tasks() if shard.has(task)])
        if not tasks:
            return None
        leases = leases or stack.enter_context(storage.leases())
        pause = _POLL
        budget.tried = budget.failed = 0
        while tasks:
            elsewhere: set[tuple[str, str]] = set()
            for batch in _answered(engine, _claimed(storage, leases, tasks, elsewhere)):
                with storage.writing() as withdrawn:
                    if withdrawn:
                        batch = [answer for answer in batch if original_image_id(answer.image_id) not in withdrawn]
                    done = storage.keep(batch)
                tried = [answer for answer in batch if answer.error != NOT_SUPPLIED]
                saw(tried)
                budget.tried += len(tried)
                budget.failed += len(tried) - done
                tick(done, storage.n_failed)
                if reason := budget.spent(attempt == attempts - 1, storage.reason()):
                    return reason
            if not elsewhere:
                break
            storage.flush()
            tick(storage.refresh(), storage.n_failed)
            before, tasks = len(elsewhere), _present(storage, _only(storage.open_tasks(), elsewhere))
            if sum(len(task.questions) for task in tasks) == before:
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_POLL)
    return None


def _answered(engine: Engine, tasks: Iterator[ImageTask]) -> Iterator[Sequence[Answer]]:
    """Yield the engine's batches, and at last a failure for every question that it was given and did not answer."""
    unanswered: dict[str, set[str]] = {}

    def taken() -> Iterator[ImageTask]:
        for task in tasks:
            unanswered.setdefault(task.image_id, set()).update(question.question_id for question in task.questions)
            yield task

    for batch in engine.answer(taken()):
        for answer in batch:
            question_ids = unanswered.get(answer.image_id, set())
            question_ids.discard(answer.question_id)
            if not question_ids:
                unanswered.pop(answer.image_id, None)
        yield batch
    if unanswered:
        yield [
            Answer(image, question, None, NO_ANSWER)
            for image, question_ids in unanswered.items()
            for question in sorted(question_ids)
        ]


def _claimed(
    storage: Storage, leases: Leases, tasks: Sequence[ImageTask], elsewhere: set[tuple[str, str]]
) -> Iterator[ImageTask]:
    """Yield the tasks with the questions that this run may ask; add the others to `elsewhere`.

    Tasks are claimed as the engine takes them, a few at a time, so that runs that start together share them.
    """
    for start in range(0, len(tasks), _CLAIMED_AT_ONCE):
        present = _present(storage, tasks[start : start + _CLAIMED_AT_ONCE])
        chunk = [(task, storage.lease_keys(task)) for task in present]
        granted = leases.claim(key for _, keys in chunk for key in keys)
        for task, keys in chunk:
            mine = tuple(q for q, key in zip(task.questions, keys, strict=True) if key in granted)
            elsewhere |= {(task.image_id, q.question_id) for q in task.questions} - {
                (task.image_id, q.question_id) for q in mine
            }
            if mine:
                yield task if len(mine) == len(task.questions) else replace(task, questions=mine)


def _present(storage: Storage, tasks: Sequence[ImageTask]) -> Sequence[ImageTask]:
    """Return the tasks without those of withdrawn images."""
    with storage.writing() as withdrawn:
        return [task for task in tasks if original_image_id(task.image_id) not in withdrawn] if withdrawn else tasks


def _only(tasks: Sequence[ImageTask], wanted: Collection[tuple[str, str]]) -> list[ImageTask]:
    kept_tasks = []
    for task in tasks:
        questions = tuple(q for q in task.questions if (task.image_id, q.question_id) in wanted)
        if questions:
            kept_tasks.append(replace(task, questions=questions))
    return kept_tasks
