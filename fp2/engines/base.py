"""What an engine is: it is given pictures with the questions still open about each, and hands back answers.

An engine knows nothing of groups, scores or statistics. It yields answers in batches as they come, so that the store
can keep each batch at once; what it raises for a single picture becomes that picture's error rows, never the run's end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from fp2.hashing import digest
from fp2.tables import Answer, ChoiceOrders, Decoding, ImageTask, Question


def failed(task: ImageTask, question: Question, reason: str) -> Answer:
    """Return the row of an answer that there is none of: the first line of the reason."""
    first = next(iter(reason.splitlines()), reason)
    return Answer(task.image_id, question.question_id, None, first[:500])


def seed_of(decoding: Decoding, task: ImageTask, question: Question) -> int:
    """Return a seed (60 bits) that depends on the question, the picture and the run's seed, and on nothing else."""
    shown = [task.pixel_sha256, task.variant, dict(task.variant_params)]
    return int(digest([decoding.seed, *shown, question.text])[:15], 16)


def orders(options: int, how: ChoiceOrders) -> list[tuple[int, ...]]:
    """Return the orders in which so many options are listed (see `Decoding`)."""
    places = tuple(range(options))
    if how == "given":
        return [places]
    if how == "all":
        return list(itertools.permutations(places))
    return [(*places[start:], *places[:start]) for start in places]


class Engine(Protocol):
    """Who answers. Loading the model happens at the first `answer`, so a fully cached run loads nothing."""

    @property
    def model_calls(self) -> int:
        """Forward passes, generate calls or requests sent so far."""
        ...

    def identity(self) -> dict[str, Any]:
        """Everything about the model side that can change an answer (JSON values). Imports nothing heavy."""
        ...

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """How a question of this kind is asked and read: `name` with a version, prompt format, surface forms.

        Enters the response key. Imports nothing heavy.

        Raises
        ------
        Fp2Error
            If this engine cannot ask this kind of question.
        """
        ...

    def task_identity(self, task: ImageTask) -> dict[str, Any]:
        """What else about one picture can change an answer, beyond its pixels (empty for real models)."""
        ...

    def runtime(self) -> dict[str, Any]:
        """Recorded, never hashed: device, batch size, attention implementation, sharing strategy, versions."""
        ...

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield answers in batches, in any order, every question of every task exactly once."""
        ...
