"""Row storage: every answer under the response key of all that can change it, one database row each.

An image that cannot be read and an answer that fails are rows with a reason; they are tried again on the next run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fp2.ask.answers import RowAnswers
from fp2.ask.plan import Plan, PlannedRow
from fp2.ask.storage import Forecast, Writing, of_nobody
from fp2.data.stimuli import original_image_id
from fp2.engines.base import SuppliesAnswers
from fp2.hashing import canonical_json, digest
from fp2.store.leases import Leases
from fp2.store.merge import take_answers
from fp2.store.response_keys import ResponseKeys, response_set
from fp2.store.rows import answered_keys, distinct, stored_keys
from fp2.tables import ANSWERS, ITEM, NOT_ASKED, NOT_SUPPLIED, TRACE, Answer, Decoding, ImageTask, Question

if TYPE_CHECKING:
    from fp2.engines.base import Engine
    from fp2.store.rows import ResponseStore

BYTES_PER_ANSWER = 600
LONGEST_SUPPLIED = 100_000
"""Characters of the longest answer that is taken from a file: about 25,000 tokens."""
_AT_ONCE = 20_000  # answers
_LEARNED = 64  # stored answers to a question that the engine is given
_SAMPLE = 10_000
"""About how many stored answers the means of a forecast are taken over."""


class RowStorage:
    """The answers of a plan in the response store (see `fp2.ask.storage.Storage`); no model is loaded."""

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        decoding: Decoding,
        store: ResponseStore,
        writing: Writing = of_nobody,
        model: str = "",
    ) -> None:
        self.plan, self._engine, self._store, self.writing, self._model = plan, engine, store, writing, model
        self._longest, self._too_long = decoding.longest_answer, "far more than the tokens asked for make"
        if isinstance(engine, SuppliesAnswers):  # how they were generated is not known
            self._longest = max(self._longest, LONGEST_SUPPLIED)
            self._too_long = f"more than the {self._longest:,} that a supplied one may have"
        # The response keys of each stimulus, in the order of the questions: (tasks, questions, 32).
        identity = engine.identity()
        keys_of = {
            blind: ResponseKeys(
                identity, plan.questions, [engine.method(question, blind) for question in plan.questions], decoding
            )
            for blind in {task.blind for task in plan.tasks} or {False}
        }
        digests = np.empty((len(plan.tasks), len(plan.questions), 32), dtype=np.uint8)
        for row, task in enumerate(plan.tasks):
            task_identity = engine.task_identity(task)
            task_keys = keys_of[task.blind].asking(task.questions) if task.questions else keys_of[task.blind]
            body = task_keys.of(task.pixel_sha256, task.variant, task.variant_params, task_identity)
            digests[row] = np.frombuffer(body, dtype=np.uint8).reshape(-1, 32)
        self._digests = digests
        self._index, key_index = distinct(self._digests.reshape(-1, 32))
        self._of = key_index.reshape(self._digests.shape[:2])
        self._task = {task.image_id: index for index, task in enumerate(plan.tasks)}
        self._question = {question.question_id: index for index, question in enumerate(plan.questions)}
        hidden = (row for row in plan.rows if row.error is not None)
        self._failed = {key: row.error or "" for row in hidden for key in self._not_shown(row)}
        self.n_not_shown = len(self._failed)
        self._have = np.zeros(len(self._index), dtype=bool)
        self._absent = np.zeros(len(self._index), dtype=bool)  # not supplied
        self._own = np.zeros(len(self._index), dtype=bool)  # answered in this run
        self._failed_at: dict[str, int] = {}

    def planned(self) -> Iterator[tuple[PlannedRow, Question, str, int]]:
        """Yield (row, question, response key, place of the key among the distinct ones) of every planned answer.

        What cannot be shown has a key of its own, and the place -1.
        """
        for row in self.plan.rows:
            is_shown = row.task >= 0
            keys = _hex(self._digests[row.task]) if is_shown else self._not_shown(row)
            key_indices = self._of[row.task].tolist() if is_shown else [-1] * len(keys)
            for question, key, key_index in zip(self.plan.questions, keys, key_indices, strict=True):
                yield row, question, key, key_index

    def _not_shown(self, row: PlannedRow) -> list[str]:
        about = ["not shown", row.variant, row.image_id]
        return [digest([*about, q.text, *([q.sample] if q.sample else [])]) for q in self.plan.questions]

    def _count(self, marked: NDArray[np.bool_]) -> int:
        """Return how many planned answers have one of the distinct keys that are marked."""
        tasks_shown = np.array([row.task for row in self.plan.rows if row.task >= 0], dtype=np.int64)
        return int(marked[self._of[tasks_shown]].sum()) if len(tasks_shown) else 0

    @property
    def n_planned(self) -> int:
        """Answers planned."""
        return self.plan.n_planned

    @property
    def n_failed(self) -> int:
        """Planned answers that failed so far."""
        return len(self._failed)

    @cached_property
    def response_set(self) -> str:
        """Digest of the response keys."""
        return response_set(key for _, _, key, _ in self.planned())

    def keys_by_image(self) -> Mapping[str, Sequence[str]]:
        """Return the response keys of everything that shows an image, by image id."""
        tasks: dict[str, list[int]] = {}
        for index, task in enumerate(self.plan.tasks):
            tasks.setdefault(original_image_id(task.image_id), []).append(index)
        return _KeysByImage(tasks, self._digests)

    def forecast(self) -> Forecast:
        """Return what the store has of the plan and what is left to ask; what cannot be shown is never asked."""
        self._look()
        n_open = int((~self._have).sum())
        failures = self._store.get_failures(_hex(self._index[~self._have]))
        stored = self._index[self._have]
        sample = self._store.get_many(_hex(stored[:: len(stored) // _SAMPLE + 1])).values()
        seconds, tokens = (_mean([getattr(answer, name) for answer in sample]) for name in ("seconds", "tokens"))
        disk = f"about {n_open * BYTES_PER_ANSWER / 1e6:.1f} MB"
        return Forecast(len(self._have) - n_open, len(failures), n_open, seconds, disk, tokens)

    def _look(self) -> None:
        """Find which answers the store has, after copying those that it lacks from its seeds."""
        self._have = stored_keys(self._store, self._index)
        if self._store.seeds:
            with self.writing() as withdrawn:
                keys_of = self.keys_by_image()
                theirs = {key for image in withdrawn for key in keys_of.get(image, ())}
                take_answers(self._store, [key for key in _hex(self._index[~self._have]) if key not in theirs])
            self._have = stored_keys(self._store, self._index)

    def load(self) -> int:
        """Find which answers the store has; return how many planned ones."""
        self._look()
        if not self._have.all():
            self._engine.learn(self._stored_texts())
        return self._count(self._have)

    def _stored_texts(self) -> dict[str, list[str]]:
        texts_of: dict[str, list[str]] = {}
        for column, question in enumerate(self.plan.questions):
            key_indices = self._of[:, column]
            keys = _hex(self._index[np.unique(key_indices[self._have[key_indices]][:_LEARNED])])
            texts = [answer.text for answer in self._store.get_many(keys).values() if answer.text]
            if texts:
                texts_of[question.question_id] = texts
        return texts_of

    def open_tasks(self) -> list[ImageTask]:
        """Return the stimuli with the questions that have no answer yet; the same pixels twice are asked about once."""
        tasks, present = [], self._have | self._absent
        for index in np.flatnonzero(~present[self._of].all(axis=1)).tolist():
            keys = self._of[index].tolist()
            question_of = dict(zip(keys, self.plan.questions_of(index), strict=True))
            questions = tuple(question for key, question in question_of.items() if not present[key])
            present[keys] = True
            if questions:
                tasks.append(replace(self.plan.tasks[index], questions=questions))
        return tasks if isinstance(self._engine, SuppliesAnswers) else self._of_one_image(tasks)

    def _of_one_image(self, tasks: Sequence[ImageTask]) -> list[ImageTask]:
        """Return the tasks with those of items that show the same together, so that an engine encodes it once."""
        together: dict[object, list[ImageTask]] = {}
        for task in tasks:
            item = bool(self.plan.tasks[self._task[task.image_id]].questions)
            same = (task.path, task.subject_id, task.variant, canonical_json(dict(task.variant_params)))
            together.setdefault(same if item else task.image_id, []).append(task)
        return [
            first
            if not others
            else replace(
                first,
                questions=tuple(
                    replace(question, question_id=f"{question.question_id}{ITEM}{self._task[task.image_id]}")
                    for task in (first, *others)
                    for question in task.questions
                ),
            )
            for first, *others in together.values()
        ]

    def _position(self, image_id: str, question_id: str) -> tuple[int, int]:
        """Return where the digest of an answer is: the number of its stimulus, and that of its question."""
        name, _, item = question_id.partition(ITEM)
        return int(item) if item else self._task[image_id], self._question[name]

    def leases(self) -> Leases:
        """Return the leases on the open questions."""
        return Leases(self._store.path, answered_keys)

    def lease_keys(self, task: ImageTask) -> list[str]:
        """Return the response key of each question of a task."""
        positions = [self._position(task.image_id, question.question_id) for question in task.questions]
        return [self._digests[position].tobytes().hex() for position in positions]

    def refresh(self) -> int:
        """Take over what other runs have answered since."""
        open_keys = np.flatnonzero(~self._have)
        new = np.zeros_like(self._have)
        new[open_keys[stored_keys(self._store, self._index[open_keys])]] = True
        self._have |= new
        for key in [key for key, key_index in self._failed_at.items() if new[key_index]]:
            self._failed.pop(key, None)
        return self._count(new)

    def keep(self, batch: Sequence[Answer]) -> int:
        """Store a batch; what the engine was not supplied with is neither an answer nor a failure."""
        where = [self._position(answer.image_id, answer.question_id) for answer in batch]
        for answer, position in zip(batch, where, strict=True):
            if answer.error == NOT_SUPPLIED:
                self._absent[self._of[position]] = True
        where = [position for answer, position in zip(batch, where, strict=True) if answer.error != NOT_SUPPLIED]
        supplied = [answer for answer in batch if answer.error != NOT_SUPPLIED]
        keys = [self._digests[position].tobytes().hex() for position in where]
        rows = [(key, self._storable(answer)) for key, answer in zip(keys, supplied, strict=True)]
        asked = [self.plan.questions[position] for _, position in where]
        about = [(self._model, question.probe, question.text) for question in asked]
        self._store.put_many(rows, self._engine.runtime(), about)
        for (key, answer), position in zip(rows, where, strict=True):
            if answer.error is None:
                self._failed.pop(key, None)
                self._have[self._of[position]] = self._own[self._of[position]] = True
            else:
                self._failed[key] = answer.error
                self._failed_at[key] = int(self._of[position])
        return sum(answer.error is None for _, answer in rows)

    def _storable(self, answer: Answer) -> Answer:
        """Return the answer, or why it cannot be stored: one broken answer must not end the run, or its scoring."""
        if answer.error is None and len(answer.text or "") > self._longest:
            reason = f"the answer has {len(answer.text or '')} characters, {self._too_long}"
            return replace(answer, text=None, numbers=None, error=reason)
        if answer.numbers is None or answer.error is not None:
            return answer
        try:
            canonical_json(dict(answer.numbers))
        except (ValueError, TypeError) as error:
            return replace(answer, text=None, numbers=None, error=f"the engine gave unusable numbers: {error}")
        return answer

    def flush(self) -> None:
        """Nothing is held back."""

    def reason(self) -> str:
        """Return why the first failed answer failed."""
        return next(iter(self._failed.values()), "")

    def answers(self) -> RowAnswers:
        """Return one row per planned answer; an answer that was not asked for is an error row that says so.

        Answers are read in the order of the plan, some at a time; each is checked against its checksum.
        """
        import pandas as pd

        columns: dict[str, list[object]] = {name: [] for name in ANSWERS.names}
        planned = self.planned()
        while chunk := list(islice(planned, _AT_ONCE)):
            columns_of = self._known({key: key_index for _, _, key, key_index in chunk})
            for row, question, key, _ in chunk:
                ids = (key, row.image_id, row.subject_id, row.variant, question.question_id, question.probe)
                for column, value in zip(columns.values(), (*ids, *columns_of[key]), strict=True):
                    column.append(value)
        answers = pd.DataFrame(columns)
        reasoned = answers["numbers"].str.contains(f'"{TRACE}":', regex=False).fillna(False).astype(bool)
        if reasoned.any():
            answers[TRACE] = answers["numbers"][reasoned].map(lambda numbers: json.loads(numbers).get(TRACE))
        return RowAnswers(ANSWERS.check(answers))

    def _known(self, keys: Mapping[str, int]) -> dict[str, tuple[object, ...]]:
        """Return what is known of each key (with its place in the index), in the order of the table's columns."""
        answers = self._store.get_many(keys)
        failures = self._store.get_failures(key for key in keys if key not in answers)
        columns_of: dict[str, tuple[object, ...]] = {}
        for key, key_index in keys.items():
            if key in answers:
                a, cached = answers[key], not self._own[key_index]
                columns_of[key] = (a.text, a.numbers, "answered", None, a.attempts, a.seconds, a.tokens, bool(cached))
                continue
            tries = 0 if key not in self._failed else failures[key].attempts if key in failures else 1
            reason = NOT_SUPPLIED if key_index >= 0 and self._absent[key_index] else NOT_ASKED  # -1: it cannot be shown
            columns_of[key] = (None, None, "error", self._failed.get(key, reason), tries, 0.0, 0, False)
        return columns_of


class _KeysByImage(Mapping[str, Sequence[str]]):
    """Image id -> response keys, written out when they are asked for: of millions, one image's at a time."""

    def __init__(self, tasks: Mapping[str, Sequence[int]], digests: NDArray[np.uint8]) -> None:
        self._tasks, self._digests = tasks, digests

    def __getitem__(self, image_id: str) -> list[str]:
        return [key for task in self._tasks[image_id] for key in _hex(self._digests[task])]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)


def _mean(values: Sequence[float]) -> float | None:
    positive = [value for value in values if value > 0]
    return sum(positive) / len(positive) if positive else None


def _hex(digests: NDArray[np.void] | NDArray[np.uint8]) -> list[str]:
    text = digests.tobytes().hex()
    return [text[start : start + 64] for start in range(0, len(text), 64)]
