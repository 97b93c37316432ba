"""Dense storage: yes/no answers by the million, as one array of numbers per stimulus.

A digest stands for each stimulus (its context) and for each question, never for each answer: 48.6 bytes an answer on
disk, against about 600 a row. The response set of such a run is the sha256 of the canonical JSON of `{"schema": 1,
"contexts": [...], "questions": [...]}`, each list sorted and without repeats: every context is asked every question,
and a row that cannot be shown has a digest of its own. An array is written as soon as its stimulus is complete;
partial ones are written every few seconds and when asking ends, however it ends.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fp2.extension import (
    NOT_ASKED,
    NOT_SUPPLIED,
    YES_NO_NUMBERS,
    Answer,
    Forecast,
    Fp2Error,
    ImageTask,
    Leases,
    Plan,
    Question,
    Writing,
    digest,
    of_nobody,
    original_image_id,
)
from fp2.methods.dense.answers import DenseAnswers, collect
from fp2.methods.dense.merge import take_blocks
from fp2.methods.dense.store import (
    DenseStore,
    Numbers,
    Piece,
    QuestionSet,
    answered,
    context_key,
    question_key,
    response_set_of,
    written_since,
)

if TYPE_CHECKING:
    from fp2.extension import Engine, ResponseStore
    from fp2.methods.dense.traits import Trait

STORE_BYTES, SHARD_BYTES = 26, 24
"""Per answer, measured by benchmarks/gras_storage.py on 2,505,000 of them."""
_FLUSH_SECONDS = 10.0
_WIDTH = len(YES_NO_NUMBERS)


@dataclass
class _Pending:
    """What arrived for one context and is not written yet."""

    places: list[int] = field(default_factory=list)
    numbers: list[tuple[float, ...]] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0

    def piece(self, context: str) -> Piece:
        values = np.array(self.numbers, dtype=np.float32).reshape(-1, _WIDTH).T
        return Piece(context, np.array(self.places, dtype=np.int64), values, tuple(self.failures), self.seconds)


class DenseStorage:
    """The answers of a plan as arrays (see `fp2.ask.storage.Storage`).

    Parameters
    ----------
    plan : Plan
        What is needed, in one image variant; every question is a yes/no question about a trait.
    engine : Engine
        Answers the questions; no model is loaded.
    traits : sequence of Trait
        What the questions are about.
    store : ResponseStore
        Where answers are kept.
    writing : callable
        Holds the lock under which they are stored, and gives the withdrawn images.

    Attributes
    ----------
    contexts : tuple of str
        Keys of the distinct stimuli; the same pixels twice are one.
    tasks : tuple of ImageTask
        One stimulus of each context, without questions.
    rows : array (rows of the plan,)
        The context of each row, -1 where nothing can be shown.
    question_set : QuestionSet
        The distinct questions by key; `places` (questions,) has the place of each question of the battery in it.
    grid : (traits, templates, array (traits, templates))
        Which question of the battery each pair of a trait and a template is.
    numbers : array (contexts, `YES_NO_NUMBERS`, questions of the set), float32
        The answers so far, NaN where there is none.
    stored : array (contexts, questions of the set), bool
        Which answers the store had before anything was asked.
    """

    def __init__(
        self, plan: Plan, engine: Engine, traits: Sequence[Trait], store: ResponseStore, writing: Writing = of_nobody
    ) -> None:
        self.plan, self.traits, self._engine, self.writing = plan, tuple(traits), engine, writing
        self._responses, self._store = store, DenseStore(store.connection, store.path)
        # The distinct questions, and the place of each question of the battery among them
        plain = next((question for question in plan.questions if question.kind != "yes_no"), None)
        if plain is not None:
            message = f"the question '{plain.question_id}' is not answered by yes or no"
            raise Fp2Error(message, where="probe", fix="Set kind: yes_no")
        blind = any(task.blind for task in plan.tasks)
        keys: dict[str, int] = {}
        columns = [
            keys.setdefault(question_key(question, engine.method(question, blind)), len(keys))
            for question in plan.questions
        ]
        self.question_set, self.places = QuestionSet(tuple(keys)), np.array(columns, dtype=np.int64)
        # Traits, templates, and which question each pair of them is
        questions_of = {(asked.trait, asked.template): index for index, asked in enumerate(plan.questions)}
        trait_names = tuple(dict.fromkeys(asked.trait for asked in plan.questions))
        templates = tuple(dict.fromkeys(asked.template for asked in plan.questions))
        pairs = [(trait, template) for trait in trait_names for template in templates]
        lacking = next((pair for pair in pairs if pair not in questions_of), None)
        if lacking or "" in trait_names or len(questions_of) < len(plan.questions):
            problem = f"{lacking[0]!r} in {lacking[1]!r}" if lacking else "a question names no trait, or the same twice"
            fix = "Ask about every trait, once in every template"
            raise Fp2Error(
                f"the questions do not form a table of traits and templates: {problem}", where="probe", fix=fix
            )
        grid = np.array([questions_of[pair] for pair in pairs], dtype=np.int64)
        self.grid = trait_names, templates, grid.reshape(len(trait_names), len(templates))
        # The distinct contexts, one stimulus of each, and the context of every row of the plan
        shared = {"identity": digest(engine.identity())}
        contexts: dict[str, int] = {}
        tasks: list[ImageTask] = []
        of_task = np.empty(len(plan.tasks), dtype=np.int64)
        for number, shown in enumerate(plan.tasks):
            task_identity = engine.task_identity(shown)
            key = context_key(shared, shown.pixel_sha256, shown.variant, shown.variant_params, task_identity)
            if key not in contexts:
                contexts[key] = len(tasks)
                tasks.append(shown)
            of_task[number] = contexts[key]
        rows = np.array([of_task[row.task] if row.task >= 0 else -1 for row in plan.rows], dtype=np.int64)
        self.contexts, self.tasks, self.rows = tuple(contexts), tuple(tasks), rows
        shape = (len(self.contexts), _WIDTH, len(self.question_set.questions))
        self._shape = shape
        self.failed: dict[tuple[int, int], str] = {}
        self._absent: set[tuple[int, int]] = set()
        self._context = {task.image_id: index for index, task in enumerate(self.tasks)}
        self._place = {question.question_id: index for index, question in enumerate(self.asked)}
        self._left: NDArray[np.int64] = np.zeros(shape[0], dtype=np.int64)
        self._pending: dict[int, _Pending] = {}
        self._flushed = time.monotonic()
        self._read_at = [0.0]  # when the store was last read; shared with the leases
        if len(self._context) < len(self.tasks):
            raise ValueError("one image id stands for two contexts")

    @cached_property
    def numbers(self) -> Numbers:
        """The answers so far; made when first needed, since a plan alone needs none."""
        return np.full(self._shape, np.nan, dtype=np.float32)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {context: index for index, context in enumerate(self.contexts)}

    @cached_property
    def stored(self) -> NDArray[np.bool_]:
        """Which answers the store had; empty until `load`."""
        return np.zeros((self._shape[0], self._shape[2]), dtype=bool)

    @cached_property
    def asked(self) -> tuple[Question, ...]:
        """One question for each place of the question set."""
        first: dict[int, Question] = {}
        for question, column in zip(self.plan.questions, self.places.tolist(), strict=True):
            first.setdefault(column, question)
        return tuple(first[column] for column in range(len(first)))

    @property
    def n_planned(self) -> int:
        """Answers planned."""
        return self.plan.n_planned

    @property
    def n_not_shown(self) -> int:
        """Planned answers whose stimulus cannot be shown."""
        return self.plan.n_not_shown * len(self.plan.questions)

    @property
    def n_failed(self) -> int:
        """Planned answers that failed so far."""
        return self.n_not_shown + len(self.failed)

    @cached_property
    def response_set(self) -> str:
        """Digest of contexts and questions."""
        hidden = [digest(["not shown", row.variant, row.image_id]) for row in self.plan.rows if row.task < 0]
        return response_set_of((*self.contexts, *hidden), self.question_set.questions)

    def keys_by_image(self) -> dict[str, list[str]]:
        """Return the contexts in which each image is shown, by image id."""
        context = dict(zip((row.task for row in self.plan.rows), self.rows.tolist(), strict=True))
        contexts: dict[str, list[str]] = {}
        for number, task in enumerate(self.plan.tasks):
            contexts.setdefault(original_image_id(task.image_id), []).append(self.contexts[context[number]])
        return contexts

    def forecast(self) -> Forecast:
        """Return what the store has of the plan and what is left to ask."""
        self._take_blocks()
        stored_blocks = self._store.read(self.contexts, self.question_set)
        stored = sum(int(answered(numbers).sum()) for _, numbers in stored_blocks)
        failed = len(self._store.failures(self.contexts, self.question_set))
        remaining = len(self.contexts) * len(self.question_set.questions) - stored
        took, count = self._store.seconds_of(self.contexts)
        return Forecast(
            stored, failed, remaining, took / count if count and took else None, disk(self.n_planned, remaining)
        )

    def _take_blocks(self) -> None:
        """Copy from the seeds what the store lacks."""
        if self._responses.seeds:
            with self.writing() as withdrawn:
                keys_of = self.keys_by_image()
                theirs = {context for image in withdrawn for context in keys_of.get(image, ())}
                take_blocks(self._responses, [context for context in self.contexts if context not in theirs])

    def load(self) -> int:
        """Read what the store and its seeds have; return how many planned answers that is."""
        self._store.register(self.question_set)
        self._take_blocks()
        self._read_at[0] = time.time()
        own = answered(self.numbers) & ~self.stored  # in an earlier wave
        for context, numbers in self._store.read(self.contexts, self.question_set):
            self.numbers[self._number[context]] = numbers
        self.stored = answered(self.numbers) & ~own
        return int(self.count_by_row(self.stored).sum())

    def count_by_row(self, marked: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return for each row how many of the battery's questions are marked in `marked` (contexts, questions)."""
        if not len(marked):
            return np.zeros(len(self.rows), dtype=np.int64)
        per_context = marked[:, self.places].sum(axis=1)
        return np.where(self.rows >= 0, per_context[self.rows], 0).astype(np.int64)

    def open_tasks(self) -> list[ImageTask]:
        """Return the stimuli with the questions that have no answer yet."""
        open_ones = ~answered(self.numbers)
        if self._absent:
            open_ones[tuple(zip(*self._absent, strict=True))] = False
        self._left = open_ones.sum(axis=1)
        full = self._left == open_ones.shape[1]
        out = []
        for context in np.flatnonzero(self._left).tolist():
            columns = np.flatnonzero(open_ones[context]).tolist()
            questions = self.asked if full[context] else tuple(self.asked[column] for column in columns)
            out.append(replace(self.tasks[context], questions=questions))
        return out

    def leases(self) -> Leases:
        """Return the leases on the contexts, each with this question set."""
        since = self._read_at

        def n_known(context: str) -> int:
            return int(answered(self.numbers[self._number[context]]).sum())

        return Leases(self._store.path, lambda connection, keys: written_since(connection, keys, since[0], n_known))

    def lease_keys(self, task: ImageTask) -> list[str]:
        """Return the key of the context and the question set, for each question."""
        context = self.contexts[self._context[task.image_id]]
        return [f"{context}{self.question_set.key.hex()}"] * len(task.questions)

    def refresh(self) -> int:
        """Take over what other runs have answered since."""
        new = np.zeros_like(self.stored)
        self._read_at[0] = time.time()
        for context, numbers in self._store.read(self.contexts, self.question_set):
            row_index = self._number[context]
            new[row_index] = answered(numbers) & ~answered(self.numbers[row_index])
            self.numbers[row_index][:, new[row_index]] = numbers[:, new[row_index]]
        for row, column in np.argwhere(new).tolist():
            self.failed.pop((row, column), None)
        self.stored |= new
        return int(self.count_by_row(new).sum())

    def keep(self, batch: Sequence[Answer]) -> int:
        """Take a batch; write the arrays that are complete now."""
        done = sum(self._take(answer) for answer in batch)
        complete = [context for context in self._pending if not self._left[context]]
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()
        elif complete:
            self._write(complete)
        return done

    def _take(self, answer: Answer) -> bool:
        context, column = self._context[answer.image_id], self._place[answer.question_id]
        pending = self._pending.setdefault(context, _Pending())
        self._left[context] -= 1
        if answer.error == NOT_SUPPLIED:
            self._absent.add((context, column))
            return False
        pending.seconds += answer.seconds
        numbers, error = _numbers(answer)
        if error is not None:
            pending.failures.append((column, error))
            self.failed[context, column] = error
            return False
        pending.places.append(column)
        pending.numbers.append(numbers)
        self.numbers[context, :, column] = numbers
        self.failed.pop((context, column), None)
        return True

    def flush(self) -> None:
        """Write everything that is not written yet, but of withdrawn images."""
        self._write(list(self._pending))
        self._flushed = time.monotonic()

    def _write(self, contexts: Sequence[int]) -> None:
        with self.writing() as withdrawn:
            present = [one for one in contexts if original_image_id(self.tasks[one].image_id) not in withdrawn]
            pieces = [self._pending[context].piece(self.contexts[context]) for context in present]
            if pieces:
                self._store.put(pieces, self.question_set, self._engine.runtime())
        for context in contexts:
            del self._pending[context]

    def reason(self) -> str:
        """Return why the first failed answer failed."""
        hidden = (row.error or "" for row in self.plan.rows if row.task < 0)
        return next(iter(self.failed.values()), next(hidden, ""))

    def missing(self, row: int) -> dict[int, str]:
        """Return place in the battery -> why there is no answer, for a row of the plan."""
        context = int(self.rows[row])
        if context < 0:
            return dict.fromkeys(range(len(self.plan.questions)), self.plan.rows[row].error or "")
        has_answer = answered(self.numbers[context])
        return {
            q: self.failed.get((context, column), NOT_SUPPLIED if (context, column) in self._absent else NOT_ASKED)
            for q, column in enumerate(self.places.tolist())
            if not has_answer[column]
        }

    def answers(self) -> DenseAnswers:
        """Return the answers, one entry per row of the plan."""
        return collect(self)


def disk(answers: int, new: int) -> str:
    """Return what store and shards will take: `new` answers enter the store, all `answers` the run's folder."""
    store, shards = new * STORE_BYTES / 1e6, answers * SHARD_BYTES / 1e6
    digits = 0 if store + shards >= 10 else 1
    return f"about {store:,.{digits}f} MB in the store, {shards:,.{digits}f} MB of shards"


def _numbers(answer: Answer) -> tuple[tuple[float, ...], str | None]:
    """Return an answer's numbers in the order of `YES_NO_NUMBERS`, or the reason why there are none."""
    if answer.error is not None:
        return (), answer.error
    numbers: Mapping[str, object] = answer.numbers or {}
    values = []
    for name in YES_NO_NUMBERS:
        value = numbers.get(name)
        if value is not None and not (isinstance(value, (int, float)) and math.isfinite(value)):
            return (), f"the engine gave unusable numbers: {name} is {value!r}"
        values.append(math.nan if value is None else float(value))
    if all(map(math.isnan, values)):
        return (), "the engine gave no numbers"
    return tuple(values), None
