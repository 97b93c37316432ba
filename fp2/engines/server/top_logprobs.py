"""Scoring by the most likely first tokens of a chat completion, read as Yes and No or as the letters of options.

Only the listed tokens are seen: `unlisted_max` is the largest probability that another token can have. Form of
`top_logprobs`: OpenAI's API reference, "Create chat completion".
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fp2.engines.base import BLANKS, SOMETIMES, option_orders
from fp2.engines.server.chat import PATH, first_choice, messages, token_count
from fp2.engines.server.client import RefusedError
from fp2.engines.server.scoring import Body, Reply, Scored, mean_over_orders
from fp2.tables import OPTIONS, ChoiceOrders, Question

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

    def identity(self) -> dict[str, Any]:
        """Return the name with its version, and the number of tokens."""
        return {"name": "top_logprobs/2", "top": self.top}

    def requests(self, model: str, question: Question, image: str | None, orders: ChoiceOrders) -> list[Body]:
        """Return one request, or one for each order of the options."""
        if question.kind == "yes_no":
            texts = [question.text]
        else:
            texts = [_lettered(question, order) for order in option_orders(len(question.choices), orders)]
        rest = {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": self.top}
        return [{"model": model, "messages": messages(text, image), **rest} for text in texts]

    def read(self, replies: Sequence[Reply], question: Question, orders: ChoiceOrders) -> Scored:
        """Sum the listed tokens that read Yes and No, or the letters of the options."""
        used = sum(token_count(reply, "completion_tokens") or 0 for reply in replies)
        listed = [_listed(reply) for reply in replies]
        if question.kind == "yes_no":
            return _read_yes_no(listed[0], used)
        shown = option_orders(len(question.choices), orders)
        rows = [_p_letters(tokens, order) for tokens, order in zip(listed, shown, strict=True)]
        masses = [math.fsum(row) for row in rows]
        if min(masses) <= 0:
            raise RefusedError(f"none of the options' letters is among the {self.top} most likely first tokens")
        normalised = [[p / mass for p in row] for row, mass in zip(rows, masses, strict=True)]
        scored = mean_over_orders(question, normalised, masses, used)
        scored.numbers["log_likelihood"] = [
            math.fsum(map(math.log, ps)) / len(ps) if min(ps) > 0 else None for ps in zip(*rows, strict=True)
        ]
        return Scored(scored.text, {**scored.numbers, "unlisted_max": max(map(_unlisted_max, listed))}, used)


def _read_yes_no(tokens: Mapping[str, float], used: int) -> Scored:
    """Sum over every listed spelling of Yes and of No (the rule of `yes_no.RULE`)."""
    yes, no = (
        math.fsum(math.exp(logprob) for token, logprob in tokens.items() if token.strip(BLANKS).casefold() == word)
        for word in ("yes", "no")
    )
    if yes + no <= 0:
        raise RefusedError(f"neither Yes nor No is among the {len(tokens)} most likely first tokens")
    first = {word: math.exp(tokens[word]) if word in tokens else None for word in ("Yes", "No")}
    numbers = {
        "p_yes": yes,
        "p_no": no,
        "p_yes_first_token": first["Yes"],
        "p_no_first_token": first["No"],
        "p_yes_norm": yes / (yes + no),
        "mass": min(1.0, yes + no),
        "logit_difference": math.log(yes) - math.log(no) if yes > 0 and no > 0 else None,
        "unlisted_max": _unlisted_max(tokens),
    }
    return Scored("Yes" if yes >= no else "No", numbers, used)


def _lettered(question: Question, order: Sequence[int]) -> str:
    """Return the question with its options listed by letters."""
    lines = "\n".join(f"{string.ascii_uppercase[i]}. {question.choices[place]}" for i, place in enumerate(order))
    listed = question.text.replace(OPTIONS, lines) if OPTIONS in question.text else f"{question.text}\n{lines}"
    return f"{listed}\n{_ANSWER_LETTER}"


def _p_letters(tokens: Mapping[str, float], order: Sequence[int]) -> list[float]:
    """Return the probability of each option, in the order of `question.choices`; 0 for a letter that is not listed."""
    row = [0.0] * len(order)
    for letter, place in zip(string.ascii_uppercase, order, strict=False):
        row[place] = math.fsum(math.exp(logprob) for token, logprob in tokens.items() if token.strip(BLANKS) == letter)
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
    found: dict[str, float] = {}
    for one in top:
        token, logprob = (one.get("token"), one.get("logprob")) if isinstance(one, dict) else (None, None)
        if not isinstance(token, str) or not isinstance(logprob, (int, float)) or not logprob <= 1e-6:
            raise RefusedError("the server's top_logprobs cannot be read")
        shared = math.exp(found[token]) if token in found else 0.0  # several tokens may have the same text
        found[token] = math.log(shared + math.exp(max(logprob, -700.0)))
    return found


def _unlisted_max(tokens: Mapping[str, float]) -> float:
    """Return the largest probability of a token that is not listed: that of the last listed one, or the remainder."""
    listed = [math.exp(logprob) for logprob in tokens.values()]
    return max(0.0, min(min(listed), 1 - math.fsum(listed)))
