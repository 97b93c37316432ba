"""The ways in which servers give probabilities: typed decisions, or the likeliest first tokens of a chat completion.

Each way turns a question into requests and their replies into the numbers of an `Answer`. They are different ways of
scoring: a server of typed decisions writes its own prompt and spreads the probability over its labels alone, so
`p_yes_norm` (or `p`) and the `mass`, where it is told, are all that is known, and the other numbers are null. Of first
tokens only the likeliest are seen; `unlisted_max` is the most that a token which is not listed may have.

Sources of the forms: `/v1/systemone` with `assets`: transformers 5.23 (`cli/serving/systemone.py`); with `images`, and
`/v1/decisions` with named options: SGLang (`entrypoints/systemone/protocol.py`, `serving_decisions.py`);
`/v1/decisions` with input parts: OpenAI's API reference, "Create a decision"; `top_logprobs`: the same, "Create chat
completion".
"""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from fp2.engines.base import OPTIONS, ChoiceOrders, Question
from fp2.engines.server_http import RefusedError
from fp2.engines.server_words import DATA_URL, PATH, count_of, first_choice, messages

SCORINGS = ("auto", "systemone", "decisions", "logprobs")
MARK = "[[picture-1]]"
NO_PICTURE, SOME_PICTURE = "No picture is shown.", "The picture is shown above."
_MOST_QUESTIONS = 64  # in one request of typed decisions
_ANSWER_LETTER = "Answer with the letter of one option only."
_BLANKS = "\u0120\u2581\u010a "

Orders = Sequence[Sequence[int]]
Body = dict[str, Any]
Reply = Mapping[str, Any]


@dataclass(frozen=True)
class Scored:
    """What was read for one question: see `Answer`."""

    text: str
    numbers: dict[str, Any]
    tokens: int = 0


class Way(Protocol):
    """A way of getting probabilities from a server."""

    @property
    def path(self) -> str:
        """The endpoint, below the base address."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return the name with its version, and whatever else can change a number."""
        ...

    def bodies(self, model: str, question: Question, picture: str | None, how: ChoiceOrders) -> list[Body]:
        """Return the requests to send, for a picture (base64 of a PNG; None shows none)."""
        ...

    def read(self, replies: Sequence[Reply], question: Question, how: ChoiceOrders) -> Scored:
        """Return the numbers; `replies` are in the order of `bodies`. Raises `RefusedError` for what cannot be read."""
        ...


def orders_of(question: Question, how: ChoiceOrders) -> list[tuple[int, ...]]:
    """Return the orders in which the options are listed: a server lists them always, whatever the question says."""
    places = tuple(range(len(question.choices)))
    if how == "given":
        return [places]
    if how == "all":
        return list(itertools.permutations(places))
    return [(*places[start:], *places[:start]) for start in places]


