"""Valence in context: the sentiment of what an answer says of the person, from -1 to 1.

VADER counts words wherever they stand: "criminal lawyer", "best guess" and "poor lighting" have a sentiment, and
"council estate", "dropout" or "8/10" have none. This scorer, a second opinion beside `valence`, estimates the
probabilities that an answer speaks well and ill of the person, their circumstances or their surroundings from the terms
for these, with negation and "but", from ratings and from words (`fp2.scorers.fitted`, `lexicons/valence_context.yaml`).

Agreement of both scorers with labelled answers: `docs/scorers.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from fp2.errors import Fp2Error
from fp2.scorers.base import Flag, Number, Scored
from fp2.scorers.fitted import RATINGS, FittedScorer, load_weights
from fp2.scorers.labels import VALENCE_CONTEXT, LabelScale
from fp2.scorers.trust_rating import read_rating


@dataclass(frozen=True)
class ValenceContext(FittedScorer):
    """The probability that an answer speaks well of the person, minus the probability that it speaks ill."""

    name: str = "valence_context"
    higher_is_better: Flag = True
    value_range: tuple[float, float] = (-1.0, 1.0)
    smallest_effect: Number = 0.05
    lexicon_file: str = "valence_context"

    scale: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    n_bins: ClassVar[int] = 11
    label_scale: ClassVar[LabelScale] = VALENCE_CONTEXT

    def __post_init__(self) -> None:
        super().__post_init__()
        if load_weights(self.lexicon_file) is None:
            raise Fp2Error("the file has no weights", where=self.lexicon_file, fix="See docs/scorers.md")

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Return the scores; details: `rating`, NaN where none was asked for or given."""
        probability_of = self.probabilities(texts, probes)
        read = cache(read_rating)
        pairs = zip(texts, probes, strict=True)
        rating = np.asarray([read(text) if probe in RATINGS else math.nan for text, probe in pairs])
        return Scored(probability_of[1.0] - probability_of[-1.0], {"rating": rating})
