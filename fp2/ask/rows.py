"""Row storage: every answer under the response key of all that can change it, one database row each.

An image that cannot be read and an answer that fails are rows with a reason; they are tried again on the next run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fp2.ask.answers import RowAnswers
from fp2.ask.loop import Forecast
from fp2.ask.plan import Plan, PlannedRow
from fp2.data.stimuli import original_image_id
from fp2.hashing import canonical_json, digest
from fp2.store.leases import Leases
from fp2.store.rows import answered_keys, response_key, response_set
from fp2.tables import ANSWERS, NOT_ASKED, NOT_SUPPLIED, Answer, Decoding, ImageTask, Question

if TYPE_CHECKING:
    from fp2.engines.base import Engine
    from fp2.store.rows import ResponseStore

BYTES_PER_ANSWER = 600


class RowStorage:
    """The answers of a plan in the response store (see `fp2.ask.loop.Storage`).

    Parameters
    ----------
    plan : Plan
        What is needed.
    engine : Engine
        Answers the questions; its identity and methods enter the response keys. No model is loaded.
    decoding : Decoding
        How text is generated.
    store : ResponseStore
        Where answers are kept.

    Raises
    ------
    Fp2Error
        If the engine cannot ask a question of this kind.
    """

    def __init__(self, plan: Plan, engine: Engine, decoding: Decoding, store: ResponseStore) -> None:
        self.plan, self._engine, self._store = plan, engine, store
        self.keys = _task_keys(plan, engine, decoding)
        self._key = {
            (task.image_id, question.question_id): key
            for task, keys in zip(plan.tasks, self.keys, strict=True)
            for question, key in zip(plan.questions, keys, strict=True)
        }
        self._failed = {key: row.error for row, _, key in self.planned() if row.error is not None}
        self.n_not_shown = len(self._failed)
        self._have: set[str] = set()
        self._absent: set[str] = set()
        self._cached: set[str] = set()

    def planned(self) -> Iterator[tuple[PlannedRow, Question, str]]:
        """Yield (row, question, response key) of every planned answer; what cannot be shown has a digest of its own."""
        for row in self.plan.rows:
            keys = self.keys[row.task] if row.task >= 0 else self._not_shown(row)
            yield from ((row, question, key) for question, key in zip(self.plan.questions, keys, strict=True))

    def _not_shown(self, row: PlannedRow) -> list[str]:
        return [digest(["not shown", row.variant, row.image_id, question.text]) for question in self.plan.questions]

    @property
    def n_planned(self) -> int:
        """Answers planned."""
        return self.plan.n_planned

    @property
    def n_failed(self) -> int:
        """Planned answers that failed so far."""
        return len(self._failed)

    @cached_property
    def distinct(self) -> frozenset[str]:
        """The response keys, without repeats."""
        return frozenset(key for _, _, key in self.planned())

    @cached_property
    def response_set(self) -> str:
        """Digest of the response keys."""
        return response_set(self.distinct)

    def keys_by_image(self) -> dict[str, list[str]]:
        """Return the response keys of everything that shows an image, by image id."""
        found: dict[str, list[str]] = {}
        for (image_id, _), key in self._key.items():
            found.setdefault(original_image_id(image_id), []).append(key)
        return found

    def forecast(self) -> Forecast:
        """Return what the store has of the plan and what is left to ask; what cannot be shown is never asked."""
        keys = set(self._key.values())
        found, failures = self._store.get_many(keys), self._store.get_failures(keys)
        left = len(keys) - len(found)
        timed = [answer.seconds for answer in found.values() if answer.seconds > 0]
        seconds = sum(timed) / len(timed) if timed else None
        counted = [answer.tokens for answer in found.values() if answer.tokens > 0]
        tokens = sum(counted) / len(counted) if counted else None
        disk = f"about {left * BYTES_PER_ANSWER / 1e6:.1f} MB"
        return Forecast(len(found), len(failures), left, seconds, disk, tokens)

    def load(self) -> int:
        """Read which answers the store has; return how many planned ones."""
        self._have = set(self._store.get_many(self.distinct))
        self._cached = set(self._have)
        return sum(key in self._have for _, _, key in self.planned())

    def open_tasks(self) -> list[ImageTask]:
        """Return the stimuli with the questions that have no answer yet; the same pixels twice are asked about once."""
        tasks, seen = [], self._have | self._absent
        for task, keys in zip(self.plan.tasks, self.keys, strict=True):
            asked = dict(zip(keys, self.plan.questions, strict=True))
            left = tuple(question for key, question in asked.items() if key not in seen)
            seen |= asked.keys()
            if left:
                tasks.append(replace(task, questions=left))
        return tasks

    def leases(self) -> Leases:
        """Return the leases on the open questions."""
        return Leases(self._store.path, answered_keys)

    def lease_keys(self, task: ImageTask) -> list[str]:
        """Return the response key of each question of a task."""
        return [self._key[task.image_id, question.question_id] for question in task.questions]

    def refresh(self) -> int:
        """Take over what other runs have answered since."""
        new = set(self._store.get_many(self.distinct - self._have))
        self._have |= new
        self._cached |= new
        for key in new:
            self._failed.pop(key, None)
        return sum(key in new for _, _, key in self.planned())

    def keep(self, batch: Sequence[Answer]) -> int:
        """Store a batch; what the engine was not supplied with is neither an answer nor a failure."""
        keyed = [(self._key[answer.image_id, answer.question_id], _storable(answer)) for answer in batch]
        rows = [(key, answer) for key, answer in keyed if answer.error != NOT_SUPPLIED]
        self._absent |= {key for key, answer in keyed if answer.error == NOT_SUPPLIED}
        self._store.put_many(rows, self._engine.runtime())
        for key, answer in rows:
            if answer.error is None:
                self._failed.pop(key, None)
                self._have.add(key)
            else:
                self._failed[key] = answer.error
        return sum(answer.error is None for _, answer in rows)

    def flush(self) -> None:
        """Nothing is held back."""

    def reason(self) -> str:
        """Return why the first failed answer failed."""
        return next(iter(self._failed.values()), "")

    def answers(self) -> RowAnswers:
        """Return one row per planned answer; what the run did not come to is an error row that says so."""
        import pandas as pd

        known = self._known()
        rows = [
            {
                "response_key": key, "image_id": row.image_id, "subject_id": row.subject_id, "variant": row.variant,
                "question_id": question.question_id, "probe": question.probe, **known[key],
            }
            for row, question, key in self.planned()
        ]  # fmt: skip
        return RowAnswers(ANSWERS.check(pd.DataFrame(rows, columns=ANSWERS.names)))

    def _known(self) -> dict[str, dict[str, Any]]:
        """Return what is known of each response key."""
        found, failures = self._store.get_many(self.distinct), self._store.get_failures(self.distinct)
        known: dict[str, dict[str, Any]] = {}
        for key in self.distinct:
            if key in found:
                a = found[key]
                known[key] = {
                    "text": a.text, "numbers": a.numbers, "status": "answered", "error": None, "attempts": a.attempts,
                    "seconds": a.seconds, "tokens": a.tokens, "cached": key in self._cached,
                }  # fmt: skip
                continue
            tries = 0 if key not in self._failed else failures[key].attempts if key in failures else 1
            missing = NOT_SUPPLIED if key in self._absent else NOT_ASKED
            known[key] = {
                "text": None, "numbers": None, "status": "error", "error": self._failed.get(key, missing),
                "attempts": tries, "seconds": 0.0, "tokens": 0, "cached": False,
            }  # fmt: skip
        return known


def _task_keys(plan: Plan, engine: Engine, decoding: Decoding) -> list[list[str]]:
    """Return the response keys of each stimulus, in the order of the questions."""
    identity = engine.identity()
    methods = {
        blind: [engine.method(question, blind) for question in plan.questions]
        for blind in {task.blind for task in plan.tasks} or {False}
    }
    out = []
    for task in plan.tasks:
        own = engine.task_identity(task)
        out.append(
            [
                response_key(
                    engine=identity, method=method, question=question, pixel_sha256=task.pixel_sha256,
                    variant=task.variant, variant_params=task.variant_params, decoding=decoding, task_identity=own,
                )
                for question, method in zip(plan.questions, methods[task.blind], strict=True)
            ]
        )  # fmt: skip
    return out


def _storable(answer: Answer) -> Answer:
    """Return the answer, or the reason why its numbers cannot be stored: one broken number must not end the run."""
    if answer.numbers is None or answer.error is not None:
        return answer
    try:
        canonical_json(dict(answer.numbers))
    except (ValueError, TypeError) as error:
        return replace(answer, text=None, numbers=None, error=f"the engine gave unusable numbers: {error}")
    return answer
