"""The probability of the letter of Yes over the whole vocabulary, as VL-Gender takes it (vlms/base.py)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fp2.extension import Scored
from fp2.methods.benchmarks.choice import ChoiceScorer

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LetterProbability(ChoiceScorer):
    """The probability of the first choice, which is the letter of Yes, without norming it over the choices.

    It is `p` times `mass` of an answer that was asked in one order; where an engine gives no mass, that is 1.
    """

    name: str = "letter_probability"

    needs: ClassVar[str] = "name"

    @property
    def named(self) -> tuple[str, ...]:
        """No choice: the first counts, whichever letter it is."""
        return ()

    def score_rows(self, rows: pd.DataFrame) -> Scored:
        """Return the probability of each row; NaN without one."""
        numbers = [json.loads(cell) if isinstance(cell, str) else {} for cell in rows["numbers"]]
        found = [one["p"][0] * one.get("mass", 1.0) if one.get("p") else np.nan for one in numbers]
        return Scored(np.array(found, dtype=np.float64))
