"""`task=fhibe_narrow`: predictions of models for narrow vision tasks, scored per subject and image and compared.

The block has for each task and model the share found, the means, and the benchmark. It is a pure function of tables,
which can be computed again from those of a logged run (ids there are salted keys).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    LONG,
    NULL_MEAN,
    ROW_METHODS,
    SCORE_TESTS,
    Analysis,
    Block,
    Collected,
    Collects,
    Cut,
    Fp2Error,
    Inputs,
    Job,
    Requirements,
    ScoreComparison,
    Statements,
    attribute_columns,
    check_names,
    describe_metric,
    plural,
    score_settings,
    score_tables,
)
from fp2.methods.fhibe.narrow.generated_images import SCALES
from fp2.methods.fhibe.narrow.group_numbers import (
    curves,
    group_means,
    overall_means,
    own_metrics,
    published_numbers,
    published_rates,
)
from fp2.methods.fhibe.narrow.model_comparison import COMPARISONS, compare_models
from fp2.methods.fhibe.narrow.models import identity_spec
from fp2.methods.fhibe.narrow.prediction_cache import TABLE
from fp2.methods.fhibe.narrow.sources import Source, build_models, read_sources, run_models, score
from fp2.methods.fhibe.narrow.tasks import PCK_MEANINGS, TASKS, NarrowOptions, TaskScores, given_files
from fp2.methods.fhibe.narrow.truth import people_of
from fp2.methods.fhibe.scores.analysis import disparity_rows, highest_disparities, within_condition
from fp2.methods.fhibe.scores.benchmark import KEYS, BenchmarkOptions, benchmark
from fp2.methods.fhibe.scores.conditions import names_in
from fp2.methods.fhibe.scores.features import (
    ALL,
    MEASURED,
    check_conditions,
    chosen_attributes,
    measure,
    sensitive_attributes,
    with_intersections,
    with_single,
)
from fp2.methods.fhibe.scores.published import EQUAL_MEDIANS
from fp2.methods.fhibe.scores.summary import SUMMARY_SECTION, summarise

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import RunTables

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
        cuts = with_intersections(self.cuts, sensitive_attributes(self.people), self.options.depth)
        return with_single(cuts, chosen_attributes(self.people, self.options.attributes))

    def n_steps(self, outcomes: Sequence[Mapping[str, Any]]) -> int:
        """Return about how often `run` ticks."""
        n_pairs = sum(n * (n - 1) // 2 for n in Counter(outcome["task"] for outcome in outcomes).values())
        return len(outcomes) * len(self.every_cut) * (1 + len(self.options.within)) + n_pairs * len(self.cuts)

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
        metrics: dict[str, float] = {}
        headline: dict[str, Any] = {}
        for outcome in shown:
            name = outcome["probe"].replace(" / ", ".")
            metrics[f"{name}.found_share"] = outcome["found_share"]
            if not outcome["measurable"]:
                headline[outcome["probe"]] = NOT_MEASURABLE
                continue
            metrics |= {f"{name}.{metric}": value for metric, value in outcome["means"].items() if metric != FOUND}
            metrics |= {
                f"{name}.{own['metric']}": own["overall"]
                for own in outcome["published"] or ()
                if own["overall"] is not None
            }
            top = outcome["benchmark"]["top"]
            largest = {"disparity": top[0]["disparity"], "cut": top[0]["cut"]} if top else None
            headline[outcome["probe"]] = {"mean": outcome["means"].get(outcome["metric"]), "largest": largest}
            metrics[f"{name}.largest_disparity"] = top[0]["disparity"] if top else 0.0
        block = {
            "outcomes": shown,
            "top": highest_disparities(shown, self.options.top_k),
            "measurable_from": self.options.measurable,
            "metrics": metrics,
            "headline": headline,
        }
        return block, disparity_rows(shown, self.cuts)

    def _outcome(self, outcome: Mapping[str, Any], part: pd.DataFrame) -> dict[str, Any]:
        """Return one task of one model."""
        task, options = TASKS[outcome["task"]], self.options
        found_rows = part[part["scorer"] == FOUND]
        n_found, n_judged = int(found_rows["value"].sum()), len(found_rows)
        share = float(found_rows["value"].mean()) if n_judged else 0.0
        scored = part[part["scorer"] == task.metric].dropna(subset=["value"])
        enough = bool(n_judged) and share >= options.measurable
        measurable = enough and len(scored) > 0
        why = "no subject has a score" if enough else f"{n_found} of {n_judged} people were found"
        scale = {task.metric: SCALES[outcome["scale"]]} if outcome.get("scale") else {}
        if task.metric == "pck" and options.pck in PCK_MEANINGS:
            scale = {"pck": PCK_MEANINGS[options.pck]}
        block: dict[str, Any] = {
            **outcome,
            "title": task.title,
            "label": f"{task.title}: {outcome['model']}",
            "metric": task.metric,
            "metrics": {**task.metrics, **scale},
            "n_images": int(scored["image_id"].nunique()),
            "n_subjects": int(scored["subject_id"].nunique()),
            "n_judged": n_judged,
            "n_found": n_found,
            "found_share": share,
            "measurable": measurable,
            "why": None if measurable else why,
            "means": {},
            "groups": [],
            "benchmark": None,
            "within": [],
            "published": None,
            "curves": None,
        }
        if not measurable:
            return block | {"verification": None}
        scores = scored[KEYS].assign(score=scored["value"])
        how = BenchmarkOptions(**vars(self.comparison), top_k=options.top_k, smallest_effect=options.smallest_effect)
        whole = benchmark(scores, self.people, self.every_cut, how, self.tick, outcome=block["label"])
        judged = found_rows[KEYS].assign(**{FOUND: found_rows["value"]})
        how_published = (self.comparison.alpha, self.comparison.min_subjects)
        theirs = [
            *published_numbers(part, self.people, self.every_cut, *how_published),
            *published_rates(outcome["verification"]),
        ]
        return block | {
            "means": overall_means(own_metrics(part)),
            "published": theirs or None,
            "curves": curves(part, self.people, self.cuts),
            "benchmark": whole,
            "groups": [line for cut in self.cuts for line in group_means(scores, judged, self.people, cut)],
            "within": [
                within_condition(scores, self.people, self.every_cut, how, condition, whole, self.tick)
                for condition in options.within
            ],
        }


BLOCK = "fhibe_narrow"


class FhibeNarrow(Collects[NarrowOptions]):
    """FHIBE's narrow vision tasks."""

    name = BLOCK
    Options = NarrowOptions
    requires = Requirements(scoring="none", tables={**MEASURED, TABLE: "predictions of narrow models"})
    states = Statements(
        title="Narrow vision tasks",
        sections=(
            "fp2.methods.fhibe.narrow.section:NarrowSection",
            "fp2.methods.fhibe.narrow.model_comparison:ComparisonSection",
            SUMMARY_SECTION,
        ),
        methods=(*ROW_METHODS, EQUAL_MEDIANS),
        tests=SCORE_TESTS,
        limitations=(NULL_MEAN,),
    )

    def check(self, inputs: Inputs) -> Sequence[str]:
        """Refuse unknown files, models that are not installed, invalid conditions, and a run without predictions."""
        files = given_files(inputs.config.task.files)
        if not (set(files) & {*TASKS, "model"} or self.options.models):
            raise _nothing_to_score()
        identity_spec(self.options.identity)
        build_models(inputs.config, files, self.options)
        check_conditions(inputs.people, self.options.within)
        attributes = [*attribute_columns(inputs.people), ALL]
        check_names(self.options.attributes, attributes, "the data set has no attribute", "task.options.attributes")
        return ()

    def collect(self, inputs: Inputs) -> Collected:
        """Read or compute the predictions, and score every person."""
        options, files = self.options, given_files(inputs.config.task.files)
        people = people_of(inputs.people)
        sources = [*read_sources(files, options, people), *run_models(inputs, files, options, people)]
        if not sources:
            raise _nothing_to_score()
        scored = [score(source, inputs, people, files, options) for source in sources]
        table = inputs.people
        if options.within:  # a condition may need a measured feature
            with inputs.progress.steps("Measuring the images", len(table)) as tick:
                table = table.join(measure(table, inputs.store.connection, tick=tick))
        return Collected(
            tables=score_tables(table, _long(scored)),
            model={"name": _model_name(sources)},
            attributes=[
                *sensitive_attributes(table),
                *chosen_attributes(table, options.attributes),
                *(name for text in options.within for name in names_in(text)),
            ],
            facts={"outcomes": [outcome for _, outcome in scored]},
        )

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the block and the disparity rows."""
        assert tables.scores is not None
        outcomes, comparison = job.facts["outcomes"], ScoreComparison.from_config(job.config)
        analysis = NarrowAnalysis(tables.people, job.cuts, self.options, comparison)
        with job.progress.steps("Comparing groups", analysis.n_steps(outcomes)) as tick:
            block, rows = replace(analysis, tick=tick).run(tables.scores, outcomes)
            summary = summarise(block["outcomes"], analysis.every_cut)
            pairs = compare_models(
                tables.scores,
                block["outcomes"],
                tables.people,
                job.cuts,
                comparison,
                self.options.smallest_effect,
                tick,
            )
        effect = self.options.smallest_effect
        metrics = list(dict.fromkeys(one["metric"] for one in block["outcomes"]))
        probes = [
            {"id": one["probe"], "label": one["label"], "text": one["metrics"][one["metric"]]}
            for one in block["outcomes"]
        ]
        notes = []
        for outcome in block["outcomes"]:
            own = [f"{plural(n, 'subject-image pair')} left out, {reason}" for reason, n in outcome["left_out"].items()]
            own += [f"{plural(n, 'prediction')} ignored, {reason}" for reason, n in (outcome["ignored"] or {}).items()]
            own += [outcome["scale_note"]] if outcome["scale_note"] else []
            own += [f"{plural(outcome['failed'], 'image')} could not be read or predicted"] if outcome["failed"] else []
            own += [] if outcome["measurable"] else [f"not measurable here, {outcome['why']}"]
            notes += [f"{outcome['probe']}: {line}" for line in own]
        return Analysis(
            settings=score_settings(job.config, dict.fromkeys(metrics, effect)),
            blocks={BLOCK: block, **({COMPARISONS: {"pairs": pairs}} if pairs else {}), **summary},
            disparities=rows,
            notes=notes,
            about={"probes": probes, "scorers": [describe_metric(name, effect) for name in metrics]},
        )

    def recall(self, results: Block) -> Block:
        """Return the outcomes of a logged run.

        Pairs of faces cannot be compared again without the embeddings: verification keeps its score per face only.
        """
        keep = ("probe", "task", "model", "source", "identity", "left_out", "ignored", "scale", "scale_note", "failed")
        outcomes = results[BLOCK]["outcomes"]
        return {
            "outcomes": [{**{name: outcome.get(name) for name in keep}, "verification": None} for outcome in outcomes]
        }


def _nothing_to_score() -> Fp2Error:
    fix = "Add task.files.TASK=FILE or task.options.models=[NAME], or try experiment=narrow_demo"
    return Fp2Error("there is nothing to score", where="task=fhibe_narrow", fix=fix)


def _long(scored: Sequence[tuple[TaskScores, Mapping[str, Any]]]) -> pd.DataFrame:
    """Return one row per subject, image and metric (columns `LONG`)."""
    import pandas as pd

    parts = []
    for scores, outcome in scored:
        frame = scores.frame()
        for name in frame.columns.drop(["image_id", "subject_id", "score"]):
            of_metric = frame[["image_id", "subject_id"]].assign(
                probe=outcome["probe"], scorer=name, value=frame[name].astype("float64")
            )
            parts.append(of_metric.dropna(subset=["value"]))
    return pd.concat(parts, ignore_index=True)[LONG] if parts else pd.DataFrame(columns=LONG)


def _model_name(sources: Sequence[Source]) -> str:
    names = list(dict.fromkeys(source.model for source in sources))
    return names[0] if len(names) == 1 else " + ".join(names) if len(names) < 4 else f"{len(names)} narrow models"
