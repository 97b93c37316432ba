"""Reasoning before an answer: what encloses it, and how it is cut from what a model generated.

A model that reasons writes its reasoning between two marks and the answer after the second one. Only the answer is
scored. A model that is still reasoning at its limit of tokens has given no answer, whatever the text says.
"""

from __future__ import annotations

from typing import NamedTuple

from fp2.engines.base import failed
from fp2.errors import Fp2Error
from fp2.tables import STILL_REASONING, TRACE, TRACE_TOKENS, Answer, ImageTask, Question

WITHOUT_REASONING = (
    "The model usually reasons before it answers; probabilities are read with its reasoning switched off"
)


class Marks(NamedTuple):
    """What stands before and after the reasoning, as text."""

    opening: str
    closing: str


THINK = Marks("<think>", "</think>")
"""The marks in the text of a server's answer where the server does not cut the reasoning itself."""


class Split(NamedTuple):
    """A generated text in its two parts.

    Attributes
    ----------
    reasoning : str or None
        None if the model did not reason.
    answer : str or None
        None if it was still reasoning at the end of the text.
    """

    reasoning: str | None
    answer: str | None


def split_reasoning(text: str, marks: Marks, *, begun: bool = False) -> Split:
    """Return the reasoning and the answer of a generated text.

    Parameters
    ----------
    begun : bool
        Whether the prompt ends with the opening mark, so that the text begins inside the reasoning.
    """
    before, closing, answer = text.partition(marks.closing)
    reasoning = before.strip().removeprefix(marks.opening).strip()
    if closing:
        return Split(reasoning or None, answer.strip())
    if begun or before.lstrip().startswith(marks.opening):
        return Split(reasoning, None)
    return Split(None, text.strip())


def reasoned_answer(
    task: ImageTask, question: Question, split: Split, *, tokens: int, reasoning_tokens: int = 0
) -> Answer:
    """Return the answer to a question with the reasoning beside it; failed where the model was still reasoning."""
    if split.answer is None:
        after = f" after {tokens:,} tokens" if tokens else ""
        reason = f"{STILL_REASONING}{after} (decoding.reasoning)"
        return failed(task, question, reason)
    numbers = None
    if split.reasoning is not None:
        numbers = {TRACE: split.reasoning, TRACE_TOKENS: reasoning_tokens}
    return Answer(task.image_id, question.question_id, split.answer, tokens=tokens, numbers=numbers)


def unknown_marks(model: str) -> Fp2Error:
    """Return the error of a model that is told to reason, and whose reasoning cannot be told from its answer."""
    problem = f"neither the chat template nor the tokenizer of the model {model} says where its reasoning ends"
    return Fp2Error(problem, where="decoding.reasoning", fix="Set decoding.reasoning=off")


def cannot_reason(model: str) -> Fp2Error:
    """Return the error of a model that is told to reason and cannot."""
    problem = f"the model {model} has no reasoning that can be switched on"
    return Fp2Error(problem, where="decoding.reasoning", fix="Set decoding.reasoning=auto, or leave it out")


def always_reasons(model: str) -> Fp2Error:
    """Return the error of a model that is told not to reason and always does."""
    problem = f"the reasoning of the model {model} cannot be switched off"
    return Fp2Error(problem, where="decoding.reasoning", fix="Set decoding.reasoning=on, or a number of tokens")


def scored_while_reasoning(model: str, *, switch: bool, where: str = "model.id") -> Fp2Error:
    """Return the error of a question whose probabilities would be read before the model has reasoned."""
    problem = (
        f"the model {model} reasons before it answers: the probability of its first token is not that of its answer"
    )
    fix = "Set decoding.reasoning=off" if switch else "Ask it questions in words (kind: text)"
    return Fp2Error(problem, where=where, fix=fix)
