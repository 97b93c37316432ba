"""Everything that FHIBE's authors look at in a table of scores: one block of results from people, features and scores.

A pure function of its tables, so that it can be made again from those of a logged run (ids there are salted keys).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.cuts import JOIN, Cut
from fp2.protocols.fhibe.benchmark import (
    SENSITIVE,
    BenchmarkOptions,
    benchmark,
    disparity_rows,
    every_intersection,
    top_table,
)
from fp2.protocols.fhibe.design import make_design
from fp2.protocols.fhibe.error_model import ErrorModelOptions, error_model
from fp2.protocols.fhibe.features import NUMBERS, predictors
from fp2.protocols.fhibe.patterns import PatternOptions, find_patterns
from fp2.protocols.fhibe.score_options import Metric, ScoresOptions, settings
from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

if TYPE_CHECKING:
    import pandas as pd

THIRDS = "third_of_"
_SHOWN = ("group", "n_subjects", "n_images", "mean")
_MOST_FOUND = 3  # attributes of patterns that are looked into


@dataclass(frozen=True)
class Analysis:
    """How things are compared: the `analysis` config and the seed."""

    alpha: float
    correction: str
    min_subjects: int
    n_permutations: int | None
    n_bootstrap: int
    seed: int


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
    scores: pd.DataFrame, people: pd.DataFrame, cuts: Sequence[Cut], options: ScoresOptions, analysis: Analysis,
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
    outcomes = [
        _outcome(part, str(probe), metric, people, every, cuts, sensitive, options, analysis, tick)
        for metric in options.metrics
        for probe, part in scores[scores["scorer"] == metric.name].groupby("probe", sort=False)
    ]
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
        "features": {name: NUMBERS[name] for name in NUMBERS if name in people and people[name].notna().any()},
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
    model = 0 if options.error_model is None else 12
    return n_outcomes * (n_cuts + len(options.within) * 4 + model + (0 if options.patterns is None else 4))


def _outcome(
    part: pd.DataFrame, probe: str, metric: Metric, people: pd.DataFrame, every: Sequence[Cut], cuts: Sequence[Cut],
    sensitive: Sequence[str], options: ScoresOptions, analysis: Analysis, tick: Callable[[], None],
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
    label = f"{probe} · {metric.name}" if probe != metric.name else probe
    whole["top"] = top_table(whole["rows"], options.top_k, outcome=label)
    singles = [cut for cut in every if len(cut.by) == 1 or cut in cuts]
    found: dict[str, Any] = {
        "probe": probe,
        "metric": metric.name,
        "label": label,
        "higher_is_better": metric.higher_is_better,
        "yes_no": metric.yes_no,
        "benchmark": whole,
        "within": [
            _within(benchmark(scores, people, singles, replace(how, within=condition), tick), whole)
            for condition in options.within
        ],
    }
    table = people.merge(scores, on=["image_id", "subject_id"]).dropna(subset=["score"]).reset_index(drop=True)
    attributes = _predictors(people, sensitive, options)
    numbers = [name for name in options.features or NUMBERS if name in people.columns]
    sizes = {"min_subjects": analysis.min_subjects, "alpha": analysis.alpha, "seed": analysis.seed}
    if options.error_model is not None:
        own = settings(ErrorModelOptions, options.error_model, "error_model", **sizes)
        found["error_model"] = error_model(table, numbers, attributes, sensitive, own, yes_no=metric.yes_no, tick=tick)
    if options.patterns is not None:
        own = settings(PatternOptions, options.patterns, "patterns", **sizes)
        design = make_design(table, numbers, attributes, analysis.min_subjects)
        found["patterns"] = find_patterns(
            table, design, own, yes_no=metric.yes_no, higher_is_better=metric.higher_is_better
        )
        found["patterns"]["found"] = _looked_into(found["patterns"], scores, people, sensitive, how, tick)
    return found


def _predictors(people: pd.DataFrame, sensitive: Sequence[str], options: ScoresOptions) -> list[str]:
    own = predictors(people, (*sensitive, *SENSITIVE))
    if options.features is None:
        return own
    return [name for name in attribute_columns(people) if name in options.features and name not in sensitive]


def _within(found: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Return the analysis within a condition, each row beside that of everybody."""
    before = {row["cut"]: row for row in whole["rows"]}
    lines = []
    for row in found["rows"]:
        was = before[row["cut"]]
        lines.append(
            {
                "cut": row["cut"],
                "gap_all": was["ours"]["raw"],
                "p_all": was["ours"]["adjusted_p"],
                "gap": row["ours"]["raw"],
                "chance": row["ours"]["null_mean"],
                "p": row["ours"]["adjusted_p"],
                "mde80": row["ours"]["mde80"],
                "verdict": row["ours"]["verdict"],
                "disparity_all": (was["published"] or {}).get("disparity"),
                "disparity": (row["published"] or {}).get("disparity"),
                "change": _change(was["ours"], row["ours"]),
            }
        )
    return {
        "condition": found["within"],
        "n_images": found["n_images"],
        "n_subjects": found["n_subjects"],
        "rows": lines,
    }


