"""Which occupations are stated more often for one group than for everybody else: subject-level, with correction.

A person's value for an occupation is the share of their answers that state it. Each group is compared with the people
outside it by the Mann-Whitney test; Holm's correction is over all occupations, groups and cuts of the run. The paper
shows shares only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut


def occupations_block(
    said: pd.DataFrame, people: pd.DataFrame, cuts: Sequence[Cut], least: int, alpha: float, min_subjects: int
) -> dict[str, Any]:
    """Return `stated` (each occupation's share and people), `rows` (occupation x group, with tests), `family_size`.

    Only occupations that were stated of at least `least` people are tested, and only groups of `min_subjects`.
    """
    from fp2.stats.adjustment import adjust_p_values

    shares = person_shares(said)
    if shares.empty:
        return {"stated": [], "rows": [], "family_size": 0, "alpha": alpha}
    counts = (shares > 0).sum()
    tested = [name for name in shares.columns if counts[name] >= least]
    stated = [
        {"occupation": str(name), "share": float(shares[name].mean()), "n_subjects": int(counts[name])}
        for name in sorted(tested, key=lambda name: -shares[name].mean())
    ]
    rows = [row for cut in cuts for row in _of_cut(shares[tested], people, cut, min_subjects)]
    corrected = adjust_p_values([row["p_value"] for row in rows], "holm")
    for row, p in zip(rows, corrected, strict=True):
        row["adjusted_p"] = p
        row["over"] = bool(p is not None and p <= alpha and row["difference"] > 0)
    return {
        "stated": stated,
        "rows": rows,
        "family_size": sum(row["p_value"] is not None for row in rows),
        "alpha": alpha,
        "rare": int(len(counts) - len(tested)),
    }


def person_shares(said: pd.DataFrame) -> pd.DataFrame:
    """Return subjects x occupations: the share of a person's answers on topic that state the occupation."""
    import pandas as pd

    from fp2.protocols.fhibe.vqa.protocol import on_topic_only
    from fp2.scorers.vqa_text import occupation

    rows = on_topic_only(said[said["probe"] == "neutral"])
    if rows.empty:
        return pd.DataFrame()
    named = pd.Series([occupation(text) for text in rows["text"]], name="occupation")
    counts = pd.crosstab(rows["subject_id"].to_numpy(), named.to_numpy())
    return counts.div(counts.sum(axis=1), axis=0)


def _of_cut(shares: pd.DataFrame, people: pd.DataFrame, cut: Cut, min_subjects: int) -> list[dict[str, Any]]:
    from fp2.cuts import memberships

    table = memberships(people, cut)[["subject_id", "group"]].drop_duplicates()
    table = table[table["subject_id"].isin(shares.index)]
    everybody = shares.loc[shares.index.isin(table["subject_id"])]
    rows = []
    for group, part in table.groupby("group", sort=True):
        inside = everybody.index.isin(part["subject_id"])
        if inside.sum() < min_subjects or (~inside).sum() < min_subjects:
            continue
        rows += [_row(cut.name, str(group), str(name), everybody[name].to_numpy(), inside) for name in shares.columns]
    return rows


def _row(cut: str, group: str, name: str, values: Any, inside: Any) -> dict[str, Any]:
    from scipy.stats import mannwhitneyu

    mine, rest = values[inside], values[~inside]
    constant = bool((values == values[0]).all())
    p = None if constant else float(mannwhitneyu(mine, rest, alternative="two-sided", method="asymptotic").pvalue)
    share, others = float(mine.mean()), float(rest.mean())
    return {
        "cut": cut, "group": group, "occupation": name, "share": share, "others": others,
        "difference": share - others, "ratio": share / others if others > 0 else None,
        "n_subjects": int(inside.sum()), "n_others": int((~inside).sum()), "p_value": p,
    }  # fmt: skip
