"""Answers that are read from next-token logits: P(Yes), and the likelihoods of options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from fp2.engines.hf.choices import choice_numbers, summed
from fp2.engines.hf.encoding import Stimulus, Wanted
from fp2.engines.hf.generation import check_numbers
from fp2.engines.hf.token_tree import Tokens
from fp2.engines.hf.yes_no import YesNoForms, read_yes_no, said
from fp2.tables import Answer, ImageTask, Question

if TYPE_CHECKING:
    from fp2.engines.hf.inputs import Ready

Options = Mapping[str, tuple[Tokens, ...]]
"""The ways to write each option in tokens."""


class Reader(Protocol):
    """A way to ask for logits."""

    def read(self, shown: Stimulus, wanted: Sequence[Wanted]) -> Iterator[tuple[Sequence[int], torch.Tensor]]:
        """Yield (which of `wanted`, their next-token logits [n, vocabulary] in float32), every one of them once."""
        ...


class Reading:
    """Asks for the logits that the questions about one picture need, and turns them into answers.

    Parameters
    ----------
    ready : Ready
        Questions of the kinds `yes_no` and `choice`.
    forms : YesNoForms, optional
        Needed for `yes_no`.
    options : Mapping
        Every option of every `choice`.
    """

    def __init__(self, ready: Ready, forms: YesNoForms | None, options: Options) -> None:
        self._ready, self._forms, self._options = ready, forms, options
        self._yes_no = {prompts[0] for question, prompts in ready if question.kind == "yes_no"}
        self._next = self._next_tokens()
        self._numbers: dict[int, dict[str, float]] = {}
        self._logs: dict[tuple[int, Tokens, int], float] = {}

    def answers(self, way: Reader) -> list[Answer]:
        """Ask, and return the answers in the order of the questions."""
        places: list[Wanted] = list(dict.fromkeys([*((prompt, ()) for prompt in sorted(self._yes_no)), *self._next]))
        for found, logits in way.read(self._ready.shown, places):
            self._keep([places[place] for place in found], logits)
        return [self._answer(self._ready.task, question, prompts) for question, prompts in self._ready]

    def _next_tokens(self) -> dict[Wanted, list[int]]:
        """Return for each place behind a prompt the option tokens whose probability is wanted there."""
        found: dict[Wanted, dict[int, None]] = {}
        for question, prompts in self._ready:
            ways = [way for option in question.choices for way in self._options.get(option, ())]
            for prompt in prompts:
                for way in ways:
                    for k, token in enumerate(way):
                        found.setdefault((prompt, way[:k]), {})[token] = None
        return {place: list(tokens) for place, tokens in found.items()}

    def _keep(self, places: list[Wanted], logits: torch.Tensor) -> None:
        """Take from logits [places, vocabulary] what the questions need."""
        check_numbers(logits)
        columns = [c for c, (prompt, behind) in enumerate(places) if not behind and prompt in self._yes_no]
        if columns and self._forms is not None:
            some = logits if len(columns) == len(places) else logits[columns]
            for column, numbers in zip(columns, read_yes_no(some, self._forms), strict=True):
                self._numbers[places[column][0]] = numbers
        for column, place in enumerate(places):
            if tokens := self._next.get(place):
                values = torch.log_softmax(logits[column].float(), dim=-1)[tokens].tolist()
                self._logs.update({(*place, token): value for token, value in zip(tokens, values, strict=True)})

    def _answer(self, task: ImageTask, question: Question, prompts: tuple[int, ...]) -> Answer:
        found: dict[str, Any]
        if question.kind == "yes_no":
            found = dict(self._numbers[prompts[0]])
            return Answer(task.image_id, question.question_id, said(found), numbers=found)
        likely = np.array([[self._likelihood(prompt, option) for option in question.choices] for prompt in prompts])
        if not np.isfinite(likely.max(axis=1)).all():
            reason = "the model gives none of the options any likelihood"
            return Answer(task.image_id, question.question_id, None, reason)
        found = choice_numbers(likely)
        best = question.choices[int(np.argmax(found["p"]))]
        return Answer(task.image_id, question.question_id, best, numbers=found)

    def _likelihood(self, prompt: int, option: str) -> float:
        """Return the logarithm of the likelihood of an option behind a prompt, over the ways to write it."""
        ways = self._options[option]
        return summed([sum(self._logs[prompt, way[:k], token] for k, token in enumerate(way)) for way in ways])
