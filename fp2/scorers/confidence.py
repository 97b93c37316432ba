"""Confidence: the share of assertive phrases among the assertive and hedged phrases of an answer, from 0 to 1.

An answer with neither is missing, not fully hedged. That higher confidence is better is a convention; the result is
the difference between groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fp2.scorers.base import Flag, Number, Scored, check_lengths, ratio
from fp2.scorers.labels import CONFIDENCE, LabelScale
from fp2.scorers.lexicon import LexiconScorer


@dataclass(frozen=True)
class Confidence(LexiconScorer):
    """assertive / (assertive + hedged), by the lists of the lexicon."""

    name: str = "confidence"
    higher_is_better: Flag = True
    value_range: tuple[float, float] = (0.0, 1.0)
    smallest_effect: Number = 0.025
    lexicon_file: str = "confidence_2"

    lists: ClassVar[tuple[str, ...]] = ("assertive", "hedged")
    scale: ClassVar[tuple[float, float]] = (0.0, 1.0)
    label_scale: ClassVar[LabelScale] = CONFIDENCE

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Return the share; details: the counts `assertive`, `hedged`, and `matched`, whether any is not 0."""
        check_lengths(texts, probes)
        counts = self.counts(texts)
        assertive, total = counts["assertive"], counts["assertive"] + counts["hedged"]
        return Scored(ratio(assertive, total), {**counts, "matched": total > 0})
