"""FHIBE's benchmarking analysis of any table of scores per person and picture, with our statistics beside it.

`benchmark` is the one call that everything with a score per person uses (the user's own scores, the narrow tasks). Its
parameters and the keys of its result are stable: keys are only ever added.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.cuts import JOIN, LABEL_JOIN, Cut, memberships
from fp2.errors import Fp2Error
from fp2.protocols.fhibe.scores import agreement, published
from fp2.protocols.fhibe.scores.conditions import keep
from fp2.protocols.fhibe.scores.rate_ratios import shares_block
from fp2.tables import ATTRIBUTE_PREFIX

if TYPE_CHECKING:
    import pandas as pd

    from fp2.stats.rows import DisparityRow

SENSITIVE = ("pronoun", "age", "region", "subregion", "skin_tone")
"""The paper's sensitive attributes (P, A, AR, AS, ST); ancestry enters an intersection as region or as subregion."""
ABBREVIATIONS = {"pronoun": "P", "age": "A", "skin_tone": "ST", "region": "AR", "subregion": "AS"}
_ONE_OF = ({"region", "subregion"},)
_ORDER = ("pronoun", "age", "skin_tone", "region", "subregion")
KEYS = ["image_id", "subject_id"]


@dataclass(frozen=True)
class BenchmarkOptions:
    """How scores are compared.

    `value_range` is the scale of the score (None: from 0 to 1, or to its largest value in the whole table); a score of
    which less is better needs one unless it is yes/no: it is turned by the upper end for the published column, and
    what lies above that end counts as it (max(0, 1 - LPIPS)). `within` is a condition (see `conditions`).
    `n_permutations`: None takes what the Holm family of the cuts needs. `top_k` is the length of the table.
    """

    higher_is_better: bool = True
    yes_no: bool = False
    value_range: tuple[float, float] | None = None
    within: str | None = None
    top_k: int = 40
    alpha: float = 0.05
    min_subjects: int = 10
    smallest_effect: float = 0.05
    correction: str = "holm"
    n_permutations: int | None = None
    n_bootstrap: int = 2000
    seed: int = 20260101


