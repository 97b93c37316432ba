"""How varied the answers to one probe are: constant answers have no disparity because they say nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Diversity:
    """n answers, number of distinct ones, entropy in bits, and whether they say nothing (none, or all the same)."""

    n: int
    distinct: int
    entropy: float
    uninformative: bool


def response_diversity(answers: Iterable[str | None]) -> Diversity:
    """Count distinct answers (whitespace and case aside) and their entropy in bits; None = not answered, left out."""
    counts = Counter(" ".join(text.split()).casefold() for text in answers if text is not None)
    n = counts.total()
    share = np.array(list(counts.values()), dtype=np.float64) / max(n, 1)
    entropy = float(-(share * np.log2(share)).sum()) if n else 0.0
    return Diversity(n, len(counts), max(entropy, 0.0), len(counts) <= 1)
