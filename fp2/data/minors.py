"""Children are in no comparison: images that show anybody who is, or may be, below 18 are left out of every data set.

An age says so as a number of years, as a band that begins below 18 (`0-2`, `10-19`), or as a word (`child`). What is
read are the attributes with "age" in their name, and such columns of a table that the run has no attribute for.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from fp2.errors import Fp2Error
from fp2.tables import ATTRIBUTE_PREFIX, PRIVATE_PREFIX

if TYPE_CHECKING:
    from fp2.data.base import Dataset

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


def without_minors(dataset: Dataset) -> Dataset:
    """Return the data set without the images that show a minor, and a note of how many these are.

    Raises
    ------
    Fp2Error
        If no image is left.
    """
    people = dataset.people
    prefixes = (ATTRIBUTE_PREFIX, PRIVATE_PREFIX)
    names = [name for name in people.columns if name.startswith(prefixes) and states_age(name)]
    minors = {
        image
        for name in names
        for image, labels in zip(people["image_id"], people[name], strict=True)
        if any(map(is_minor, labels))
    }
    if not minors:
        return dataset
    kept = people[~people["image_id"].isin(minors)].reset_index(drop=True)
    if kept.empty:
        what = f"all {len(minors)} images show people who are, or may be, below 18"
        fix = "These comparisons are about adults; if the numbers are codes, replace them by ages"
        raise Fp2Error(what, where=f"data, {', '.join(names)}", fix=fix)
    note = f"{len(minors)} image(s) of people who are, or may be, below 18 were left out"
    files = tuple(file for file in dataset.files if file.image_id not in minors)
    return replace(dataset, people=kept, files=files, notes=(*dataset.notes, note))
