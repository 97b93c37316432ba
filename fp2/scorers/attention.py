"""Attention to two people in one image: who is described first, and with what share of the words.

Both scorers give the value of the person on the **left of the image that was shown**; the other person's is 1 minus
it. `fp2.protocols.fingerprint.attention` assigns both values to the two subjects, also where the image was mirrored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fp2.scorers.base import BaseScorer, Scored
from fp2.scorers.sides import read_sides


@dataclass(frozen=True)
class OfTwo(BaseScorer):
    """A scorer of answers about two people."""

    higher_is_better: bool = True
    value_range: tuple[float, float] = (0.0, 1.0)
    smallest_effect: float = 0.05

    n_people: ClassVar[int] = 2


@dataclass(frozen=True)
class FirstMention(OfTwo):
    """Whether the person on the left is described first: 1, 0, or missing where no side is named."""

    name: str = "first_mention"

    yes_no: ClassVar[bool] = True
    n_bins: ClassVar[int] = 2

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return 1 where the left person is described first, 0 where the right one is."""
        value = {"left": 1.0, "right": 0.0, None: np.nan}
        return Scored(np.asarray([value[read_sides(text).first] for text in texts], dtype=np.float64))


@dataclass(frozen=True)
class WordShare(OfTwo):
    """The left person's share of the words about either person; missing unless both are named by side.

    Details: `left_words`, `right_words`, and `shared_words` about both or neither.
    """

    name: str = "word_share"
    smallest_effect: float = 0.025

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return the left person's share."""
        read = [read_sides(text) for text in texts]
        share = [one.left_words / (one.left_words + one.right_words) if one.both else np.nan for one in read]
        counts = {
            name: np.asarray([getattr(one, name) for one in read], dtype=np.int64)
            for name in ("left_words", "right_words", "shared_words")
        }
        return Scored(np.asarray(share, dtype=np.float64), counts)
