"""P(Yes) of a server that returns no probabilities: the share of Yes among answers that are sampled.

Each answer is drawn at temperature 1 with a seed of its own, so that the share p of k answers estimates the probability
that `TopLogprobs` reads, with the standard error sqrt(p (1 - p) / (k - 1)). Reasoning before an answer is cut first:
the probability is then that after the reasoning, averaged over as many reasonings.

With a stated precision e, k follows from the answers: N = .25 / e^2 are the most, the first k_1 decide how many more
are sampled, and the estimate is w p_1 + (1 - w) p_2 with w = k_1 / N. The weight is the same whatever the first answers
are, so that the estimate has no bias (a share of all answers would have one: the first decide when it ends), and
w^2 p_1 (1 - p_1) / (k_1 - 1) + (1 - w)^2 p_2 (1 - p_2) / (k_2 - 1) is an unbiased estimate of its variance.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fp2.extension import (
    NEVER,
    PATH,
    SOMETIMES,
    STANDARD_ERROR,
    ChoiceOrders,
    Decoding,
    Probabilities,
    Question,
    RefusedError,
    Shown,
    digest,
    lettered,
    mean_over_orders,
    messages,
    option_orders,
    read_completion,
    standard_error,
    token_count,
    yes_no_numbers,
)

_WORD = re.compile(r"\W*(\w+)")
_LETTER = re.compile(r"\W*([A-Z])(?:[.):*]|\s*$)")
_SECOND = 2
"""Fewest answers after the first ones, whose spread says how precise they are."""
_TOKENS = 16
"""Most tokens of an answer, of which the beginning is read."""
_ANY_LENGTH = Decoding(max_new_tokens=1 << 20)


@dataclass(frozen=True)
class SampledAnswers:
    """Shares among sampled answers.

    Attributes
    ----------
    samples : int
        Answers to a question, or to each order of its options; with `precision`, those that decide how many follow.
    decoding : Decoding
        Whose seed and reasoning the answers have.
    precision : float, optional
        Standard error that the share of Yes is to have.
    """

    samples: int
    decoding: Decoding
    precision: float | None = None
    path: str = PATH

    @property
    def most(self) -> int:
        """The most answers to a question, or to each order of its options."""
        if self.precision is None:
            return self.samples
        return max(math.ceil(0.25 / self.precision**2 - 1e-9), self.samples + _SECOND)

    @property
    def lacking(self) -> Mapping[str, str]:
        """Single spellings are never known; the difference of logits is null where every answer is the same."""
        never = dict.fromkeys(("p_yes_first_token", "p_no_first_token"), NEVER)
        return {**never, "logit_difference": SOMETIMES}

    def identity(self) -> dict[str, object]:
        """Return the name with its version, the number of samples, and their seed."""
        stages = {} if self.precision is None else {"first": self.samples, "precision": self.precision}
        return {"name": "sampled/1", "samples": self.most, "seed": self.decoding.seed, **stages}

    def requests(self, model: str, question: Question, image: Shown, orders: ChoiceOrders) -> list[dict[str, object]]:
        """Return the `most` requests, or as many for each order of the options."""
        texts = [question.text]
        if question.kind == "choice":
            texts = [lettered(question, order) for order in option_orders(question, orders)]
        limit = _TOKENS + self.decoding.reasoning_budget
        return [
            {
                "model": model,
                "messages": messages(text, image),
                "max_tokens": limit,
                "temperature": 1.0,
                "top_p": 1.0,
                "seed": int(digest([self.decoding.seed, text, image or "", sample])[:7], 16),
            }
            for text in texts
            for sample in range(self.most)
        ]

    def suffice(self, replies: Sequence[Mapping[str, object]]) -> bool:
        """Whether the share of Yes has the precision."""
        if self.precision is None or len(replies) < self.samples:
            return False
        yes = _first_words(replies[: self.samples]).count("yes")
        following = n_following(yes, self.samples, self.most, self.precision)
        return len(replies) >= self.samples + max(following, _SECOND)

    def read(self, replies: Sequence[Mapping[str, object]], question: Question, orders: ChoiceOrders) -> Probabilities:
        """Return the shares among the answers that did not fail.

        An answer that is neither Yes nor No, or none of the options, counts in the mass only.
        """
        n_tokens = sum(token_count(reply, "completion_tokens") or 0 for reply in replies)
        if question.kind == "yes_no":
            stages = [replies] if self.precision is None else [replies[: self.samples], replies[self.samples :]]
            words_of = [_first_words(stage) for stage in stages]
            first_weight = self.samples / self.most
            if not all(words_of):
                raise RefusedError("all sampled answers failed, or the model was still reasoning")
            weights = (first_weight, 1 - first_weight)[: len(words_of)]
            yes, no = (
                math.fsum(
                    weight * words.count(word) / len(words) for weight, words in zip(weights, words_of, strict=True)
                )
                for word in ("yes", "no")
            )
            if not yes + no:
                raise RefusedError(f"none of {sum(map(len, words_of))} sampled answers is Yes or No")
            errors = [
                weight * error
                for weight, words in zip(weights, words_of, strict=True)
                if (error := standard_error([float(word == "yes") for word in words])) is not None
            ]
            error = math.hypot(*errors) if len(errors) == len(words_of) else None
            numbers = yes_no_numbers(yes, no) | {STANDARD_ERROR: error}
            return Probabilities("Yes" if yes >= no else "No", numbers, n_tokens)
        answers = [_answer(reply) for reply in replies]
        option_sets, rows, masses = option_orders(question, orders), [], []
        for index, order in enumerate(option_sets):
            given = answers[index * self.samples : (index + 1) * self.samples]
            texts = [text for text in given if text is not None]
            if not texts:
                raise RefusedError(f"all of {len(given)} sampled answers failed, or the model was still reasoning")
            chosen = [_option(text, question, order) for text in texts]
            counts = [chosen.count(option) for option in range(len(order))]
            if not sum(counts):
                raise RefusedError(f"none of {len(texts)} sampled answers is one of the options")
            rows.append([count / sum(counts) for count in counts])
            masses.append(sum(counts) / len(texts))
        return mean_over_orders(question, rows, masses, n_tokens)


def n_following(yes: int, first: int, most: int, precision: float) -> float:
    """Return how many answers are to follow the `first`, of which `yes` are Yes, for a standard error of `precision`.

    The variance of an answer is p (1 - p) with p = (yes + 1) / (first + 2), Laplace's rule of succession.
    """
    p, weight = (yes + 1) / (first + 2), first / most
    variance = p * (1 - p)
    return (1 - weight) ** 2 * variance / (precision**2 - weight**2 * variance / first)


def _answer(reply: Mapping[str, object]) -> str | None:
    """Return the text of an answer; None of one that failed, or that the model was still reasoning about."""
    try:
        return read_completion(reply, _ANY_LENGTH).split.answer
    except RefusedError:
        return None


def _option(text: str, question: Question, order: Sequence[int]) -> int | None:
    """Return which option an answer is: it begins with its letter, marked as one, or with its words."""
    if letter := _LETTER.match(text):
        index = string.ascii_uppercase.index(letter.group(1))
        return order[index] if index < len(order) else None
    lowered = text.strip().casefold()
    begun = [option for option in order if lowered.startswith(question.choices[option].casefold())]
    return max(begun, key=lambda option: len(question.choices[option]), default=None)


def _first_words(replies: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the first word of each answer that did not fail, in lower case."""
    texts = [text for reply in replies if (text := _answer(reply)) is not None]
    return [word.group(1).casefold() if (word := _WORD.match(text)) else "" for text in texts]
