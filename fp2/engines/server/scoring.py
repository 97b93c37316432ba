"""How a server is asked for probabilities: the interface of a scoring method, and the two methods there are.

A scoring method turns a question into requests, and their replies into the numbers of an `Answer`. Each has its own
name in the response key; a number that a server does not give is null.

`TopLogprobs` reads the most likely first tokens of a chat completion as Yes and No, or as the letters of options. Only
the listed tokens are seen: `unlisted_max` is the largest probability that another token can have. Form of
`top_logprobs`: OpenAI's API reference, "Create chat completion".

`TypedDecisions`: a server writes its own prompt and returns a probability for every allowed answer. The probabilities
are normalised over the labels, so only `p_yes_norm` (or `p`) is known, and the `mass` where it is reported. Sources of
the forms: `/systemone` with `assets`: transformers 5.23 (`cli/serving/systemone.py`); with `images`, and `/decisions`
with named options: SGLang (`entrypoints/systemone/protocol.py`, `serving_decisions.py`); with `urls`: vLLM 0.32
(`entrypoints/generate/structured_decisions/protocol.py`); `/decisions` with input parts: OpenAI's API reference,
"Create a decision".
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from fp2.engines.base import BLANKS, NEVER, SOMETIMES, option_orders, yes_no_numbers
from fp2.engines.server.chat import DATA_URL, PATH, Shown, first_choice, messages
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

    def requests(self, model: str, question: Question, image: Shown, orders: ChoiceOrders) -> list[Body]:
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

    def suffice(self, replies: Sequence[Reply]) -> bool:
        """Return False: every request is needed."""
        return False

    def read(self, replies: Sequence[Reply], question: Question, orders: ChoiceOrders) -> Probabilities:
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


def _answer(reply: Reply, name: str, index: int) -> Mapping[str, object]:
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


def _mass(reply: Reply, name: str, index: int) -> float | None:
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
