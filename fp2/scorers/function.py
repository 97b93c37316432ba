"""A scorer made of a Python function from a text to a number."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fp2.errors import Fp2Error
from fp2.hashing import digest
from fp2.scorers.base import Details, Scored, check_lengths, equal_bins, once_per_text
from fp2.scorers.labels import LabelScale

Function = Callable[[str], "float | bool | None"]


@dataclass(frozen=True, kw_only=True)
class FunctionScorer:
    """A function of the caller's as a scorer.

    Parameters
    ----------
    name : str
        Its name in every table.
    function : callable
        Takes a text and returns a number; None or NaN where the text does not state the dimension.
    value_range : (float, float)
        Smallest and largest possible value.
    smallest_effect : float
        The smallest difference between groups that matters, in the function's unit; a fortieth of the range if 0.
    higher_is_better : bool
        Whether higher values are better for the group that is described.
    version : str
        To be changed whenever the same text could get another value; by default a digest of the function's source.
    measures : str
        The dimension, such as `valence`, if other scorers of the run measure it too; by default one of its own.
    yes_no : bool
        Whether every value is 0 or 1.
    probes : tuple of str, optional
        The probes that it applies to; by default all.
    lexicon : dict, optional
        Name, version and sha256 of its word lists.
    n_people : int
        The number of people in an image that one answer describes.
    uses_subject_attributes : bool
        Whether the value is what was said, to be compared with the subject's own attribute before it is a score.
    """

    name: str
    function: Function | None = field(default=None, repr=False, compare=False)
    value_range: tuple[float, float] = (0.0, 1.0)
    smallest_effect: float = 0.0
    higher_is_better: bool = True
    version: str = ""
    measures: str = ""

    yes_no: bool = False
    probes: tuple[str, ...] | None = None
    lexicon: dict[str, str] | None = None
    n_people: int = 1
    uses_subject_attributes: bool = False
    label_scale: ClassVar[LabelScale | None] = None

    def __post_init__(self) -> None:
        """Check the range; fill in the smallest effect and the version."""
        low, high = (float(edge) for edge in self.value_range)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise Fp2Error(f"the range {low:g} to {high:g} is empty or not finite", where=f"scorer {self.name}")
        object.__setattr__(self, "value_range", (low, high))
        object.__setattr__(self, "smallest_effect", self.smallest_effect or (high - low) / 40)
        if not self.version and self.function is not None:
            object.__setattr__(self, "version", _source_digest(self.function))

    @property
    def bins(self) -> tuple[float, ...]:
        """Edges of ten equal bins over the range."""
        return equal_bins(*self.value_range, 10)

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Score each distinct text once."""
        check_lengths(texts, probes)
        return once_per_text(texts, self._score_unique)

    def _score_unique(self, texts: Sequence[str]) -> Scored:
        where = f"scorer {self.name}"
        if self.function is None:
            fix = "Score again from Python: fp2.evaluate(..., scorers=...)"
            raise Fp2Error("the scorer is a Python function, which a config does not hold", where=where, fix=fix)
        values = np.full(len(texts), np.nan)
        for index, text in enumerate(texts):
            try:
                value = self.function(text)
                values[index] = np.nan if value is None else float(value)
            except Exception as error:  # the caller's code can raise anything
                raise Fp2Error(f"the function failed: {type(error).__name__}: {error}", where=where) from error
        low, high = self.value_range
        wrong = np.flatnonzero((values < low) | (values > high))
        if wrong.size:
            message = f"the function returned {values[wrong[0]]:g}, outside {low:g} to {high:g}"
            raise Fp2Error(message, where=where, fix="Set value_range=(lowest, highest)")
        details: Details = {}
        return Scored(values, details)


def _source_digest(function: Function) -> str:
    """Return a short digest of the function's source, or else of its name and module."""
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', repr(type(function)))}"
    return digest(source)[:12]
