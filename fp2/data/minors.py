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
    {"baby", "babies", "newborn", "infant", "toddler", "child", "children", "kid", "minor", "underage", "juvenile",
     "teen", "teenager", "adolescent"}
)  # fmt: skip
_SHORT = ("mo", "week", "day")
"""Units of the ages of small children."""
_NUMBER = r"(\d+(?:\.\d+)?)"
_UNIT = r"(?: ?(years?|yrs?|yo|y|months?|mos?|weeks?|days?)(?: old)?)?"
_YEARS = re.compile(rf"[(\[]?{_NUMBER}(?:s|\+| ?(?:-|–|—|to|,) ?{_NUMBER}?)?[)\]]?{_UNIT}")
_BELOW = re.compile(rf"(?:under|below|less than|younger than|up to|<=|<|≤)[ -]?{_NUMBER}s?{_UNIT}")
_BOTH = re.compile(r"(.+?) ?[(\[](.+)[)\]]")
_NO_AGE = frozenset({"confidence", "conf", "score", "scores", "prob", "probability"})


def states_age(name: str) -> bool:
    """Whether an attribute or a column of this name has ages."""
    words = set(re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
    return not words.isdisjoint({"age", "ages", "agegroup", "agerange", "ageband"}) and words.isdisjoint(_NO_AGE)


@cache
def is_minor(label: str) -> bool:
    """Whether an age, a band of ages or a word for one includes people below 18."""
    text = " ".join(label.lower().split())
    if match := _BELOW.fullmatch(text):
        return float(match[1]) <= _ADULT or str(match[2]).startswith(_SHORT)
    if match := _YEARS.fullmatch(text):
        return float(match[1]) < _ADULT or str(match[3]).startswith(_SHORT)
    if match := _BOTH.fullmatch(text):  # `child (0-12)`
        return is_minor(match[1]) or is_minor(match[2])
    return text in _WORDS or text.removesuffix("s") in _WORDS
