"""FHIBE's benchmarking analysis of scores per subject and image, with a subject-level analysis beside it.

The published analysis takes images as units: pairwise Mann-Whitney tests and medians (`published`). The subject-level
one permutes group labels across subjects (`fp2.stats`). Of a binary outcome medians are 0 or 1, so proportions are
compared instead: means over subjects of each subject's own proportion, with intervals that account for several images
of one subject. The interval of the ratio of two proportions is MOVER's (Donner and Zou 2012, Statistics in Medicine
31, section 2.2).

The keys of the result are stable: keys are only ever added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.extension import Cut, Fp2Error, ScoreComparison, memberships, with_present_values
from fp2.methods.fhibe.scores import published
from fp2.methods.fhibe.scores.conditions import keep
from fp2.methods.fhibe.scores.features import abbreviation

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import DisparityRow
    from fp2.methods.fhibe.proportions import Proportion

KEYS = ["image_id", "subject_id"]


@dataclass(frozen=True, kw_only=True)
class BenchmarkOptions(ScoreComparison):
    """How one score is compared.

    Attributes
    ----------
    higher_is_better, yes_no : bool
        The direction of the score, and whether it is 0 or 1.
    value_range : (float, float), optional
        The scale of the score; None: from 0 to 1, or to its extremes over all subjects. A score of which lower values
        are better needs one unless it is binary: the published analysis reverses it at the upper end, and values
        above that end are clipped to it (max(0, 1 - LPIPS)).
    within : str, optional
        A condition (`conditions`): subjects and images for which it holds are analysed.
    top_k : int
        Rows of the table of highest disparities.
    smallest_effect : float
        The smallest effect of interest.
    """

    higher_is_better: bool = True
    yes_no: bool = False
    value_range: tuple[float, float] | None = None
    within: str | None = None
    top_k: int = 40
    smallest_effect: float = 0.05


def benchmark(
    scores: pd.DataFrame,
    people: pd.DataFrame,
    cuts: Sequence[Cut],
    options: BenchmarkOptions | None = None,
    tick: Callable[[], None] = lambda: None,
    *,
    outcome: str | None = None,
) -> dict[str, Any]:
    """Compare groups on one score, by the published analysis and by the subject-level one.

    Parameters
    ----------
    scores : DataFrame
        `image_id, subject_id, score`: one row per subject and image; NaN is a missing score. Ids may be salted keys.
    people : DataFrame
        The people table (attributes as lists), with any further columns that `options.within` names.
    cuts : sequence of Cut
        Single attributes and intersections.
    options : BenchmarkOptions
    tick : callable
        Called after each cut.
    outcome : str, optional
        Name of the outcome in the table of highest disparities.

    Returns
    -------
    dict
        Finite JSON values. `n_images, n_subjects` (with a score, within the condition), `n_unknown` (scores of
        subjects not in `people`), `n_without` (missing scores), `n_clipped` (scores above the upper end), `within`,
        `negative`, `direction`, `overall` (mean over subjects; None where no subject is left, and then there are no
        rows), `rows` (per cut: `cut, abbreviation, n_groups, n_pairs, threshold, pairs` (the significant ones),
        `published` (the significant pair of highest disparity, or None), `shares` (binary outcomes only), `ours` (a
        disparity row, corrected over the cuts), `agreement`, `reasons`, `why`), and `top` (as the paper's Extended
        Data Table 2: `intersection, disparity, worst, best`). A cut of which no subject has a value is a row of status
        `too_few_subjects`.
    """
    options = options or BenchmarkOptions()
    whole = _joined(scores, people)
    if options.yes_no and not whole["score"].dropna().isin((0.0, 1.0)).all():
        raise Fp2Error("a binary outcome has values other than 0 and 1", where="scores", fix="Omit yes_no")
    scale = _range(whole["score"], options)  # over all subjects, so that a condition does not change the scale
    negative = bool((whole["score"] < 0).any()) and options.higher_is_better
    joined = keep(whole, options.within).reset_index(drop=True)
    n_clipped = 0 if options.higher_is_better else int((joined["score"] > scale[1]).sum())
    joined["score"] = joined["score"].clip(upper=scale[1])
    joined["reversed"] = published.reverse(joined["score"], higher_is_better=options.higher_is_better, high=scale[1])
    compared = []
    for cut in cuts if joined["score"].notna().any() else ():
        compared.append(_compare(cut, joined, options, scale, len(cuts), negative))
        tick()
    rows = _with_verdicts(compared, options)
    scored = joined.dropna(subset=["score"])
    return {
        "direction": "higher is better" if options.higher_is_better else "lower is better",
        "yes_no": options.yes_no,
        "value_range": list(scale),
        "within": options.within,
        "negative": negative,
        "n_images": int(scored["image_id"].nunique()),
        "n_subjects": int(scored["subject_id"].nunique()),
        "n_unknown": int((~_pairs(scores).isin(set(_pairs(people)))).sum()),
        "n_without": int(joined["score"].isna().sum()),
        "n_clipped": n_clipped,
        "overall": float(scored.groupby("subject_id")["score"].mean().mean()) if len(scored) else None,
        "rows": rows,
        "top": top_table(rows, options.top_k, outcome),
        "n_cases": sum(row["published"] is not None for row in rows),
    }


def top_table(rows: Sequence[dict[str, Any]], top_k: int, outcome: str | None = None) -> list[dict[str, Any]]:
    """Return the cuts of highest significant disparity in the form of the paper's Extended Data Table 2."""
    significant = [row for row in rows if row["published"] is not None and row["published"]["disparity"] is not None]
    significant.sort(key=lambda row: (-row["published"]["disparity"], row["cut"]))
    return [
        {
            **({"outcome": outcome} if outcome else {}),
            "intersection": row["abbreviation"],
            "cut": row["cut"],
            "disparity": row["published"]["disparity"],
            "worst": row["published"]["worst"],
            "best": row["published"]["best"],
            "agreement": row["agreement"],
        }
        for row in significant[:top_k]
    ]


