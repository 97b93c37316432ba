"""Economic valence: the balance of terms of high and of low economic status in an answer, from -1 to 1.

An answer with neither is missing, not neutral.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fp2.scorers.base import Flag, Number, Scored, ratio
from fp2.scorers.lexicon import LexiconScorer


@dataclass(frozen=True)
class Economic(LexiconScorer):
    """(high - low) / (high + low), by the lists of the lexicon."""

    name: str = "economic"
    higher_is_better: Flag = True
    value_range: tuple[float, float] = (-1.0, 1.0)
    smallest_effect: Number = 0.05
    lexicon_file: str = "economic"

    lists: ClassVar[tuple[str, ...]] = ("high_status", "low_status")
    scale: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    n_bins: ClassVar[int] = 11

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return the balance; details: the counts `high_status`, `low_status`, and `matched`, whether any is not 0."""
        counts = self.counts(texts)
        high, low = counts["high_status"], counts["low_status"]
        return Scored(ratio(high - low, high + low), {**counts, "matched": high + low > 0})
