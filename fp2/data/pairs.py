"""Pictures of two people for questions about both: who stands on the left, who on the right, and how large each is."""

from __future__ import annotations

import numpy as np
import pandas as pd

LEFT, RIGHT = "left", "right"
_APART = 0.1  # of the narrower box: centres nearer than this do not say who is on the left


def two_person(people: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the two rows of each picture of two people, with their `side`, and notes on what was left out.

    The sides come from the middles of the person boxes. A picture is left out if it shows fewer or more than two
    people, if the data set knows only one of them, or if the boxes are missing or do not tell the sides apart.

    Returns
    -------
    (DataFrame, notes)
        The rows keep their order; `side` is `left` or `right`.
    """
    sizes = people.groupby("image_id")["n_people"].transform("size")
    single = int(people.loc[people["n_people"] != 2, "image_id"].nunique())
    known = (people["n_people"] == 2) & (sizes == 2)
    alone = int(people.loc[(people["n_people"] == 2) & ~known, "image_id"].nunique())
    middle = people["box_x"] + people["box_w"] / 2
    by_image = middle[known].groupby(people.loc[known, "image_id"])
    apart = by_image.max() - by_image.min()
    narrow = people[known].groupby("image_id")["box_w"].min()
    area = (people["box_w"] * people["box_h"])[known].groupby(people.loc[known, "image_id"]).min()
    missing = by_image.apply(lambda middles: bool(middles.isna().any())) | ~(area > 0)
    clear = (apart > _APART * narrow) & ~missing
    taken = known & people["image_id"].isin(clear.index[clear])
    pairs = people[taken].reset_index(drop=True)
    centre = middle[taken].reset_index(drop=True)
    mean = centre.groupby(pairs["image_id"]).transform("mean")
    pairs["side"] = np.where(centre < mean, LEFT, RIGHT)
    counts = {
        "of other than two people were left out": single,
        "of two people were left out: only one of them is in the data": alone,
        "of two people were left out: their boxes do not say who is on the left": int((~clear).sum()),
    }
    return pairs, tuple(f"{n} picture(s) {what}" for what, n in counts.items() if n)


def one_row_each(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per picture: of the person it was taken of, else of the one on the left."""
    order = pairs.assign(_rank=~pairs["is_primary"] * 2 + (pairs["side"] == RIGHT))
    first = order.sort_values(["image_id", "_rank"], kind="stable").drop_duplicates("image_id").index
    return pairs.loc[sorted(first)].reset_index(drop=True)
