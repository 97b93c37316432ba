"""Whether an answer that is given again agrees with the stated one: a rule for other hardware, dtypes and batch sizes.

A probability agrees if it differs by no more than a tolerance. A text agrees if it is equal; or if, where the two
first differ, the model holds both continuations to be nearly as likely (a near-tie, which rounding decides), and the
rest of the stated text is as likely, per word, as the text given now. The tolerances follow from the dtypes of both
sides (docs/methods/audit.csv: the largest differences of honest pairs, which the tolerances exceed).

Answers that are sampled, and those of servers, cannot be judged one by one. The model is asked `REPEATS` times: if the
stated answer is the model's, it and the new ones are exchangeable, so that where one of them is less like the others
than any other is (the odd one out), it is the stated one with probability 1 / (REPEATS + 1), whatever the distribution
of the answers. Their number is tested by the binomial distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any

from fp2.methods.audit.leaves import DECIMALS


@dataclass(frozen=True)
class Tolerance:
    """What honest answers of one dtype differ by at most.

    Attributes
    ----------
    probability : float
        Absolute difference of a probability.
    tie : float
        Natural logarithm of the ratio of two continuations' likelihoods, where two texts first differ.
    rest : float
        By how much the stated text may be less likely than the text given now: natural logarithm, per word.
    found_texts, found_probabilities : float
        The probability that an answer differs which was exchanged with that about another image and is not equal to it:
        the least of the bundled model and one with random weights.
    """

    probability: float
    tie: float
    rest: float
    found_texts: float
    found_probabilities: float


TOLERANCES = {
    "float32": Tolerance(0.001, 0.01, 1.0, 0.95, 0.99),
    "float16": Tolerance(0.02, 0.25, 1.0, 0.9, 0.17),
    "bfloat16": Tolerance(0.05, 0.5, 1.0, 0.9, 0.17),
}
"""By dtype. Quantised weights, and models of unknown dtype (servers), have the tolerance of bfloat16."""
FOUND_SAMPLED = 0.49
"""The probability that a sampled answer which was exchanged is the odd one out."""
REPEATS = 4
"""How often the model is asked again where an answer cannot be judged by itself."""
SIMILAR = 0.5
"""Share of words in common (Ratcliff and Obershelp's ratio) from which texts that are not sampled count as alike."""
FALSE_ALARMS = 0.001
"""The probability that the stated answers of an honest run are the odd ones out so often that the audit says so."""


def tolerance_of(*models: dict[str, Any]) -> Tolerance:
    """Return the largest tolerance of some models, as results describe them (`dtype`, `quantisation`)."""
    names = ["bfloat16" if model.get("quantisation") else str(model.get("dtype")) for model in models]
    return max((TOLERANCES.get(name, TOLERANCES["bfloat16"]) for name in names), key=lambda each: each.tie)


def probabilities_agree(stated: Any, now: Any, tolerance: Tolerance) -> bool:
    """Return whether a probability, or each of several, is the stated one within the tolerance and the rounding."""
    pairs = [(stated, now)] if not isinstance(stated, list) else list(zip(stated, now, strict=False))
    if isinstance(stated, list) and (not isinstance(now, list) or len(stated) != len(now)):
        return False
    return all(abs(before - after) <= tolerance.probability + 10**-DECIMALS for before, after in pairs)


def found_if_exchanged(stated: Any, tolerance: Tolerance) -> float:
    """Return the probability that an answer of this kind differs if it was exchanged."""
    return tolerance.found_texts if isinstance(stated, str) else tolerance.found_probabilities


def first_difference(stated: str, now: str) -> tuple[str, str] | None:
    """Return both texts up to the first word that differs; None where one begins with the other."""
    words = stated.split(" "), now.split(" ")
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*words, strict=False)))
    for end in range(common + 1, max(map(len, words)) + 1):
        first, second = (" ".join(each[:end]) for each in words)
        if first and second and not (first.startswith(second) or second.startswith(first)):
            return first, second
    return None


@dataclass(frozen=True)
class Evidence:
    """What the model says of two texts.

    Attributes
    ----------
    tie : float
        By how much more likely one continuation is than the other where they first differ (absolute, natural
        logarithm); where one text ends there, by how much the likelihood of its next word exceeds one half.
    rest : float
        By how much the stated text is less likely than the other (natural logarithm, per word).
    """

    tie: float
    rest: float = 0.0


def texts_agree(evidence: Evidence, tolerance: Tolerance) -> bool:
    """Return whether two different texts agree."""
    return evidence.tie <= tolerance.tie and evidence.rest <= tolerance.rest


def _unlike(first: Any, second: Any, sampled: bool, tolerance: Tolerance) -> float:
    """Return how unlike two answers are: words that texts do not share in order, differences of probabilities.

    What other hardware can do is 0: to probabilities the tolerance, to texts that are not sampled half of the words.
    """
    if isinstance(first, str) and isinstance(second, str):
        unlike = 1 - SequenceMatcher(None, first.split(), second.split(), autojunk=False).ratio()
        return unlike if sampled or unlike > SIMILAR else 0.0
    if isinstance(first, str) or isinstance(second, str):
        return math.inf
    pairs = zip(*(each if isinstance(each, list) else [each] for each in (first, second)), strict=False)
    return math.fsum(abs(a - b) for a, b in pairs if abs(a - b) > tolerance.probability + 10**-DECIMALS)


def is_odd_one_out(stated: Any, again: Sequence[Any], sampled: bool, tolerance: Tolerance) -> bool | None:
    """Return whether the stated answer is less like the others than any other is; None where no answer is alone so."""
    answers = [stated, *again]
    totals = [math.fsum(_unlike(each, other, sampled, tolerance) for other in answers) for each in answers]
    furthest = max(totals)
    return None if totals.count(furthest) > 1 else totals[0] == furthest


@dataclass(frozen=True)
class OddOnes:
    """Of answers that cannot be judged one by one: in how many one is the odd one out, and in how many the stated."""

    cases: int
    stated: int

    @property
    def p_value(self) -> float:
        """The probability of as many stated ones, or more, if they are the model's answers."""
        from scipy.stats import binom

        return float(binom.sf(self.stated - 1, self.cases, 1 / (REPEATS + 1)))

    def __str__(self) -> str:
        return (
            f"of {REPEATS + 1} answers to a question the stated one is the odd one out in {self.stated} of "
            f"{self.cases} questions (by chance: in one of {REPEATS + 1}; p = {self.p_value:.2g})"
        )
