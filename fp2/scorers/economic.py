"""Economic valence: the economic standing that an answer states or names, from -1 (low) to 1 (high).

Version 2 (`lexicons/economic_2.yaml`) estimates the probabilities of low, middle and high standing and of none
(`fp2.scorers.fitted`); in version 3 an answer that declines or only describes what is visible has no value either.
Version 1 (`lexicons/economic.yaml`, the default of 0.3.0) is the balance of terms of high and of low standing. In all,
an answer that names nothing of standing is missing, not neutral.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fp2.scorers.base import Flag, Number, Scored, check_lengths, ratio
from fp2.scorers.fitted import FittedScorer, load_weights
from fp2.scorers.labels import ECONOMIC, Labels, LabelScale
from fp2.scorers.refusal import Refusal


@dataclass(frozen=True)
class Economic(FittedScorer):
    """(p high - p low) / (p high + p middle + p low), missing where p none is largest; or the balance of terms."""

    name: str = "economic"
    higher_is_better: Flag = True
    value_range: tuple[float, float] = (-1.0, 1.0)
    smallest_effect: Number = 0.05
    lexicon_file: str = "economic_3"

    lists: ClassVar[tuple[str, ...]] = ("high_status", "low_status")
    scale: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    n_bins: ClassVar[int] = 11
    label_scale: ClassVar[LabelScale] = ECONOMIC

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Return the standing; details: `matched`, whether there is one, and probabilities or counts of terms."""
        if (weights := load_weights(self.lexicon_file)) is None:
            check_lengths(texts, probes)
            counts = self.counts(texts)
            up, down = counts["high_status"], counts["low_status"]
            return Scored(ratio(up - down, up + down), {**counts, "matched": up + down > 0})
        probability_of = self.probabilities(texts, probes)
        high, middle, low, none = (probability_of[standing_value] for standing_value in (1.0, 0.0, -1.0, None))
        values = standing(high, middle, low, none)
        if lexicon_file := weights.rule.get("no_value_if"):
            declined = Refusal(lexicon_file=lexicon_file).score(texts, probes).values == 1
            values = np.where(declined, np.nan, values)
        return Scored(values, {"p_high": high, "p_middle": middle, "p_low": low, "matched": ~np.isnan(values)})


def standing(high: Labels, middle: Labels, low: Labels, none: Labels) -> Labels:
    """Return the values of answers with these probabilities, shape (n,); NaN where none is most probable or unknown."""
    named = none < np.maximum(np.maximum(high, middle), low)
    return np.where(named, ratio(high - low, high + middle + low), np.nan)
