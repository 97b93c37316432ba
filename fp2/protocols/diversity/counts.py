"""Who is in a data set: counts in the form of FHIBE's Tables 1 to 3 (Xiang et al. 2025)."""

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


def intersections(people: pd.DataFrame, attributes: Sequence[str], least: int) -> list[dict[str, Any]]:
    """Return Table 1: per attribute and intersection how many groups there are, and their pictures.

    `median_images, largest, smallest` count pictures of a group that anybody is in; `comparable` is how many groups
    have at least `least` people. A picture counts in each of its groups.
    """
    out = []
    for size in range(1, len(attributes) + 1):
        for by in combinations(attributes, size):
            groups = memberships(people, Cut("_".join(by), by)).groupby("group")
            images = groups["image_id"].nunique()
            if len(images):
                counts = [int(n) for n in images]
                out.append(
                    {
                        "by": list(by), "groups": len(counts), "median_images": float(median(counts)),
                        "largest": max(counts), "smallest": min(counts),
                        "comparable": int((groups["subject_id"].nunique() >= least).sum()),
                    }
                )  # fmt: skip
    return out


def totals(people: pd.DataFrame) -> dict[str, int]:
    """Return Table 2: pictures, people, attributes that anybody has a value of, and distinct values of all of them."""
    names = attribute_columns(people)
    values = {name: {v for cell in people[ATTRIBUTE_PREFIX + name] for v in cell} for name in names}
    used = {name: found for name, found in values.items() if found}
    return {
        "images": int(people["image_id"].nunique()),
        "subjects": int(people["subject_id"].nunique()),
        "attributes": len(used),
        "attribute_values": sum(map(len, used.values())),
    }


def shares(people: pd.DataFrame, attribute: str, least: int) -> list[dict[str, Any]]:
    """Return the groups of one attribute with their people and pictures, and the share of the pictures (Table 3).

    Groups of fewer than `least` people are put together.
    """
    if attribute not in attribute_columns(people):
        return []
    entries = memberships(people, Cut(attribute, (attribute,)))
    sizes = entries.groupby("group").agg(n_subjects=("subject_id", "nunique"), n_images=("image_id", "nunique"))
    whole = max(1, entries["image_id"].nunique())
    small = set(sizes.index[sizes["n_subjects"] < least])
    rows = [_share(str(name), entries[entries["group"] == name], whole) for name in sizes.index if name not in small]
    rows.sort(key=lambda row: -row["n_images"])
    if small:
        rows.append(_share(f"({len(small)} smaller groups)", entries[entries["group"].isin(small)], whole))
    return rows


def _share(name: str, entries: pd.DataFrame, whole: int) -> dict[str, Any]:
    n = int(entries["image_id"].nunique())
    return {"group": name, "n_subjects": int(entries["subject_id"].nunique()), "n_images": n, "share": n / whole}


def shown_attributes(people: pd.DataFrame) -> list[str]:
    """Return the attributes whose groups are listed: none of place and time but the UN's regions."""
    return [name for name in attribute_columns(people) if name not in PLACE_AND_TIME or name == PLACES]
