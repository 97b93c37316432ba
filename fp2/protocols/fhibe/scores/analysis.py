"""Everything that FHIBE's authors look at in a table of scores: one block of results from people, features and scores.

A pure function of its tables, so that it can be made again from those of a logged run (ids there are salted keys).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fp2.cuts import Cut
from fp2.protocols.fhibe.scores.benchmark import (
    SENSITIVE,
    BenchmarkOptions,
    benchmark,
    disparity_rows,
    every_intersection,
    top_table,
)
from fp2.protocols.fhibe.scores.conditional_gaps import within_block
from fp2.protocols.fhibe.scores.conditions import keep, names_in
from fp2.protocols.fhibe.scores.design import make_design
from fp2.protocols.fhibe.scores.error_model import ErrorModelOptions, error_model
from fp2.protocols.fhibe.scores.features import NUMBERS, predictors
from fp2.protocols.fhibe.scores.followup_cuts import look_into
from fp2.protocols.fhibe.scores.options import Metric, ScoresOptions, settings
from fp2.protocols.fhibe.scores.patterns import PatternOptions, find_patterns
from fp2.protocols.task_tables import ScoreComparison
from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

if TYPE_CHECKING:
    import pandas as pd

_RESAMPLES_WITHIN = 1000  # of an error model within a condition


@dataclass(frozen=True)
class Found:
    """The block, and our rows of the cuts that were asked for."""

    block: dict[str, Any]
    disparities: list[dict[str, Any]]


def sensitive_of(people: pd.DataFrame, cuts: Sequence[Cut], options: ScoresOptions) -> tuple[str, ...]:
    """Return the sensitive attributes: those named, else the paper's that the data set has and those of the cuts."""
    known = [name for name in attribute_columns(people) if people[ATTRIBUTE_PREFIX + name].map(len).any()]
    if options.sensitive is not None:
        return tuple(name for name in options.sensitive if name in known)
    papers = (name for name in SENSITIVE if name in known)
    return tuple(dict.fromkeys((*papers, *(part for cut in cuts for part in cut.by))))


def analyse_scores(
    scores: pd.DataFrame, people: pd.DataFrame, cuts: Sequence[Cut], options: ScoresOptions, analysis: ScoreComparison,
    tick: Callable[[], None] = lambda: None,
) -> Found:  # fmt: skip
    """Return the block `fhibe_scores` and the disparity rows of `cuts`.

    Parameters
    ----------
    scores : DataFrame
        `image_id, subject_id, probe, scorer, value` (`score_files.LONG`).
    people : DataFrame
        The people table with a column per measured feature (`features.NUMBERS`).
    cuts : sequence of Cut
        Their rows go into the disparities of the run; the block has the intersections of the sensitive attributes too.
    options, analysis
        What was asked for.
    tick : callable
        Told after each cut and step.
    """
    sensitive = sensitive_of(people, cuts, options)
    every = all_cuts(sensitive, cuts, options)
    outcomes, notes = [], []
    for metric in options.metrics:
        for probe, part in scores[scores["scorer"] == metric.name].groupby("probe", sort=False):
            if part["value"].isna().all():
                notes.append(f"{label_of(str(probe), metric)}: nobody has a score")
                continue
            one = _outcome(part, str(probe), metric, people, every, cuts, sensitive, options, analysis, tick)
            outcomes.append(one)
            notes += _notes(one)
    wanted = {cut.name for cut in cuts}
    rows = [row for one in outcomes for row in disparity_rows(one["benchmark"], one["probe"], one["metric"])]
    top = [line for one in outcomes for line in one["benchmark"]["top"]]
    top.sort(key=lambda line: (-line["disparity"], line["outcome"], line["cut"]))
    block: dict[str, Any] = {
        "outcomes": outcomes,
        "top": top[: options.top_k],
        "n_cases": sum(one["benchmark"]["n_cases"] for one in outcomes),
        "sensitive": list(sensitive),
        "predictors": _predictors(people, sensitive, options),
        "features": {
            name: NUMBERS[name]
            for name in numbers_of(options)
            if name in NUMBERS and name in people and people[name].notna().any()
        },
        "notes": notes,
    }
    return Found(block | _summary(block), [row for row in rows if row["cut"] in wanted])


