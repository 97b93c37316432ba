"""Valence in context: VADER's compound score of what an answer says of the person, from -1 to 1.

VADER counts words wherever they stand: "criminal lawyer", "best guess" and "poor lighting" have a sentiment, and
"council estate", "dropout" or "8/10" have none. This scorer, a second opinion beside `valence`, differs in three ways:

- Expressions of `lexicons/valence_context.yaml` that speak well or ill of a person or a place are words of +2 or -2 for
  VADER; words without a sentiment in a description are taken out, and so is what is said of the image and of words
  in it.
- Of a question for a rating, the rating decides: 7 and above is positive, 4 and below negative, on a line through 5.5.
- The rest is VADER with its rules for negation and emphasis, without its weakest words (valence below 1.5).

Agreement of both scorers with labelled answers: `docs/scorers.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from fp2.hashing import digest
from fp2.scorers.base import Flag, Number, Scored, check_lengths, normalise
from fp2.scorers.labels import VALENCE_CONTEXT, LabelScale
from fp2.scorers.lexicon import LexiconScorer, Matcher, load_lexicon, matcher
from fp2.scorers.trust_rating import read_rating
from fp2.scorers.valence import new_analyser, vader_lexicon

WEIGHT = 2.0
"""VADER's valence of an expression of the lexicon; VADER's own words reach from -4 to 4."""
WEAK = 1.5
"""Words of VADER below this valence are left out: in a description they are noise."""
_TOKENS = {"positive": "fp2positive", "negative": "fp2negative", "neutral": "fp2neutral"}
_MIDDLE, _HALF_WIDTH = 5.5, 4.5


@dataclass(frozen=True)
class ValenceContext(LexiconScorer):
    """VADER's compound score with the terms of a lexicon and ratings.

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

    lists: ClassVar[tuple[str, ...]] = tuple(_TOKENS)
    scale: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    n_bins: ClassVar[int] = 11
    labels: ClassVar[LabelScale] = VALENCE_CONTEXT

    @property
    def lexicon(self) -> dict[str, str]:
        """The lexicon with that of VADER: their names, versions and a digest of both."""
        own, vader = load_lexicon(self.lexicon_file).info, vader_lexicon()
        both = {key: f"{vader[key]}+{own[key]}" for key in ("name", "version")}
        return {**both, "sha256": digest([vader["sha256"], own["sha256"]])}

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Return the scores; details: `rating`, NaN where none was asked for or given."""
        check_lengths(texts, probes)
        scored = super().score(texts, probes)
        read = cache(read_rating)
        asked = zip(texts, probes, strict=True)
        rating = np.asarray([read(text) if probe in self.ratings else math.nan for text, probe in asked])
        rated = (rating - _MIDDLE) / _HALF_WIDTH
        return Scored(np.where(np.isnan(rating), scored.values, rated), {"rating": rating})

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return the compound score of each text, without ratings."""
        terms = matcher(self.lexicon_file)
        values = [_analyser().polarity_scores(in_context(terms, text))["compound"] for text in texts]
        return Scored(np.asarray(values, dtype=np.float64))


def in_context(terms: Matcher, text: str) -> str:
    """Return the normalised text with a word for each term, and without what is said of the image."""
    plain = normalise(text)
    spans = [(hit.start, hit.end, _TOKENS[hit.list]) for hit in terms.hits(plain)]
    spans += [(start, end, "") for start, end in terms.ignored(plain)]
    pieces, last = [], 0
    for start, end, token in sorted(spans):
        if start >= last:
            pieces += [plain[last:start], token]
        last = max(last, end)
    return "".join([*pieces, plain[last:]])


@cache
def _analyser() -> Any:
    analyser = new_analyser()
    analyser.lexicon = {word: valence for word, valence in analyser.lexicon.items() if abs(valence) >= WEAK}
    analyser.lexicon.update({_TOKENS["positive"]: WEIGHT, _TOKENS["negative"]: -WEIGHT})
    return analyser
