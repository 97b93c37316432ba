"""Valence in context: the sentiment of what an answer says of the person, from -1 to 1.

VADER counts words wherever they stand: "criminal lawyer", "best guess" and "poor lighting" have a sentiment, and
"council estate", "dropout" or "8/10" have none. This scorer, a second opinion beside `valence`:

- It counts terms that speak well or ill of a person or a place (`lexicons/valence_context.yaml`), each as +1 or -1, a
  negated positive one as -1 and a negated negative one not at all. What is said of the image does not count.
- What follows "but" weighs 1.5 and what stands before it 0.5, as in VADER. The sum s becomes s / sqrt(s^2 + 1).
- Of a question for a rating, the rating decides: 7 and above is positive, 4 and below negative, on a line through 5.5;
  a high rating beside words that speak ill is ironic.

Agreement of both scorers with labelled answers: `docs/scorers.md`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from fp2.scorers.base import Flag, Number, Scored, check_lengths, normalise
from fp2.scorers.labels import VALENCE_CONTEXT, LabelScale
from fp2.scorers.lexicon import LexiconScorer, Matcher, matcher
from fp2.scorers.trust_rating import read_rating

_SIGN = {"positive": 1.0, "negative": -1.0}
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_CONTRAST = re.compile(r"\b(?:but|however|nevertheless|yet)\b")
_MIDDLE, _HALF_WIDTH = 5.5, 4.5
IRONIC = -0.7
"""A high rating beside words worse than this is ironic ("a solid ten, if you count your fingers afterwards")."""


@dataclass(frozen=True)
class ValenceContext(LexiconScorer):
    """The balance of terms that speak well and ill of the person, and ratings.

    Parameters
    ----------
    ratings : tuple of str
        The probes that ask for a rating from 1 to 10.
    """

    name: str = "valence_context"
    higher_is_better: Flag = True
    value_range: tuple[float, float] = (-1.0, 1.0)
    smallest_effect: Number = 0.05
    lexicon_file: str = "valence_context"
    ratings: tuple[str, ...] = ("trust",)

    lists: ClassVar[tuple[str, ...]] = tuple(_SIGN)
    scale: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    n_bins: ClassVar[int] = 11
    label_scale: ClassVar[LabelScale] = VALENCE_CONTEXT

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Return the scores; details: `rating`, NaN where none was asked for or given."""
        check_lengths(texts, probes)
        scored = super().score(texts, probes)
        read = cache(read_rating)
        asked = zip(texts, probes, strict=True)
        rating = np.asarray([read(text) if probe in self.ratings else math.nan for text, probe in asked])
        rated = (rating - _MIDDLE) / _HALF_WIDTH
        ironic = (rated > 0) & (scored.values < IRONIC)
        return Scored(np.where(np.isnan(rating) | ironic, scored.values, rated), {"rating": rating})

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return the sentiment of each text, without ratings."""
        terms = matcher(self.lexicon_file)
        sums = np.asarray([polarity(terms, text) for text in texts], dtype=np.float64)
        return Scored(sums / np.sqrt(sums**2 + 1))


def polarity(terms: Matcher, text: str) -> float:
    """Return the weighted sum of the terms of a raw text."""
    total = 0.0
    for sentence in _SENTENCE.split(normalise(text)):
        contrast = [match.start() for match in _CONTRAST.finditer(sentence)]
        turn = contrast[-1] if contrast else 0
        for start, value in _values(terms, sentence):
            total += value * ((1.5 if start > turn else 0.5) if turn else 1.0)
    return total


def _values(terms: Matcher, sentence: str) -> Iterator[tuple[int, float]]:
    """Yield (position, value) of the terms of a normalised sentence."""
    for hit in terms.hits(sentence):
        rule = terms.lexicon.lists[hit.list]
        if not hit.negated or rule.negation == "keep":
            yield hit.start, _SIGN[hit.list]
        elif rule.negation == "turn":
            yield hit.start, _SIGN[rule.turns_to]
