"""From a score per person to the block of results: what was found, whether it can be measured, and FHIBE's analysis.

A pure function of tables, so that it can be made again from those of a logged run (ids there are salted keys).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fp2.protocols.fhibe.scores.benchmark import (
    SENSITIVE,
    BenchmarkOptions,
    benchmark,
    disparity_rows,
    every_intersection,
    top_table,
)
from fp2.protocols.fhibe.scores.conditional_gaps import within_block
from fp2.protocols.narrow.options import NarrowOptions
from fp2.protocols.narrow.score_faces import SCALES
from fp2.protocols.narrow.tasks import TASKS
from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.protocols.task_tables import ScoreComparison

FOUND = "found"
NOT_MEASURABLE = "not measurable here"


def analyse(
    scores: pd.DataFrame, people: pd.DataFrame, cuts: Sequence[Cut], outcomes: Sequence[Mapping[str, Any]],
    options: NarrowOptions, analysis: ScoreComparison, tick: Callable[[], None] = lambda: None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:  # fmt: skip
    """Return the block `fhibe_narrow` and our disparity rows of `cuts`.

    Parameters
    ----------
    scores : DataFrame
        `image_id, subject_id, probe, scorer, value`: a scorer per metric, and `found` (0 or 1).
    outcomes : sequence of mappings
        What each `probe` is: `probe, task, model, source, left_out, ignored, scale, scale_note, failed, verification`.
    """
    every = _every(people, cuts, options)
    wanted = {cut.name for cut in cuts}
    shown, rows = [], []
    for outcome in outcomes:
        part = scores[scores["probe"] == outcome["probe"]]
        one = _outcome(outcome, part, people, every, cuts, options, analysis, tick)
        shown.append(one)
        if one["benchmark"] is not None:
            own = disparity_rows(one["benchmark"], one["probe"], one["metric"])
            rows += [row for row in own if row["cut"] in wanted]
    top = [line for one in shown if one["benchmark"] is not None for line in one["benchmark"]["top"]]
    top.sort(key=lambda line: (-line["disparity"], line["outcome"], line["cut"]))
    block = {"outcomes": shown, "top": top[: options.top_k], "measurable_from": options.measurable, **_summary(shown)}
    return block, rows


def sensitive_of(people: pd.DataFrame) -> list[str]:
    """Return the paper's sensitive attributes that somebody in the data set has a value of."""
    known = [name for name in SENSITIVE if name in attribute_columns(people)]
    return [name for name in known if people[ATTRIBUTE_PREFIX + name].map(len).any()]


def n_cuts(people: pd.DataFrame, cuts: Sequence[Cut], options: NarrowOptions) -> int:
    """Return how often `analyse` ticks for one outcome."""
    return len(_every(people, cuts, options)) * (1 + len(options.within))


def _every(people: pd.DataFrame, cuts: Sequence[Cut], options: NarrowOptions) -> tuple[Cut, ...]:
    """Return the cuts asked for, and every intersection of the sensitive attributes."""
    same = {frozenset(cut.by) for cut in cuts if not cut.groups}
    crossed = every_intersection(sensitive_of(people), options.depth) if options.depth > 0 else ()
    return (*cuts, *(cut for cut in crossed if frozenset(cut.by) not in same))


