"""The likeliest first tokens of a chat completion, read as Yes and No or as the letters of options.

Only the listed tokens are seen: `unlisted_max` is the most that one which is not listed may have. Form of
`top_logprobs`: OpenAI's API reference, "Create chat completion".
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fp2.engines.base import orders
from fp2.engines.hf.yes_no import BLANKS
from fp2.engines.server.chat import PATH, count_of, first_choice, messages
from fp2.engines.server.client import RefusedError
from fp2.engines.server.scoring import SOMETIMES, Body, Reply, Scored, averaged
from fp2.tables import OPTIONS, ChoiceOrders, Question

_ANSWER_LETTER = "Answer with the letter of one option only."


@dataclass(frozen=True)
class FirstTokens:
    """The `top` likeliest first tokens of a chat completion, with their log-probabilities."""

    top: int
    path: str = PATH

    @property
    def lacking(self) -> Mapping[str, str]:
        """What is null where a spelling is not listed; the sums are 0 there."""
        return dict.fromkeys(("p_yes_first_token", "p_no_first_token", "logit_difference"), SOMETIMES)

    def identity(self) -> dict[str, Any]:
        """Return the name with its version, and how many tokens are listed."""
        return {"name": "top_logprobs/2", "top": self.top}

    def bodies(self, model: str, question: Question, picture: str | None, how: ChoiceOrders) -> list[Body]:
        """Return one request, or one for every order of the options."""
        if question.kind == "yes_no":
            texts = [question.text]
        else:
            texts = [_lettered(question, order) for order in orders(len(question.choices), how)]
        rest = {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": self.top}
        return [{"model": model, "messages": messages(text, picture), **rest} for text in texts]

    def read(self, replies: Sequence[Reply], question: Question, how: ChoiceOrders) -> Scored:
        """Sum the listed tokens that say Yes and No, or the letters of the options."""
        used = sum(count_of(reply, "completion_tokens") or 0 for reply in replies)
        listed = [_listed(reply) for reply in replies]
        if question.kind == "yes_no":
            return _yes_no_listed(listed[0], used)
        rows = [
            _p_letters(tokens, order) for tokens, order in zip(listed, orders(len(question.choices), how), strict=True)
        ]
        masses = [math.fsum(row) for row in rows]
        if min(masses) <= 0:
            raise RefusedError(f"none of the options' letters is among the {self.top} likeliest first tokens")
        scored = averaged(question, [[p / m for p in row] for row, m in zip(rows, masses, strict=True)], masses, used)
        likelihoods = zip(*rows, strict=True)
        scored.numbers["log_likelihood"] = [
            math.fsum(map(math.log, ps)) / len(ps) if min(ps) > 0 else None for ps in likelihoods
        ]
        return Scored(scored.text, {**scored.numbers, "unlisted_max": max(map(_unlisted, listed))}, used)


def _yes_no_listed(tokens: Mapping[str, float], used: int) -> Scored:
    """Sum over every listed spelling of Yes and of No (the rule of `yes_no.RULE`)."""
    yes, no = (
        math.fsum(math.exp(logprob) for token, logprob in tokens.items() if token.strip(BLANKS).casefold() == word)
        for word in ("yes", "no")
    )
    if yes + no <= 0:
        raise RefusedError(f"neither Yes nor No is among the {len(tokens)} likeliest first tokens")
    first = {word: math.exp(tokens[word]) if word in tokens else None for word in ("Yes", "No")}
    numbers = {
        "p_yes": yes,
        "p_no": no,
        "p_yes_first_token": first["Yes"],
        "p_no_first_token": first["No"],
        "p_yes_norm": yes / (yes + no),
        "mass": min(1.0, yes + no),
        "logit_difference": math.log(yes) - math.log(no) if yes > 0 and no > 0 else None,
        "unlisted_max": _unlisted(tokens),
    }
    return Scored("Yes" if yes >= no else "No", numbers, used)


def _lettered(question: Question, order: Sequence[int]) -> str:
    """Return the question with its options listed behind letters."""
    lines = "\n".join(f"{string.ascii_uppercase[i]}. {question.choices[place]}" for i, place in enumerate(order))
    listed = question.text.replace(OPTIONS, lines) if OPTIONS in question.text else f"{question.text}\n{lines}"
    return f"{listed}\n{_ANSWER_LETTER}"


def _p_letters(tokens: Mapping[str, float], order: Sequence[int]) -> list[float]:
    """Return each option's probability, in the order of `question.choices`; 0 for a letter that is not listed."""
    row = [0.0] * len(order)
    for letter, place in zip(string.ascii_uppercase, order, strict=False):
        row[place] = math.fsum(math.exp(logprob) for token, logprob in tokens.items() if token.strip(BLANKS) == letter)
    return row


def _listed(reply: Reply) -> dict[str, float]:
    """Return the listed first tokens with their log-probabilities.

    Raises
    ------
    RefusedError
        If none came back: `transformers serve`, for one, takes no notice of the wish.
    """
    held = first_choice(reply).get("logprobs")
    content = held.get("content") if isinstance(held, dict) else None
    first = content[0] if isinstance(content, list) and content else None
    top = first.get("top_logprobs") if isinstance(first, dict) else None
    if not isinstance(top, list) or not top:
        raise RefusedError("the server gives no top_logprobs")
    found: dict[str, float] = {}
    for one in top:
        token, logprob = (one.get("token"), one.get("logprob")) if isinstance(one, dict) else (None, None)
        if not isinstance(token, str) or not isinstance(logprob, (int, float)) or not logprob <= 1e-6:
            raise RefusedError("the server's top_logprobs cannot be read")
        shared = math.exp(found[token]) if token in found else 0.0  # several tokens may read alike
        found[token] = math.log(shared + math.exp(max(logprob, -700.0)))
    return found


def _unlisted(tokens: Mapping[str, float]) -> float:
    """Return the most that a token which is not listed may have: no more than the least listed, or what is left."""
    listed = [math.exp(logprob) for logprob in tokens.values()]
    return max(0.0, min(min(listed), 1 - math.fsum(listed)))
