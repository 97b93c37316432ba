"""The block `fhibe_narrow`: for each task and model the share found, the means, and the benchmark.

A pure function of tables, which can be computed again from those of a logged run (ids there are salted keys).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fp2.protocols.fhibe.scores.analysis import disparity_rows, highest_disparities, within_condition
from fp2.protocols.fhibe.scores.benchmark import KEYS, BenchmarkOptions, benchmark
from fp2.protocols.fhibe.scores.features import sensitive_attributes, with_intersections
from fp2.protocols.narrow.generated_images import SCALES
from fp2.protocols.narrow.tasks import TASKS, NarrowOptions

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.protocols.task_tables import ScoreComparison

FOUND = "found"
NOT_MEASURABLE = "not measurable here"


@dataclass(frozen=True)
class NarrowAnalysis:
    """What is analysed: the people, the cuts that the config names, and the settings.

    `tick` is called after each cut of each outcome.
    """

    people: pd.DataFrame
    cuts: Sequence[Cut]
    options: NarrowOptions
    comparison: ScoreComparison
    tick: Callable[[], None] = lambda: None

    @property
    def every_cut(self) -> tuple[Cut, ...]:
        """The cuts of the config, and the intersections of the sensitive attributes."""
        return with_intersections(self.cuts, sensitive_attributes(self.people), self.options.depth)

    @property
    def n_steps(self) -> int:
        """How often `run` ticks for one outcome."""
        return len(self.every_cut) * (1 + len(self.options.within))

    def run(
        self, scores: pd.DataFrame, outcomes: Sequence[Mapping[str, Any]]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the block, and the disparity rows of the cuts.

        Parameters
        ----------
        scores : DataFrame
            `image_id, subject_id, probe, scorer, value`: a scorer per metric, and `found` (0 or 1).
        outcomes : sequence of mappings
            Each `probe`: `probe, task, model, source, left_out, ignored, scale, scale_note, failed, verification`.
        """
        shown = [self._outcome(outcome, scores[scores["probe"] == outcome["probe"]]) for outcome in outcomes]
        block = {
            "outcomes": shown,
            "top": highest_disparities(shown, self.options.top_k),
            "measurable_from": self.options.measurable,
            **_summary(shown),
        }
        return block, disparity_rows(shown, self.cuts)

    def _outcome(self, outcome: Mapping[str, Any], part: pd.DataFrame) -> dict[str, Any]:
        """Return one task of one model."""
        task, options = TASKS[outcome["task"]], self.options
        found = part[part["scorer"] == FOUND]
        n_found, n_judged = int(found["value"].sum()), len(found)
        share = float(found["value"].mean()) if n_judged else 0.0
        own = part[part["scorer"] == task.metric].dropna(subset=["value"])
        enough = bool(n_judged) and share >= options.measurable
        measurable = enough and len(own) > 0
        why = "no subject has a score" if enough else f"{n_found} of {n_judged} people were found"
        scale = {task.metric: SCALES[outcome["scale"]]} if outcome.get("scale") else {}
        block: dict[str, Any] = {
            **outcome,
            "title": task.title,
            "label": f"{task.title}: {outcome['model']}",
            "metric": task.metric,
            "metrics": {**task.metrics, **scale},
            "n_images": int(own["image_id"].nunique()),
            "n_subjects": int(own["subject_id"].nunique()),
            "n_judged": n_judged,
            "n_found": n_found,
            "found_share": share,
            "measurable": measurable,
            "why": None if measurable else why,
            "means": {},
            "groups": [],
            "benchmark": None,
            "within": [],
        }
        if not measurable:
            return block | {"verification": None}
        scores = own[KEYS].assign(score=own["value"])
        how = BenchmarkOptions(
            **vars(self.comparison), top_k=options.top_k, smallest_effect=options.smallest_effect
        )  # fmt: skip
        whole = benchmark(scores, self.people, self.every_cut, how, self.tick, outcome=block["label"])
        judged = found[KEYS].assign(**{FOUND: found["value"]})
        return block | {
            "means": _means(part),
            "benchmark": whole,
            "groups": [line for cut in self.cuts for line in _groups(scores, judged, self.people, cut)],
            "within": [
                within_condition(scores, self.people, self.every_cut, how, condition, whole, self.tick)
                for condition in options.within
            ],
        }


def _groups(scores: pd.DataFrame, judged: pd.DataFrame, people: pd.DataFrame, cut: Cut) -> list[dict[str, Any]]:
    """Return each group's mean over subjects with a 95 % interval (Student's t), and its median over images.

    `found_share` is the share found of the `n_judged` of the group (subject-image pairs), with or without a score.
    """
    from scipy import stats

    from fp2.cuts import memberships

    joined = memberships(people, cut).merge(judged, on=KEYS).merge(scores, on=KEYS, how="left")
    lines = []
    for group, everyone in joined.groupby("group", sort=True):
        part = everyone.dropna(subset=["score"])
        own = part.groupby("subject_id")["score"].mean()
        mean = float(own.mean()) if len(own) else None
        half = float(own.sem() * stats.t.ppf(0.975, len(own) - 1)) if len(own) > 1 else None
        low, high = (None, None) if mean is None or half is None else (mean - half, mean + half)
        lines.append(
            {
                "cut": cut.name,
                "group": str(group),
                "n_subjects": len(own),
                "n_images": part["image_id"].nunique(),
                "n_judged": len(everyone),
                "n_judged_subjects": everyone["subject_id"].nunique(),
                "found_share": float(everyone[FOUND].mean()),
                "mean": mean,
                "low": low,
                "high": high,
                "median": float(part["score"].median()) if len(own) else None,
            }
        )
    return lines


def _means(part: pd.DataFrame) -> dict[str, float]:
    """Return the mean of every metric over subjects, of each subject's own mean."""
    means = {}
    for name, own in part.dropna(subset=["value"]).groupby("scorer", sort=False):
        means[str(name)] = float(own.groupby("subject_id")["value"].mean().mean())
    return means


def _summary(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return `metrics` (flat, for MLflow) and `headline` (for the passport)."""
    metrics: dict[str, float] = {}
    headline: dict[str, Any] = {}
    for one in outcomes:
        name = one["probe"].replace(" / ", ".")
        metrics[f"{name}.found_share"] = one["found_share"]
        if not one["measurable"]:
            headline[one["probe"]] = NOT_MEASURABLE
            continue
        metrics |= {f"{name}.{metric}": value for metric, value in one["means"].items() if metric != FOUND}
        top = one["benchmark"]["top"]
        largest = {"disparity": top[0]["disparity"], "cut": top[0]["cut"]} if top else None
        headline[one["probe"]] = {"mean": one["means"].get(one["metric"]), "largest": largest}
        metrics[f"{name}.largest_disparity"] = top[0]["disparity"] if top else 0.0
    return {"metrics": metrics, "headline": headline}
