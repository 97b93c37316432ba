"""Counterfactual sets: images of one scene that differ in one attribute, compared within the set only.

A set varies in a cut if its images are in at least two of the cut's groups, its *versions* (`fp2.cuts.varying`). Sets
that vary in no cut of a run are left out of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fp2.cuts import Cut, varying
from fp2.errors import Fp2Error
from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

COMMON = 0.05
"""Another attribute is reported as varying with a cut if it varies in more than this share of the cut's sets."""
ALSO = " also vary in "
"""Part of the note on that."""


def whole_sets(people: pd.DataFrame, cuts: Sequence[Cut]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the rows of the sets that vary in a cut, and notes on what was left out and which attributes vary too.

    Raises
    ------
    Fp2Error
        If no set varies in any of the cuts.
    """
    alone = people["set_id"].isna()
    notes = []
    if alone.any():
        notes.append(f"{people.loc[alone, 'image_id'].nunique()} picture(s) that belong to no set were left out")
    sets = people[~alone]
    by_cut = {cut.name: varying(sets, cut) for cut in cuts}
    kept = {name for rows in by_cut.values() for name in rows["set_id"]}
    if not kept:
        raise Fp2Error(
            f"no counterfactual set varies in {', '.join(cut.name for cut in cuts)}",
            where="cut",
            fix=f"The sets vary in: {', '.join(_varied(sets)) or 'nothing'}",
        )
    if dropped := sets["set_id"].nunique() - len(kept):
        notes.append(f"{dropped} set(s) that vary in none of the cuts were left out")
    for cut in cuts:
        also = [name for name in _varied(by_cut[cut.name], COMMON) if name not in cut.by]
        if also:
            notes.append(
                f"the sets that vary in {cut.name}{ALSO}{', '.join(also)}: what is found within them is "
                "about these together"
            )
    return people[people["set_id"].isin(kept)].reset_index(drop=True), tuple(notes)


def _varied(people: pd.DataFrame, share: float = 0.0) -> list[str]:
    """Return the attributes that differ within more than `share` of the sets."""
    found = []
    for name in attribute_columns(people):
        labels = people[ATTRIBUTE_PREFIX + name].map(lambda cell: tuple(sorted(cell)))
        versions = labels.groupby(people["set_id"]).nunique()
        if len(versions) and (versions > 1).mean() > share:
            found.append(name)
    return found


def units(people: pd.DataFrame) -> pd.Series[str]:
    """Return for each row its independent unit: sets that share a subject, directly or over others, are one unit.

    Units are the connected components of the graph of sets and subjects; each is named by the first of its sets in
    alphabetical order.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    sets, names = pd.factorize(people["set_id"].astype("str"), sort=True)
    subjects, ids = pd.factorize(people["subject_id"])
    size = len(names) + len(ids)
    edges = coo_array((np.ones(len(people)), (sets, len(names) + subjects)), shape=(size, size))
    _, component = connected_components(edges, directed=False)
    first = pd.Series(sets).groupby(component[sets]).transform("min")
    return pd.Series(names[first], index=people.index, dtype="str")
