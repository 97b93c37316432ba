"""`task=fhibe_narrow`: predictions of models for narrow vision tasks, scored per subject and image and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fp2.errors import Fp2Error
from fp2.protocols.base import Collected, EvaluationProtocol, Inputs, Job
from fp2.protocols.fhibe.scores.conditions import names_in
from fp2.protocols.fhibe.scores.features import check_conditions, measure, sensitive_attributes
from fp2.protocols.narrow.analysis import NarrowAnalysis
from fp2.protocols.narrow.sources import Source, read_sources, run_models, score
from fp2.protocols.narrow.task_scores import TaskScores
from fp2.protocols.narrow.tasks import TASKS, NarrowOptions, given_files
from fp2.protocols.narrow.truth import people_of
from fp2.protocols.task_tables import LONG, ScoreComparison, describe_metric, score_settings, score_tables
from fp2.results import Analysis

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.answers import RunTables

BLOCK = "fhibe_narrow"


class FhibeNarrow(EvaluationProtocol[NarrowOptions]):
    """FHIBE's eight narrow vision tasks."""

    name = BLOCK
    Options = NarrowOptions
    asks = False
    scoring = "none"
    sections = ("fp2.protocols.narrow.section:NarrowSection",)

    def title(self, inputs: Inputs) -> str:
        """Return the title of the report."""
        return "Narrow vision tasks"

    def check(self, inputs: Inputs) -> None:
        """Refuse unknown files, invalid conditions, and a run without predictions and models."""
        files = given_files(inputs.config.task.files)
        if not (set(files) & {*TASKS, "model"} or self.options.models):
            raise _nothing_to_score()
        check_conditions(inputs.people, self.options.within)

    def collect(self, inputs: Inputs) -> Collected:
        """Read or compute the predictions, and score every person."""
        options, files = self.options, given_files(inputs.config.task.files)
        people = people_of(inputs.people)
        sources = [*read_sources(files, options), *run_models(inputs, files, options, people)]
        if not sources:
            raise _nothing_to_score()
        scored = [score(source, inputs, people, files, options) for source in sources]
        table = self._with_features(inputs)
        return Collected(
            tables=score_tables(table, _long(scored)),
            model={"name": _model_name(sources)},
            attributes=[*sensitive_attributes(table), *(name for text in options.within for name in names_in(text))],
            facts={"outcomes": [outcome for _, outcome in scored]},
        )

    def _with_features(self, inputs: Inputs) -> pd.DataFrame:
        """Return the people table, with the measured features if a condition may need one."""
        if not self.options.within:
            return inputs.people
        with inputs.progress.steps("Measuring the images", len(inputs.people)) as tick:
            return inputs.people.join(measure(inputs.people, inputs.store.connection, tick=tick))

    def n_steps(self, job: Job, tables: RunTables) -> int:
        """Return how often `analyse` ticks."""
        return len(job.facts["outcomes"]) * self._analysis(job, tables).n_steps

    def _analysis(self, job: Job, tables: RunTables) -> NarrowAnalysis:
        comparison = ScoreComparison.from_config(job.config)
        return NarrowAnalysis(tables.people, job.cuts, self.options, comparison, job.tick)

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the block and the disparity rows."""
        assert tables.scores is not None
        block, rows = self._analysis(job, tables).run(tables.scores, job.facts["outcomes"])
        effect = self.options.smallest_effect
        metrics = list(dict.fromkeys(one["metric"] for one in block["outcomes"]))
        probes = [
            {"id": one["probe"], "label": one["label"], "text": one["metrics"][one["metric"]]}
            for one in block["outcomes"]
        ]  # fmt: skip
        return Analysis(
            settings=score_settings(job.config, dict.fromkeys(metrics, effect)),
            blocks={BLOCK: block},
            disparities=rows,
            notes=_notes(block),
            about={"probes": probes, "scorers": [describe_metric(name, effect) for name in metrics]},
        )

    def recall(self, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outcomes of a logged run.

        Pairs of faces cannot be compared again without the embeddings: verification keeps its score per face only.
        """
        keep = ("probe", "task", "model", "source", "identity", "left_out", "ignored", "scale", "scale_note", "failed")
        known = results[BLOCK]["outcomes"]
        return {"outcomes": [{**{name: one.get(name) for name in keep}, "verification": None} for one in known]}


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
            part = frame[["image_id", "subject_id"]].assign(
                probe=outcome["probe"], scorer=name, value=frame[name].astype("float64")
            )
            parts.append(part.dropna(subset=["value"]))
    return pd.concat(parts, ignore_index=True)[LONG] if parts else pd.DataFrame(columns=LONG)


def _notes(block: Mapping[str, Any]) -> list[str]:
    notes = []
    for one in block["outcomes"]:
        own = [f"{n} subject-image pair(s) left out, {reason}" for reason, n in one["left_out"].items()]
        own += [f"{n} prediction(s) ignored, {reason}" for reason, n in (one["ignored"] or {}).items()]
        own += [one["scale_note"]] if one["scale_note"] else []
        own += [f"{one['failed']} image(s) could not be read or predicted"] if one["failed"] else []
        own += [] if one["measurable"] else [f"not measurable here, {one['why']}"]
        notes += [f"{one['probe']}: {line}" for line in own]
    return notes


def _model_name(sources: Sequence[Source]) -> str:
    names = list(dict.fromkeys(source.model for source in sources))
    return names[0] if len(names) == 1 else " + ".join(names) if len(names) < 4 else f"{len(names)} narrow models"
