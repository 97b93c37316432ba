"""P(Yes) of a server that returns no probabilities: the share of Yes among answers that are sampled.

Each answer is drawn at temperature 1 with a seed of its own, so that the share estimates the probability that
`TopLogprobs` reads, with the standard error sqrt(p (1 - p) / k) for k answers. Reasoning before an answer is cut first:
the probability is then that after the reasoning, averaged over as many reasonings.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fp2.engines.base import NEVER, SOMETIMES, option_orders
from fp2.engines.server.chat import PATH, messages, read_completion, token_count
from fp2.engines.server.replies import RefusedError
from fp2.engines.server.scoring import Body, Probabilities, Reply, lettered, mean_over_orders
from fp2.hashing import digest
from fp2.tables import ChoiceOrders, Decoding, Question

_WORD = re.compile(r"\W*(\w+)")
_TOKENS = 16
"""Most tokens of an answer, of which the first word is read."""


@dataclass(frozen=True)
class SampledAnswers:
    """Shares among sampled answers.

    Attributes
    ----------
    samples : int
        Answers to a question, or to each order of its options.
    decoding : Decoding
        Whose seed and reasoning the answers have.
    """

    samples: int
    decoding: Decoding
    path: str = PATH

    @property
    def lacking(self) -> Mapping[str, str]:
        """Single spellings are never known; the difference of logits is null where every answer is the same."""
        never = dict.fromkeys(("p_yes_first_token", "p_no_first_token"), NEVER)
        return {**never, "logit_difference": SOMETIMES}

    def identity(self) -> dict[str, Any]:
        """Return the name with its version, the number of samples, and their seed."""
        return {"name": "sampled/1", "samples": self.samples, "seed": self.decoding.seed}

    def requests(self, model: str, question: Question, image: str | None, orders: ChoiceOrders) -> list[Body]:
        """Return `samples` requests, or as many for each order of the options."""
        texts = [question.text]
        if question.kind == "choice":
            texts = [lettered(question, order) for order in option_orders(len(question.choices), orders)]
        limit = _TOKENS + self.decoding.reasoning_budget
        return [
            {"model": model, "messages": messages(text, image), "max_tokens": limit, "temperature": 1.0, "top_p": 1.0,
             "seed": int(digest([self.decoding.seed, text, image or "", sample])[:7], 16)}
            for text in texts
            for sample in range(self.samples)
        ]  # fmt: skip

    def read(self, replies: Sequence[Reply], question: Question, orders: ChoiceOrders) -> Probabilities:
        """Return the shares; an answer that is neither is left out of `p_yes_norm` and `p`, and counts in the mass."""
        used = sum(token_count(reply, "completion_tokens") or 0 for reply in replies)
        said = [_first_word(reply, self.decoding) for reply in replies]
        if question.kind == "yes_no":
            return _yes_no(said, used)
        shown, rows, masses = option_orders(len(question.choices), orders), [], []
        for place, order in enumerate(shown):
            words = said[place * self.samples : (place + 1) * self.samples]
            counts = [0] * len(order)
            for letter, option in zip(string.ascii_lowercase, order, strict=False):
                counts[option] = sum(word in (letter, question.choices[option].casefold()) for word in words)
            if not sum(counts):
                raise RefusedError(f"none of {self.samples} sampled answers is one of the options")
            rows.append([count / sum(counts) for count in counts])
            masses.append(sum(counts) / self.samples)
        return mean_over_orders(question, rows, masses, used)


def _first_word(reply: Reply, decoding: Decoding) -> str | None:
    """Return the first word of an answer, in lower case; None where there is none, or the model was still reasoning."""
    try:
        answer = read_completion(reply, decoding).split.answer
    except RefusedError:
        return None
    word = _WORD.match(answer or "")
    return word.group(1).casefold() if word else None


def _yes_no(said: Sequence[str | None], used: int) -> Probabilities:
    yes, no = said.count("yes"), said.count("no")
    if not yes + no:
        raise RefusedError(f"none of {len(said)} sampled answers is Yes or No")
    numbers = {
        "p_yes": yes / len(said),
        "p_no": no / len(said),
        "p_yes_first_token": None,
        "p_no_first_token": None,
        "p_yes_norm": yes / (yes + no),
        "mass": (yes + no) / len(said),
        "logit_difference": math.log(yes) - math.log(no) if yes and no else None,
    }
    return Probabilities("Yes" if yes >= no else "No", numbers, used)
