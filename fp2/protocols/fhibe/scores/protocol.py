"""`task=fhibe_scores`: the FHIBE analyses of the user's own scores, or of simulated ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.config import Config
from fp2.errors import Fp2Error, nearest
from fp2.protocols.base import Collected, EvaluationProtocol, Inputs, Job
from fp2.protocols.fhibe.scores.analysis import (
    all_cuts,
    analyse_scores,
    attributes_of,
    numbers_of,
    sensitive_of,
    steps_of,
)
from fp2.protocols.fhibe.scores.conditions import names_in
from fp2.protocols.fhibe.scores.files import read_scores, simulated_scores
from fp2.protocols.fhibe.scores.options import ScoresOptions, read_options
from fp2.protocols.task_tables import LONG, comparison_of, score_settings, score_tables
from fp2.results import Analysis
from fp2.tables import attribute_columns

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.answers import RunTables
    from fp2.cuts import Cut

BLOCK = "fhibe_scores"
SIMULATED = "The scores are simulated from a truth that the config states: calibration, never a finding about people."


class FhibeScores(EvaluationProtocol[ScoresOptions]):
    """FHIBE's benchmarking analysis, error modelling and error patterns of one score per subject and image."""

    name = BLOCK
    Options = ScoresOptions
    asks = False
    scoring = "none"
    sections = ("fp2.protocols.fhibe.scores.section:ScoresSection",)

    @classmethod
    def from_config(cls, config: Config) -> FhibeScores:
        """Return the protocol with its options."""
        return cls(read_options(config.task.options))

    def title(self, inputs: Inputs) -> str:
        """Return what the report is called."""
        return "FHIBE's bias analyses"

    def check(self, inputs: Inputs) -> None:
        """Refuse files that are missing or unknown, and names that the data set does not have."""
        _check_files(inputs.config, self.options)
        _check_names(inputs.people, self.options)

    def collect(self, inputs: Inputs) -> Collected:
        """Measure the images, and read or simulate the scores."""
        from fp2.protocols.fhibe.scores.features import measure

        options = self.options
        with inputs.progress.steps("Measuring the images", len(inputs.people)) as tick:
            numbers = measure(inputs.people, inputs.store.connection, pixels=options.pixels, tick=tick)
        people = inputs.people.join(numbers)
        scores, notes = _scores(inputs.config, people, options)
        _check_somebody(people, scores, inputs.cuts, options)
        sensitive = sensitive_of(people, inputs.cuts, options)
        kept = people.drop(columns=[name for name in numbers if name not in numbers_of(options)])
        return Collected(
            tables=score_tables(kept, scores[LONG]),
            model={"name": _model_name(inputs.config, scores), "embedded": options.simulate is not None},
            attributes=attributes_of(people, sensitive, options),
            notes=[*([SIMULATED] if options.simulate else []), *notes],
            **_names(scores, options),
        )

    def n_steps(self, job: Job, tables: RunTables) -> int:
        """Return about how often `analyse` ticks."""
        assert tables.scores is not None
        n_cuts = len(all_cuts(sensitive_of(tables.people, job.cuts, self.options), job.cuts, self.options))
        return steps_of(len(tables.scores[["probe", "scorer"]].drop_duplicates()), n_cuts, self.options)

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the block and the disparity rows; the people table has the measured features as columns."""
        people, options = tables.people, self.options
        assert tables.scores is not None
        there = {*people.columns, *attribute_columns(people)}
        kept = tuple(condition for condition in options.within if there.issuperset(names_in(condition)))
        comparison = comparison_of(job.config)
        found = analyse_scores(tables.scores, people, job.cuts, replace(options, within=kept), comparison, job.tick)
        for condition in options.within:
            if condition not in kept:  # a fine place or a time, which no published table may hold
                what = "not computed again, the attribute it names never leaves the data set"
                found.block["notes"].append(f"within {condition}: {what}")
        settings = score_settings(job.config, [metric.name for metric in options.metrics])
        effects = {metric.name: metric.smallest_effect for metric in options.metrics}
        return Analysis(
            settings={**settings, "smallest_effects": effects},
            blocks={BLOCK: found.block},
            disparities=found.disparities,
            notes=found.block["notes"],
        )


def _check_names(people: pd.DataFrame, options: ScoresOptions) -> None:
    """Raise for names that the data set does not have, before anything is measured."""
    from fp2.protocols.fhibe.scores.conditions import holds
    from fp2.protocols.fhibe.scores.features import NUMBERS
    from fp2.tables import attribute_columns

    known = attribute_columns(people)
    for where, names in (("attributes", options.attributes), ("features", options.features)):
        for name in names or ():
            if name not in known and not (where == "features" and name in NUMBERS):
                fix = nearest(name, known if where == "attributes" else [*known, *NUMBERS])
                raise Fp2Error(f"the data set has no {name!r}", where=f"task.options.{where}", fix=fix)
    for condition in options.within:
        holds(people.assign(**dict.fromkeys(NUMBERS, float("nan"))), condition)


def _check_somebody(people: pd.DataFrame, scores: pd.DataFrame, cuts: Sequence[Cut], options: ScoresOptions) -> None:
    """Raise where nobody has a score, or nobody with one has a value for a cut that was asked for."""
    from fp2.cuts import Cut, memberships

    known = scores.dropna(subset=["value"])
    if known.empty:
        raise Fp2Error("no score is left: every cell is empty", where="task.files.scores")
    pairs = set(zip(known["image_id"], known["subject_id"], strict=True))
    inside = [pair in pairs for pair in zip(people["image_id"], people["subject_id"], strict=True)]
    for cut in (*cuts, *(Cut(name, (name,)) for name in options.attributes or ())):
        if memberships(people[inside], cut).empty:
            raise Fp2Error(f"nobody with a score has a value for {cut.name!r}", where="cut")


def _check_files(config: Config, options: ScoresOptions) -> None:
    files = {name: path for name, path in config.task.files.items() if path}
    for name in files:
        if name != "scores":
            raise Fp2Error(f"unknown file {name!r}", where="task.files", fix=nearest(name, ["scores"]))
    if options.simulate is not None and files:
        raise Fp2Error("scores are given and simulated", where="task", fix="Leave out task.options.simulate")
    if options.simulate is None and not files.get("scores"):
        fix = "Add task.files.scores=FILE (one row per person and picture), or try experiment=fhibe_scores_demo"
        raise Fp2Error("there are no scores", where="task=fhibe_scores", fix=fix)


def _scores(config: Config, people: pd.DataFrame, options: ScoresOptions) -> tuple[pd.DataFrame, list[str]]:
    from fp2.store.salted_keys import local_salt

    if options.simulate is None:
        salt = local_salt(Path(config.paths.state))
        return read_scores(Path(config.task.files["scores"]).expanduser(), people, options, salt)
    names = [metric.name for metric in options.metrics]
    for name in options.simulate:
        if name not in names:
            fix = nearest(str(name), names)
            raise Fp2Error(f"{name!r} is no metric of task.options.metrics", where="task.options.simulate", fix=fix)
    if not options.metrics:
        raise Fp2Error("there is nothing to simulate", where="task.options.metrics", fix="Name a metric")
    return simulated_scores(people, options.metrics, options.simulate, options.name, config.seed), []


def _model_name(config: Config, scores: pd.DataFrame) -> str:
    """Return whose scores these are, in words: the outcome where there is one, else the file's name."""
    outcomes = scores["probe"].unique().tolist()
    if len(outcomes) == 1:
        return str(outcomes[0])
    return Path(config.task.files["scores"]).stem if config.task.files.get("scores") else "several"


def _names(scores: pd.DataFrame, options: ScoresOptions) -> dict[str, Any]:
    """Return outcomes and metrics as reports name probes and scorers."""
    probes = [{"id": str(name), "label": str(name), "text": ""} for name in scores["probe"].unique()]
    scorers = [
        {
            "name": metric.name,
            "version": "1",
            "higher_is_better": metric.higher_is_better,
            "value_range": list(metric.range or (0.0, 1.0)),
            "smallest_effect": metric.smallest_effect,
            "lexicon": None,
        }
        for metric in options.metrics
    ]
    return {"probes": probes, "scorers": scorers}
