"""Economic valence: the balance of terms of high and of low economic status in an answer, from -1 to 1.

Terms of middle status, which the lexicon has since version 2, draw the balance to 0. An answer without any term is
missing, not neutral: most answers do not speak of economic standing (`docs/scorers.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fp2.scorers.base import Flag, Number, Scored, ratio
from fp2.scorers.labels import ECONOMIC, LabelScale
from fp2.scorers.lexicon import LexiconScorer


@dataclass(frozen=True)
class Economic(LexiconScorer):
    """(high - low) / (high + low + middle), by the lists of the lexicon."""

    name: str = "economic"
    higher_is_better: Flag = True
    value_range: tuple[float, float] = (-1.0, 1.0)
    smallest_effect: Number = 0.05
    lexicon_file: str = "economic_2"

    lists: ClassVar[tuple[str, ...]] = ("high_status", "low_status")
    optional_lists: ClassVar[tuple[str, ...]] = ("middle_status",)
    scale: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    n_bins: ClassVar[int] = 11
    label_scale: ClassVar[LabelScale] = ECONOMIC

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Return the balance; details: the count of each list, and `matched`, whether any is not 0."""
        counts = self.counts(texts, probes)
        high, low = counts["high_status"], counts["low_status"]
        total = np.sum(list(counts.values()), axis=0)
        return Scored(ratio(high - low, total), {**counts, "matched": total > 0})