def _pairs(frame: pd.DataFrame) -> pd.Series[Any]:
    import pandas as pd

    return pd.Series(list(zip(frame["image_id"], frame["subject_id"], strict=True)), dtype="object")


def _joined(scores: pd.DataFrame, people: pd.DataFrame) -> pd.DataFrame:
    """Return the people with their score."""
    repeated = scores.duplicated(KEYS)
    if repeated.any():
        first = scores.loc[repeated, KEYS].iloc[0]
        what = f"two scores of one subject in one image: {first['image_id']!r}, {first['subject_id']!r}"
        raise Fp2Error(what, where="scores")
    table = people.drop(columns="score", errors="ignore")
    joined = table.merge(scores[[*KEYS, "score"]], on=KEYS, how="left")
    if joined["score"].notna().sum() == 0:
        fix = "Use the image_id and subject_id of the data set"
        raise Fp2Error("no score belongs to a subject of the data set", where="scores", fix=fix)
    return joined


def _range(values: pd.Series[Any], options: BenchmarkOptions) -> tuple[float, float]:
    """Return the scale of the score."""
    lowest, highest = float(values.min()), float(values.max())
    if not np.isfinite([lowest, highest]).all():
        raise Fp2Error("a score is infinite", where="scores", fix="Leave the cell of a missing score empty")
    given = (0.0, 1.0) if options.yes_no and options.value_range is None else options.value_range
    if given is None and not options.higher_is_better:
        what = "lower values are better, and the range of the score is not known"
        raise Fp2Error(what, where="value_range", fix="Give the range: scores are reversed at its upper end")
    if given is None:
        return (min(0.0, lowest), max(1.0, highest))
    low, high = given
    if lowest < low or (highest > high and options.higher_is_better):
        what = f"scores run from {lowest:g} to {highest:g}, outside the range [{low:g}, {high:g}]"
        raise Fp2Error(what, where="scores")
    return float(low), float(high)


@dataclass(frozen=True)
class _Compared:
    """One cut: the published analysis, and the subject-level row before it is corrected within its family."""

    row: dict[str, Any]
    ours: DisparityRow
    pairs: list[published.PairDisparity]
    groups: dict[str, published.GroupScores]


