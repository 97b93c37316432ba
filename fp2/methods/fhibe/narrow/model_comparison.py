"""Several models of one task compared, paired by person: which is better, and whether that depends on the group.

Only people in images that both models have a score for are compared. The difference of two models is the mean over
subjects of each subject's mean difference, with a t interval and a permutation test that exchanges the two models
within subjects (`matched.panel`). Whether it depends on the group is the subject-level analysis of the differences:
a disparity of the difference is the difference of the disparities, as far as the same groups are extreme.

The permutation test is exact for two models that score alike. For two different models of the same mean, and for the
interval, it is an approximation that fails where differences are skewed: a model that fails rarely and completely
differs little from the other on most people, and very much on a few. Such numbers are marked `approximate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fp2.extension import (
    Axis,
    Block,
    Chart,
    ChartKind,
    Column,
    Cut,
    Kind,
    Name,
    Point,
    Reference,
    Results,
    Row,
    ScoreComparison,
    Section,
    Sentence,
    Series,
    Table,
    Value,
    Weight,
    cut_label,
    memberships,
    plain,
)
from fp2.methods.fhibe.scores.benchmark import KEYS
from fp2.methods.fhibe.scores.benchmark_values import estimate, extreme_cells

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import DisparityRow

COMPARISONS = "model_comparisons"
FEW = 30
"""Fewer subjects may not show a skew that is there."""
UNEQUAL = 1.25
"""Ratio of the images per subject of two groups from which a skew can look like a difference between them."""
Outcome = Mapping[str, Any]


def comparable_pairs(outcomes: Sequence[Outcome]) -> list[tuple[Outcome, Outcome]]:
    """Return the pairs of measurable models of one task that have the same score."""
    return [
        (a, b)
        for a, b in combinations([one for one in outcomes if one["measurable"]], 2)
        if a["task"] == b["task"] and a["scale"] == b["scale"]
    ]


def compare_models(
    scores: pd.DataFrame,
    outcomes: Sequence[Outcome],
    people: pd.DataFrame,
    cuts: Sequence[Cut],
    how: ScoreComparison,
    smallest_effect: float,
    tick: Callable[[], None] = lambda: None,
) -> list[dict[str, Any]]:
    """Return one entry per pair of models of one task.

    Parameters
    ----------
    scores : DataFrame
        `image_id, subject_id, probe, scorer, value`.
    outcomes : sequence of mappings
        `probe, task, model, metric, measurable, scale`.
    people : DataFrame
    cuts : sequence of Cut
    tick : callable
        Called after each cut of each pair.

    Returns
    -------
    list of dict
        `task, title, metric, first, second, n_subjects, n_images, mean_first, mean_second, difference` (first - second)
        with `ci_low, ci_high, p_value, adjusted_p` (over the pairs of the task), `approximate` (see above), and `cuts`:
        a disparity row of the differences each, corrected over the pairs and cuts of the task, with `approximate`.
        Numbers are None where fewer than `min_subjects` subjects are shared.
    """
    entries: list[dict[str, Any]] = []
    rows: list[DisparityRow] = []
    approximate: list[bool] = []
    pairs = comparable_pairs(outcomes)
    for a, b in pairs:
        of_metric = scores[scores["scorer"] == a["metric"]].dropna(subset=["value"])
        first, second = (of_metric[of_metric["probe"] == outcome["probe"]][[*KEYS, "value"]] for outcome in (a, b))
        shared: pd.DataFrame = first.rename(columns={"value": "first"}).merge(
            second.rename(columns={"value": "second"}), on=KEYS
        )
        entries.append(_pair(shared, a, b, how))
        for cut in cuts:
            table = memberships(people, cut).merge(shared, on=KEYS)
            rows.append(_by_cut(table, how, smallest_effect, len(cuts)))
            approximate.append(_skewed_by_group(table, rows[-1]))
            tick()
    _adjust(entries, rows, len(cuts), how)
    marks = iter(approximate)
    for entry in entries:
        entry["cuts"] = [
            {"cut": cut.name, **row.to_dict(), "approximate": next(marks)}
            for cut, row in zip(cuts, entry["cuts"], strict=True)
        ]
    return entries


def too_skewed(differences: npt.ArrayLike, n: int) -> bool:
    """Return whether a mean of `n` subjects has no t interval to rely on, given differences (N,) of subjects.

    Cochran's rule (Sampling Techniques, 1977, section 2.15): n is to be above 25 times the squared skewness.
    """
    d = np.asarray(differences, dtype=np.float64)
    off = d - d.mean()
    variance = float((off**2).mean())
    skewness = float((off**3).mean()) / variance**1.5 if variance > 1e-24 else 0.0
    return n <= 25 * skewness**2


def _skewed_by_group(table: pd.DataFrame, row: DisparityRow) -> bool:
    """Return whether the images per subject differ between groups, and differences are skewed for the smallest."""
    images_per_subject = {group.group: group.n_images / group.n_subjects for group in row.groups if group.eligible}
    if len(images_per_subject) < 2 or max(images_per_subject.values()) < UNEQUAL * min(images_per_subject.values()):
        return False
    means = (table["first"] - table["second"]).groupby(table["subject_id"]).mean()
    return too_skewed(means, min(group.n_subjects for group in row.groups if group.eligible))


def _pair(shared: pd.DataFrame, a: Outcome, b: Outcome, how: ScoreComparison) -> dict[str, Any]:
    from fp2.extension import default_permutations
    from fp2.methods.matched.panel import matched_panel

    means = shared.groupby("subject_id")[["first", "second"]].mean()
    entry: dict[str, Any] = {
        "task": a["task"],
        "title": a["title"],
        "metric": a["metric"],
        "first": a["model"],
        "second": b["model"],
        "n_subjects": len(means),
        "n_images": int(shared["image_id"].nunique()),
        **dict.fromkeys(("mean_first", "mean_second", "difference", "ci_low", "ci_high", "p_value", "adjusted_p")),
        "approximate": False,
        "cuts": [],
    }
    if len(means) < how.min_subjects:
        return entry
    values = means.to_numpy().reshape(-1, 1)
    versions = np.array(["1", "2"] * len(means), dtype=object)
    test = matched_panel(
        values,
        versions,
        np.repeat(means.index.to_numpy(dtype=object), 2),
        higher_is_better=[True],
        n_permutations=how.n_permutations or default_permutations(1, how.alpha),
        seed=how.seed,
        alpha=how.alpha,
        min_sets=how.min_subjects,
    )[0]
    entry |= {f"mean_{side}": float(means[side].mean()) for side in ("first", "second")}
    differences = means["first"] - means["second"]
    entry["difference"] = float(differences.mean())
    entry["approximate"] = len(means) < FEW or too_skewed(differences, len(means))
    for pair in test.pairs:
        sign = 1 if pair.first == "1" else -1
        ends = [None if end is None else sign * end for end in (pair.ci_low, pair.ci_high)]
        entry |= dict(zip(("ci_low", "ci_high"), ends if sign > 0 else ends[::-1], strict=True))
    return entry | {"p_value": test.p_value}


def _by_cut(table: pd.DataFrame, how: ScoreComparison, smallest_effect: float, n_cuts: int) -> DisparityRow:
    """Return the comparison of the differences of two models between the groups of a cut."""
    from fp2.extension import default_permutations, disparity

    return disparity(
        (table["first"] - table["second"]).to_numpy(dtype=np.float64),
        table["group"].to_numpy(dtype=object),
        table["subject_id"].to_numpy(dtype=object),
        images=table["image_id"].to_numpy(dtype=object),
        n_permutations=how.n_permutations or default_permutations(max(1, n_cuts), how.alpha),
        n_bootstrap=how.n_bootstrap,
        seed=how.seed,
        alpha=how.alpha,
        smallest_effect=smallest_effect,
        min_subjects=how.min_subjects,
        value_range=(-1.0, 1.0),
    )


def _adjust(entries: list[dict[str, Any]], rows: list[DisparityRow], n_cuts: int, how: ScoreComparison) -> None:
    """Correct p-values over the pairs, and over the pairs and cuts, of each task."""
    from fp2.extension import adjust, adjust_p_values

    for task in dict.fromkeys(entry["task"] for entry in entries):
        places = [n for n, entry in enumerate(entries) if entry["task"] == task]
        corrected = adjust_p_values([entries[n]["p_value"] for n in places], how.correction)
        of_task = [rows[n * n_cuts + k] for n in places for k in range(n_cuts)]
        adjusted = adjust(of_task, how.correction, how.alpha) if of_task else []
        for n, index in enumerate(places):
            entries[index]["adjusted_p"] = corrected[n]
            entries[index]["cuts"] = adjusted[n * n_cuts : (n + 1) * n_cuts]


HOW_TO_READ = (
    "Two models of one task on the people in images that both have a score for. The difference is the mean over "
    "subjects of each subject's own; p is from a permutation test that exchanges the two models within subjects, "
    "adjusted over the pairs of a task. Approximate: with fewer than 30 subjects, or differences so skewed for their "
    "number (such as failures of one model on a few people) that p and the interval can be too small; do not conclude "
    "from them."
)


class ComparisonSection(Section):
    """A table of the pairs of models, and of the cuts on which their difference depends."""

    name = COMPARISONS
    title = "Models compared on the same people"

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield the differences of the pairs of models, and of each pair by cut."""
        points, rows = [], []
        for pair in block["pairs"]:
            n, label = pair["n_subjects"], f"{pair['title']}: {plain(pair['first'])} − {plain(pair['second'])}"
            points.append(Point(pair["difference"], label, low=pair["ci_low"], high=pair["ci_high"], subjects=n))
            cells = [
                pair["title"],
                pair["first"],
                pair["second"],
                n,
                pair["n_images"],
                pair["mean_first"],
                pair["mean_second"],
                estimate(pair, "difference"),
                pair["adjusted_p"],
                _note(pair),
            ]
            rows.append(Row(cells, n))
        yield Table("pairs", _PAIRS, rows, primary=True, omit_small=True)
        yield Chart(
            ChartKind.INTERVALS,
            COMPARISONS,
            "Difference of the mean scores of two models on the same people",
            [Series(points)],
            Axis("difference of mean scores (right of 0: the first is better)"),
            references=[Reference(0.0)],
        )
        for index, pair in enumerate(block["pairs"]):
            title = [f"{pair['title']}, ", Name(pair["first"]), " − ", Name(pair["second"])]
            yield Table(
                f"cuts_{index}",
                _CUTS,
                [_by_group(row) for row in pair["cuts"]],
                [*title, ": does the difference depend on the group?"],
            )
        yield Sentence(HOW_TO_READ, Weight.DETAIL)


def _note(row: Mapping[str, Any]) -> str:
    return "approximate" if row.get("approximate") else ""


def _by_group(row: Mapping[str, Any]) -> Row:
    numbers = [estimate(row, "raw"), row["null_mean"], row["adjusted_p"]]
    return Row([cut_label(row["cut"]), *numbers, *extreme_cells(row), _note(row)])


_PAIRS = [
    Column("Task"), Column("First", Kind.NAME), Column("Second", Kind.NAME), Column("Subjects", Kind.COUNT),
    Column("Images", Kind.COUNT, terminal=False), Column("Mean, first", Kind.NUMBER, terminal=False),
    Column("Mean, second", Kind.NUMBER, terminal=False), Column("Difference", Kind.ESTIMATE, signed=True),
    Column("Adjusted p", Kind.P), Column("Note"),
]  # fmt: skip
_CUTS = [
    Column("Cut"), Column("Largest difference between groups", Kind.ESTIMATE), Column("Null mean", Kind.NUMBER),
    Column("Adjusted p", Kind.P), Column("First is relatively worst for", Kind.NAME),
    Column("and best for", Kind.NAME), Column("Note"),
]  # fmt: skip
