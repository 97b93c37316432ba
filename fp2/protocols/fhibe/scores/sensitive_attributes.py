"""The sensitive attributes of FHIBE's analyses, and their intersections.

Xiang et al. 2025, Methods, "Benchmarking analysis": pronoun (P), age (A), skin tone (ST), and ancestry as region (AR)
or as subregion (AS). An intersection never has ancestry at both levels.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fp2.cuts import JOIN, Cut
from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

if TYPE_CHECKING:
    import pandas as pd

SENSITIVE = ("pronoun", "age", "region", "subregion", "skin_tone")
ABBREVIATIONS = {"pronoun": "P", "age": "A", "skin_tone": "ST", "region": "AR", "subregion": "AS"}
"""Attribute -> its abbreviation; the order is that of the parts of an intersection in the paper's tables."""
_ANCESTRY = {"region", "subregion"}


def known_attributes(people: pd.DataFrame) -> list[str]:
    """Return the attributes of which at least one subject has a value."""
    return [name for name in attribute_columns(people) if people[ATTRIBUTE_PREFIX + name].map(len).any()]


def sensitive_attributes(people: pd.DataFrame) -> list[str]:
    """Return the sensitive attributes of which at least one subject has a value."""
    known = known_attributes(people)
    return [name for name in SENSITIVE if name in known]


def every_intersection(attributes: Sequence[str], depth: int | None = None) -> tuple[Cut, ...]:
    """Return every attribute and every intersection of up to `depth` of them (None: of any number)."""
    order = list(ABBREVIATIONS)
    ordered = sorted(dict.fromkeys(attributes), key=lambda a: (order.index(a) if a in order else len(order), a))
    sizes = range(1, (len(ordered) if depth is None else depth) + 1)
    parts = itertools.chain.from_iterable(itertools.combinations(ordered, size) for size in sizes)
    return tuple(Cut(JOIN.join(by), by) for by in parts if not set(by) >= _ANCESTRY)


def with_intersections(cuts: Sequence[Cut], attributes: Sequence[str], depth: int | None) -> tuple[Cut, ...]:
    """Return `cuts`, and the intersections of `attributes` that are not among them."""
    present = {frozenset(cut.by) for cut in cuts if not cut.groups}
    return (*cuts, *(cut for cut in every_intersection(attributes, depth) if frozenset(cut.by) not in present))


def abbreviation(cut: Cut) -> str:
    """Return a cut as the paper's tables write it: `pronoun_x_skin_tone` -> `PxST`."""
    return "x".join(ABBREVIATIONS.get(part, part) for part in cut.by)
