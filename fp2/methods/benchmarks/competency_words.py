"""Words of competency as "Uncovering bias in LVLMs at scale" counts them (evaluation.ipynb), by the authors' list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from fp2.extension import BaseScorer, Fp2Error, Number, Scored, digest


@dataclass(frozen=True)
class CompetencyWords(BaseScorer):
    """How many different words of the list an answer has: lower case, without commas and full stops, split at blanks.

    `words_file` is the authors' `competency_words.txt` (MIT), a word a line, in the user's checkout. Counts above 100
    are 100.
    """

    name: str = "competency_words"
    higher_is_better: bool = True
    value_range: tuple[float, float] = (0.0, 100.0)
    smallest_effect: Number = 0.1
    words_file: str = ""

    scale: ClassVar[tuple[float, float]] = (0.0, 100.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.words

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of the list, in lower case."""
        where = f"scorer.{self.name}.words_file"
        try:
            listed = Path(self.words_file).expanduser().read_text(encoding="utf-8").lower().split("\n")
        except (OSError, UnicodeError) as error:
            fix = "Give Uncovering_LVLM_Bias/competency_words.txt of a checkout of multimodal_cognitive_ai"
            raise Fp2Error(f"the list of words cannot be read: {error}", where=where, fix=fix) from None
        return frozenset(word.strip() for word in listed if word.strip())

    @property
    def lexicon(self) -> dict[str, str]:
        """The digest of the list."""
        return {"name": "competency_words", "version": "1", "sha256": digest(sorted(self.words))}

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return the number of words of the list in each distinct text."""
        counts = [
            len(self.words.intersection(text.lower().replace(",", "").replace(".", "").split())) for text in texts
        ]
        return Scored(np.minimum(np.array(counts, dtype=np.float64), self.scale[1]))