def all_cuts(sensitive: Sequence[str], cuts: Sequence[Cut], options: ScoresOptions) -> tuple[Cut, ...]:
    """Return the cuts asked for, and every intersection of the attributes."""
    attributes = options.attributes if options.attributes is not None else tuple(sensitive)
    crossed = every_intersection(attributes, options.depth) if attributes else ()
    same = {frozenset(cut.by) for cut in cuts if not cut.groups}
    return (*cuts, *(cut for cut in crossed if frozenset(cut.by) not in same))


def steps_of(n_outcomes: int, n_cuts: int, options: ScoresOptions) -> int:
    """Return about how often `analyse_scores` ticks."""
    deeper = (0 if options.error_model is None else 12) + (0 if options.patterns is None else 4)
    times = 1 + (len(options.within) if options.within_all else 0)
    return n_outcomes * (n_cuts + len(options.within) * 4 + deeper * times)


def numbers_of(options: ScoresOptions) -> list[str]:
    """Return what is measured in pictures that the analyses use: the features of enabled ones, and of conditions."""
    own = (options.features or tuple(NUMBERS)) if _explains(options) else ()
    named = [name for condition in options.within for name in names_in(condition)]
    return [name for name in NUMBERS if name in own or name in named]


def attributes_of(people: pd.DataFrame, sensitive: Sequence[str], options: ScoresOptions) -> list[str]:
    """Return the attributes that the analyses use, and that the run's own table of people needs to make them again."""
    named = [name for condition in options.within for name in names_in(condition)]
    used = (*sensitive, *(options.attributes or ()), *named, *_predictors(people, sensitive, options))
    return [name for name in dict.fromkeys(used) if name in attribute_columns(people)]


def label_of(probe: str, metric: Metric) -> str:
    """Return an outcome's name in reports."""
    return f"{probe} · {metric.name}" if probe != metric.name else probe


def _notes(one: dict[str, Any]) -> list[str]:
    """Return what a reader of one outcome has to know: scores that are missing, clipped, or of nobody."""
    notes, whole = [], one["benchmark"]
    if whole["n_without"]:
        notes.append(f"{one['label']}: {whole['n_without']} people and pictures have no score")
    if whole["n_clipped"]:
        end = f"{whole['value_range'][1]:g}"
        notes.append(f"{one['label']}: {whole['n_clipped']} score(s) above the range count as its end, {end}")
    for within in one["within"]:
        if not within["n_subjects"]:
            notes.append(f"{one['label']}: nobody with a score is left within {within['condition']}")
    return notes


def _outcome(
    part: pd.DataFrame, probe: str, metric: Metric, people: pd.DataFrame, every: Sequence[Cut], cuts: Sequence[Cut],
    sensitive: Sequence[str], options: ScoresOptions, analysis: ScoreComparison, tick: Callable[[], None],
) -> dict[str, Any]:  # fmt: skip
    """Return everything about one score of one task and model."""
    scores = part[["image_id", "subject_id"]].assign(score=part["value"])
    how = BenchmarkOptions(
        higher_is_better=metric.higher_is_better, yes_no=metric.yes_no, value_range=metric.range, top_k=options.top_k,
        alpha=analysis.alpha, min_subjects=analysis.min_subjects, smallest_effect=metric.smallest_effect,
        correction=analysis.correction, n_permutations=analysis.n_permutations, n_bootstrap=analysis.n_bootstrap,
        seed=analysis.seed,
    )  # fmt: skip
    whole = benchmark(scores, people, every, how, tick)
    label = label_of(probe, metric)
    whole["top"] = top_table(whole["rows"], options.top_k, outcome=label)
    singles = [cut for cut in every if len(cut.by) == 1 or cut in cuts]
    found: dict[str, Any] = {
        "probe": probe,
        "metric": metric.name,
        "label": label,
        "higher_is_better": metric.higher_is_better,
        "yes_no": metric.yes_no,
        "benchmark": whole,
        "within": [],
        **_deeper(scores, people, metric, sensitive, how, options, analysis, tick),
    }
    for condition in options.within:
        inside = replace(how, within=condition)
        block = within_block(benchmark(scores, people, singles, inside, tick), whole)
        if options.within_all and block["n_subjects"]:
            block |= _deeper(scores, people, metric, sensitive, inside, options, analysis, tick)
        found["within"].append(block)
    return found


