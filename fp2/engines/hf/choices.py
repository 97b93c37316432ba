"""Which of several options a model finds likeliest: the likelihood of each, over orders of showing them.

An option's likelihood is the product of its tokens' probabilities behind the prompt, summed over writing it with and
without a blank before it. Models favour places in a list (Zheng et al. 2024, "Large language models are not robust
multiple choice selectors"), so the options are shown in several orders and the normalised likelihoods are averaged.
A longer option has more tokens to be likely in: options of like length compare best.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fp2.engines.base import orders
from fp2.engines.hf.token_tree import Tokens
from fp2.errors import Fp2Error
from fp2.tables import OPTIONS, ChoiceOrders, Question

METHOD = "choice/1"  # raise the number whenever a change here can change a number


def orders_of(question: Question, how: ChoiceOrders) -> tuple[tuple[int, ...], ...]:
    """Return the orders in which the options are shown: one if the text does not list them."""
    return tuple(map(tuple, orders(len(question.choices), how if OPTIONS in question.text else "given")))


def text_in_order(question: Question, order: Sequence[int]) -> str:
    """Return the question with its options listed, one a line, in this order."""
    return question.text.replace(OPTIONS, "\n".join(f"- {question.choices[place]}" for place in order))


def option_tokens(tokenizer: Any, option: str) -> tuple[Tokens, ...]:
    """Return the ways to write an option as an answer: as it stands, and behind a blank where that is another way."""
    ways = (tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (option, f" {option}"))
    return tuple(dict.fromkeys(way for way in ways if way))


def check_options(question: Question, options: Mapping[str, tuple[Tokens, ...]]) -> None:
    """Check that a question's options can be told apart by their tokens.

    Raises
    ------
    Fp2Error
        If there are fewer than two, one has no token, or one begins with another: that one could never be less likely.
    """
    where = f"question {question.question_id}"
    if len(set(question.choices)) < 2 or not all(options[option] for option in question.choices):
        raise Fp2Error("a choice needs two different options or more, none of them empty", where=where)
    for short, long in itertools.permutations(question.choices, 2):
        if any(way[: len(begin)] == begin for begin in options[short] for way in options[long]):
            raise Fp2Error(
                f"the option {long!r} begins with {short!r}, which could then never be less likely",
                where=where,
                fix="Word the options so that none begins with another",
            )


def choice_numbers(log_likelihoods: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return the numbers of a choice (`Answer.numbers`).

    Parameters
    ----------
    log_likelihoods : float64 array, (orders, options)
        Natural logarithms; options in the order of `Question.choices`, whatever order they were shown in.
    """
    whole = np.logaddexp.reduce(log_likelihoods, axis=1, keepdims=True)
    p = np.exp(log_likelihoods - whole)
    return {
        "p": p.mean(axis=0).tolist(),
        "log_likelihood": log_likelihoods.mean(axis=0).tolist(),
        "mass": float(np.exp(whole).mean()),
        "order_range": float((p.max(axis=0) - p.min(axis=0)).max()),
    }


def summed(ways: Sequence[float]) -> float:
    """Return the logarithm of the sum of likelihoods whose logarithms are given."""
    return float(np.logaddexp.reduce(np.array(ways))) if ways else -math.inf