@dataclass(frozen=True)
class TypedDecisions:
    """`/systemone` or `/decisions`; `form` is how pictures and questions are written into the request."""

    name: Literal["systemone", "decisions"]
    form: Literal["assets", "images", "parts", "options"]

    @property
    def path(self) -> str:
        """The endpoint, below the base address."""
        return f"/{self.name}"

    def identity(self) -> dict[str, Any]:
        """Return the name with its version, and the form of the request."""
        return {"name": f"{self.name}/1", "form": self.form}

    def bodies(self, model: str, question: Question, picture: str | None, how: ChoiceOrders) -> list[Body]:
        """Return one request, or several if the options have more orders than fit into one."""
        shown = [()] if question.kind == "yes_no" else orders_of(question, how)
        asked = [(f"q{i}", self._question(question, order, f"q{i}")) for i, order in enumerate(shown)]
        head = {"model": model, **self._state(picture)}
        parts = [asked[start : start + _MOST_QUESTIONS] for start in range(0, len(asked), _MOST_QUESTIONS)]
        if self.name == "systemone":
            return [{**head, "questions": dict(part)} for part in parts]
        return [{**head, "questions": [one for _, one in part]} for part in parts]

    def read(self, replies: Sequence[Reply], question: Question, how: ChoiceOrders) -> Scored:
        """Read the probability of Yes, or of the options in every order."""
        shown = [()] if question.kind == "yes_no" else orders_of(question, how)
        used = sum(count_of(reply, "output_tokens") or 0 for reply in replies)
        answers = []
        for place in range(len(shown)):
            reply, within = replies[place // _MOST_QUESTIONS], place % _MOST_QUESTIONS
            answers.append((_answer(reply, f"q{place}", within), _mass(reply, f"q{place}", within)))
        if question.kind == "yes_no":
            answer, mass = answers[0]
            return _yes_no_renormalised(_p_true(answer), mass, used)
        rows = [_p_options(answer, question.choices) for answer, _ in answers]
        return _choice(question, rows, [mass for _, mass in answers], used)

    def _state(self, picture: str | None) -> dict[str, Any]:
        """Return the part of a request that shows the picture."""
        if picture is None:
            return {"state" if self.name == "systemone" else "input": NO_PICTURE}
        if self.form == "assets":
            return {"state": MARK, "assets": {MARK: {"type": "image", "format": "png", "data_base64": picture}}}
        if self.form == "parts":
            content = [{"type": "input_image", "image_url": DATA_URL + picture}]
            return {"input": [{"role": "user", "content": content}]}
        key = "state" if self.name == "systemone" else "input"
        return {key: SOME_PICTURE, "images": [{"url": DATA_URL + picture}]}

    def _question(self, question: Question, order: Sequence[int], name: str) -> dict[str, Any]:
        """Return one typed question; the options of a choice in this order."""
        text = question.text.replace(OPTIONS, "").strip()
        options = [question.choices[place] for place in order]
        kind: dict[str, Any]
        if self.name == "systemone":
            kind = {"type": "choice", "criteria": dict.fromkeys(options)} if options else {"type": "noul"}
            return {**kind, "instructions": text}
        if self.form == "options":
            kind = {"type": "choice", "options": [{"name": o} for o in options]} if options else {"type": "yes_no"}
            return {"id": name, "question": text, **kind}
        kind = {"type": "choice", "choices": [{"value": o} for o in options]} if options else {"type": "predicate"}
        return {"name": name, "instructions": text, **kind}


@dataclass(frozen=True)
class FirstTokens:
    """The `top` likeliest first tokens of a chat completion, with their log-probabilities."""

    top: int
    path: str = PATH

    def identity(self) -> dict[str, Any]:
        """Return the name with its version, and how many tokens are listed."""
        return {"name": "top_logprobs/1", "top": self.top}

    def bodies(self, model: str, question: Question, picture: str | None, how: ChoiceOrders) -> list[Body]:
        """Return one request, or one for every order of the options."""
        if question.kind == "yes_no":
            texts = [question.text]
        else:
            texts = [_lettered(question, order) for order in orders_of(question, how)]
        rest = {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": self.top}
        return [{"model": model, "messages": messages(text, picture), **rest} for text in texts]

    def read(self, replies: Sequence[Reply], question: Question, how: ChoiceOrders) -> Scored:
        """Sum the listed tokens that say Yes and No, or the letters of the options."""
        used = sum(count_of(reply, "completion_tokens") or 0 for reply in replies)
        listed = [_listed(reply) for reply in replies]
        if question.kind == "yes_no":
            return _yes_no_listed(listed[0], used)
        rows = [_p_letters(tokens, order) for tokens, order in zip(listed, orders_of(question, how), strict=True)]
        masses = [math.fsum(row) for row in rows]
        if min(masses) <= 0:
            raise RefusedError(f"none of the options' letters is among the {self.top} likeliest first tokens")
        scored = _choice(question, [[p / m for p in row] for row, m in zip(rows, masses, strict=True)], masses, used)
        likelihoods = zip(*rows, strict=True)
        scored.numbers["log_likelihood"] = [
            math.fsum(map(math.log, ps)) / len(ps) if min(ps) > 0 else None for ps in likelihoods
        ]
        return Scored(scored.text, {**scored.numbers, "unlisted_max": max(map(_unlisted, listed))}, used)


def ways(scoring: str) -> list[Way]:
    """Return the ways to try, the best first: all of them (`auto`), or those of one name."""
    known: dict[str, list[Way]] = {
        "systemone": [TypedDecisions("systemone", "assets"), TypedDecisions("systemone", "images")],
        "decisions": [TypedDecisions("decisions", "parts"), TypedDecisions("decisions", "options")],
        "logprobs": [FirstTokens(20), FirstTokens(5)],
    }
    return [way for name, some in known.items() if scoring in ("auto", name) for way in some]


def _answer(reply: Reply, name: str, place: int) -> Mapping[str, Any]:
    """Return the answer to a question by its name, or by its place where names are not told."""
    answers = reply.get("answers")
    found: Any = None
    if isinstance(answers, dict):
        found = answers.get(name)
    elif isinstance(answers, list):
        named = [one for one in answers if isinstance(one, dict) and one.get("name") == name]
        found = named[0] if named else answers[place] if place < len(answers) else None
    if not isinstance(found, dict):
        raise RefusedError("the server's reply lacks the answer")
    if found.get("type") == "refusal":
        raise RefusedError("the model declined to answer")
    return found


def _mass(reply: Reply, name: str, place: int) -> float | None:
    """Return the probability of all labels together, where the server tells it (vLLM beside the answers)."""
    answer = _answer(reply, name, place)
    beside = reply.get("diagnostics")
    more = beside.get(name) if isinstance(beside, dict) else None
    for source in (answer, more if isinstance(more, dict) else {}):
        for key in ("label_mass", "x_label_mass"):
            if isinstance(source.get(key), (int, float)):
                return min(1.0, _probability(source[key], slack=1e-3))
    return None


def _p_true(answer: Mapping[str, Any]) -> float:
    for key in ("noul", "probability"):
        if key in answer:
            return _probability(answer[key])
    spread = answer.get("probabilities")
    if isinstance(spread, dict) and {"yes", "no"} <= set(spread):
        return _probability(spread["yes"])
    raise RefusedError("the server's answer holds no probability of Yes")


def _p_options(answer: Mapping[str, Any], choices: Sequence[str]) -> list[float]:
    """Return the options' probabilities in the order of `choices`, summing to one."""
    spread = answer.get("probabilities")
    if isinstance(spread, list):
        spread = {one.get("value"): one.get("probability") for one in spread if isinstance(one, dict)}
    if not isinstance(spread, dict) or not set(choices) <= set(spread):
        raise RefusedError("the server's answer lacks the probability of an option")
    values = [_probability(spread[option]) for option in choices]
    if abs(math.fsum(values) - 1) > 0.02:
        raise RefusedError("the probabilities of the options do not sum to one")
    return [value / math.fsum(values) for value in values]


def _probability(value: Any, slack: float = 1e-6) -> float:
    number = float(value) if isinstance(value, (int, float)) else math.nan
    if not -slack <= number <= 1 + slack:  # NaN fails too
        raise RefusedError("what the server calls a probability is none")
    return min(1.0, max(0.0, number)) if slack <= 1e-6 else max(0.0, number)


def _yes_no_renormalised(p: float, mass: float | None, used: int) -> Scored:
    numbers = {
        "p_yes": None if mass is None else p * mass,
        "p_no": None if mass is None else (1 - p) * mass,
        "p_yes_first_token": None,
        "p_no_first_token": None,
        "p_yes_norm": p,
        "mass": mass,
        "logit_difference": math.log(p) - math.log1p(-p) if 0 < p < 1 else None,
    }
    return Scored("Yes" if p >= 0.5 else "No", numbers, used)


def _yes_no_listed(tokens: Mapping[str, float], used: int) -> Scored:
    """Sum over every listed spelling of Yes and of No (the rule of `yes_no.RULE`)."""
    yes, no = (
        math.fsum(math.exp(logprob) for token, logprob in tokens.items() if token.strip(_BLANKS).casefold() == word)
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


def _choice(question: Question, rows: Sequence[Sequence[float]], masses: Sequence[float | None], used: int) -> Scored:
    """Average over the orders; `rows` (orders, options) are in the order of `question.choices` and sum to one."""
    p = np.array(rows, dtype=np.float64)
    known = [mass for mass in masses if mass is not None]
    mean = p.mean(axis=0)
    numbers = {
        "p": mean.tolist(),
        "log_likelihood": None,
        "mass": math.fsum(known) / len(known) if len(known) == len(masses) else None,
        "order_range": float((p.max(axis=0) - p.min(axis=0)).max()),
    }
    return Scored(question.choices[int(mean.argmax())], numbers, used)


def _lettered(question: Question, order: Sequence[int]) -> str:
    """Return the question with its options listed behind letters."""
    lines = "\n".join(f"{string.ascii_uppercase[i]}. {question.choices[place]}" for i, place in enumerate(order))
    listed = question.text.replace(OPTIONS, lines) if OPTIONS in question.text else f"{question.text}\n{lines}"
    return f"{listed}\n{_ANSWER_LETTER}"


def _p_letters(tokens: Mapping[str, float], order: Sequence[int]) -> list[float]:
    """Return each option's probability, in the order of `question.choices`; 0 for a letter that is not listed."""
    row = [0.0] * len(order)
    for letter, place in zip(string.ascii_uppercase, order, strict=False):
        row[place] = math.fsum(math.exp(logprob) for token, logprob in tokens.items() if token.strip(_BLANKS) == letter)
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
    top = content[0].get("top_logprobs") if isinstance(content, list) and content else None
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
