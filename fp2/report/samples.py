"""A sample of a run's answers to read: by probe, group and refusal; text only, no id and no image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fp2.cuts import Cut, memberships, with_present_values
from fp2.tables import CONTROLS

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.answers import RunTables

_KEY = ["image_id", "subject_id"]
_MANY = 200
"""Most answers of one probe, however many groups its cuts have."""


def sample_answers(
    tables: RunTables, cuts: Sequence[Cut], scorer: str, per_group: int, min_cell: int
) -> list[dict[str, Any]]:
    """Return up to `per_group` text answers, and as many refusals, of each probe and group of each cut.

    Answers are taken in the order of their salted keys, which is random and the same each time. A group with fewer
    than `min_cell` subjects is not named.

    Parameters
    ----------
    tables : RunTables
        With salted keys.
    scorer : str
        Whose value is shown beside an answer (None where it has none).

    Returns
    -------
    list of dict
        `probe, question, text, refused, value, groups` (cut -> group, or None).
    """
    from fp2.ask.answers import RowAnswers

    if not isinstance(tables.answers, RowAnswers) or not per_group:
        return []
    rows = tables.answers.answered
    rows = rows[~rows["variant"].isin(CONTROLS)].sort_values("response_key", kind="stable")
    rows = rows.drop_duplicates("response_key").reset_index(drop=True)
    if rows.empty:
        return []
    groups = {cut.name: groups_of(tables.people, cut, min_cell) for cut in cuts}
    table = rows[[*_KEY, "probe", "question_id", "text", "refused"]].assign(value=values_of(tables, rows, scorer))
    for name, labels in groups.items():
        table = table.join(labels.rename(name), on=_KEY)
    kept: set[int] = set()
    for name in groups or ("probe",):
        parts = table.groupby(["probe", "refused", name] if groups else ["probe", "refused"], sort=False)
        kept |= set(parts.head(per_group).index)
    chosen = table.loc[sorted(kept)].groupby("probe", sort=False).head(_MANY)
    return [
        {
            "probe": row["probe"],
            "question": row["question_id"],
            "text": row["text"],
            "refused": bool(row["refused"]),
            "value": None if row["value"] != row["value"] else float(row["value"]),
            "groups": {name: row[name] if isinstance(row[name], str) else None for name in groups},
        }
        for row in chosen.to_dict("records")
    ]


def values_of(tables: RunTables, rows: pd.DataFrame, scorer: str) -> Any:
    """Return the scorer's value of each row; NaN where it has none."""
    if tables.scores is None:
        return float("nan")
    own = tables.scores[tables.scores["scorer"] == scorer].drop_duplicates("response_key")
    return rows["response_key"].map(own.set_index("response_key")["value"])


def groups_of(people: pd.DataFrame, cut: Cut, min_cell: int = 0) -> pd.Series[str]:
    """Return the groups of each (image, subject), joined by a comma; groups that are too small are left out."""
    table = memberships(people, with_present_values(people, cut))
    sizes = table.groupby("group")["subject_id"].nunique()
    table = table[table["group"].map(sizes) >= min_cell]
    return table.groupby(_KEY)["group"].agg(", ".join)
