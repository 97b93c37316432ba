"""Rates of a 0/1 outcome by group, as in FHIBE's Fig. 4: estimate, interval, group size. The unit is the person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fp2.cuts import Cut


def rates(
    scores: pd.DataFrame, scorer: str, people: pd.DataFrame, cut: Cut, alpha: float, min_subjects: int
) -> list[dict[str, Any]]:
    """Return one row per group with at least `min_subjects` people: its rate with a 1 - alpha interval, and its size.

    Refused answers and answers off topic do not count; a person's rate is over all their answers.
    """
    from fp2.cuts import memberships

    counted = _counted(scores, scorer)
    table = counted.merge(memberships(people, cut), on=["image_id", "subject_id"])
    if table.empty:
        return []
    return _rows(table["value"], table["group"], table["subject_id"], alpha, min_subjects)


def overall(scores: pd.DataFrame, scorer: str, alpha: float) -> dict[str, Any] | None:
    """Return the rate over everybody, or None if nothing counts."""
    counted = _counted(scores, scorer)
    if counted.empty:
        return None
    rows = _rows(counted["value"], ["all"] * len(counted), counted["subject_id"], alpha, 1)
    return rows[0] if rows else None


def _counted(scores: pd.DataFrame, scorer: str) -> pd.DataFrame:
    rows = scores[(scores["scorer"] == scorer) & scores["value"].notna() & ~scores["refused"].astype(bool)]
    return rows[["image_id", "subject_id", "value"]]


def _rows(values: Any, groups: Any, subjects: Any, alpha: float, min_subjects: int) -> list[dict[str, Any]]:
    import numpy as np

    from fp2.stats.proportions import proportions_by_group

    arrays: list[np.ndarray] = [np.asarray(values, float), np.asarray(groups, str), np.asarray(subjects, str)]
    found = proportions_by_group(*arrays, alpha=alpha, min_subjects=min_subjects)
    return [
        {
            "group": row.group, "rate": row.rate, "ci_low": row.ci_low, "ci_high": row.ci_high,
            "n_subjects": row.n_subjects, "n_answers": row.n_images,
        }
        for row in found.groups
    ]  # fmt: skip
