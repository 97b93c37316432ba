"""What an engine is: it is given pictures with the questions still open about each, and hands back answers.

An engine knows nothing of groups, scores or statistics. It yields answers in batches as they come, so that the store
can keep each batch at once; what it raises for a single picture becomes that picture's error rows, never the run's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

QuestionKind = Literal["text", "yes_no", "choice", "number"]
DTYPES = ("float32", "bfloat16", "float16")
QUANTISATIONS = ("int8", "int4")


@dataclass(frozen=True, slots=True)
class Question:
    """One question text of a battery (a row of the questions table)."""

    question_id: str
    probe: str
    text: str
    kind: QuestionKind = "text"
    template: str = ""
    trait: str = ""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How text is generated. Greedy unless `temperature` is above 0."""

    max_new_tokens: int = 64
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ImageTask:
    """One picture and the questions still open about it.

    `attributes` and `subject_id` are there for the simulator only; a real model never sees them.
    """

    image_id: str
    subject_id: str
    path: Path
    pixel_sha256: str
    questions: tuple[Question, ...]
    variant: str = "original"
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Answer:
    """What came back for one question about one picture: words, or the reason why there are none."""

    image_id: str
    question_id: str
    text: str | None
    error: str | None = None
    seconds: float = 0.0
    tokens: int = 0

    @property
    def status(self) -> str:
        """`answered` or `error`."""
        return "answered" if self.error is None else "error"


class Engine(Protocol):
    """Who answers. Loading the model happens at the first `answer`, so a fully cached run loads nothing."""

    model_calls: int
    """Forward or generate batches sent so far."""

    def identity(self) -> dict[str, Any]:
        """Everything about the model side that can change an answer (JSON values). Imports nothing heavy."""
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
