"""The block `fhibe_scores`: benchmark, error model and error patterns of each outcome.

An outcome is one metric of one model, or of one task of a model. The first functions combine the benchmarks of all
outcomes of a task; narrow tasks use them too. All are pure functions of tables, which can be computed again from those
of a logged run (ids there are salted keys).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fp2.extension import Cut, ScoreComparison, attribute_columns, in_number
from fp2.methods.fhibe.scores.benchmark import BenchmarkOptions, benchmark
from fp2.methods.fhibe.scores.conditions import keep, names_in
from fp2.methods.fhibe.scores.design import make_design
from fp2.methods.fhibe.scores.error_model import error_model
from fp2.methods.fhibe.scores.features import (
    ALL,
    NUMBERS,
    SENSITIVE,
    chosen_attributes,
    known_attributes,
    predictors,
    sensitive_attributes,
    with_intersections,
    with_single,
)
from fp2.methods.fhibe.scores.options import Metric, ScoresOptions
from fp2.methods.fhibe.scores.patterns import find_patterns, follow_up

if TYPE_CHECKING:
    import pandas as pd

REMAINS, ONLY_WITHIN, NEITHER = "remains", "found only here", "found in neither"
DISAPPEARS, INCONCLUSIVE, NOT_COMPARED = "disappears", "inconclusive", "cannot be compared"


def disparity_rows(outcomes: Sequence[dict[str, Any]], cuts: Sequence[Cut]) -> list[dict[str, Any]]:
    """Return the subject-level rows of `cuts` as `results["disparities"]` has them.

    outcomes : each with `probe`, `metric` and `benchmark` (None: not compared).
    """
    wanted = {cut.name for cut in cuts}
    return [
        {
            "probe": outcome["probe"],
            "scorer": outcome["metric"],
            "cut": row["cut"],
            "family_size": len(outcome["benchmark"]["rows"]),
            **row["ours"],
            "bounds_low": None,
            "bounds_high": None,
            "bounds_ci_low": None,
            "bounds_ci_high": None,
            "holds_under_refusals": None,
        }
        for outcome in outcomes
        if outcome["benchmark"] is not None
        for row in outcome["benchmark"]["rows"]
        if row["cut"] in wanted
    ]


def highest_disparities(outcomes: Sequence[dict[str, Any]], top_k: int) -> list[dict[str, Any]]:
    """Return the `top_k` highest significant disparities of all outcomes."""
    top = [row for outcome in outcomes if outcome["benchmark"] is not None for row in outcome["benchmark"]["top"]]
    top.sort(key=lambda row: (-row["disparity"], row["outcome"], row["cut"]))
    return top[:top_k]


def within_condition(
    scores: pd.DataFrame,
    people: pd.DataFrame,
    cuts: Sequence[Cut],
    options: BenchmarkOptions,
    condition: str,
    whole: dict[str, Any],
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Return each cut's disparity within a condition, beside that of the benchmark `whole` of all subjects.

    There are no rows where the condition leaves no subject with a score.
    """
    of_condition = benchmark(scores, people, cuts, replace(options, within=condition), tick)
    overall = {row["cut"]: row for row in whole["rows"]}
    rows = []
    for row in of_condition["rows"]:
        whole_row = overall[row["cut"]]
        before, after = whole_row["ours"], row["ours"]
        rows.append(
            {
                "cut": row["cut"],
                "gap_all": before["raw"],
                "p_all": before["adjusted_p"],
                "gap": after["raw"],
                "ci_low": after["ci_low"],
                "ci_high": after["ci_high"],
                "chance": after["null_mean"],
                "p": after["adjusted_p"],
                "mde80": after["mde80"],
                "verdict": after["verdict"],
                "disparity_all": (whole_row["published"] or {}).get("disparity"),
                "disparity": (row["published"] or {}).get("disparity"),
                "change": change(before, after),
            }
        )
    sizes = {name: of_condition[name] for name in ("n_images", "n_subjects")}
    return {"condition": condition, **sizes, "rows": rows}


