"""An engine: answers every question with the dominant colour of the image."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fp2.extension import (
    Answer,
    BaseEngine,
    Decoding,
    EngineOptions,
    Fp2Error,
    ImageTask,
    Question,
    failed,
    open_image,
    read_options,
)

if TYPE_CHECKING:
    import sqlite3

COLOURS = ("red", "green", "blue")


@dataclass(frozen=True, kw_only=True)
class PaletteOptions(EngineOptions):
    """The options of `engine=palette`.

    Attributes
    ----------
    order : {"first", "last"}
        Which image of the batch is answered first; it changes no answer, so it is no part of the response key.
    """

    order: Literal["first", "last"] = "first"


@dataclass(frozen=True, kw_only=True)
class PaletteModel:
    """`model.options` of this engine's models: what is said of red tiles. It changes answers, so it is hashed."""

    red: str = "warm and bright"


class Palette(BaseEngine):
    """Names the strongest of three colours, and says more about red ones."""

    Options: ClassVar[type[Any]] = PaletteOptions
    serves: ClassVar[tuple[str, ...]] = ("palette",)
    takes: ClassVar[tuple[str, ...]] = ("options",)

    def __init__(self, order: str, model: PaletteModel) -> None:
        self.model_calls = 0
        self._order = order
        self._model = model

    @classmethod
    def create(
        cls,
        model: Mapping[str, Any],
        options: PaletteOptions,
        decoding: Decoding,
        *,
        connection: sqlite3.Connection | None = None,
        verify_files: bool = False,
    ) -> Palette:
        """Return the engine; there is nothing to load."""
        return cls(options.order, read_options(PaletteModel, model.get("options") or {}, "model.options"))

    def identity(self) -> dict[str, Any]:
        """Return what decides an answer: this engine, the version of its rule, and the settings of the model."""
        return {"engine": "palette", "version": "1", "model": "palette", "red": self._model.red}

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """Return how a question is answered."""
        if question.kind != "text":
            raise Fp2Error(f"engine=palette cannot ask a question of the kind {question.kind!r}", where="probe")
        return {"name": "dominant colour", "version": "1"}

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded beside the answers."""
        return {"order": self._order}

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield the answers about one image after the other."""
        for task in list(tasks) if self._order == "first" else list(tasks)[::-1]:
            self.model_calls += 1
            started = time.perf_counter()
            try:
                text = describe(task, self._model.red)
            except Exception as error:  # whatever a decoder raises is the reason why this image has no answer
                yield [failed(task, question, str(error)) for question in task.questions]
                continue
            seconds = (time.perf_counter() - started) / len(task.questions)
            yield [
                Answer(task.image_id, question.question_id, text, seconds=seconds, tokens=len(text.split()))
                for question in task.questions
            ]


def describe(task: ImageTask, red: str) -> str:
    """Return the sentence about an image."""
    import numpy as np

    colour = COLOURS[int(np.asarray(open_image(task)).reshape(-1, 3).mean(axis=0).argmax())]
    return f"A {colour} tile, {red}." if colour == "red" else f"A {colour} tile."
