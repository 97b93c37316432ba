"""Scoring by typed decisions: a server writes its own prompt and returns a probability for every allowed answer.

The probabilities are normalised over the labels, so only `p_yes_norm` (or `p`) is known, and the `mass` where it is
reported; the other numbers are null.

Sources of the forms: `/systemone` with `assets`: transformers 5.23 (`cli/serving/systemone.py`); with `images`, and
`/decisions` with named options: SGLang (`entrypoints/systemone/protocol.py`, `serving_decisions.py`); `/decisions` with
input parts: OpenAI's API reference, "Create a decision".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fp2.engines.base import NEVER, SOMETIMES, option_orders
from fp2.engines.server.chat import DATA_URL, token_count
from fp2.engines.server.client import RefusedError
from fp2.engines.server.scoring import Body, Reply, Scored, mean_over_orders
from fp2.tables import OPTIONS, ChoiceOrders, Question

# part of the prompt, so of the method: with another wording, raise its version
PLACEHOLDER = "[[picture-1]]"
NO_IMAGE, WITH_IMAGE = "No picture is shown.", "The picture is shown above."
_MOST_QUESTIONS = 64  # in one request


@dataclass(frozen=True)
class TypedDecisions:
    """`/systemone` or `/decisions`; `form` is how images and questions are written in the request."""

    name: Literal["systemone", "decisions"]
    form: Literal["assets", "images", "parts", "options"]

    @property
    def path(self) -> str:
        """The endpoint, below the base address."""
        return f"/{self.name}"

    @property
    def lacking(self) -> Mapping[str, str]:
        """Numbers of tokens, and of the mass, which only some servers report."""
        by_mass = dict.fromkeys(("p_yes", "p_no", "mass", "logit_difference"), SOMETIMES)
        return {**by_mass, "p_yes_first_token": NEVER, "p_no_first_token": NEVER}

    def identity(self) -> dict[str, Any]:
        """Return the name with its version, and the form of the request."""
        return {"name": f"{self.name}/1", "form": self.form}

    def requests(self, model: str, question: Question, image: str | None, orders: ChoiceOrders) -> list[Body]:
        """Return one request, or several if the options have more orders than one may ask."""
        shown = _orders(question, orders)
        asked = [(f"q{i}", self._question(question, order, f"q{i}")) for i, order in enumerate(shown)]
        head = {"model": model, **self._state(image)}
        parts = [asked[start : start + _MOST_QUESTIONS] for start in range(0, len(asked), _MOST_QUESTIONS)]
        if self.name == "systemone":
            return [{**head, "questions": dict(part)} for part in parts]
        return [{**head, "questions": [one for _, one in part]} for part in parts]

    def read(self, replies: Sequence[Reply], question: Question, orders: ChoiceOrders) -> Scored:
        """Read the probability of Yes, or of the options in every order."""
        shown = _orders(question, orders)
        used = sum(token_count(reply, "output_tokens") or 0 for reply in replies)
        answers = []
        for place in range(len(shown)):
            reply, within = replies[place // _MOST_QUESTIONS], place % _MOST_QUESTIONS
            answers.append((_answer(reply, f"q{place}", within), _mass(reply, f"q{place}", within)))
        if question.kind == "yes_no":
            answer, mass = answers[0]
            return _yes_no_renormalised(_p_true(answer), mass, used)
        rows = [_p_options(answer, question.choices) for answer, _ in answers]
        return mean_over_orders(question, rows, [mass for _, mass in answers], used)

    def _state(self, image: str | None) -> dict[str, Any]:
        """Return the part of a request that shows the image."""
        key = "state" if self.name == "systemone" else "input"
        if image is None:
            return {key: NO_IMAGE}
        if self.form == "assets":
            return {key: PLACEHOLDER, "assets": {PLACEHOLDER: {"type": "image", "format": "png", "data_base64": image}}}
        if self.form == "parts":
            content = [{"type": "input_image", "image_url": DATA_URL + image}]
            return {key: [{"role": "user", "content": content}]}
        return {key: WITH_IMAGE, "images": [{"url": DATA_URL + image}]}

    def _question(self, question: Question, order: Sequence[int], name: str) -> dict[str, Any]:
        """Return one typed question, with the options of a choice in this order."""
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


def _orders(question: Question, orders: ChoiceOrders) -> list[tuple[int, ...]]:
    """Return the orders in which a question is asked: one without options for a yes/no question."""
    return [()] if question.kind == "yes_no" else option_orders(len(question.choices), orders)


def _answer(reply: Reply, name: str, place: int) -> Mapping[str, Any]:
    """Return the answer to a question by its name, or by its place if answers have no names."""
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
    """Return the total probability of the labels, if the server reports it (vLLM beside the answers)."""
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
    raise RefusedError("the server's answer has no probability of Yes")


def _p_options(answer: Mapping[str, Any], choices: Sequence[str]) -> list[float]:
    """Return the probabilities of the options in the order of `choices`, normalised."""
    spread = answer.get("probabilities")
    if isinstance(spread, list):
        named = [one for one in spread if isinstance(one, dict) and isinstance(one.get("value"), str)]
        spread = {one["value"]: one.get("probability") for one in named}
    if not isinstance(spread, dict) or not set(choices) <= set(spread):
        raise RefusedError("the server's answer lacks the probability of an option")
    values = [_probability(spread[option]) for option in choices]
    if abs(math.fsum(values) - 1) > 0.02:
        raise RefusedError("the probabilities of the options do not sum to one")
    return [value / math.fsum(values) for value in values]


def _probability(value: Any, slack: float = 1e-6) -> float:
    number = float(value) if isinstance(value, (int, float)) else math.nan
    if not -slack <= number <= 1 + slack:  # NaN fails too
        raise RefusedError("the server returned a probability outside 0 to 1")
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
