"""Answers that are read from next-token logits: P(Yes), and the likelihoods of options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import torch

from fp2.engines.hf.encoding import Continuation, EncodedPrompts
from fp2.engines.hf.generation import Logits, Pick, check_logits
from fp2.engines.hf.likelihoods import Tokens, YesNoForms, choice_numbers, likelier, log_sum, read_yes_no
from fp2.engines.reasoning import scored_while_reasoning
from fp2.tables import Answer, ImageTask, Question

if TYPE_CHECKING:
    from fp2.engines.hf.inputs import ImageQuestions

OptionTokens = Mapping[str, tuple[Tokens, ...]]
"""The tokenisations of each option."""


class LogitSource(Protocol):
    """A way to compute logits."""

    def logits(self, batch: Sequence[EncodedPrompts], wanted: Sequence[Continuation]) -> Iterator[Logits]:
        """Yield the logits after each continuation of each of some images, whose prompts have one layout, once."""
        ...


class Strategy(LogitSource, Protocol):
    """A way to run a model on the prompts of images: what these share is computed once (`engine.sharing`)."""

    calls: int
    learns: ClassVar[bool] = False
    """Whether texts are drafted from earlier answers."""
    packs: ClassVar[bool] = False
    """Whether the tokens of a pass are limited, in place of its prompts, where answers are scored."""

    def supports(self, encoded: EncodedPrompts) -> bool:
        """Return whether it can run these prompts."""
        ...

    def images_together(self, encoded: EncodedPrompts) -> int:
        """Return how many images with such prompts are scored together."""
        ...

    def generate(
        self, batch: Sequence[EncodedPrompts], pick: Pick, end_tokens: set[int], max_new: int
    ) -> list[list[list[int]]]:
        """Return the new tokens [images][prompts], each up to `max_new`, ending with the first of `end_tokens`."""
        ...

    def learn(self, prompt: Tokens, answer: Sequence[int]) -> None:
        """Learn an earlier answer to a prompt (token ids after what all prompts share)."""
        return

    def record(self) -> dict[str, object]:
        """Return what `runtime()` says of it."""
        return {}


def score(
    batch: Sequence[ImageQuestions],
    forms: YesNoForms | None,
    options: OptionTokens,
    source: LogitSource,
    *,
    opens_reasoning: int | None = None,
) -> list[Answer]:
    """Return the answers about images with the same questions, whose prompts have one layout.

    Raises
    ------
    Fp2Error
        If the most likely first token is `opens_reasoning`: the model would reason before it answers.
    """
    scorers = [LogitScorer(group, forms, options) for group in batch]
    wanted = scorers[0].wanted
    for images, positions, logits in source.logits([group.encoded for group in batch], wanted):
        first = [row for row, position in enumerate(positions) if not wanted[position][1]]
        if opens_reasoning is not None and bool((logits[:, first].argmax(dim=-1) == opens_reasoning).any()):
            raise scored_while_reasoning("that is asked", switch=False)
        for image, image_logits in zip(images, logits, strict=True):
            scorers[image].read([wanted[position] for position in positions], image_logits)
    return [answer for scorer in scorers for answer in scorer.answers()]


class LogitScorer:
    """What the questions about one image need of the logits, and the answers that follow from them."""

    def __init__(self, group: ImageQuestions, forms: YesNoForms | None, options: OptionTokens) -> None:
        self._group, self._forms, self._options = group, forms, options
        self._yes_no = {prompts[0] for question, prompts in group if question.kind == "yes_no"}
        self._option_tokens = self._needed_tokens()
        self._numbers: dict[int, dict[str, float]] = {}
        self._log_probabilities: dict[tuple[int, Tokens, int], float] = {}

    @property
    def wanted(self) -> list[Continuation]:
        """The continuations after which logits are needed."""
        yes_no: list[Continuation] = [(prompt, ()) for prompt in sorted(self._yes_no)]
        return list(dict.fromkeys([*yes_no, *self._option_tokens]))

    def answers(self) -> list[Answer]:
        """Return the answers in the order of the questions, once everything was read."""
        return [self._answer(self._group.task, question, prompts) for question, prompts in self._group]

    def _needed_tokens(self) -> dict[Continuation, list[int]]:
        """Return the option tokens whose probability is needed after each continuation of a prompt."""
        tokens_of: dict[Continuation, dict[int, None]] = {}
        for question, prompts in self._group:
            sequences = [tokens for option in question.choices for tokens in self._options.get(option, ())]
            for prompt in prompts:
                for tokens in sequences:
                    for k, token in enumerate(tokens):
                        tokens_of.setdefault((prompt, tokens[:k]), {})[token] = None
        return {position: list(tokens) for position, tokens in tokens_of.items()}

    def read(self, places: list[Continuation], logits: torch.Tensor) -> None:
        """Keep what the questions need of logits [places, vocabulary]."""
        check_logits(logits)
        rows = [row for row, (prompt, appended) in enumerate(places) if not appended and prompt in self._yes_no]
        if rows and self._forms is not None:
            rows_of_logits = logits if len(rows) == len(places) else logits[rows]
            for row, numbers in zip(rows, read_yes_no(rows_of_logits, self._forms), strict=True):
                self._numbers[places[row][0]] = numbers
        for row, position in enumerate(places):
            if tokens := self._option_tokens.get(position):
                values = torch.log_softmax(logits[row].float(), dim=-1)[tokens].tolist()
                self._log_probabilities.update(
                    {(*position, token): value for token, value in zip(tokens, values, strict=True)}
                )

    def _answer(self, task: ImageTask, question: Question, prompts: tuple[int, ...]) -> Answer:
        if question.kind == "yes_no":
            of_yes_no = dict(self._numbers[prompts[0]])
            return Answer(task.image_id, question.question_id, likelier(of_yes_no), numbers=of_yes_no)
        likelihoods = np.array([[self._log_likelihood(prompt, o) for o in question.choices] for prompt in prompts])
        if not np.isfinite(likelihoods.max(axis=1)).all():
            reason = "the model gives every option a likelihood of 0"
            return Answer(task.image_id, question.question_id, None, reason)
        numbers = choice_numbers(likelihoods)
        best = question.choices[int(np.argmax(numbers["p"]))]
        return Answer(task.image_id, question.question_id, best, numbers=numbers)

    def _log_likelihood(self, prompt: int, option: str) -> float:
        """Return the log-likelihood of an option after a prompt, summed over its tokenisations."""
        return log_sum(
            [
                sum(self._log_probabilities[prompt, tokens[:k], token] for k, token in enumerate(tokens))
                for tokens in self._options[option]
            ]
        )
