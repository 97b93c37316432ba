"""Confidence: the share of assertive phrases among the assertive and hedged phrases of an answer, from 0 to 1.

An answer with neither is missing, not fully hedged. That higher confidence is better is a convention; the result is
the difference between groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fp2.scorers.base import BaseScorer, Scored, ratio
from fp2.scorers.lexicon import load_lexicon
from fp2.scorers.matching import check_lists, count_lists


@dataclass(frozen=True)
class Confidence(BaseScorer):
    """assertive / (assertive + hedged).

    Parameters
    ----------
    lexicon_file : str
        A packaged lexicon's name, or the path of a YAML file with the lists `assertive` and `hedged`.
    """

    name: str = "confidence"
    higher_is_better: bool = True
    value_range: tuple[float, float] = (0.0, 1.0)
    smallest_effect: float = 0.025
    lexicon_file: str = "confidence"

    scale: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_lists(self.lexicon_file, ("assertive", "hedged"))

    @property
    def lexicon(self) -> dict[str, str]:
        """Name, version and sha256 of the two lists of phrases."""
        return load_lexicon(self.lexicon_file).info

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return the share; details: the counts `assertive`, `hedged`, and `matched`, whether any is not 0."""
        counts = count_lists(self.lexicon_file, texts)
        assertive, total = counts["assertive"], counts["assertive"] + counts["hedged"]
        return Scored(ratio(assertive, total), {**counts, "matched": total > 0})