def _outcome(
    outcome: Mapping[str, Any], part: pd.DataFrame, people: pd.DataFrame, every: Sequence[Cut],
    singles: Sequence[Cut], options: NarrowOptions, analysis: ScoreComparison, tick: Callable[[], None],
) -> dict[str, Any]:  # fmt: skip
    """Return one task of one model."""
    task = TASKS[outcome["task"]]
    found = part[part["scorer"] == FOUND]["value"]
    share = float(found.mean()) if len(found) else 0.0
    own = part[part["scorer"] == task.metric].dropna(subset=["value"])
    enough = bool(len(found)) and share >= options.measurable
    measurable = enough and len(own) > 0
    why = "nobody has a score" if enough else f"{int(found.sum())} of {len(found)} people were found"
    metrics = dict(task.metrics)
    if outcome.get("scale"):
        metrics[task.metric] = SCALES[outcome["scale"]]
    block: dict[str, Any] = {
        **outcome,
        "title": task.title,
        "label": f"{task.title}: {outcome['model']}",
        "metric": task.metric,
        "metrics": metrics,
        "n_images": int(own["image_id"].nunique()),
        "n_subjects": int(own["subject_id"].nunique()),
        "n_judged": len(found),
        "n_found": int(found.sum()),
        "found_share": share,
        "measurable": measurable,
        "why": None if measurable else why,
        "means": _means(part) if measurable else {},
        "groups": [],
        "benchmark": None,
        "within": [],
    }
    if not measurable:
        block["verification"] = None
        return block
    scores = own[["image_id", "subject_id"]].assign(score=own["value"])
    how = BenchmarkOptions(
        top_k=options.top_k, alpha=analysis.alpha, min_subjects=analysis.min_subjects,
        smallest_effect=options.smallest_effect, correction=analysis.correction,
        n_permutations=analysis.n_permutations, n_bootstrap=analysis.n_bootstrap, seed=analysis.seed,
    )  # fmt: skip
    block["benchmark"] = benchmark(scores, people, every, how, tick)
    block["benchmark"]["top"] = top_table(block["benchmark"]["rows"], options.top_k, outcome=block["label"])
    judged = part[part["scorer"] == FOUND][["image_id", "subject_id", "value"]].rename(columns={"value": FOUND})
    block["groups"] = [line for cut in singles for line in _groups(scores, judged, people, cut)]
    for condition in options.within:
        inside = benchmark(scores, people, every, replace(how, within=condition), tick)
        block["within"].append(within_block(inside, block["benchmark"]))
    return block


def _groups(scores: pd.DataFrame, judged: pd.DataFrame, people: pd.DataFrame, cut: Cut) -> list[dict[str, Any]]:
    """Return each group's mean over people with a 95 % interval (Student's t), and the median over pictures.

    `found_share` is the share found of the `n_judged` of the group (each person in each picture), scored or not.
    """
    from scipy import stats

    from fp2.cuts import memberships

    keys = ["image_id", "subject_id"]
    joined = memberships(people, cut).merge(judged, on=keys).merge(scores, on=keys, how="left")
    lines = []
    for group, everyone in joined.groupby("group", sort=True):
        part = everyone.dropna(subset=["score"])
        own = part.groupby("subject_id")["score"].mean()
        line: dict[str, Any] = {"cut": cut.name, "group": str(group), "n_subjects": len(own)}
        line |= {"n_images": part["image_id"].nunique(), "n_judged": len(everyone)}
        line |= {"n_judged_subjects": everyone["subject_id"].nunique(), "found_share": float(everyone[FOUND].mean())}
        if not len(own):
            lines.append(line | dict.fromkeys(("mean", "low", "high", "median")))
            continue
        spread = float(own.sem() * stats.t.ppf(0.975, len(own) - 1)) if len(own) > 1 else None
        low, high = (None, None) if spread is None else (float(own.mean()) - spread, float(own.mean()) + spread)
        lines.append(
            line | {"mean": float(own.mean()), "low": low, "high": high, "median": float(part["score"].median())}
        )
    return lines


def _means(part: pd.DataFrame) -> dict[str, float]:
    """Return the mean over people of every metric (of each person's mean), in which nobody counts more than once."""
    means = {}
    for name, own in part.dropna(subset=["value"]).groupby("scorer", sort=False):
        means[str(name)] = float(own.groupby("subject_id")["value"].mean().mean())
    return means


def _summary(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what MLflow and the passport are told: means, the share found, the largest published disparity."""
    metrics: dict[str, float] = {}
    headline: dict[str, Any] = {}
    for one in outcomes:
        name = one["probe"].replace(" / ", ".")
        metrics[f"{name}.found_share"] = one["found_share"]
        if not one["measurable"]:
            headline[one["probe"]] = NOT_MEASURABLE
            continue
        metrics |= {f"{name}.{metric}": value for metric, value in one["means"].items() if metric != FOUND}
        if one["benchmark"] is not None:
            top = one["benchmark"]["top"]
            largest = {"disparity": top[0]["disparity"], "cut": top[0]["cut"]} if top else None
            headline[one["probe"]] = {"mean": one["means"].get(one["metric"]), "largest": largest}
            metrics[f"{name}.largest_disparity"] = top[0]["disparity"] if top else 0.0
    return {"metrics": metrics, "headline": headline}
