"""Planning and asking: which answers a run needs, which the store has, and getting the rest.

A picture that cannot be read and an answer that fails are rows with a reason; they are tried again on the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fp2.asking import NOT_ASKED, Budget, in_passes
from fp2.data.stimuli import Stimulus
from fp2.engines.base import Engine
from fp2.hashing import canonical_json, digest
from fp2.store.keys import response_key, response_set
from fp2.tables import BLIND, ORIGINAL, Answer, Decoding, ImageTask, Question

if TYPE_CHECKING:
    import pandas as pd

    from fp2.store.rows import ResponseStore

BYTES_PER_ANSWER = 600


@dataclass(frozen=True)
class Planned:
    """One answer that a run needs; `error` tells why it can never come (the picture cannot be shown).

    `image_id` and `subject_id` are whom the answer is filed under, whatever was shown in the picture's place; `variant`
    says how the picture is changed.
    """

    response_key: str
    image_id: str
    subject_id: str
    question: Question
    row: int
    error: str | None = None
    variant: str = ORIGINAL


@dataclass(frozen=True)
class Plan:
    """Every answer that a run needs, and one task per picture that is shown to get it.

    `keys` has the response key by (image id of a task, question id).
    """

    planned: tuple[Planned, ...]
    tasks: tuple[ImageTask, ...]
    keys: Mapping[tuple[str, str], str]

    @property
    def response_set(self) -> str:
        """Digest of all planned keys."""
        return response_set(item.response_key for item in self.planned)


@dataclass
class Asked:
    """What came of a plan: the answers by key, and how the asking went."""

    answers: dict[str, dict[str, Any]]
    cached: int
    model_calls: int
    interrupted: bool = False
    over_budget: str | None = None

    @property
    def complete(self) -> bool:
        """Whether every planned answer was tried as often as allowed."""
        return not self.interrupted and self.over_budget is None


def make_plan(
    people: pd.DataFrame,
    questions: Sequence[Question],
    engine: Engine,
    decoding: Decoding,
    shown: Sequence[Stimulus],
    variant: str = ORIGINAL,
) -> Plan:
    """Return the plan for `people` (one row per picture) and `questions`; loads no model.

    Parameters
    ----------
    shown : sequence of Stimulus
        What is shown for each row of `people`; the same may be shown for several, and is asked about once.
    variant : str
        The kind of image variant that `shown` is.

    Raises
    ------
    Fp2Error
        If the engine cannot ask a question of this kind.
    """
    keys_of = _Keys(engine, questions, decoding, variant)
    planned: list[Planned] = []
    tasks: dict[tuple[str, str], tuple[ImageTask, list[str]]] = {}
    for row, (image_id, subject_id, seen) in enumerate(
        zip(people["image_id"], people["subject_id"], shown, strict=True)
    ):
        if seen.error is not None:
            keys = [digest(["not shown", variant, image_id, question.text]) for question in questions]
        else:
            name = (seen.image_id, seen.subject_id)
            if name not in tasks:
                task = seen.task(tuple(questions))
                tasks[name] = (task, keys_of(task))
            keys = tasks[name][1]
        planned += [
            Planned(key, image_id, subject_id, question, row, seen.error, variant)
            for question, key in zip(questions, keys, strict=True)
        ]
    by_question = {
        (task.image_id, question.question_id): key
        for task, keys in tasks.values()
        for question, key in zip(questions, keys, strict=True)
    }
    return Plan(tuple(planned), tuple(task for task, _ in tasks.values()), by_question)


def joined(first: Plan, second: Plan) -> Plan:
    """Return two plans as one; their tasks go by different image ids."""
    return Plan(first.planned + second.planned, first.tasks + second.tasks, {**first.keys, **second.keys})


def one_file_at_a_time(plan: Plan) -> Plan:
    """Return the plan with the tasks about one picture's file following each other, so that it is opened once."""
    first = {task.path: place for place, task in reversed(list(enumerate(plan.tasks)))}
    return replace(plan, tasks=tuple(sorted(plan.tasks, key=lambda task: first[task.path])))


class _Keys:
    """The response keys of one task, in the order of the questions; what all tasks share is worked out once."""

    def __init__(self, engine: Engine, questions: Sequence[Question], decoding: Decoding, variant: str) -> None:
        self._engine, self._questions, self._decoding = engine, questions, decoding
        self._identity = engine.identity()
        self._methods = [engine.method(question, variant == BLIND) for question in questions]

    def __call__(self, task: ImageTask) -> list[str]:
        own = self._engine.task_identity(task)
        return [
            response_key(
                engine=self._identity,
                method=method,
                question=question,
                pixel_sha256=task.pixel_sha256,
                variant=task.variant,
                variant_params=task.variant_params,
                decoding=self._decoding,
                task_identity=own,
            )
            for question, method in zip(self._questions, self._methods, strict=True)
        ]


