"""From a task to what the model takes: the picture decoded and changed, the questions written as prompts and tokens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from PIL import Image

from fp2.data.pixels import open_rgb, pixel_sha256
from fp2.engines.base import Answer, ChoiceOrders, ImageTask, Question
from fp2.engines.choices import orders_of, text_in_order
from fp2.engines.prompt_ids import PromptBook, Shown

if TYPE_CHECKING:
    from fp2.engines.hf_loading import LoadedModel
    from fp2.engines.prompts import PromptFormat

GREY = Image.new("RGB", (448, 448), (128, 128, 128))
"""What a model that cannot do without a picture is shown in place of none."""


@dataclass(frozen=True, eq=False)
class Ready:
    """A picture and questions of one kind, ready for the model; `scored` if their answers are read from logits.

    `prompts` says which prompts of `shown` each question has: one, or one for each order of its options.
    """

    task: ImageTask
    questions: tuple[Question, ...]
    shown: Shown
    prompts: tuple[tuple[int, ...], ...]
    scored: bool

    def __iter__(self) -> Iterator[tuple[Question, tuple[int, ...]]]:
        """Yield each question with its prompts."""
        return zip(self.questions, self.prompts, strict=True)

    def alone(self) -> Iterator[Ready]:
        """Yield each question by itself."""
        for question, prompts in self:
            shown = replace(self.shown, tails=tuple(self.shown.tails[prompt] for prompt in prompts))
            yield Ready(self.task, (question,), shown, (tuple(range(len(prompts))),), self.scored)


@dataclass(frozen=True)
class Made:
    """What came of one task: pictures ready to be asked about, and answers that have failed already."""

    ready: list[Ready] = field(default_factory=list)
    failed: list[Answer] = field(default_factory=list)


class Maker:
    """Makes tasks ready; works in a thread of its own beside the model.

    Parameters
    ----------
    loaded : LoadedModel
    prompt_format : PromptFormat
    choice_orders : str
        See `Decoding`.
    lock : Lock
        Held while the processor works: a fast tokenizer must not be used by two threads at once.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        prompt_format: PromptFormat,
        choice_orders: ChoiceOrders,
        lock: threading.Lock,
    ) -> None:
        self._loaded, self._format, self._orders = loaded, prompt_format, choice_orders
        self._lock = lock
        self._book = PromptBook(loaded.processor, picture_tokens(loaded.model), prompt_format.adds_start)

    def make(self, task: ImageTask) -> Made:
        """Decode and prepare the picture of `task`, and put its questions into the model's tokens.

        Raises
        ------
        Fp2Error
            If the chat template cannot be filled in.
        """
        try:
            picture = self._picture(task)
        except Exception as error:  # whatever a decoder raises is this picture's problem
            reason = f"the picture cannot be read: {error}"
            return Made(failed=[failed(task, question, reason) for question in task.questions])
        made = Made()
        for scored in (True, False):
            questions = tuple(q for q in task.questions if (q.kind in ("yes_no", "choice")) == scored)
            if not questions:
                continue
            try:
                made.ready.append(self._ready(task, picture, questions, scored))
            except (RuntimeError, ValueError, TypeError, KeyError, IndexError) as error:
                reason = f"the processor failed: {type(error).__name__}: {error}"
                made.failed.extend(failed(task, question, reason) for question in questions)
        return made

    def _picture(self, task: ImageTask) -> Image.Image | None:
        """Return the picture to show: as it was digested, and then changed; one that differs by now is refused."""
        if task.blind:
            return None if self._loaded.facts.text_only else GREY
        picture = open_rgb(task.path)
        if pixel_sha256(picture) != task.pixel_sha256:
            raise ValueError("its pixels are not those that were digested; the file changed")
        return picture if task.change is None else task.change(picture)

    def _ready(
        self, task: ImageTask, picture: Image.Image | None, questions: tuple[Question, ...], scored: bool
    ) -> Ready:
        texts: dict[str, int] = {}
        prompts: list[tuple[int, ...]] = []
        with self._lock:
            for question in questions:
                written = [self._format.text(text, picture is not None) for text in self._texts(question)]
                prompts.append(tuple(texts.setdefault(text, len(texts)) for text in written))
            shown = self._book.show(picture, list(texts))
            self._loaded.pictures.forget()
        return Ready(task, questions, shown, tuple(prompts), scored)

    def _texts(self, question: Question) -> list[str]:
        """Return the question, in every order of its options if it has any."""
        if question.kind != "choice":
            return [question.text]
        return [text_in_order(question, order) for order in orders_of(question, self._orders)]


def picture_tokens(model: Any) -> set[int]:
    """Return the token ids that stand for pieces of a picture, as the model's config names them."""
    named = (getattr(model.config, name, None) for name in ("image_token_id", "image_token_index"))
    return {int(token) for token in named if token is not None}


def failed(task: ImageTask, question: Question, reason: str) -> Answer:
    """Return the row of an answer that there is none of: the first line of the reason."""
    first = next(iter(reason.splitlines()), reason)
    return Answer(task.image_id, question.question_id, None, first[:500])
