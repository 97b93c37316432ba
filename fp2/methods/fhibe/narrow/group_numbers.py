"""Numbers by group: means of the score, and of the further columns, published metrics and scores at every threshold.

The published numbers are means over subject-image pairs, as in FHIBE's evaluation code; a pair counts in each of its
groups. Those of the curves are means over subjects, as all of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fp2.extension import Cut, memberships
from fp2.methods.fhibe.narrow import published
from fp2.methods.fhibe.scores import published as pairwise
from fp2.methods.fhibe.scores.benchmark import KEYS

if TYPE_CHECKING:
    import pandas as pd

AT = "at_"


def group_means(scores: pd.DataFrame, judged: pd.DataFrame, people: pd.DataFrame, cut: Cut) -> list[dict[str, Any]]:
    """Return each group's mean over subjects with a 95 % interval (Student's t), and its median over images.

    `found_share` is the share found of the `n_judged` of the group (subject-image pairs), with or without a score.
    """
    from scipy import stats

    joined = memberships(people, cut).merge(judged, on=KEYS).merge(scores, on=KEYS, how="left")
    rows = []
    for group, everyone in joined.groupby("group", sort=True):
        scored = everyone.dropna(subset=["score"])
        subject_means = scored.groupby("subject_id")["score"].mean()
        mean = float(subject_means.mean()) if len(subject_means) else None
        half = (
            float(subject_means.sem() * stats.t.ppf(0.975, len(subject_means) - 1)) if len(subject_means) > 1 else None
        )
        low, high = (None, None) if mean is None or half is None else (mean - half, mean + half)
        rows.append(
            {
                "cut": cut.name,
                "group": str(group),
                "n_subjects": len(subject_means),
                "n_images": scored["image_id"].nunique(),
                "n_judged": len(everyone),
                "n_judged_subjects": everyone["subject_id"].nunique(),
                "found_share": float(everyone["found"].mean()),
                "mean": mean,
                "low": low,
                "high": high,
                "median": float(scored["score"].median()) if len(subject_means) else None,
            }
        )
    return rows


def overall_means(part: pd.DataFrame) -> dict[str, float]:
    """Return the mean of every metric over subjects, of each subject's own mean."""
    means = {}
    for name, of_metric in part.dropna(subset=["value"]).groupby("scorer", sort=False):
        means[str(name)] = float(of_metric.groupby("subject_id")["value"].mean().mean())
    return means


def own_metrics(part: pd.DataFrame) -> pd.DataFrame:
    """Return the scores without those of this module."""
    return part[~part["scorer"].str.startswith((published.PREFIX, AT))]


def published_numbers(
    part: pd.DataFrame, people: pd.DataFrame, cuts: Sequence[Cut], alpha: float, min_subjects: int
) -> list[dict[str, Any]]:
    """Return one entry per published metric.

    Parameters
    ----------
    part : DataFrame
        Scores of one outcome (`image_id, subject_id, scorer, value`).
    people : DataFrame
    cuts : sequence of Cut
    alpha, min_subjects
        Of the pairwise tests of the published analysis.

    Returns
    -------
    list of dict
        `metric, title, higher_is_better, n, overall, groups` (per cut and group: `n, n_subjects, value`) and
        `disparities` (per cut: the significant pair of highest disparity).
    """
    metrics = []
    for name, of_metric in part[part["scorer"].str.startswith(published.PREFIX)].groupby("scorer", sort=False):
        scored = of_metric.dropna(subset=["value"])
        higher = str(name) not in published.LOWER_IS_BETTER
        groups, disparities = [], []
        for cut in cuts:
            joined = memberships(people, cut).merge(scored[[*KEYS, "value"]], on=KEYS)
            for group, entries in joined.groupby("group", sort=True):
                sizes = {"n": len(entries), "n_subjects": int(entries["subject_id"].nunique())}
                row = {"cut": cut.name, "group": str(group), **sizes}
                groups.append({**row, "value": float(entries["value"].mean())})
            joined["score"] = pairwise.reverse(joined["value"], higher_is_better=higher)
            compared = pairwise.in_release_order(pairwise.group_scores(joined, min_subjects), cut)
            pairs = pairwise.all_pairs(compared)
            significant, _ = pairwise.highest(pairs, alpha)
            disparities += [{"cut": cut.name, **pair.to_dict()} for pair in significant[:1]]
        metrics.append(
            {
                "metric": str(name),
                "title": published.title(str(name)),
                "higher_is_better": higher,
                "n": len(scored),
                "overall": float(scored["value"].mean()) if len(scored) else None,
                "groups": groups,
                "disparities": disparities,
            }
        )
    return metrics


def published_rates(verification: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the validation rates of a verification block as an entry of `published_numbers`."""
    rows = [row for row in (verification or {}).get("groups", ()) if row.get("validation")]
    if not rows:
        return []
    groups = [
        {
            "cut": row["cut"],
            "group": row["group"],
            "n": row["validation"]["n_faces"],
            "n_subjects": row["validation"]["n_subjects"],
            "value": row["validation"]["val"],
        }
        for row in rows
    ]
    title = "VAL: true acceptance rate at a false acceptance rate of 0.001, mean over 10 folds"
    return [
        {
            "metric": "published_val",
            "title": title,
            "higher_is_better": True,
            "n": None,
            "overall": None,
            "groups": groups,
            "disparities": [],
        }
    ]


def curves(part: pd.DataFrame, people: pd.DataFrame, cuts: Sequence[Cut]) -> dict[str, Any] | None:
    """Return the mean score at every threshold, overall and by group; None if scores have no thresholds.

    Returns
    -------
    dict
        `thresholds`, `overall` (a number each), and `groups`: `cut, group, n_subjects, values`.
    """
    at_thresholds = part[part["scorer"].str.startswith(AT)]
    if at_thresholds.empty:
        return None
    table = at_thresholds.pivot_table(index=KEYS, columns="scorer", values="value", sort=True)
    names = sorted(table.columns)
    subjects = table.reset_index()
    groups = []
    for cut in cuts:
        for group, entries in memberships(people, cut).merge(subjects, on=KEYS).groupby("group", sort=True):
            means = entries.groupby("subject_id")[names].mean()
            row = {"cut": cut.name, "group": str(group), "n_subjects": len(means)}
            groups.append({**row, "values": [float(value) for value in means.mean()]})
    overall = subjects.groupby("subject_id")[names].mean().mean()
    thresholds = [float(name.removeprefix(AT)) for name in names]
    return {"thresholds": thresholds, "overall": [float(value) for value in overall], "groups": groups}
