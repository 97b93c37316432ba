"""Counts of a data set's people and images, as in Tables 1 to 3 of Xiang et al. 2025 (FHIBE)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, Any

from fp2.cuts import Cut, memberships
from fp2.tables import ATTRIBUTE_PREFIX, PLACE_AND_TIME, attribute_columns

if TYPE_CHECKING:
    import pandas as pd

PLACES = "location_un_region"


def intersections(people: pd.DataFrame, attributes: Sequence[str], min_subjects: int) -> list[dict[str, Any]]:
    """Return Table 1: for each attribute and intersection the number of groups, and of their images.

    `median_images, largest, smallest` are over groups with at least one subject; `comparable` is the number of groups
    with at least `min_subjects`. An image counts in each of its groups.
    """
    out = []
    for size in range(1, len(attributes) + 1):
        for by in combinations(attributes, size):
            groups = memberships(people, Cut("_".join(by), by)).groupby("group")
            counts = [int(n) for n in groups["image_id"].nunique()]
            if counts:
                out.append(
                    {
                        "by": list(by), "groups": len(counts), "median_images": float(median(counts)),
                        "largest": max(counts), "smallest": min(counts),
                        "comparable": int((groups["subject_id"].nunique() >= min_subjects).sum()),
                    }
                )  # fmt: skip
    return out


def totals(people: pd.DataFrame) -> dict[str, int]:
    """Return Table 2: images, subjects, attributes with a value, and distinct values of all attributes."""
    names = attribute_columns(people)
    values = {name: {v for cell in people[ATTRIBUTE_PREFIX + name] for v in cell} for name in names}
    used = {name: found for name, found in values.items() if found}
    return {
        "images": int(people["image_id"].nunique()),
        "subjects": int(people["subject_id"].nunique()),
        "attributes": len(used),
        "attribute_values": sum(map(len, used.values())),
    }


def shares(people: pd.DataFrame, attribute: str, min_subjects: int) -> list[dict[str, Any]]:
    """Return the groups of one attribute with their subjects and images, and the share of the images (Table 3).

    Groups of fewer than `min_subjects` subjects are pooled.
    """
    if attribute not in attribute_columns(people):
        return []
    entries = memberships(people, Cut(attribute, (attribute,)))
    n_subjects = entries.groupby("group")["subject_id"].nunique()
    whole = max(1, entries["image_id"].nunique())
    small = set(n_subjects.index[n_subjects < min_subjects])
    rows = [
        _share(str(name), entries[entries["group"] == name], whole) for name in n_subjects.index if name not in small
    ]
    rows.sort(key=lambda row: -row["n_images"])
    if small:
        rows.append(_share(f"({len(small)} smaller groups)", entries[entries["group"].isin(small)], whole))
    return rows


def _share(name: str, entries: pd.DataFrame, whole: int) -> dict[str, Any]:
    n = int(entries["image_id"].nunique())
    return {"group": name, "n_subjects": int(entries["subject_id"].nunique()), "n_images": n, "share": n / whole}


def shown_attributes(people: pd.DataFrame) -> list[str]:
    """Return the attributes whose groups are listed: of place and time only the UN's regions."""
    return [name for name in attribute_columns(people) if name not in PLACE_AND_TIME or name == PLACES]
