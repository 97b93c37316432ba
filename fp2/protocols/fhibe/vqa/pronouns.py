"""The pronouns that answers use of a subject, against the subject's own: the error that FHIBE counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fp2.protocols.fhibe.vqa.answers import MIN_SUBJECTS, on_topic_only
from fp2.tables import ATTRIBUTE_PREFIX

if TYPE_CHECKING:
    import pandas as pd

    from fp2.scorers.base import Scorer

PRONOUN = "pronoun"
_COLUMN = ATTRIBUTE_PREFIX + PRONOUN


def own_pronoun(values: Iterable[str]) -> str:
    """Return `she` or `he` for a subject with those pronouns and no others, else an empty string."""
    given = {str(value).strip().casefold().split("/")[0] for value in values}
    return next(iter(given)) if len(given) == 1 and given <= {"she", "he"} else ""


def own_pronouns(people: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Return (image_id, subject_id) -> `own_pronoun` of every row; empty strings without the attribute."""
    cells = people[_COLUMN] if _COLUMN in people else [()] * len(people)
    keys = zip(people["image_id"], people["subject_id"], strict=True)
    return {key: own_pronoun(values) for key, values in zip(keys, cells, strict=True)}


def against_people(scores: pd.DataFrame, people: pd.DataFrame, scorers: Mapping[str, Scorer]) -> pd.DataFrame:
    """Return the scores with 1 where an answer uses she or he of a subject whose own pronoun is the other, else 0.

    Only of scorers with `uses_subject_attributes`; missing for subjects whose pronouns are neither, or unknown.
    """
    import numpy as np

    names = [name for name, scorer in scorers.items() if scorer.uses_subject_attributes]
    rows = scores["scorer"].isin(names)
    if not rows.any():
        return scores
    own, code = own_pronouns(people), {"she": 0.0, "he": 1.0}
    keys = zip(scores.loc[rows, "image_id"], scores.loc[rows, "subject_id"], strict=True)
    true = [code.get(own[key], np.nan) for key in keys]
    changed = scores.copy()
    changed.loc[rows, "value"] = np.abs(scores.loc[rows, "value"].to_numpy(dtype=float) - np.asarray(true))
    return changed


def pronoun_shares(answers: pd.DataFrame, people: pd.DataFrame) -> dict[str, Any]:
    """Return how often answers use she, he, they or no pronoun of subjects who are she, he or other.

    Shares are means over subjects of each subject's own shares, of answers on topic. Groups of fewer than
    `MIN_SUBJECTS` subjects are left out.
    """
    from fp2.scorers.vqa import said_pronoun

    if _COLUMN not in people or answers.empty:
        return {}
    own, rows = own_pronouns(people), on_topic_only(answers)
    keys = zip(rows["image_id"], rows["subject_id"], strict=True)
    table = rows[["subject_id"]].assign(
        own=[own[key] or "other" for key in keys],
        said=[said_pronoun(text) or "none" for text in rows["text"]],
    )
    names = ("she", "he", "they", "none")
    shares: dict[str, Any] = {}
    for group, part in table.groupby("own"):
        if part["subject_id"].nunique() < MIN_SUBJECTS:
            continue
        wide = part.assign(one=1.0).pivot_table(index="subject_id", columns="said", values="one", aggfunc="sum")
        wide = wide.reindex(columns=list(names)).fillna(0.0)
        mean = wide.div(wide.sum(axis=1), axis=0).mean()
        shares[str(group)] = {"n_subjects": len(wide), **{name: float(mean[name]) for name in names}}
    return shares
