"""What was said of a person held against the person's own pronouns: the error that FHIBE counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from fp2.tables import ATTRIBUTE_PREFIX

if TYPE_CHECKING:
    import pandas as pd

    from fp2.scorers.base import Scorer

PRONOUN = "pronoun"


def own_pronoun(values: Iterable[str]) -> str:
    """Return `she` or `he` for a person whose own pronouns are those and no others, else an empty string."""
    given = {str(value).strip().casefold().split("/")[0] for value in values}
    return next(iter(given)) if len(given) == 1 and given <= {"she", "he"} else ""


def against_people(scores: pd.DataFrame, people: pd.DataFrame, scorers: Mapping[str, Scorer]) -> pd.DataFrame:
    """Return the scores with 1 where she or he was said of somebody whose own pronouns are the other, else 0.

    Only for scorers with `uses_subject_attributes`; missing for people whose own pronouns are neither, or unknown.
    """
    import numpy as np

    names = [name for name, scorer in scorers.items() if scorer.uses_subject_attributes]
    rows = scores["scorer"].isin(names)
    if not rows.any():
        return scores
    column = ATTRIBUTE_PREFIX + PRONOUN
    own = {"she": 0.0, "he": 1.0}
    cells = people[column] if column in people else [()] * len(people)
    meant = {
        key: own.get(own_pronoun(values), np.nan)
        for key, values in zip(zip(people["image_id"], people["subject_id"], strict=True), cells, strict=True)
    }
    theirs = [meant[key] for key in zip(scores.loc[rows, "image_id"], scores.loc[rows, "subject_id"], strict=True)]
    changed = scores.copy()
    changed.loc[rows, "value"] = np.abs(scores.loc[rows, "value"].to_numpy(dtype=float) - np.asarray(theirs))
    return changed
