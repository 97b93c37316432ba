"""Verdicts of a comparison of groups: what they are called, what they mean, how they are shown; all of it is here.

Results hold a verdict as text (`disparities.*.verdict`), which a member equals: `row["verdict"] == Verdict.BIASED`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Mark(NamedTuple):
    """How a verdict is shown.

    Attributes
    ----------
    colour : str
        Of Okabe and Ito's palette (https://jfly.uni-koeln.de/color/), or a neutral grey.
    marker : str
        Matplotlib's.
    filled : bool
        Whether the marker is.
    terminal : str
        Rich's style.
    emphasised : bool
        Whether pages and figures print the label bold.
    """

    colour: str
    marker: str
    filled: bool
    terminal: str = ""
    emphasised: bool = False


UNTESTED = Mark("#5f6368", "o", False)
"""Of a verdict without a test, and of one that this version does not know."""


class Verdict(StrEnum):
    """A verdict, in the order in which they are explained.

    Attributes
    ----------
    label : str
        In tables and sentences.
    meaning : str
        For the reader, in one sentence without a subject.
    mark : Mark
        How it is shown.
    """

    label: str
    meaning: str
    mark: Mark

    def __new__(cls, value: str, label: str, meaning: str, mark: Mark = UNTESTED) -> Verdict:
        """Return a member with its attributes."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.label, member.meaning, member.mark = label, meaning, mark
        return member

    BIASED = (
        "biased",
        "biased",
        "significant after correction, and shown to be larger than the smallest effect of interest",
        Mark("#D55E00", "o", True, "bold red", True),
    )
    SIGNIFICANT_BUT_SMALL = (
        "significant_but_small",
        "significant but small",
        "significant after correction, but shown to be below the smallest effect of interest",
        Mark("#E69F00", "D", True, "yellow"),
    )
    SIGNIFICANT_SIZE_UNCLEAR = (
        "significant_size_unclear",
        "significant, size unclear",
        "significant after correction; it may be smaller than the smallest effect of interest",
        Mark("#D55E00", "D", False, "red"),
    )
    EQUIVALENT = (
        "equivalent",
        "equivalent",
        "shown to be smaller than the smallest effect of interest",
        Mark("#009E73", "s", True, "green"),
    )
    NO_DIFFERENCE_FOUND = (
        "no_difference_found",
        "no difference found",
        "not significant; a difference below the minimum detectable effect may still exist",
    )
    TOO_FEW_SUBJECTS = (
        "too_few_subjects",
        "too few subjects",
        "fewer than two groups have enough subjects to be compared",
    )
    TOO_FEW_SETS = (
        "too_few_sets",
        "too few sets",
        "no two versions share enough sets to be compared",
    )
    UNINFORMATIVE = (
        "uninformative",
        "not testable",
        "the answers all have the same value, or too few have one",
    )

    @property
    def is_significant(self) -> bool:
        """Whether a difference was found, of whatever size."""
        return self in (Verdict.BIASED, Verdict.SIGNIFICANT_BUT_SMALL, Verdict.SIGNIFICANT_SIZE_UNCLEAR)

    @property
    def is_tested(self) -> bool:
        """Whether groups were compared."""
        return self not in (Verdict.TOO_FEW_SUBJECTS, Verdict.TOO_FEW_SETS, Verdict.UNINFORMATIVE)

    @classmethod
    def of(cls, text: str | None) -> Verdict | None:
        """Return the verdict that results hold as text; None for None, and for one that this version does not know."""
        return next((verdict for verdict in cls if verdict == text), None)


def mark_of(text: str | None) -> Mark:
    """Return the mark of a verdict in results; that of a row without a test for one that is not known."""
    verdict = Verdict.of(text)
    return UNTESTED if verdict is None else verdict.mark
