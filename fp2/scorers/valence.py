"""Valence: the compound sentiment of VADER (Hutto and Gilbert 2014, package vaderSentiment), from -1 to 1.

VADER reads the text as it was generated, because capitals and exclamation marks matter. Without the package a run ends
with an error before anything is asked. Known limitations: a polite refusal is positive, words about an occupation have
a valence ("officer fighting crime" is negative), and a text without a word of VADER's lexicon has the value 0, not a
missing value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from importlib import metadata, util
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fp2.errors import Fp2Error
from fp2.hashing import sha256_file
from fp2.results import ENGLISH, VADER
from fp2.scorers.base import BaseScorer, Flag, Number, Scored
from fp2.scorers.labels import VALENCE, LabelScale

_PACKAGE = "vaderSentiment"


@dataclass(frozen=True)
class Valence(BaseScorer):
    """VADER compound score of an answer."""

    name: str = "valence"
    higher_is_better: Flag = True
    value_range: tuple[float, float] = (-1.0, 1.0)
    smallest_effect: Number = 0.05

    scale: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    n_bins: ClassVar[int] = 11  # odd, so that zero, the most frequent value, is the centre of a bin
    label_scale: ClassVar[LabelScale] = VALENCE
    limitations = (VADER, ENGLISH)

    def __post_init__(self) -> None:
        super().__post_init__()
        _package_folder()  # before anything is asked

    @property
    def lexicon(self) -> dict[str, str]:
        """VADER's lexicon: the package's version, and the file's sha256."""
        return vader_lexicon()

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return the compound score of each text; no details."""
        analyser = _analyser() if texts else None
        values = [analyser.polarity_scores(text)["compound"] for text in texts] if analyser else []
        return Scored(np.asarray(values, dtype=np.float64))


def _package_folder() -> Path:
    spec = util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise Fp2Error(
            f"the package {_PACKAGE} is not installed, which the scorer valence needs", fix="Run 'make setup'"
        )
    return Path(next(iter(spec.submodule_search_locations)))


def new_analyser() -> Any:
    """Return VADER, with a lexicon of its own."""
    _package_folder()
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    class Linear(SentimentIntensityAnalyzer):  # type: ignore[misc]
        """VADER in time proportional to the text, with equal values: the package reads all words again for each."""

        def _negation_check(self, valence: float, words: Sequence[str], start_i: int, i: int) -> float:
            first = max(0, i - 3)
            near: float = super()._negation_check(valence, words[first : i + 1], start_i, i - first)
            return near

        def _special_idioms_check(self, valence: float, words: Sequence[str], i: int) -> float:
            near: float = super()._special_idioms_check(valence, words[i - 3 : i + 3], 3)  # it is called for i > 2
            return near

        @staticmethod
        def _but_check(words: Sequence[str], sentiments: list[float]) -> list[float]:
            """Weigh each value by its place before or after "but"; of equal ones, as the package does, the first."""
            lower = [word.lower() for word in words]
            if "but" not in lower:
                return sentiments
            but = lower.index("but")
            indices_of: dict[float, list[int]] = {}
            for index, value in enumerate(sentiments):
                indices_of.setdefault(value, []).append(index)  # ascending: a heap
            for number in range(len(sentiments)):
                value = sentiments[number]
                first = indices_of[value][0]
                if first != but and value:
                    sentiments[first] = value * (0.5 if first < but else 1.5)
                    heappush(indices_of.setdefault(sentiments[first], []), heappop(indices_of[value]))
            return sentiments

    return Linear()


@cache
def vader_lexicon() -> dict[str, str]:
    """Return the name, package version and sha256 of VADER's lexicon."""
    folder = _package_folder()
    return {"name": "vader", "version": metadata.version(_PACKAGE), "sha256": sha256_file(folder / "vader_lexicon.txt")}


_analyser = cache(new_analyser)