def change(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return whether a disparity remains within a condition: `before` and `after` are disparity rows.

    A disparity that is no longer significant `disappears` only if its interval excludes the former size: the interval
    has to end below the overall disparity (the smaller of the raw one, which is biased upwards, and the shrunken one)
    or below the smallest effect of interest. Otherwise the comparison is `inconclusive`.
    """
    if after["status"] != "ok" or before["status"] != "ok":
        return NOT_COMPARED
    if after["significant"]:
        return REMAINS if before["significant"] else ONLY_WITHIN
    if not before["significant"]:
        return NEITHER
    size = min(value for value in (before["raw"], before["shrunken"]) if value is not None)
    high = after["ci_high"]
    excluded = high is not None and (high < size or high < after["smallest_effect"])
    return DISAPPEARS if excluded else INCONCLUSIVE


_RESAMPLES_WITHIN = 1000  # of an error model within a condition


@dataclass(frozen=True)
class ScoresAnalysis:
    """What is analysed: the people, the cuts that the config names, and the settings.

    Attributes
    ----------
    people : DataFrame
        The people table with a column per measured feature (`features.NUMBERS`).
    cuts : sequence of Cut
        Their rows enter the disparities of the run; the block has the intersections of the sensitive attributes, too.
    tick : callable
        Called after each cut and step.
    """

    people: pd.DataFrame
    cuts: Sequence[Cut]
    options: ScoresOptions
    comparison: ScoreComparison
    tick: Callable[[], None] = lambda: None

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The sensitive attributes: those of the options, else the paper's that are known, and those of the cuts."""
        if self.options.sensitive is not None:
            known = known_attributes(self.people)
            return tuple(name for name in self.options.sensitive if name in known)
        return tuple(dict.fromkeys((*sensitive_attributes(self.people), *(p for cut in self.cuts for p in cut.by))))

    @property
    def every_cut(self) -> tuple[Cut, ...]:
        """The cuts of the config, and the intersections; of `attributes=all` every attribute on its own, too."""
        attributes = self.options.attributes
        if attributes is not None and ALL in attributes:
            cuts = with_intersections(self.cuts, self.sensitive, self.options.depth)
            return with_single(cuts, chosen_attributes(self.people, attributes))
        return with_intersections(self.cuts, self.sensitive if attributes is None else attributes, self.options.depth)

    @property
    def predictors(self) -> list[str]:
        """The attributes that enabled analyses predict errors with."""
        if not self.options.predicts:
            return []
        if self.options.features is None:
            return predictors(self.people, (*self.sensitive, *SENSITIVE))
        chosen = set(self.options.features) - set(self.sensitive)
        return [name for name in attribute_columns(self.people) if name in chosen]

    @property
    def attributes(self) -> list[str]:
        """The attributes that the analyses use, which the run's own people table has to keep."""
        named = [name for condition in self.options.within for name in names_in(condition)]
        chosen = chosen_attributes(self.people, self.options.attributes or ())
        used = dict.fromkeys((*self.sensitive, *chosen, *named, *self.predictors))
        return [name for name in used if name in attribute_columns(self.people)]

    def n_steps(self, n_outcomes: int) -> int:
        """Return about how often `run` ticks."""
        options = self.options
        deeper = (0 if options.error_model is None else 12) + (0 if options.patterns is None else 4)
        times = 1 + (len(options.within) if options.within_all else 0)
        return n_outcomes * (len(self.every_cut) + len(options.within) * 4 + deeper * times)

    def run(self, scores: pd.DataFrame) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the block, and the disparity rows of the cuts.

        scores : `image_id, subject_id, probe, scorer, value` (`fp2.protocols.task_tables.LONG`).
        """
        outcomes, notes = [], []
        for metric in self.options.metrics:
            for probe, of_probe in scores[scores["scorer"] == metric.name].groupby("probe", sort=False):
                if of_probe["value"].isna().all():
                    notes.append(f"{label_of(str(probe), metric)}: no subject has a score")
                    continue
                outcome = self._outcome(of_probe, str(probe), metric)
                outcomes.append(outcome)
                notes += _notes(outcome)
        block: dict[str, Any] = {
            "outcomes": outcomes,
            "top": highest_disparities(outcomes, self.options.top_k),
            "n_cases": sum(outcome["benchmark"]["n_cases"] for outcome in outcomes),
            "sensitive": list(self.sensitive),
            "predictors": self.predictors,
            "features": {
                name: NUMBERS[name]
                for name in numbers_of(self.options)
                if name in self.people and self.people[name].notna().any()
            },
            "notes": notes,
        }
        return block | _summary(block), disparity_rows(outcomes, self.cuts)

    def _outcome(self, of_probe: pd.DataFrame, probe: str, metric: Metric) -> dict[str, Any]:
        """Return the analyses of one metric of one model or task."""
        people, options = self.people, self.options
        scores = of_probe[["image_id", "subject_id"]].assign(score=of_probe["value"])
        how = BenchmarkOptions(
            **vars(self.comparison),
            higher_is_better=metric.higher_is_better,
            yes_no=metric.yes_no,
            value_range=metric.range,
            top_k=options.top_k,
            smallest_effect=metric.smallest_effect,
        )
        label, every = label_of(probe, metric), self.every_cut
        whole = benchmark(scores, people, every, how, self.tick, outcome=label)
        outcome: dict[str, Any] = {
            "probe": probe,
            "metric": metric.name,
            "label": label,
            "higher_is_better": metric.higher_is_better,
            "yes_no": metric.yes_no,
            "benchmark": whole,
            "within": [],
            **self._models(scores, metric, how),
        }
        singles = [cut for cut in every if len(cut.by) == 1 or cut in self.cuts]
        for condition in options.within:
            block = within_condition(scores, people, singles, how, condition, whole, self.tick)
            if options.within_all and block["n_subjects"]:
                block |= self._models(scores, metric, replace(how, within=condition))
            outcome["within"].append(block)
        return outcome

    def _models(self, scores: pd.DataFrame, metric: Metric, how: BenchmarkOptions) -> dict[str, Any]:
        """Return `error_model` and `patterns`, each if it is enabled, within the condition of `how`."""
        if not self.options.predicts:
            return {}
        people, sensitive, comparison = self.people, self.sensitive, self.comparison
        table = keep(people.merge(scores, on=["image_id", "subject_id"]).dropna(subset=["score"]), how.within)
        table = table.reset_index(drop=True)
        attributes = self.predictors
        numbers = [name for name in self.options.features or NUMBERS if name in people.columns]
        models: dict[str, Any] = {}
        if (model := self.options.error_model_settings(comparison)) is not None:
            if how.within:
                model = replace(model, resamples=min(model.resamples, _RESAMPLES_WITHIN))
            models["error_model"] = error_model(
                table, numbers, attributes, sensitive, model, yes_no=metric.yes_no, tick=self.tick
            )
        if (rules := self.options.pattern_settings(comparison)) is not None:
            design = make_design(table, numbers, attributes, comparison.min_subjects)
            patterns = find_patterns(
                table, design, rules, yes_no=metric.yes_no, higher_is_better=metric.higher_is_better
            )
            followed = follow_up(patterns, scores, people, sensitive, how, rules.looked_into, self.tick)
            models["patterns"] = {**patterns, "found": followed}
        return models


def numbers_of(options: ScoresOptions) -> list[str]:
    """Return the measured features that the analyses use: predictors of enabled ones, and those of conditions."""
    predictors = (options.features or tuple(NUMBERS)) if options.predicts else ()
    named = [name for condition in options.within for name in names_in(condition)]
    return [name for name in NUMBERS if name in predictors or name in named]


def label_of(probe: str, metric: Metric) -> str:
    """Return an outcome's name in reports."""
    return f"{probe} · {metric.name}" if probe != metric.name else probe


def _notes(outcome: Mapping[str, Any]) -> list[str]:
    """Return the limitations of one outcome: missing and clipped scores, conditions without a subject."""
    notes, whole = [], outcome["benchmark"]
    if whole["n_without"]:
        notes.append(f"{outcome['label']}: {whole['n_without']} subject-image pairs have no score")
    if whole["n_clipped"]:
        end = f"{whole['value_range'][1]:g}"
        clipped = f"{whole['n_clipped']} [score|scores] above the range [was|were] clipped to its end, {end}"
        notes.append(f"{outcome['label']}: {in_number(whole['n_clipped'], clipped)}")
    for within in outcome["within"]:
        if not within["n_subjects"]:
            notes.append(f"{outcome['label']}: no subject with a score is left within {within['condition']}")
    return notes


def _summary(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return `metrics` (flat, for MLflow) and `headline` (for the passport)."""
    metrics: dict[str, float] = {"cases": float(block["n_cases"])}
    headline: dict[str, Any] = {"cases": block["n_cases"], "top": block["top"][:5], "outcomes": []}
    for outcome in block["outcomes"]:
        name = "".join(c if c.isalnum() or c in "_-./ " else "_" for c in f"{outcome['probe']}.{outcome['metric']}")
        highest = next(iter(outcome["benchmark"]["top"]), None)
        entry = {"outcome": outcome["label"], "overall": outcome["benchmark"]["overall"]}
        metrics[f"{name}.overall"] = outcome["benchmark"]["overall"]
        if highest:
            entry |= {"disparity": highest["disparity"], "intersection": highest["intersection"]}
            metrics[f"{name}.highest_disparity"] = highest["disparity"]
        for agreement in ("both", "published_only", "ours_only"):
            count = sum(row["agreement"] == agreement for row in outcome["benchmark"]["rows"])
            metrics[f"{name}.found_{agreement}"] = float(count)
        model, patterns = outcome.get("error_model", {}), outcome.get("patterns", {})
        if model.get("status") == "ok":
            entry |= {"explained": model["r2"], "explains": model["explains"], "features": model["selected"]}
            metrics[f"{name}.explained"] = model["r2"]
        if patterns.get("status") == "ok":
            entry["patterns_held"] = patterns["n_held"]
            metrics[f"{name}.patterns_held"] = float(patterns["n_held"])
        headline["outcomes"].append(entry)
    return {"metrics": metrics, "headline": headline}
