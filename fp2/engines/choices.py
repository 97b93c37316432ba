"""Which of several options a model finds likeliest: the likelihood of each, over orders of showing them.

An option's likelihood is the product of its tokens' probabilities behind the prompt, summed over writing it with and
without a blank before it. Models favour places in a list (Zheng et al. 2024, "Large language models are not robust
multiple choice selectors"), so the options are shown in several orders and the normalised likelihoods are averaged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fp2.engines.base import OPTIONS, ChoiceOrders, Question
from fp2.engines.token_tree import Tokens

METHOD = "choice/1"  # raise the number whenever a change here can change a number


def orders_of(question: Question, how: ChoiceOrders) -> tuple[tuple[int, ...], ...]:
    """Return the orders in which the options are shown: one if the text does not list them."""
    places = range(len(question.choices))
    if OPTIONS not in question.text or how == "given":
        return (tuple(places),)
    if how == "all":
        return tuple(itertools.permutations(places))
    return tuple((*places[start:], *places[:start]) for start in places)


def text_in_order(question: Question, order: Sequence[int]) -> str:
    """Return the question with its options listed, one a line, in this order."""
    return question.text.replace(OPTIONS, "\n".join(f"- {question.choices[place]}" for place in order))


def option_tokens(tokenizer: Any, option: str) -> tuple[Tokens, ...]:
    """Return the ways to write an option as an answer: as it stands, and behind a blank where that is another way."""
    ways = (tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (option, f" {option}"))
    return tuple(dict.fromkeys(way for way in ways if way))


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
