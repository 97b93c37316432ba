"""Which ages are those of minors: images of anybody who is, or may be, below 18 are left out (`base.without_minors`).

An age says so as a number of years, as a band that begins below 18 (`0-2`, `10-19`), or as a word (`child`). What is
read are the attributes with "age" in their name, and such columns of a table that the run has no attribute for. A year
or date of birth says so where it may be less than 18 years before the pictures, in doubt before today.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
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


_YEAR = re.compile(r"(?<!\d)((?:18|19|20)\d\d)(?:\d{4})?(?!\d)(s?)")


def _words(name: str) -> set[str]:
    return set(re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))


def states_age(name: str) -> bool:
    """Whether an attribute or a column of this name has ages."""
    tokens = _words(name)
    return not tokens.isdisjoint({"age", "ages", "agegroup", "agerange", "ageband"}) and tokens.isdisjoint(_NO_AGE)


def states_birth(name: str) -> bool:
    """Whether an attribute or a column of this name has years or dates of birth."""
    tokens = _words(name)
    named = {"born", "dob", "yob", "birthdate", "birthday", "birthyear", "birth"}
    return not tokens.isdisjoint(named) and tokens.isdisjoint({"place", "country", "city", "weight", "order", "name"})


def states_picture_year(name: str) -> bool:
    """Whether an attribute or a column of this name says when a picture was taken."""
    tokens = _words(name)
    return "taken" in tokens or ("year" in tokens and not tokens.isdisjoint({"photo", "picture", "image"}))


def says_who_is_minor(name: str) -> bool:
    """Whether an attribute or a column of this name is needed to know who is a minor."""
    return states_age(name) or states_birth(name) or states_picture_year(name)


def may_be_minor(births: Sequence[str], taken: Iterable[str] = ()) -> bool:
    """Whether a year or date of birth may be less than 18 years before the year of the picture, else before today.

    Digits without a year of four are in doubt.
    """
    years = [int(year) + 9 * bool(decade) for text in births for year, decade in _YEAR.findall(text)]
    pictures = [int(year) for text in taken for year, _ in _YEAR.findall(text)]
    # a birthday may be later in the year than the picture
    minor = bool(years) and min(pictures, default=datetime.now(UTC).year) - max(years) <= _ADULT
    return minor or any(re.search(r"\d", text) and not _YEAR.search(text) for text in births)


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
