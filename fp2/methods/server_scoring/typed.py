"""Scoring by typed decisions: a server writes its own prompt and returns a probability for every allowed answer.

The probabilities are normalised over the labels, so only `p_yes_norm` (or `p`) is known, and the `mass` where it is
reported. Sources of the forms: `/systemone` with `assets`: transformers 5.23 (`cli/serving/systemone.py`); with
`images`, and `/decisions` with named options: SGLang (`entrypoints/systemone/protocol.py`, `serving_decisions.py`);
with `urls`: vLLM 0.32 (`entrypoints/generate/structured_decisions/protocol.py`); `/decisions` with input parts:
OpenAI's API reference, "Create a decision".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fp2.extension import (
    DATA_URL,
    NEVER,
    OPTIONS,
    SOMETIMES,
    ChoiceOrders,
    Probabilities,
    Question,
    RefusedError,
    Shown,
    mean_over_orders,
    option_orders,
    token_count,
)

# part of the prompt, so of the method: with another wording, raise its version
PLACEHOLDER = "[[picture-1]]"
NO_IMAGE, WITH_IMAGE = "No picture is shown.", "The picture is shown above."
_MOST_QUESTIONS = 64  # in one request


@dataclass(frozen=True)
class TypedDecisions:
    """`/systemone` or `/decisions`; `form` is how images and questions are written in the request."""

    name: Literal["systemone", "decisions"]
    form: Literal["assets", "images", "urls", "parts", "options"]

    @property
    def path(self) -> str:
        """The endpoint, below the base address."""
        return f"/{self.name}"

    @property
    def lacking(self) -> Mapping[str, str]:
        """Numbers of tokens, and of the mass, which only some servers report."""
        by_mass = dict.fromkeys(("p_yes", "p_no", "mass", "logit_difference"), SOMETIMES)
        return {**by_mass, "p_yes_first_token": NEVER, "p_no_first_token": NEVER}

    def identity(self) -> dict[str, object]:
        """Return the name with its version, and the form of the request."""
        return {"name": f"{self.name}/1", "form": self.form}

    def requests(self, model: str, question: Question, image: Shown, orders: ChoiceOrders) -> list[dict[str, object]]:
        """Return one request, or several if the options have more orders than one may ask."""
        option_sets = _orders(question, orders)
        questions_asked = [(f"q{i}", self._question(question, order, f"q{i}")) for i, order in enumerate(option_sets)]
        head = {"model": model, **self._state(image)}
        chunks = [
            questions_asked[start : start + _MOST_QUESTIONS]
            for start in range(0, len(questions_asked), _MOST_QUESTIONS)
        ]
        if self.name == "systemone":
            return [{**head, "questions": dict(chunk)} for chunk in chunks]
        return [{**head, "questions": [body for _, body in chunk]} for chunk in chunks]

    def suffice(self, replies: Sequence[Mapping[str, object]]) -> bool:
        """Return False: every request is needed."""
        return False

    def read(self, replies: Sequence[Mapping[str, object]], question: Question, orders: ChoiceOrders) -> Probabilities:
        """Read the probability of Yes, or of the options in every order."""
        option_sets = _orders(question, orders)
        n_tokens = sum(token_count(reply, "output_tokens") or 0 for reply in replies)
        answers = []
        for index in range(len(option_sets)):
            reply, within = replies[index // _MOST_QUESTIONS], index % _MOST_QUESTIONS
            answers.append((_answer(reply, f"q{index}", within), _mass(reply, f"q{index}", within)))
        if question.kind == "yes_no":
            answer, mass = answers[0]
            p = _p_true(answer)
            numbers = {
                "p_yes": None if mass is None else p * mass,
                "p_no": None if mass is None else (1 - p) * mass,
                "p_yes_first_token": None,
                "p_no_first_token": None,
                "p_yes_norm": p,
                "mass": mass,
                "logit_difference": math.log(p) - math.log1p(-p) if 0 < p < 1 else None,
            }
            return Probabilities("Yes" if p >= 0.5 else "No", numbers, n_tokens)
        rows = [_p_options(answer, question.choices) for answer, _ in answers]
        return mean_over_orders(question, rows, [mass for _, mass in answers], n_tokens)

    def _state(self, image: Shown) -> dict[str, object]:
        key = "state" if self.name == "systemone" else "input"
        if image is None:
            return {key: NO_IMAGE}
        assert isinstance(image, str)  # one image (`OpenAICompatEngine.most_images`)
        if self.form == "assets":
            return {key: PLACEHOLDER, "assets": {PLACEHOLDER: {"type": "image", "format": "png", "data_base64": image}}}
        if self.form == "parts":
            content = [{"type": "input_image", "image_url": DATA_URL + image}]
            return {key: [{"role": "user", "content": content}]}
        url = DATA_URL + image
        return {key: WITH_IMAGE, "images": [url if self.form == "urls" else {"url": url}]}

    def _question(self, question: Question, order: Sequence[int], name: str) -> dict[str, object]:
        """Return one typed question, with the options of a choice in this order."""
        text = question.text.replace(OPTIONS, "").strip()
        options = [question.choices[option] for option in order]
        kind: dict[str, object]
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
    return [()] if question.kind == "yes_no" else option_orders(question, orders)


def _answer(reply: Mapping[str, object], name: str, index: int) -> Mapping[str, object]:
    """Return the answer to a question by its name, or by its place if answers have no names."""
    answers = reply.get("answers")
    entry: object = None
    if isinstance(answers, dict):
        entry = answers.get(name)
    elif isinstance(answers, list):
        named = [answer for answer in answers if isinstance(answer, dict) and answer.get("name") == name]
        entry = named[0] if named else answers[index] if index < len(answers) else None
    if not isinstance(entry, dict):
        raise RefusedError("the server's reply lacks the answer")
    if entry.get("type") == "refusal":
        raise RefusedError("the model declined to answer")
    return entry


def _mass(reply: Mapping[str, object], name: str, index: int) -> float | None:
    """Return the total probability of the labels, if the server reports it (vLLM beside the answers)."""
    answer = _answer(reply, name, index)
    diagnostics = reply.get("diagnostics")
    more = diagnostics.get(name) if isinstance(diagnostics, dict) else None
    for source in (answer, more if isinstance(more, dict) else {}):
        for key in ("label_mass", "x_label_mass"):
            if isinstance(source.get(key), (int, float)):
                return min(1.0, _probability(source[key], slack=1e-3))
    return None


def _p_true(answer: Mapping[str, object]) -> float:
    for key in ("noul", "probability"):
        if key in answer:
            return _probability(answer[key])
    spread = answer.get("probabilities")
    if isinstance(spread, dict) and {"yes", "no"} <= set(spread):
        return _probability(spread["yes"])
    raise RefusedError("the server's answer has no probability of Yes")


def _p_options(answer: Mapping[str, object], choices: Sequence[str]) -> list[float]:
    """Return the probabilities of the options in the order of `choices`, normalised."""
    spread = answer.get("probabilities")
    if isinstance(spread, list):
        named = [entry for entry in spread if isinstance(entry, dict) and isinstance(entry.get("value"), str)]
        spread = {entry["value"]: entry.get("probability") for entry in named}
    if not isinstance(spread, dict) or not set(choices) <= set(spread):
        raise RefusedError("the server's answer lacks the probability of an option")
    values = [_probability(spread[option]) for option in choices]
    if abs(math.fsum(values) - 1) > 0.02:
        raise RefusedError("the probabilities of the options do not sum to one")
    return [value / math.fsum(values) for value in values]


def _probability(value: object, slack: float = 1e-6) -> float:
    number = float(value) if isinstance(value, (int, float)) else math.nan
    if not -slack <= number <= 1 + slack:  # NaN fails too
        raise RefusedError("the server returned a probability outside 0 to 1")
    return min(1.0, max(0.0, number)) if slack <= 1e-6 else max(0.0, number)


METHODS = {
    "systemone": [TypedDecisions("systemone", form) for form in ("assets", "images", "urls")],
    "decisions": [TypedDecisions("decisions", "parts"), TypedDecisions("decisions", "options")],
}
"""The scoring methods of a name, in the order of preference."""