@dataclass
class _Asking:
    """The state of one run's asking; `have` are the keys that are answered."""

    plan: Plan
    engine: Engine
    store: ResponseStore
    budget: Budget
    tick: Callable[[int, int], None]
    have: set[str]
    failed: dict[str, str] = field(default_factory=dict)

    def open_tasks(self) -> list[ImageTask]:
        """Return the tasks with the questions that have no answer yet."""
        tasks = []
        seen = set(self.have)  # the same pixels twice are asked about once
        for task in self.plan.tasks:
            keys = {self.plan.keys[task.image_id, q.question_id]: q for q in task.questions}
            left = tuple(question for key, question in keys.items() if key not in seen)
            seen |= keys.keys()
            if left:
                tasks.append(replace(task, questions=left))
        return tasks

    def keep(self, batch: Sequence[Answer]) -> None:
        """Store a batch."""
        rows = [(self.plan.keys[a.image_id, a.question_id], _storable(a)) for a in batch]
        self.store.put_many(rows, self.engine.runtime())
        done = {key for key, answer in rows if answer.error is None}
        for key, answer in rows:
            if answer.error is None:
                self.failed.pop(key, None)
            else:
                self.failed[key] = answer.error
        self.have |= done
        self.budget.count(len(rows), len(rows) - len(done))
        self.tick(len(done), len(self.failed))

    def reason(self) -> str:
        """Return the reason of the first failure that stands."""
        return next(iter(self.failed.values()), "")


def ask(
    plan: Plan,
    engine: Engine,
    store: ResponseStore,
    *,
    attempts: int,
    error_budget: float,
    tick: Callable[[int, int], None] = lambda done, failed: None,
    start: Callable[[int, int], None] = lambda planned, cached: None,
) -> Asked:
    """Get every answer of `plan` that the store does not have; each batch is safe in the store as it comes.

    Parameters
    ----------
    attempts : int
        How often a failed answer is tried in this run.
    error_budget : float
        Failures that end the run: a share of the planned answers up to 1, a count above.
    tick, start : callable
        Told (answers got, failures standing) per batch, and (planned, cached) once.
    """
    distinct = {item.response_key for item in plan.planned}
    stored = store.get_many(distinct)
    n_cached = sum(item.response_key in stored for item in plan.planned)
    start(len(plan.planned), n_cached)
    asking = _Asking(plan, engine, store, Budget(len(plan.planned), error_budget), tick, set(stored))
    asking.failed = {i.response_key: i.error for i in plan.planned if i.error is not None}
    # A few unreadable pictures are told at the end, and cost no other picture its answers; a broken folder ends here.
    unreadable = len(asking.failed)
    broken = unreadable > len(plan.planned) / 2
    outcome = Asked({}, n_cached, 0, over_budget=asking.budget.over(unreadable, asking.reason()) if broken else None)
    calls_before = engine.model_calls
    try:
        if outcome.over_budget is None:
            ended = in_passes(asking, engine, attempts)
            outcome.over_budget = ended or asking.budget.over(len(asking.failed), asking.reason())
    except KeyboardInterrupt:
        outcome.interrupted = True
    outcome.model_calls = engine.model_calls - calls_before
    outcome.answers = _collect(plan, store, asking, set(stored))
    return outcome


def _storable(answer: Answer) -> Answer:
    """Return the answer, or the reason why its numbers cannot be kept: one broken number must not end the run."""
    if answer.numbers is None or answer.error is not None:
        return answer
    try:
        canonical_json(dict(answer.numbers))
    except (ValueError, TypeError) as error:
        return replace(answer, text=None, numbers=None, error=f"the engine gave unusable numbers: {error}")
    return answer


def _collect(plan: Plan, store: ResponseStore, asking: _Asking, cached: set[str]) -> dict[str, dict[str, Any]]:
    """Return for every planned key what is known of it now."""
    keys = {item.response_key for item in plan.planned}
    found = store.get_many(keys)
    failures = store.get_failures(keys)
    known: dict[str, dict[str, Any]] = {}
    for item in plan.planned:
        key = item.response_key
        if key in found:
            a = found[key]
            known[key] = {
                "text": a.text, "numbers": a.numbers, "status": "answered", "error": None, "attempts": a.attempts,
                "seconds": a.seconds, "tokens": a.tokens, "cached": key in cached,
            }  # fmt: skip
        elif key in asking.failed:
            tries = failures[key].attempts if key in failures else 1
            known[key] = {
                "text": None, "numbers": None, "status": "error", "error": asking.failed[key], "attempts": tries,
                "seconds": 0.0, "tokens": 0, "cached": False,
            }  # fmt: skip
        else:
            known[key] = {
                "text": None, "numbers": None, "status": "error", "error": NOT_ASKED, "attempts": 0,
                "seconds": 0.0, "tokens": 0, "cached": False,
            }  # fmt: skip
    return known


def answers_table(plan: Plan, asked: Asked) -> pd.DataFrame:
    """Return the answers table: one row per planned answer; what a run did not come to is an error row that says so."""
    import pandas as pd

    from fp2.tables import ANSWERS

    rows = [
        {
            "response_key": item.response_key,
            "image_id": item.image_id,
            "subject_id": item.subject_id,
            "variant": item.variant,
            "question_id": item.question.question_id,
            "probe": item.question.probe,
            **asked.answers[item.response_key],
        }
        for item in plan.planned
    ]
    return ANSWERS.check(pd.DataFrame(rows, columns=ANSWERS.names))