def benchmark(
    scores: pd.DataFrame,
    people: pd.DataFrame,
    attributes: Sequence[Cut],
    options: BenchmarkOptions | None = None,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Compare groups on one score, as FHIBE's authors do and as we do.

    The interface is stable: other protocols build on it.

    Parameters
    ----------
    scores : DataFrame
        `image_id, subject_id, score`: one row per person and picture; NaN is no score. Ids may be salted keys.
    people : DataFrame
        The people table (attributes as lists), with any further columns that `options.within` names.
    attributes : sequence of Cut
        What to compare by: single attributes and intersections (`every_intersection`).
    options : BenchmarkOptions
        Direction, scale, condition, level, sizes.
    tick : callable
        Told after each cut.

    Returns
    -------
    dict
        JSON-able and finite. `n_images, n_subjects` (with a score, within the condition), `n_unknown` (scores of nobody
        in `people`), `n_without` (people without a score), `n_clipped` (scores above the upper end, counted as it),
        `within`, `negative`, `direction`, `overall` (mean over people; None where the condition leaves nobody, and then
        there are no rows), `rows` (per cut: `cut, abbreviation, n_groups, n_pairs, threshold, pairs` (the significant
        ones), `published` (the pair of highest disparity, or None), `shares` (yes/no only), `ours` (a disparity row
        with Holm's correction over these cuts), `agreement`, `why`), and `top` (Extended Data Table 2's form:
        `intersection, disparity, worst, best`).

    A cut that nobody has a value for is a row of status `too_few_subjects`.

    Raises
    ------
    Fp2Error
        For a repeated (image, subject), scores outside their range or none at all, a condition that cannot be read,
        a score of which less is better without a range, or an unknown attribute.
    """
    options = options or BenchmarkOptions()
    whole = _joined(scores, people)
    if options.yes_no and not whole["score"].dropna().isin((0.0, 1.0)).all():
        raise Fp2Error("a yes/no outcome holds values other than 0 and 1", where="scores", fix="Leave out yes_no")
    low, high = _range(whole["score"], options)  # of everybody, so that a condition does not change the scale
    negative = bool((whole["score"] < 0).any()) and options.higher_is_better
    joined = keep(whole, options.within).reset_index(drop=True)
    n_clipped = 0 if options.higher_is_better else int((joined["score"] > high).sum())
    joined["score"] = joined["score"].clip(upper=high)
    values = published.turned(joined["score"], higher_is_better=options.higher_is_better, high=high)
    found = []
    for cut in attributes if joined["score"].notna().any() else ():
        found.append(_one_cut(cut, joined, values, options, (low, high), len(attributes), negative))
        tick()
    rows = _with_verdicts(found, options)
    known = joined.dropna(subset=["score"])
    return {
        "direction": "higher is better" if options.higher_is_better else "lower is better",
        "yes_no": options.yes_no,
        "value_range": [low, high],
        "within": options.within,
        "negative": negative,
        "n_images": int(known["image_id"].nunique()),
        "n_subjects": int(known["subject_id"].nunique()),
        "n_unknown": int((~_pairs(scores).isin(set(_pairs(people)))).sum()),
        "n_without": int(joined["score"].isna().sum()),
        "n_clipped": n_clipped,
        "overall": float(known.groupby("subject_id")["score"].mean().mean()) if len(known) else None,
        "rows": rows,
        "top": top_table(rows, options.top_k),
        "n_cases": sum(row["published"] is not None for row in rows),
    }


def every_intersection(attributes: Sequence[str], depth: int | None = None) -> tuple[Cut, ...]:
    """Return every attribute and every intersection of up to `depth` of them (all of them without it).

    Region and subregion of ancestry are never in one intersection. The order of parts is the paper's table's.
    """
    ordered = sorted(dict.fromkeys(attributes), key=lambda a: (_ORDER.index(a) if a in _ORDER else len(_ORDER), a))
    cuts = []
    for size in range(1, (depth or len(ordered)) + 1):
        for parts in itertools.combinations(ordered, size):
            if not any(len(group & set(parts)) > 1 for group in _ONE_OF):
                cuts.append(Cut(JOIN.join(parts), parts))
    return tuple(cuts)


def top_table(rows: Sequence[dict[str, Any]], top_k: int, **labels: str) -> list[dict[str, Any]]:
    """Return the cuts of highest significant disparity in the form of the paper's Extended Data Table 2.

    `labels` (such as `task` and `model`) are put before each line.
    """
    found = [row for row in rows if row["published"] is not None and row["published"]["disparity"] is not None]
    found.sort(key=lambda row: (-row["published"]["disparity"], row["cut"]))
    return [
        {
            **labels,
            "intersection": row["abbreviation"],
            "cut": row["cut"],
            "disparity": row["published"]["disparity"],
            "worst": row["published"]["worst"],
            "best": row["published"]["best"],
            "agreement": row["agreement"],
        }
        for row in found[:top_k]
    ]


def disparity_rows(block: dict[str, Any], probe: str, scorer: str) -> list[dict[str, Any]]:
    """Return a benchmark's own rows as `results["disparities"]` has them, under a probe and a scorer."""
    family = len(block["rows"])
    return [
        {
            "probe": probe, "scorer": scorer, "cut": row["cut"], "family_size": family, **row["ours"],
            "bounds_low": None, "bounds_high": None,
        }
        for row in block["rows"]
    ]  # fmt: skip


def _pairs(frame: pd.DataFrame) -> pd.Series[Any]:
    import pandas as pd

    return pd.Series(list(zip(frame["image_id"], frame["subject_id"], strict=True)), dtype="object")


def _joined(scores: pd.DataFrame, people: pd.DataFrame) -> pd.DataFrame:
    """Return the people with their score."""
    repeated = scores.duplicated(KEYS)
    if repeated.any():
        first = scores.loc[repeated, KEYS].iloc[0]
        raise Fp2Error(
            f"two scores for one person in one picture: {first['image_id']!r}, {first['subject_id']!r}", where="scores"
        )
    own = people.drop(columns="score", errors="ignore")
    joined = own.merge(scores[[*KEYS, "score"]], on=KEYS, how="left")
    if joined["score"].notna().sum() == 0:
        fix = "image_id and subject_id are those of the data set"
        raise Fp2Error("none of the scores belongs to a person of the data set", where="scores", fix=fix)
    return joined


def _range(values: pd.Series[Any], options: BenchmarkOptions) -> tuple[float, float]:
    """Return the scale of the score."""
    lowest, highest = float(values.min()), float(values.max())
    if not np.isfinite([lowest, highest]).all():
        raise Fp2Error("a score is infinite", where="scores", fix="Leave the cell empty where there is no score")
    given = (0.0, 1.0) if options.yes_no and options.value_range is None else options.value_range
    if given is None and not options.higher_is_better:
        fix = "Give it: scores are turned by its upper end"
        raise Fp2Error("less is better of a score whose range is not known", where="value_range", fix=fix)
    if given is None:
        return (min(0.0, lowest), max(1.0, highest))
    low, high = given
    if lowest < low or (highest > high and options.higher_is_better):
        raise Fp2Error(
            f"scores run from {lowest:g} to {highest:g}, outside the range [{low:g}, {high:g}]", where="scores"
        )
    return float(low), float(high)


@dataclass(frozen=True)
class _Cut:
    """What one cut gave: the published column, and our row before its family is corrected."""

    row: dict[str, Any]
    ours: DisparityRow
    pairs: list[published.PairDisparity]
    groups: dict[str, published.GroupScores]


def _one_cut(
    cut: Cut, joined: pd.DataFrame, values: np.ndarray, options: BenchmarkOptions, scale: tuple[float, float],
    n_cuts: int, negative: bool,
) -> _Cut:  # fmt: skip
    from fp2.stats.adjustment import default_permutations
    from fp2.stats.disparities import disparity

    table = _members(joined, cut).merge(joined[[*KEYS, "score"]].assign(turned=values), on=KEYS)
    groups = published.group_scores(table[["group", "subject_id"]].assign(score=table["turned"]), options.min_subjects)
    pairs = published.all_pairs(groups, by_share=options.yes_no, negative=negative)
    significant, threshold = published.highest(pairs, options.alpha)
    best = significant[0] if significant else None
    arrays = {name: table[name].to_numpy(dtype=object) for name in ("group", "subject_id", "image_id")}
    own = table["score"].to_numpy(dtype=np.float64)
    ours = disparity(
        own, arrays["group"], arrays["subject_id"], images=arrays["image_id"],
        higher_is_better=options.higher_is_better, value_range=scale, yes_no=options.yes_no,
        smallest_effect=options.smallest_effect, alpha=options.alpha, min_subjects=options.min_subjects,
        n_permutations=options.n_permutations or default_permutations(max(1, n_cuts), options.alpha),
        n_bootstrap=options.n_bootstrap, seed=options.seed,
    )  # fmt: skip
    row: dict[str, Any] = {
        "cut": cut.name,
        "abbreviation": "x".join(ABBREVIATIONS.get(part, part) for part in cut.by),
        "n_parts": len(cut.by),
        "n_groups": len(groups),
        "n_pairs": len(pairs),
        "threshold": threshold,
        "groups": [
            {"group": g.name, "n_subjects": g.n_subjects, "n_images": len(g.scores), "median": g.centre,
             "mean": float(g.scores.mean())}
            for g in groups
        ],
        "n_significant": len(significant),
        "pairs": [pair.to_dict() for pair in significant[: options.top_k]],
        "published": None if best is None else best.to_dict(),
    }  # fmt: skip
    if options.yes_no:
        worst_best = (best.worst, best.best) if best else (ours.worst_group, ours.best_group)
        row["shares"] = shares_block(
            own, arrays["group"], arrays["subject_id"], alpha=options.alpha, min_subjects=options.min_subjects,
            worst=worst_best[0], best=worst_best[1],
        )  # fmt: skip
    return _Cut(row, ours, significant, {group.name: group for group in groups})


def _members(joined: pd.DataFrame, cut: Cut) -> pd.DataFrame:
    """Return `memberships`, of those of the cut's chosen groups that somebody is in: a condition may empty some."""
    if not cut.groups:
        return memberships(joined, cut)
    there = {
        name: {value for cell in joined.get(ATTRIBUTE_PREFIX + name, ()) for value in cell} for name, _ in cut.groups
    }
    groups = tuple((name, tuple(value for value in values if value in there[name])) for name, values in cut.groups)
    return memberships(joined, Cut(cut.name, cut.by, groups))


def _with_verdicts(found: Sequence[_Cut], options: BenchmarkOptions) -> list[dict[str, Any]]:
    """Correct our rows over all cuts, and say where the two columns disagree."""
    from fp2.stats.adjustment import adjust

    adjusted = adjust([cut.ours for cut in found], options.correction, options.alpha)
    rows = []
    for cut, ours in zip(found, adjusted, strict=True):
        pair = cut.pairs[0] if cut.pairs else None
        said = agreement.compare(
            pair, cut.groups, ours, threshold=cut.row["threshold"], alpha=options.alpha, yes_no=options.yes_no
        )
        rows.append({**cut.row, "ours": ours.to_dict(), **said})
    return rows


def short_group(name: str) -> str:
    """Return a group's name as the paper's table writes it: `He/him/his x 60+ x V` -> `He x 60+ x Type V`."""
    return LABEL_JOIN.join(_SHORT.get(part, part) for part in name.split(LABEL_JOIN))


_SHORT = {
    "She/her/hers": "She", "He/him/his": "He", "They/them/their": "They",
    **{tone: f"Type {tone}" for tone in ("I", "II", "III", "IV", "V", "VI")},
}  # fmt: skip
