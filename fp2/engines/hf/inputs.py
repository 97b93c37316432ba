"""From a task to what the model takes: the picture decoded and changed, the questions written as prompts and tokens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from PIL import Image

from fp2.data.pixels import open_rgb, pixel_sha256
from fp2.engines.base import failed
from fp2.engines.hf.choices import orders_of, text_in_order
from fp2.engines.hf.encoding import PromptBook, Stimulus
from fp2.errors import Fp2Error, without_path
from fp2.tables import Answer, ChoiceOrders, ImageTask, Question

if TYPE_CHECKING:
    from fp2.engines.hf.loading import LoadedModel
    from fp2.engines.hf.prompts import PromptFormat

_TRIALS = (
    "Is this person kind? Answer with Yes or No.",
    "Is this person kind and patient? Answer with Yes or No.",
    "Describe this person in one sentence.",
)
"""Prompts on which ways of asking are compared: some begin alike, some do not, and they differ in length."""
GREY = Image.new("RGB", (448, 448), (128, 128, 128))
"""What a model that cannot do without a picture is shown in place of none."""


@dataclass(frozen=True, eq=False)
class Ready:
    """A picture and questions of one kind, ready for the model; `scored` if their answers are read from logits.

    `prompts` says which prompts of `shown` each question has: one, or one for each order of its options.
    """

    task: ImageTask
    questions: tuple[Question, ...]
    shown: Stimulus
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
        self._texts_of: dict[tuple[str, bool], str] = {}
        self._marks = control_marks(loaded.processor)
        self.trial: Stimulus | None = None
        """The first picture with the trial prompts."""
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
            reason = f"the picture cannot be read: {without_path(error, task.path)}"
            return Made(failed=[failed(task, question, reason) for question in task.questions])
        made = Made()
        for scored in (True, False):
            questions = tuple(q for q in task.questions if (q.kind in ("yes_no", "choice")) == scored)
            if not questions:
                continue
            fit = [question for question in questions if not self._mark_in(question)]
            made.failed.extend(failed(task, q, _marked(self._mark_in(q))) for q in questions if q not in fit)
            self._add(made, task, picture, tuple(fit), scored)
        return made

    def _add(
        self, made: Made, task: ImageTask, picture: Image.Image | None, questions: tuple[Question, ...], scored: bool
    ) -> None:
        """Make `questions` ready; where the processor fails, each alone, so that one spoils no other."""
        if not questions:
            return
        try:
            made.ready.append(self._ready(task, picture, questions, scored))
        except Fp2Error:
            raise
        except Exception as error:  # a processor can raise anything
            if len(questions) > 1:
                for question in questions:
                    self._add(made, task, picture, (question,), scored)
            else:
                reason = f"the processor failed: {type(error).__name__}: {error}"
                made.failed.append(failed(task, questions[0], reason))

    def _mark_in(self, question: Question) -> str:
        """Return the first control mark of the tokenizer that stands in a question or its options, or nothing."""
        texts = (question.text, *question.choices)
        return next((mark for mark in self._marks if any(mark in text for text in texts)), "")

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
            if self.trial is None and picture is not None:
                trials = [self._written(text, picture=True) for text in _TRIALS]
                self.trial = self._book.show(picture, trials)
            for question in questions:
                written = [self._written(text, picture=picture is not None) for text in self._texts(question)]
                prompts.append(tuple(texts.setdefault(text, len(texts)) for text in written))
            shown = self._book.show(picture, list(texts))
            self._loaded.pictures.forget()
        return Ready(task, questions, shown, tuple(prompts), scored)

    def _written(self, text: str, *, picture: bool) -> str:
        """Return the prompt for `text`; a template is filled in once a run."""
        if (text, picture) not in self._texts_of:
            self._texts_of[text, picture] = self._format.text(text, picture)
        return self._texts_of[text, picture]

    def _texts(self, question: Question) -> list[str]:
        """Return the question, in every order of its options if it has any."""
        if question.kind != "choice":
            return [question.text]
        return [text_in_order(question, order) for order in orders_of(question, self._orders)]


def control_marks(processor: Any) -> tuple[str, ...]:
    """Return what the tokenizer reads as control tokens wherever it stands, the mark of a picture among them."""
    tokenizer = processor.tokenizer
    added = getattr(tokenizer, "added_tokens_decoder", {})
    special = {str(token) for token in added.values() if token.special}
    special |= set(map(str, getattr(tokenizer, "all_special_tokens", ())))
    special.add(str(getattr(processor, "image_token", None) or ""))
    return tuple(sorted(mark for mark in special if mark.strip()))


def _marked(mark: str) -> str:
    return f"the question holds {mark}, which this model reads as a control token and not as words"


def picture_tokens(model: Any) -> set[int]:
    """Return the token ids that stand for pieces of a picture, as the model's config names them."""
    named = (getattr(model.config, name, None) for name in ("image_token_id", "image_token_index"))
    return {int(token) for token in named if token is not None}
