"""Scores as arrays: one column per probe and scorer, one entry per (image, group)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fp2.errors import Fp2Error
from fp2.scorers.registry import REFUSAL as REFUSAL
from fp2.scorers.registry import outcome_columns as outcome_columns

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fp2.cuts import Cut


@dataclass(frozen=True)
class Entries:
    """Values (n, m) of m outcomes with group, subject and image, (n,) each: one entry per (image, group)."""

    values: np.ndarray
    groups: np.ndarray
    subjects: np.ndarray
    images: np.ndarray


def members(people: pd.DataFrame, cut: Cut) -> pd.DataFrame:
    """Return the memberships of a cut: one row per (image, group).

    Raises
    ------
    Fp2Error
        If no subject is in any group.
    """
    from fp2.cuts import memberships

    table = memberships(people, cut)
    if table.empty:
        raise Fp2Error(f"no subject has a value for the cut {cut.name!r}", where="cut")
    return table


def entries_of(wide: pd.DataFrame, table: pd.DataFrame) -> Entries:
    """Return the outcomes (as `outcome_columns` gives them) of each row of a cut's memberships."""
    found = wide.reindex(list(zip(table["image_id"], table["subject_id"], strict=True)))
    return Entries(
        found.to_numpy(dtype="float64"),
        table["group"].to_numpy(dtype=object),
        table["subject_id"].to_numpy(dtype=object),
        table["image_id"].to_numpy(dtype=object),
    )


def yes_no_columns(values: np.ndarray, scorer_is: bool | Sequence[bool]) -> list[bool]:
    """Return which outcomes of `values` (n, m) are yes/no outcomes; `scorer_is`: whether their scorers are.

    The mean of several yes/no questions about one image is a share, and no longer a yes/no outcome.
    """
    import numpy as np

    whole = (np.isnan(values) | np.isin(values, (0.0, 1.0))).all(axis=0)
    return [bool(one and ok) for one, ok in zip(np.broadcast_to(scorer_is, whole.shape), whole, strict=True)]
