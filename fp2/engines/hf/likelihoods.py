"""Answers read from next-token probabilities: P(Yes) and P(No), and the likelihoods of the options of a choice.

Yes/no: the published GRAS code takes the probability of the single first token of `Yes` in the model's own dtype; that
number is kept as `p_yes_first_token`, from a float32 softmax over the full vocabulary unless another dtype is asked
for. Which token begins the word
depends on its spelling (`Yes`, or ` Yes` with a leading blank), which the user can give. Models spread their answer
over several spellings (`Yes`, ` yes`, `YES`), so `p_yes` and `p_no` sum over all tokens that read yes or no without
case and blanks. `mass = p_yes + p_no` says whether the model answers the question at all.

Choice: the likelihood of an option is the product of its tokens' probabilities after the prompt, summed over writing it
with and without a leading blank. Models prefer places in a list (Zheng et al. 2024, "Large language models are not
robust multiple choice selectors"), so the options are listed in several orders and the normalised likelihoods are
averaged. The likelihood falls with the number of tokens: options of similar length are the most comparable.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fp2.engines.base import BLANKS, option_orders
from fp2.errors import Fp2Error
from fp2.tables import OPTIONS, ChoiceOrders, Question

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

Tokens = tuple[int, ...]

YES_NO_METHOD = "yes_no/1"  # raise the number with every change that can change a number
YES_NO_RULE = "all tokens that read 'yes' or 'no' without case and blanks"


@dataclass(frozen=True)
class YesNoForms:
    """The tokens of a vocabulary that read Yes and No: all of them, and the first token of one spelling.

    `softmax` is the dtype in which the probability of the first tokens is computed.
    """

    yes: tuple[int, ...]
    no: tuple[int, ...]
    yes_first: int
    no_first: int
    spellings: Mapping[str, tuple[str, ...]]
    softmax: str = "float32"


def yes_no_forms(tokenizer: PreTrainedTokenizerBase, words: tuple[str, str] | None = None) -> YesNoForms:
    """Return the surface forms of Yes and No in a tokenizer's vocabulary.

    Parameters
    ----------
    tokenizer : PreTrainedTokenizer
    words : (str, str), optional
        The spellings of Yes and No whose first token is read; None is `Yes` and `No`.
    """
    tokens_of: dict[str, list[int]] = {"yes": [], "no": []}
    for token, index in tokenizer.get_vocab().items():
        word = token.strip(BLANKS).casefold()
        if word in tokens_of and str(tokenizer.decode([index])).strip().casefold() == word:
            tokens_of[word].append(int(index))
    for word, tokens in tokens_of.items():
        if not tokens:
            raise Fp2Error(
                f"no token of this model's vocabulary reads {word!r}, so P(Yes) cannot be read from its logits",
                where="model.id",
                fix="Ask in words (kind: text), or choose another model",
            )
    spelled = dict(zip(tokens_of, words or ("Yes", "No"), strict=True))
    first = {word: int(tokenizer(text, add_special_tokens=False)["input_ids"][0]) for word, text in spelled.items()}
    for word, index in first.items():
        if words is not None and index not in tokens_of[word]:
            message = f"the first token of {spelled[word]!r} is {tokenizer.convert_ids_to_tokens([index])[0]!r}"
            raise Fp2Error(message, where="model.yes_no", fix="Give a spelling that is one token, or null")
    spellings = {word: tuple(tokenizer.convert_ids_to_tokens(sorted(tokens))) for word, tokens in tokens_of.items()}
    yes, no = (tuple(sorted(tokens_of[word])) for word in ("yes", "no"))
    return YesNoForms(yes, no, first["yes"], first["no"], spellings)


def read_yes_no(logits: torch.Tensor, forms: YesNoForms) -> list[dict[str, float]]:
    """Return the numbers of a yes/no answer (`Answer.numbers`) for each row of next-token logits [n, vocabulary].

    `logit_difference` is log p_yes - log p_no, positive for Yes; `p_yes_norm` is its logistic function.
    """
    import torch

    original, logits = logits, logits.float()
    total = torch.logsumexp(logits, dim=-1)
    yes = torch.logsumexp(logits[:, list(forms.yes)], dim=-1) - total
    no = torch.logsumexp(logits[:, list(forms.no)], dim=-1) - total
    columns = {
        "p_yes": yes.exp(),
        "p_no": no.exp(),
        "p_yes_first_token": (logits[:, forms.yes_first] - total).exp(),
        "p_no_first_token": (logits[:, forms.no_first] - total).exp(),
        "p_yes_norm": torch.sigmoid(yes - no),
        "mass": torch.logaddexp(yes, no).exp(),
        "logit_difference": yes - no,
    }
    if forms.softmax != "float32":
        rounded = torch.softmax(original.to(getattr(torch, forms.softmax)), dim=-1).float()
        columns["p_yes_first_token"], columns["p_no_first_token"] = (
            rounded[:, forms.yes_first],
            rounded[:, forms.no_first],
        )
    values = torch.stack(list(columns.values()), dim=1).tolist()
    return [dict(zip(columns, row, strict=True)) for row in values]


def likelier(numbers: Mapping[str, float]) -> str:
    """Return the likelier of `Yes` and `No`."""
    return "Yes" if numbers["logit_difference"] >= 0 else "No"


CHOICE_METHOD = "choice/1"  # raise the number with every change that can change a number


def orders_of(question: Question, orders: ChoiceOrders) -> tuple[tuple[int, ...], ...]:
    """Return the orders in which the options are listed: one if the text does not list them."""
    return tuple(map(tuple, option_orders(question, orders if OPTIONS in question.text else "given")))


def text_in_order(question: Question, order: Sequence[int]) -> str:
    """Return the question with its options listed in this order, one a line."""
    return question.text.replace(OPTIONS, "\n".join(f"- {question.choices[index]}" for index in order))


def option_tokens(tokenizer: PreTrainedTokenizerBase, option: str) -> tuple[Tokens, ...]:
    """Return the tokenisations of an option: without, and with a leading blank if that differs."""
    sequences = (tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (option, f" {option}"))
    return tuple(dict.fromkeys(tokens for tokens in sequences if tokens))


def check_options(question: Question, options: Mapping[str, tuple[Tokens, ...]]) -> None:
    """Raise unless a question's options can be told apart by their tokens."""
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


def choice_numbers(log_likelihoods: npt.NDArray[np.float64]) -> dict[str, float | list[float]]:
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
