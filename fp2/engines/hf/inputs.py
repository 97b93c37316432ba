"""From a task to the model's inputs: the image decoded in its variant, the questions as prompts and tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from PIL import Image

from fp2.engines.base import failed, open_images
from fp2.engines.hf.encoding import EncodedPrompts, PromptEncoder
from fp2.engines.hf.likelihoods import orders_of, text_in_order
from fp2.errors import Fp2Error, without_path
from fp2.tables import Answer, ChoiceOrders, ImageTask, Question

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin

    from fp2.engines.hf.model import LoadedModel
    from fp2.engines.hf.prompts import PromptFormat

_CHECK_QUESTIONS = (
    "Is this person kind? Answer with Yes or No.",
    "Is this person kind and patient? Answer with Yes or No.",
    "Describe this person in one sentence.",
)
"""Prompts on which strategies are compared: some have a common prefix, some not, and their lengths differ."""
SCORED = frozenset({"yes_no", "choice"})
"""Kinds of questions whose answers are read from logits."""
GREY = Image.new("RGB", (448, 448), (128, 128, 128))
"""The image of a blind task, for a model that cannot be asked without one."""


@dataclass(frozen=True, eq=False)
class ImageQuestions:
    """An image and questions of one kind about it, encoded for the model.

    Attributes
    ----------
    task : ImageTask
    questions : tuple of Question
    encoded : EncodedPrompts
    prompts : tuple of tuple of int
        Indices of each question's prompts in `encoded`: one, or one for each order of its options.
    scored : bool
        Whether the answers are read from logits.
    """

    task: ImageTask
    questions: tuple[Question, ...]
    encoded: EncodedPrompts
    prompts: tuple[tuple[int, ...], ...]
    scored: bool

    def __iter__(self) -> Iterator[tuple[Question, tuple[int, ...]]]:
        """Yield each question with its prompts."""
        return zip(self.questions, self.prompts, strict=True)

    def one_by_one(self) -> Iterator[ImageQuestions]:
        """Yield each question by itself."""
        for question, prompts in self:
            encoded = replace(self.encoded, suffixes=tuple(self.encoded.suffixes[prompt] for prompt in prompts))
            yield ImageQuestions(self.task, (question,), encoded, (tuple(range(len(prompts))),), self.scored)


@dataclass(frozen=True)
class TaskInputs:
    """The inputs of one task, and answers that have failed already."""

    groups: list[ImageQuestions] = field(default_factory=list)
    failed: list[Answer] = field(default_factory=list)


class InputBuilder:
    """Makes the inputs of tasks; runs in a thread of its own beside the model."""

    def __init__(self, loaded: LoadedModel, prompt_format: PromptFormat, choice_orders: ChoiceOrders) -> None:
        self._loaded, self._format, self._orders = loaded, prompt_format, choice_orders
        self._prompts: dict[tuple[str, int, bool], str] = {}
        self._special_tokens = special_tokens(loaded.processor)
        self._encoder = PromptEncoder(loaded.processor, image_token_ids(loaded.model), prompt_format.adds_start_token)
        self.check_prompts: EncodedPrompts | None = None
        """The first image with prompts on which strategies are compared."""

    def build(self, task: ImageTask) -> TaskInputs:
        """Decode the image of `task`, and encode its questions."""
        try:
            images = self._images(task)
        except Exception as error:  # a decoder can raise anything; it is the error of this image only
            reason = f"the image cannot be read: {without_path(error, task.path)}"
            return TaskInputs(failed=[failed(task, question, reason) for question in task.questions])
        inputs = TaskInputs()
        for scored in (True, False):
            valid: list[Question] = []
            for question in task.questions:
                if (question.kind in SCORED) != scored:
                    continue
                texts = (question.text, *question.choices)
                if token := next((token for token in self._special_tokens if any(token in text for text in texts)), ""):
                    reason = f"the question contains {token}, which this model reads as a special token"
                    inputs.failed.append(failed(task, question, reason))
                else:
                    valid.append(question)
            self._add(inputs, task, images, tuple(valid), scored)
        return inputs

    def _add(
        self,
        inputs: TaskInputs,
        task: ImageTask,
        images: Sequence[Image.Image],
        questions: tuple[Question, ...],
        scored: bool,
    ) -> None:
        """Encode `questions`; one by one if the processor fails, so that only the cause fails."""
        if not questions:
            return
        try:
            inputs.groups.append(self._encode(task, images, questions, scored))
        except Fp2Error:
            raise
        except Exception as error:  # a processor can raise anything
            if len(questions) > 1:
                for question in questions:
                    self._add(inputs, task, images, (question,), scored)
            else:
                reason = f"the processor failed: {type(error).__name__}: {error}"
                inputs.failed.append(failed(task, questions[0], reason))

    def _images(self, task: ImageTask) -> list[Image.Image]:
        if task.blind:
            return [] if self._loaded.facts.text_only else [GREY]
        return open_images(task)

    def _encode(
        self, task: ImageTask, images: Sequence[Image.Image], questions: tuple[Question, ...], scored: bool
    ) -> ImageQuestions:
        texts: dict[tuple[str, int], int] = {}  # samples of one answer are prompts of their own
        prompts: list[tuple[int, ...]] = []
        with self._loaded.lock:
            if self.check_prompts is None and images:
                checks = [self._prompt(text, images=len(images)) for text in _CHECK_QUESTIONS]
                self.check_prompts = self._encoder.encode(images, checks)
            for question in questions:
                own_prompts = [self._prompt(text, images=len(images), scored=scored) for text in self._texts(question)]
                prompts.append(tuple(texts.setdefault((text, question.sample), len(texts)) for text in own_prompts))
            encoded = self._encoder.encode(images, [text for text, _ in texts])
            self._loaded.image_processor.forget()
        return ImageQuestions(task, questions, encoded, tuple(prompts), scored)

    def _prompt(self, text: str, *, images: int, scored: bool = True) -> str:
        key = (text, images, scored)
        if key not in self._prompts:
            self._prompts[key] = self._format.text(text, images, scored=scored)
        return self._prompts[key]

    def _texts(self, question: Question) -> list[str]:
        """Return the text of a question, once for each order of its options."""
        if question.kind != "choice":
            return [question.text]
        return [text_in_order(question, order) for order in orders_of(question, self._orders)]


def special_tokens(processor: ProcessorMixin) -> tuple[str, ...]:
    """Return the strings that the tokenizer reads as special tokens, the image token among them."""
    tokenizer = processor.tokenizer
    added = getattr(tokenizer, "added_tokens_decoder", {})
    special = {str(token) for token in added.values() if token.special}
    special |= set(map(str, getattr(tokenizer, "all_special_tokens", ())))
    special.add(str(getattr(processor, "image_token", None) or ""))
    return tuple(sorted(token for token in special if token.strip()))


def image_token_ids(model: PreTrainedModel) -> set[int]:
    """Return the ids of image tokens, by the model's config or that of its vision encoder."""
    held = (model.config, getattr(model.config, "vision_config", None))
    named = (getattr(config, name, None) for config in held for name in ("image_token_id", "image_token_index"))
    return {int(token) for token in named if token is not None}
