"""Attributes that follow from others, added to the people table where a run asks for them.

They are no part of the data set's digest, because they hold nothing that the attributes behind them do not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from fp2.data.fhibe import vocab
from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

if TYPE_CHECKING:
    import pandas as pd

FIRST_REGION = "first_region"
APART = "Northern America"
"""The subregion that the Fingerprint² page counts as a region of its own."""


def first_region(regions: Sequence[str], subregions: Sequence[str]) -> list[str]:
    """Return the region of the ancestry that FHIBE lists first, with Northern America apart; nothing without one.

    A cell lists its values in the order of their text, so that `10. Northern America` stands before `6. Americas`; no
    other subregion stands before its region. The Fingerprint² page takes the first value, and so has a sixth region. A
    bare region that counts for all its subregions (`data.expand_regions`) names none of them.
    """
    block = set(vocab.ANCESTRY_BLOCKS[vocab.REGION_OF[APART]])
    listed = [*regions, *([APART] if APART in subregions and not block <= set(subregions) else [])]
    known = [name for name in listed if name in vocab.vocabulary("ancestry").index_of]
    return [min(known, key=lambda name: vocab.code("ancestry", name))] if known else list(listed[:1])


_DERIVED: Mapping[str, tuple[tuple[str, ...], Callable[..., list[str]]]] = {
    FIRST_REGION: (("region", "subregion"), first_region),
}
"""Name -> the attributes that it follows from, and the function of a subject's values of them."""


def derivable(people: pd.DataFrame) -> list[str]:
    """Return the derived attributes that `people` lack and have the attributes for."""
    own = set(attribute_columns(people))
    return [name for name, (needed, _) in _DERIVED.items() if name not in own and own.issuperset(needed)]


def with_derived(people: pd.DataFrame, wanted: Collection[str]) -> pd.DataFrame:
    """Return the people with those of the derived attributes that are wanted and can be derived."""
    out = people.copy(deep=False)
    for name in derivable(people):
        if name in wanted:
            needed, derive = _DERIVED[name]
            cells = zip(*(people[ATTRIBUTE_PREFIX + one] for one in needed), strict=True)
            out[ATTRIBUTE_PREFIX + name] = [derive(*values) for values in cells]
    return out
