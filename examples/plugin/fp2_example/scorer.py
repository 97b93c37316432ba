"""A scorer: how many words an answer has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fp2.extension import BaseScorer, Scored


@dataclass(frozen=True)
class WordCount(BaseScorer):
    """Words of an answer, up to 50. Not that longer is better: the config has to state a direction."""

    version: ClassVar[str] = "1"
    scale: ClassVar[tuple[float, float]] = (0.0, 50.0)

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return the number of words of each distinct text."""
        return Scored(np.array([min(50, len(text.split())) for text in texts], dtype=np.float64))
