"""Planning yes/no questions by the million: a digest per picture and a digest per question, never one per answer.

The response set of such a run is the sha256 of the canonical JSON of `{"schema": 1, "contexts": [...], "questions":
[...]}`, each list sorted and without repeats: every context is asked every question. A row that cannot be shown stands
there with a digest of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fp2.data.stimuli import Stimulus
from fp2.engines.base import Engine
from fp2.errors import Fp2Error
from fp2.hashing import digest
from fp2.store.dense import KEY_SCHEMA, QuestionSet, context_key, question_key
from fp2.tables import BLIND, ORIGINAL, ImageTask, Question

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class BlockPlan:
    """Every answer that a run in blocks needs: `contexts` x `question_set`.

    Attributes
    ----------
    questions : tuple of Question
        The battery's, in its order.
    question_set : QuestionSet
        The distinct ones among them, by key.
    places : array (questions,)
        Where each question of the battery stands in the set.
    contexts : tuple of str
        Keys of what is shown; the same pixels twice are one.
    tasks : tuple of ImageTask
        What is shown for each context, without questions.
    rows : array (people,)
        The context of each row of the people table, -1 where nothing can be shown.
    errors : mapping
        Row -> why nothing can be shown.
    pictures : tuple of (image id, context)
        Everything that is shown: pictures with the same pixels have one context.
    not_shown : tuple of str
        A digest for each of those rows.
    """

    questions: tuple[Question, ...]
    question_set: QuestionSet
    places: NDArray[np.int64]
    contexts: tuple[str, ...]
    tasks: tuple[ImageTask, ...]
    rows: NDArray[np.int64]
    errors: Mapping[int, str]
    pictures: tuple[tuple[str, int], ...] = ()
    not_shown: tuple[str, ...] = ()

    @property
    def n_planned(self) -> int:
        """How many answers are needed, one per row of people and question of the battery."""
        return len(self.rows) * len(self.questions)

    @cached_property
    def response_set(self) -> str:
        """Digest of all that is planned."""
        return response_set_of((*self.contexts, *self.not_shown), self.question_set.questions)

    @cached_property
    def asked(self) -> tuple[Question, ...]:
        """One question for each place of the set."""
        first: dict[int, Question] = {}
        for question, place in zip(self.questions, self.places.tolist(), strict=True):
            first.setdefault(place, question)
        return tuple(first[place] for place in range(len(first)))

    def contexts_by_image(self) -> dict[str, list[str]]:
        """Return the contexts in which each picture is shown, by image id."""
        found: dict[str, list[str]] = {}
        for image_id, context in self.pictures:
            found.setdefault(image_id, []).append(self.contexts[context])
        return found


def response_set_of(contexts: Iterable[str], questions: Iterable[str]) -> str:
    """Return the digest of contexts x questions (their keys, in any order)."""
    parts = {"contexts": sorted(set(contexts)), "questions": sorted(set(questions))}
    return digest({"schema": KEY_SCHEMA, **parts})


def plan_blocks(
    people: pd.DataFrame,
    questions: Sequence[Question],
    engine: Engine,
    shown: Sequence[Stimulus],
    variant: str = ORIGINAL,
) -> BlockPlan:
    """Return the plan for `people` (one row per picture) and `questions`; loads no model.

    `shown` is what is shown for each row of `people`, `variant` the kind of image variant that it is.

    Raises
    ------
    Fp2Error
        If a question is not of the kind `yes_no`, or the engine cannot ask such questions.
    """
    question_set, places = _questions(questions, engine, blind=variant == BLIND)
    identity = engine.identity()
    shared = {"identity": digest(identity)}
    contexts: dict[str, int] = {}
    tasks: list[ImageTask] = []
    rows = np.full(len(people), -1, dtype=np.int64)
    seen_before: dict[tuple[str, str], int] = {}
    errors: dict[int, str] = {}
    for row, seen in enumerate(shown):
        if seen.error is not None:
            errors[row] = seen.error
            continue
        name = (seen.image_id, seen.subject_id)
        if name not in seen_before:
            task = seen.task(())
            own = engine.task_identity(task)
            key = context_key(shared, task.pixel_sha256, task.variant, task.variant_params, own)
            if key not in contexts:
                contexts[key] = len(tasks)
                tasks.append(task)
            seen_before[name] = contexts[key]
        rows[row] = seen_before[name]
    images = people["image_id"].tolist()
    hidden = tuple(digest(["not shown", variant, images[row]]) for row in errors)
    pictures = tuple((image_id, context) for (image_id, _), context in seen_before.items())
    once = (tuple(contexts), tuple(tasks))
    return BlockPlan(tuple(questions), question_set, places, *once, rows, errors, pictures, hidden)


def _questions(questions: Sequence[Question], engine: Engine, blind: bool) -> tuple[QuestionSet, NDArray[np.int64]]:
    keys: dict[str, int] = {}
    places = []
    plain = next((question for question in questions if question.kind != "yes_no"), None)
    if plain is not None:
        raise Fp2Error(
            f"the question '{plain.question_id}' is not answered by yes or no", where="probe", fix="Set kind: yes_no"
        )
    for question in questions:
        key = question_key(question, engine.method(question, blind))
        places.append(keys.setdefault(key, len(keys)))
    return QuestionSet(tuple(keys)), np.array(places, dtype=np.int64)


def with_questions(plan: BlockPlan, context: int, open_ones: NDArray[np.bool_], all_open: bool) -> ImageTask:
    """Return the task of a context with the questions that are open (one flag per place of the set)."""
    asked = plan.asked
    if not all_open:
        asked = tuple(asked[place] for place in np.flatnonzero(open_ones).tolist())
    return replace(plan.tasks[context], questions=asked)
