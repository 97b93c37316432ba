"""Which ages are those of minors: images of anybody who is, or may be, below 18 are left out (`base.without_minors`).

An age says so as a number of years, as a band that begins below 18 (`0-2`, `10-19`), or as a word (`child`). What is
read are the attributes with "age" in their name, and such columns of a table that the run has no attribute for.
"""

from __future__ import annotations

import re
from functools import cache

MINORS = "0-17"
"""The age group of everybody below 18."""
_ADULT = 18
_WORDS = frozenset(
    {"baby", "infant", "toddler", "child", "children", "kid", "minor", "underage", "teen", "teenager", "adolescent"}
)
_NUMBER = r"(\d+(?:\.\d+)?)"
_UNIT = r"(?: ?(years?|yrs?|y|months?)(?: old)?)?"
_YEARS = re.compile(rf"[(\[]?{_NUMBER}(?:s|\+| ?(?:-|–|—|to|,) ?{_NUMBER}?)?[)\]]?{_UNIT}")
_BELOW = re.compile(rf"(?:under|below|less than|younger than|<) ?{_NUMBER}{_UNIT}")


def states_age(name: str) -> bool:
    """Whether an attribute or a column of this name has ages."""
    return "age" in re.split(r"[^a-z]+", name.lower())


@cache
def is_minor(label: str) -> bool:
    """Whether an age, a band of ages or a word for one includes people below 18."""
    text = " ".join(label.lower().split())
    if match := _BELOW.fullmatch(text):
        return float(match[1]) <= _ADULT or str(match[2]).startswith("month")
    if match := _YEARS.fullmatch(text):
        return float(match[1]) < _ADULT or str(match[3]).startswith("month")
    return text in _WORDS
