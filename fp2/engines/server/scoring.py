"""How a server is asked for probabilities: the interface of a scoring method, and the method of chat completions.

A scoring method turns a question into requests, and their replies into the numbers of an `Answer`. Each has its own
name in the response key; a number that a server does not give is null.

`TopLogprobs` reads the most likely first tokens of a chat completion as Yes and No, or as the letters of options. Only
the listed tokens are seen: `unlisted_max` is the largest probability that another token can have. Form of
`top_logprobs`: OpenAI's API reference, "Create chat completion". Other methods are entry points (`fp2.scoring`).
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fp2.engines.base import BLANKS, SOMETIMES, option_orders, yes_no_numbers
from fp2.engines.server.chat import PATH, Shown, first_choice, messages
from fp2.engines.server.replies import RefusedError, token_count
from fp2.tables import OPTIONS, ChoiceOrders, Question

Body = dict[str, object]
Reply = Mapping[str, object]


@dataclass(frozen=True)
class Probabilities:
    """The probabilities of one question's answers, and the most probable one: see `Answer`."""

    text: str
    numbers: Mapping[str, Any]
    tokens: int = 0


class ScoringMethod(Protocol):
    """A way to get probabilities from a server."""

    @property
    def path(self) -> str:
        """The endpoint, below the base address."""
        ...

    @property
    def lacking(self) -> Mapping[str, str]:
        """Numbers of a yes/no answer (`YES_NO_NUMBERS`) that are given `NEVER` or `SOMETIMES`."""
        ...

    def identity(self) -> dict[str, object]:
        """Return the name with its version, and whatever else can change a number."""
        ...

    def requests(self, model: str, question: Question, image: Shown, orders: ChoiceOrders) -> list[Body]:
        """Return the requests to send, for what is shown."""
        ...

    def suffice(self, replies: Sequence[Reply]) -> bool:
        """Whether the requests that follow these replies need not be sent."""
        ...

    def read(self, replies: Sequence[Reply], question: Question, orders: ChoiceOrders) -> Probabilities:
        """Return the numbers; `replies` are in the order of `requests`. Raises `RefusedError` for an invalid reply."""
        ...


def mean_over_orders(
    question: Question, rows: Sequence[Sequence[float]], masses: Sequence[float | None], tokens: int
) -> Probabilities:
    """Average over the orders; `rows` (orders, options) are in the order of `question.choices` and sum to one."""
    p = np.array(rows, dtype=np.float64)
    known_masses = [mass for mass in masses if mass is not None]
    mean = p.mean(axis=0)
    numbers = {
        "p": mean.tolist(),
        "log_likelihood": None,
        "mass": math.fsum(known_masses) / len(known_masses) if len(known_masses) == len(masses) else None,
        "order_range": float((p.max(axis=0) - p.min(axis=0)).max()),
    }
    return Probabilities(question.choices[int(mean.argmax())], numbers, tokens)


_ANSWER_LETTER = "Answer with the letter of one option only."


