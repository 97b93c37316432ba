"""Choice questions: the likelihood of each option, averaged over orders of listing them.

The likelihood of an option is the product of its tokens' probabilities after the prompt, summed over writing it with
and without a leading blank. Models prefer places in a list (Zheng et al. 2024, "Large language models are not robust
multiple choice selectors"), so the options are listed in several orders and the normalised likelihoods are averaged.
The likelihood falls with the number of tokens: options of similar length are the most comparable.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fp2.engines.base import option_orders
from fp2.engines.hf.token_tree import Tokens
from fp2.errors import Fp2Error
from fp2.tables import OPTIONS, ChoiceOrders, Question

CHOICE_METHOD = "choice/1"  # raise the number with every change that can change a number


def orders_of(question: Question, orders: ChoiceOrders) -> tuple[tuple[int, ...], ...]:
    """Return the orders in which the options are listed: one if the text does not list them."""
    return tuple(map(tuple, option_orders(len(question.choices), orders if OPTIONS in question.text else "given")))


def text_in_order(question: Question, order: Sequence[int]) -> str:
    """Return the question with its options listed in this order, one a line."""
    return question.text.replace(OPTIONS, "\n".join(f"- {question.choices[place]}" for place in order))


def option_tokens(tokenizer: Any, option: str) -> tuple[Tokens, ...]:
    """Return the tokenisations of an option: without, and with a leading blank if that differs."""
    found = (tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (option, f" {option}"))
    return tuple(dict.fromkeys(tokens for tokens in found if tokens))


def check_options(question: Question, options: Mapping[str, tuple[Tokens, ...]]) -> None:
    """Raise unless a question's options can be told apart by their tokens.

    Raises
    ------
    Fp2Error
        If there are fewer than two, one has no token, or one is a prefix of another, which could never be likelier.
    """
    where = f"question {question.question_id}"
    if len(set(question.choices)) < 2 or not all(options[option] for option in question.choices):
        raise Fp2Error("a choice needs at least two different options, none of them empty", where=where)
    for short, long in itertools.permutations(question.choices, 2):
        if any(tokens[: len(prefix)] == prefix for prefix in options[short] for tokens in options[long]):
            raise Fp2Error(
                f"the option {long!r} begins with {short!r}, which could then never be less likely",
                where=where,
                fix="Rephrase the options so that none begins with another",
            )


def choice_numbers(log_likelihoods: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return the numbers of a choice (`Answer.numbers`).

    Parameters
    ----------
    log_likelihoods : float64 array, (orders, options)
        Natural logarithms; options in the order of `Question.choices`, in whatever order they were listed.
    """
    total = np.logaddexp.reduce(log_likelihoods, axis=1, keepdims=True)
    p = np.exp(log_likelihoods - total)
    return {
        "p": p.mean(axis=0).tolist(),
        "log_likelihood": log_likelihoods.mean(axis=0).tolist(),
        "mass": float(np.exp(total).mean()),
        "order_range": float((p.max(axis=0) - p.min(axis=0)).max()),
    }


def log_sum(log_likelihoods: Sequence[float]) -> float:
    """Return the logarithm of the sum of likelihoods given by their logarithms."""
    return float(np.logaddexp.reduce(np.array(log_likelihoods))) if log_likelihoods else -math.inf
