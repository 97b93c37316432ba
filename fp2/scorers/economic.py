"""Economic valence: the balance of terms of high and of low economic status in an answer, from -1 to 1.

An answer with neither is missing, not neutral.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fp2.scorers.base import BaseScorer, Scored, ratio
from fp2.scorers.lexicon import load_lexicon
from fp2.scorers.matching import check_lists, count_lists


@dataclass(frozen=True)
class Economic(BaseScorer):
    """(high - low) / (high + low).

    Parameters
    ----------
    lexicon_file : str
        A packaged lexicon's name, or the path of a YAML file with the lists `high_status` and `low_status`.
    """

    name: str = "economic"
    higher_is_better: bool = True
    value_range: tuple[float, float] = (-1.0, 1.0)
    smallest_effect: float = 0.05
    lexicon_file: str = "economic"

    scale: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    n_bins: ClassVar[int] = 11

    def __post_init__(self) -> None:
        super().__post_init__()
        check_lists(self.lexicon_file, ("high_status", "low_status"))

    @property
    def lexicon(self) -> dict[str, str]:
        """Name, version and sha256 of the two lists of terms."""
        return load_lexicon(self.lexicon_file).info

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return the balance; details: the counts `high_status`, `low_status`, and `matched`, whether any is not 0."""
        counts = count_lists(self.lexicon_file, texts)
        high, low = counts["high_status"], counts["low_status"]
        return Scored(ratio(high - low, high + low), {**counts, "matched": high + low > 0})