def _change(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return what became of a gap, carefully: not significant is not gone where the sample could not have seen it."""
    if after["status"] != "ok":
        return "cannot be compared"
    if after["significant"]:
        return "remains" if before["significant"] else "appears"
    if not before["significant"]:
        return "none in either"
    if after["mde80"] is not None and before["raw"] is not None and after["mde80"] > before["raw"]:
        return "not found, but too few people are left to see it"
    return "disappears"


def _looked_into(
    patterns: dict[str, Any], scores: pd.DataFrame, people: pd.DataFrame, sensitive: Sequence[str],
    how: BenchmarkOptions, tick: Callable[[], None],
) -> list[dict[str, Any]]:  # fmt: skip
    """Return for the attributes of the rules that held: their own disparity, and means by each sensitive attribute."""
    names: list[str] = []
    for rule in patterns.get("rules", ()):
        if rule["held"]:
            names += [name for name in rule["features"] if name not in names]
    found = []
    for name in names[:_MOST_FOUND]:
        table, attribute = _as_attribute(people, name)
        single = Cut(attribute, (attribute,))
        crossed = [Cut(JOIN.join((attribute, other)), (attribute, other)) for other in sensitive]
        block = benchmark(scores, table, [single, *crossed], replace(how, n_bootstrap=0), tick)
        rows = [
            {
                "cut": row["cut"],
                "groups": [
                    {k: g[k] for k in ("group", "n_subjects", "n_images", "mean")} for g in row["ours"]["groups"]
                ],
                "gap": row["ours"]["raw"],
                "chance": row["ours"]["null_mean"],
                "p": row["ours"]["adjusted_p"],
                "verdict": row["ours"]["verdict"],
                "worst": row["ours"]["worst_group"],
                "best": row["ours"]["best_group"],
                "disparity": (row["published"] or {}).get("disparity"),
            }
            for row in block["rows"]
        ]
        found.append({"feature": name, "attribute": attribute, "rows": rows})
    return found


def _as_attribute(people: pd.DataFrame, feature: str) -> tuple[pd.DataFrame, str]:
    """Return people with a feature as an attribute: a number becomes its thirds, 0/1 becomes no and yes."""
    import pandas as pd

    if feature in attribute_columns(people):
        return people, feature
    values = people[feature].to_numpy(dtype=np.float64)
    known = values[~np.isnan(values)]
    name, words, cuts = feature, ["no", "yes"], np.array([0.5])
    if not np.isin(known, (0.0, 1.0)).all():
        cuts = np.quantile(known, [1 / 3, 2 / 3])
        name, words = THIRDS + feature, [f"low (to {cuts[0]:.3g})", "middle", f"high (above {cuts[1]:.3g})"]
    cells = [[] if np.isnan(v) else [words[int(np.digitize(v, cuts, right=True))]] for v in values]
    table = people.copy()
    table[ATTRIBUTE_PREFIX + name] = pd.Series(cells, index=people.index, dtype="object")
    return table, name


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
