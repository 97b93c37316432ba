"""The diversity of answers: how many are distinct, and their entropy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class AnswerDiversity:
    """Number of answers, of distinct ones, entropy in bits; `uninformative`: no answers, or all the same."""

    n: int
    distinct: int
    entropy: float
    uninformative: bool


def response_diversity(answers: Iterable[str | None]) -> AnswerDiversity:
    """Count distinct answers (ignoring whitespace and case) and their entropy; None = not answered, left out."""
    counts = Counter(" ".join(text.split()).casefold() for text in answers if text is not None)
    n = counts.total()
    share = np.array(list(counts.values()), dtype=np.float64) / max(n, 1)
    entropy = float(-(share * np.log2(share)).sum()) if n else 0.0
    return AnswerDiversity(n, len(counts), max(entropy, 0.0), len(counts) <= 1)
