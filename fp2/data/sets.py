"""Counterfactual sets: the same scene with one attribute changed, compared within the set and never as a population.

A set speaks about a cut if its pictures are in at least two of the cut's groups: its *versions*. Sets that speak about
no cut of a run are not asked about.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fp2.cuts import Cut, memberships
from fp2.errors import Fp2Error
from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

COMMON = 0.05
"""Share of a cut's sets from which on another attribute is told to vary along with it."""
ALSO = " also vary in "
"""Stands in the note on that."""


def of_sets(people: pd.DataFrame) -> bool:
    """Whether the pictures are of counterfactual sets."""
    return bool(people["set_id"].notna().any())


def varying(people: pd.DataFrame, cut: Cut) -> pd.DataFrame:
    """Return the rows of the sets whose pictures are in two or more of the cut's groups; of a population, all rows."""
    if not of_sets(people):
        return people
    table = memberships(people, cut).merge(people[["image_id", "subject_id", "set_id"]], on=["image_id", "subject_id"])
    versions = table.groupby("set_id")["group"].nunique()
    return people[people["set_id"].isin(versions.index[versions >= 2])].reset_index(drop=True)


def whole_sets(people: pd.DataFrame, cuts: Sequence[Cut]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the rows of the sets that vary in one of the cuts, and notes on what was left out and what varies along.

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
    """Return for each row what is independent of the others: sets that share a person, and their people, are one unit.

    Named by its first set in the order of names.
    """
    head: dict[tuple[str, str], tuple[str, str]] = {}

    def root(node: tuple[str, str]) -> tuple[str, str]:
        while head.setdefault(node, node) != node:
            node = head[node]
        return node

    for name, subject in zip(people["set_id"], people["subject_id"], strict=True):
        a, b = sorted((root(("", str(name))), root(("person", str(subject)))))
        head[b] = a
    return pd.Series([root(("", str(name)))[1] for name in people["set_id"]], index=people.index, dtype="str")


def group_sizes(people: pd.DataFrame, cuts: Sequence[Cut]) -> dict[str, dict[str, dict[str, int]]]:
    """Return cut -> group -> number of subjects and of images (of counterfactual sets: those that vary in the cut)."""
    sizes: dict[str, dict[str, dict[str, int]]] = {}
    for cut in cuts:
        grouped = memberships(varying(people, cut), cut).groupby("group", sort=True)
        sizes[cut.name] = {
            str(group): {"n_subjects": part["subject_id"].nunique(), "n_images": part["image_id"].nunique()}
            for group, part in grouped
        }
    return sizes