@dataclass(frozen=True)
class TopLogprobs:
    """The `top` most likely first tokens of a chat completion, with their log-probabilities."""

    top: int
    path: str = PATH

    @property
    def lacking(self) -> Mapping[str, str]:
        """Numbers that are null if a spelling is not listed; the sums are 0 then."""
        return dict.fromkeys(("p_yes_first_token", "p_no_first_token", "logit_difference"), SOMETIMES)

    def identity(self) -> dict[str, object]:
        """Return the name with its version, and the number of tokens."""
        return {"name": "top_logprobs/2", "top": self.top}

    def requests(self, model: str, question: Question, image: Shown, orders: ChoiceOrders) -> list[Body]:
        """Return one request, or one for each order of the options."""
        if question.kind == "yes_no":
            texts = [question.text]
        else:
            texts = [lettered(question, order) for order in option_orders(question, orders)]
        rest = {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": self.top}
        return [{"model": model, "messages": messages(text, image), **rest} for text in texts]

    def suffice(self, replies: Sequence[Reply]) -> bool:
        """Return False: every request is needed."""
        return False

    def read(self, replies: Sequence[Reply], question: Question, orders: ChoiceOrders) -> Probabilities:
        """Sum the listed tokens that read Yes and No, or the letters of the options."""
        n_tokens = sum(token_count(reply, "completion_tokens") or 0 for reply in replies)
        listed = [_listed(reply) for reply in replies]
        if question.kind == "yes_no":
            # Every listed spelling of Yes and of No counts (the rule of `hf.likelihoods.YES_NO_RULE`)
            tokens = listed[0]
            yes, no = (
                math.fsum(
                    math.exp(logprob) for token, logprob in tokens.items() if token.strip(BLANKS).casefold() == word
                )
                for word in ("yes", "no")
            )
            if yes + no <= 0:
                raise RefusedError(f"neither Yes nor No is among the {len(tokens)} most likely first tokens")
            spellings = [math.exp(tokens[word]) if word in tokens else None for word in ("Yes", "No")]
            numbers = yes_no_numbers(yes, no, (spellings[0], spellings[1])) | {"unlisted_max": _unlisted_max(tokens)}
            return Probabilities("Yes" if yes >= no else "No", numbers, n_tokens)
        option_sets = option_orders(question, orders)
        rows = [_p_letters(tokens, order) for tokens, order in zip(listed, option_sets, strict=True)]
        masses = [math.fsum(row) for row in rows]
        if min(masses) <= 0:
            raise RefusedError(f"none of the options' letters is among the {self.top} most likely first tokens")
        normalised = [[p / mass for p in row] for row, mass in zip(rows, masses, strict=True)]
        scored = mean_over_orders(question, normalised, masses, n_tokens)
        likelihoods = [
            math.fsum(map(math.log, ps)) / len(ps) if min(ps) > 0 else None for ps in zip(*rows, strict=True)
        ]
        largest = max(map(_unlisted_max, listed))
        more = {**scored.numbers, "log_likelihood": likelihoods, "unlisted_max": largest}
        return Probabilities(scored.text, more, n_tokens)


def lettered(question: Question, order: Sequence[int]) -> str:
    """Return a question with its options, in an order, as letters."""
    option_lines = "\n".join(
        f"{string.ascii_uppercase[i]}. {question.choices[option]}" for i, option in enumerate(order)
    )
    listed = (
        question.text.replace(OPTIONS, option_lines) if OPTIONS in question.text else f"{question.text}\n{option_lines}"
    )
    return f"{listed}\n{_ANSWER_LETTER}"


def _p_letters(tokens: Mapping[str, float], order: Sequence[int]) -> list[float]:
    """Return the probability of each option, in the order of `question.choices`; 0 for a letter that is not listed."""
    row = [0.0] * len(order)
    for letter, option in zip(string.ascii_uppercase, order, strict=False):
        row[option] = math.fsum(math.exp(logprob) for token, logprob in tokens.items() if token.strip(BLANKS) == letter)
    return row


def _listed(reply: Reply) -> dict[str, float]:
    """Return the listed first tokens with their log-probabilities.

    Raises
    ------
    RefusedError
        If there are none: `transformers serve`, for one, ignores the parameter.
    """
    held = first_choice(reply).get("logprobs")
    content = held.get("content") if isinstance(held, dict) else None
    first = content[0] if isinstance(content, list) and content else None
    top = first.get("top_logprobs") if isinstance(first, dict) else None
    if not isinstance(top, list) or not top:
        raise RefusedError("the server returns no top_logprobs")
    log_probability_of: dict[str, float] = {}
    for entry in top:
        token, logprob = (entry.get("token"), entry.get("logprob")) if isinstance(entry, dict) else (None, None)
        if not isinstance(token, str) or not isinstance(logprob, (int, float)) or not logprob <= 1e-6:
            raise RefusedError("the server's top_logprobs cannot be read")
        shared = (
            math.exp(log_probability_of[token]) if token in log_probability_of else 0.0
        )  # several tokens may have the same text
        log_probability_of[token] = math.log(shared + math.exp(max(logprob, -700.0)))
    return log_probability_of


def _unlisted_max(tokens: Mapping[str, float]) -> float:
    """Return the largest probability of a token that is not listed: that of the last listed one, or the remainder."""
    listed = [math.exp(logprob) for logprob in tokens.values()]
    return max(0.0, min(min(listed), 1 - math.fsum(listed)))
