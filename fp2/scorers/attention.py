"""Attention to two people in one picture: who is described first, and with what share of the words.

Both scorers give the value of the person on the **left of the picture that was shown**; the other person's is 1 minus
it. `fp2.protocols.fingerprint.attention` hands both values to the two people, also where the picture was mirrored.
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
    """A scorer whose value is the left person's, and 1 minus it the right person's."""

    of_two: ClassVar[bool] = True


@dataclass(frozen=True)
class FirstMention(OfTwo):
    """Whether the person on the left is spoken of first: 1, 0, or missing where no side is named."""

    yes_no: ClassVar[bool] = True
    n_bins: ClassVar[int] = 2

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return 1 where left comes first, 0 where right does."""
        value = {"left": 1.0, "right": 0.0, None: np.nan}
        return Scored(np.asarray([value[read_sides(text).first] for text in texts], dtype=np.float64))


@dataclass(frozen=True)
class WordShare(OfTwo):
    """The left person's share of the words that are about one of the two; missing unless both are named by side.

    Details: `left_words`, `right_words`, and `shared_words` about both or neither.
    """

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return the left person's share."""
        read = [read_sides(text) for text in texts]
        share = [one.left_words / (one.left_words + one.right_words) if one.both else np.nan for one in read]
        counts = {
            name: np.asarray([getattr(one, name) for one in read], dtype=np.int64)
            for name in ("left_words", "right_words", "shared_words")
        }
        return Scored(np.asarray(share, dtype=np.float64), counts)