def _deeper(
    scores: pd.DataFrame, people: pd.DataFrame, metric: Metric, sensitive: Sequence[str], how: BenchmarkOptions,
    options: ScoresOptions, analysis: ScoreComparison, tick: Callable[[], None],
) -> dict[str, Any]:  # fmt: skip
    """Return `error_model` and `patterns`, each if it is asked for, within the condition of `how`."""
    if not _explains(options):
        return {}
    table = keep(people.merge(scores, on=["image_id", "subject_id"]).dropna(subset=["score"]), how.within)
    table = table.reset_index(drop=True)
    attributes = _predictors(people, sensitive, options)
    numbers = [name for name in options.features or NUMBERS if name in people.columns]
    sizes = {"min_subjects": analysis.min_subjects, "alpha": analysis.alpha, "seed": analysis.seed}
    found: dict[str, Any] = {}
    if options.error_model is not None:
        own = settings(ErrorModelOptions, options.error_model, "error_model", **sizes)
        if how.within:
            own = replace(own, resamples=min(own.resamples, _RESAMPLES_WITHIN))
        found["error_model"] = error_model(table, numbers, attributes, sensitive, own, yes_no=metric.yes_no, tick=tick)
    if options.patterns is not None:
        own = settings(PatternOptions, options.patterns, "patterns", **sizes)
        design = make_design(table, numbers, attributes, analysis.min_subjects)
        found["patterns"] = find_patterns(
            table, design, own, yes_no=metric.yes_no, higher_is_better=metric.higher_is_better
        )
        found["patterns"]["found"] = look_into(found["patterns"], scores, people, sensitive, how, own.looked_into, tick)
    return found


def _explains(options: ScoresOptions) -> bool:
    """Whether an analysis is enabled that needs predictors."""
    return options.error_model is not None or options.patterns is not None


def _predictors(people: pd.DataFrame, sensitive: Sequence[str], options: ScoresOptions) -> list[str]:
    """Return the attributes that enabled analyses explain errors with; none where no such analysis is enabled."""
    if not _explains(options):
        return []
    own = predictors(people, (*sensitive, *SENSITIVE))
    if options.features is None:
        return own
    return [name for name in attribute_columns(people) if name in options.features and name not in sensitive]


def _summary(block: dict[str, Any]) -> dict[str, Any]:
    """Return `metrics` (flat, for MLflow) and `headline` (for the passport)."""
    metrics: dict[str, float] = {"cases": float(block["n_cases"])}
    headline: dict[str, Any] = {"cases": block["n_cases"], "top": block["top"][:5], "outcomes": []}
    for one in block["outcomes"]:
        own = "".join(c if c.isalnum() or c in "_-./ " else "_" for c in f"{one['probe']}.{one['metric']}")
        highest = next(iter(one["benchmark"]["top"]), None)
        line = {"outcome": one["label"], "overall": one["benchmark"]["overall"]}
        metrics[f"{own}.overall"] = one["benchmark"]["overall"]
        if highest:
            line |= {"disparity": highest["disparity"], "intersection": highest["intersection"]}
            metrics[f"{own}.highest_disparity"] = highest["disparity"]
        for agreement in ("both", "published_only", "ours_only"):
            count = sum(row["agreement"] == agreement for row in one["benchmark"]["rows"])
            metrics[f"{own}.found_{agreement}"] = float(count)
        model, patterns = one.get("error_model", {}), one.get("patterns", {})
        if model.get("status") == "ok":
            line |= {"explained": model["r2"], "explains": model["explains"], "features": model["selected"]}
            metrics[f"{own}.explained"] = model["r2"]
        if patterns.get("status") == "ok":
            line["patterns_held"] = patterns["n_held"]
            metrics[f"{own}.patterns_held"] = float(patterns["n_held"])
        headline["outcomes"].append(line)
    return {"metrics": metrics, "headline": headline}
