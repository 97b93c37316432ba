"""`task=fhibe_scores`: FHIBE's bias analyses of the user's own scores, or of simulated ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.extension import (
    LONG,
    NULL_MEAN,
    ROW_METHODS,
    SCORE_TESTS,
    Analysis,
    Collected,
    Collects,
    Config,
    Fp2Error,
    Inputs,
    Job,
    Requirements,
    ScoreComparison,
    Statements,
    attribute_columns,
    check_names,
    describe_metric,
    given_files,
    memberships,
    score_settings,
    score_tables,
)
from fp2.methods.fhibe.scores.analysis import ScoresAnalysis, numbers_of
from fp2.methods.fhibe.scores.conditions import names_in
from fp2.methods.fhibe.scores.features import (
    ALL,
    MEASURED,
    NUMBERS,
    check_conditions,
    chosen_attributes,
    measure,
    with_single,
)
from fp2.methods.fhibe.scores.inputs import has_effects, read_scores, simulated_scores
from fp2.methods.fhibe.scores.options import WHERE, ScoresOptions
from fp2.methods.fhibe.scores.published import EQUAL_MEDIANS
from fp2.methods.fhibe.scores.summary import SUMMARY_SECTION, summarise

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import RunTables

BLOCK = "fhibe_scores"
SIMULATED = "The scores are simulated from a known truth, which the config states: no finding about people."


class FhibeScores(Collects[ScoresOptions]):
    """FHIBE's benchmarking analysis, error modelling and error patterns of one score per subject and image."""

    name = BLOCK
    Options = ScoresOptions
    requires = Requirements(scoring="none", tables=MEASURED)
    states = Statements(
        title="FHIBE's bias analyses",
        sections=("fp2.methods.fhibe.scores.section:ScoresSection", SUMMARY_SECTION),
        # the permutation test of a row, before and after adjustment
        methods=(
            *ROW_METHODS,
            EQUAL_MEDIANS,
            ("gaps", 2, ("fhibe_scores.*.error_model.gaps.*.p", "fhibe_scores.*.error_model.gaps.*.left_p")),
        ),
        tests=SCORE_TESTS,
        limitations=(NULL_MEAN,),
    )

    def check(self, inputs: Inputs) -> Sequence[str]:
        """Refuse missing or unknown files, and attributes or features that the data set does not have."""
        files = given_files(inputs.config.task.files, ["scores"])
        if self.options.simulate is not None and files:
            raise Fp2Error("scores are both given and simulated", where="task", fix="Omit task.options.simulate")
        if self.options.simulate is None and not files.get("scores"):
            fix = "Add task.files.scores=FILE (one row per subject and image), or try experiment=fhibe_scores_demo"
            raise Fp2Error("there are no scores", where="task=fhibe_scores", fix=fix)
        attributes = attribute_columns(inputs.people)
        what = "the data set has no"
        check_names(self.options.attributes or (), [*attributes, ALL], what, f"{WHERE}.attributes")
        check_names(self.options.features or (), [*attributes, *NUMBERS], what, f"{WHERE}.features")
        check_conditions(inputs.people, self.options.within)
        return ()

    def collect(self, inputs: Inputs) -> Collected:
        """Measure the features of the images, and read or simulate the scores."""
        from fp2.extension import local_salt

        options = self.options
        with inputs.progress.steps("Measuring the images", len(inputs.people)) as tick:
            numbers = measure(inputs.people, inputs.store.connection, pixels=options.pixels, tick=tick)
        people = inputs.people.join(numbers)
        config, notes = inputs.config, list[str]()
        if options.simulate is not None:
            scores = simulated_scores(people, options.metrics, options.simulate, options.name, config.seed)
        else:
            path = Path(config.task.files["scores"]).expanduser()
            scores, notes = read_scores(path, people, options, local_salt(Path(config.paths.state)))
        scored = scores.dropna(subset=["value"])
        if scored.empty:
            raise Fp2Error("there are no scores: every cell is empty", where="task.files.scores")
        pairs = set(zip(scored["image_id"], scored["subject_id"], strict=True))
        inside = [pair in pairs for pair in zip(people["image_id"], people["subject_id"], strict=True)]
        for cut in (*inputs.cuts, *with_single((), chosen_attributes(people[inside], self.options.attributes or ()))):
            if memberships(people[inside], cut).empty:
                raise Fp2Error(f"no subject with a score has a value for {cut.name!r}", where="cut")
        people_table = people.drop(columns=[name for name in numbers if name not in numbers_of(options)])
        return Collected(
            tables=score_tables(people_table, scores[LONG]),
            model={
                "name": _model_name(inputs.config, scores),
                "embedded": options.simulate is not None,
                **({"without_effects": True} if options.simulate and not has_effects(options.simulate) else {}),
            },
            probes=[{"id": str(name), "label": str(name), "text": ""} for name in scores["probe"].unique()],
            scorers=[
                describe_metric(
                    metric.name,
                    metric.smallest_effect,
                    higher_is_better=metric.higher_is_better,
                    value_range=metric.range or (0.0, 1.0),
                )
                for metric in options.metrics
            ],
            attributes=ScoresAnalysis(people, inputs.cuts, options, ScoreComparison()).attributes,
            notes=[*([SIMULATED] if options.simulate else []), *notes],
        )

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the block and the disparity rows; the people table has the measured features as columns.

        A condition on a fine place or a time is not evaluated again on the tables of a logged run, which never hold
        these.
        """
        people, options = tables.people, self.options
        assert tables.scores is not None
        there = {*people.columns, *attribute_columns(people)}
        conditions = tuple(condition for condition in options.within if there.issuperset(names_in(condition)))
        comparison = ScoreComparison.from_config(job.config)
        analysis = ScoresAnalysis(people, job.cuts, replace(options, within=conditions), comparison)
        n_outcomes = len(tables.scores[["probe", "scorer"]].drop_duplicates())
        with job.progress.steps("Comparing groups", analysis.n_steps(n_outcomes)) as tick:
            block, rows = replace(analysis, tick=tick).run(tables.scores)
        for condition in options.within:
            if condition not in conditions:
                block["notes"].append(
                    f"within {condition}: not evaluated again, its attribute never leaves the data set"
                )
        return Analysis(
            settings=score_settings(job.config, {metric.name: metric.smallest_effect for metric in options.metrics}),
            blocks={BLOCK: block, **summarise(block["outcomes"], analysis.every_cut)},
            disparities=rows,
            notes=block["notes"],
        )


def _model_name(config: Config, scores: pd.DataFrame) -> str:
    """Return the name of the scored model: the outcome if there is one, else the file's name."""
    outcomes = scores["probe"].unique().tolist()
    if len(outcomes) == 1:
        return str(outcomes[0])
    return Path(config.task.files["scores"]).stem if config.task.files.get("scores") else "several"
