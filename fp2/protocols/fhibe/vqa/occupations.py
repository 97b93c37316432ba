"""Occupations that are stated more often for one group than for all other subjects.

A subject's value for an occupation is the share of their answers that state it. Each group is compared with the
subjects outside it by the Mann-Whitney test, with Holm's correction over all occupations, groups and cuts of the run.
The paper reports shares only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fp2.cuts import memberships
from fp2.protocols.fhibe.vqa.answers import on_topic_only

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut


def occupations_block(
    answers: pd.DataFrame, people: pd.DataFrame, cuts: Sequence[Cut], min_stated: int, alpha: float, min_subjects: int
) -> dict[str, Any]:
    """Return `stated` (each occupation's share and subjects), `rows` (occupation x group, with tests), `family_size`.

    Occupations that were stated for at least `min_stated` subjects are tested, in groups of at least `min_subjects`.
    """
    from fp2.stats.adjustment import adjust_p_values

    shares = subject_shares(answers)
    if shares.empty:
        return {"stated": [], "rows": [], "family_size": 0, "alpha": alpha}
    counts = (shares > 0).sum()
    tested = [name for name in shares.columns if counts[name] >= min_stated]
    stated = [
        {"occupation": str(name), "share": float(shares[name].mean()), "n_subjects": int(counts[name])}
        for name in sorted(tested, key=lambda name: -shares[name].mean())
    ]
    rows = [row for cut in cuts for row in _by_group(shares[tested], people, cut, min_subjects)]
    for row, p in zip(rows, adjust_p_values([row["p_value"] for row in rows], "holm"), strict=True):
        row["adjusted_p"] = p
        row["over"] = bool(p is not None and p <= alpha and row["difference"] > 0)
    return {
        "stated": stated,
        "rows": rows,
        "family_size": sum(row["p_value"] is not None for row in rows),
        "alpha": alpha,
        "rare": int(len(counts) - len(tested)),
    }


def subject_shares(answers: pd.DataFrame) -> pd.DataFrame:
    """Return subjects x occupations: the share of a subject's answers on topic that state the occupation."""
    import pandas as pd

    from fp2.scorers.vqa import occupation

    rows = on_topic_only(answers[answers["probe"] == "neutral"])
    if rows.empty:
        return pd.DataFrame()
    named = pd.Series([occupation(text) for text in rows["text"]], name="occupation")
    counts = pd.crosstab(rows["subject_id"].to_numpy(), named.to_numpy())
    return counts.div(counts.sum(axis=1), axis=0)


def _by_group(shares: pd.DataFrame, people: pd.DataFrame, cut: Cut, min_subjects: int) -> list[dict[str, Any]]:
    table = memberships(people, cut)[["subject_id", "group"]].drop_duplicates()
    table = table[table["subject_id"].isin(shares.index)]
    known = shares.loc[shares.index.isin(table["subject_id"])]
    rows = []
    for group, part in table.groupby("group", sort=True):
        inside = known.index.isin(part["subject_id"])
        if inside.sum() >= min_subjects and (~inside).sum() >= min_subjects:
            columns = ((str(name), known[name].to_numpy()) for name in shares.columns)
            rows += [_row(cut.name, str(group), name, values, inside) for name, values in columns]
    return rows


def _row(cut: str, group: str, name: str, values: Any, inside: Any) -> dict[str, Any]:
    from scipy.stats import mannwhitneyu

    own, rest = values[inside], values[~inside]
    constant = bool((values == values[0]).all())
    p = None if constant else float(mannwhitneyu(own, rest, alternative="two-sided", method="asymptotic").pvalue)
    share, others = float(own.mean()), float(rest.mean())
    return {
        "cut": cut, "group": group, "occupation": name, "share": share, "others": others,
        "difference": share - others, "ratio": share / others if others > 0 else None,
        "n_subjects": int(inside.sum()), "n_others": int((~inside).sum()), "p_value": p,
    }  # fmt: skip