def _compare(
    cut: Cut, joined: pd.DataFrame, options: BenchmarkOptions, scale: tuple[float, float], n_cuts: int, negative: bool
) -> _Compared:
    from fp2.extension import default_permutations, disparity

    table = memberships(joined, with_present_values(joined, cut)).merge(joined[[*KEYS, "score", "reversed"]], on=KEYS)
    scores = table[["group", "subject_id"]].assign(score=table["reversed"])
    groups = published.group_scores(scores, options.min_subjects)
    ordered = published.in_release_order(groups, cut)
    pairs = published.all_pairs(ordered, by_share=options.yes_no, negative=negative)
    significant, threshold = published.highest(pairs, options.alpha)
    best = significant[0] if significant else None
    arrays = {name: table[name].to_numpy(dtype=object) for name in ("group", "subject_id", "image_id")}
    values = table["score"].to_numpy(dtype=np.float64)
    ours = disparity(
        values,
        arrays["group"],
        arrays["subject_id"],
        images=arrays["image_id"],
        higher_is_better=options.higher_is_better,
        value_range=scale,
        yes_no=options.yes_no,
        smallest_effect=options.smallest_effect,
        alpha=options.alpha,
        min_subjects=options.min_subjects,
        n_permutations=options.n_permutations or default_permutations(max(1, n_cuts), options.alpha),
        n_bootstrap=options.n_bootstrap,
        seed=options.seed,
    )
    row: dict[str, Any] = {
        "cut": cut.name,
        "abbreviation": abbreviation(cut),
        "n_parts": len(cut.by),
        "n_groups": len(groups),
        "n_pairs": len(pairs),
        "threshold": threshold,
        "groups": [
            {
                "group": g.name,
                "n_subjects": g.n_subjects,
                "n_images": len(g.scores),
                "median": g.median,
                "mean": float(g.scores.mean()),
            }
            for g in groups
        ],
        "n_significant": len(significant),
        "pairs": [pair.to_dict() for pair in significant[: options.top_k]],
        "published": None if best is None else best.to_dict(),
    }
    if options.yes_no:
        worst, highest = (best.worst, best.best) if best else (ours.worst_group, ours.best_group)
        row["shares"] = _proportions(values, arrays["group"], arrays["subject_id"], options, worst, highest)
    return _Compared(row, ours, significant, {group.name: group for group in groups})


def _with_verdicts(compared: Sequence[_Compared], options: BenchmarkOptions) -> list[dict[str, Any]]:
    """Return the rows, corrected over all cuts, with the agreement of the two analyses."""
    from fp2.extension import adjust

    adjusted = adjust([cut.ours for cut in compared], options.correction, options.alpha)
    rows = []
    for cut, ours in zip(compared, adjusted, strict=True):
        pair = cut.pairs[0] if cut.pairs else None
        agreed = published.compare_analyses(pair, cut.groups, ours, threshold=cut.row["threshold"], alpha=options.alpha)
        rows.append({**cut.row, "ours": ours.to_dict(), **agreed})
    return rows


def _proportions(
    values: np.ndarray,
    groups: np.ndarray,
    subjects: np.ndarray,
    options: BenchmarkOptions,
    worst: str | None,
    best: str | None,
) -> dict[str, Any]:
    """Return each group's proportion with its interval, and difference and ratio of the pair (worst, best).

    values (0, 1 or NaN), groups, subjects (n,): one entry per (image, group).
    """
    from fp2.methods.fhibe.proportions import proportions_by_group

    proportions = proportions_by_group(values, groups, subjects, alpha=options.alpha, min_subjects=options.min_subjects)
    by_name = {group.group: group for group in proportions.groups}
    rows = [
        {
            "group": g.group,
            "share": g.rate,
            "ci_low": g.ci_low,
            "ci_high": g.ci_high,
            "n_subjects": g.n_subjects,
            "n_images": g.n_images,
        }
        for g in proportions.groups
    ]
    if worst not in by_name or best not in by_name:
        return {"groups": rows, "pair": None}
    a, b = by_name[str(worst)], by_name[str(best)]
    gap = next(pair for pair in proportions.pairs if {pair.first, pair.second} == {worst, best})
    sign, ends = (1.0, (gap.ci_low, gap.ci_high)) if gap.first == worst else (-1.0, (-gap.ci_high, -gap.ci_low))
    low, high = ratio_interval(a, b)
    return {
        "groups": rows,
        "pair": {
            "worst": worst,
            "best": best,
            "difference": sign * gap.difference,
            "difference_low": ends[0],
            "difference_high": ends[1],
            "ratio": a.rate / b.rate if b.rate > 0 else None,
            "ratio_low": low,
            "ratio_high": high,
            "dependent_groups": gap.dependent_groups,
        },
    }


def ratio_interval(a: Proportion, b: Proportion) -> tuple[float | None, float | None]:
    """Return the interval of a.rate / b.rate from the intervals of the two proportions (MOVER).

    The groups are taken as independent. None for an end that does not exist: without an upper end if b's interval
    reaches 0, without both if b's rate is 0.
    """
    if b.rate <= 0:
        return None, None
    if a.rate <= 0:
        return 0.0, a.ci_high / b.ci_low if b.ci_low > 0 else None
    product = a.rate * b.rate
    below = a.ci_low * (2 * a.rate - a.ci_low)
    low = below / (product + math.sqrt(max(0.0, product**2 - below * b.ci_high * (2 * b.rate - b.ci_high))))
    under = b.ci_low * (2 * b.rate - b.ci_low)
    above = product**2 - a.ci_high * (2 * a.rate - a.ci_high) * under
    return low, (product + math.sqrt(max(0.0, above))) / under if under > 0 else None
