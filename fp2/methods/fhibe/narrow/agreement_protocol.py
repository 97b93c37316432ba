"""`task=annotator_agreement`: how far annotators agree about each person, and whether that depends on the group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fp2.extension import (
    ATTRIBUTE_PREFIX,
    LONG,
    NO_MODEL,
    NULL_MEAN,
    ROW_METHODS,
    SCORE_TESTS,
    Analysis,
    Axis,
    Block,
    Cell,
    Collected,
    Collects,
    Column,
    Flag,
    Fp2Error,
    Inputs,
    Job,
    Kind,
    Name,
    Range,
    Results,
    Row,
    ScoreComparison,
    Section,
    Sentence,
    Statements,
    Table,
    Value,
    Weight,
    attribute_columns,
    cut_label,
    describe_metric,
    given_files,
    score_settings,
    score_tables,
)
from fp2.methods.fhibe.narrow.agreement import (
    JACCARD,
    OWN,
    SHAPES,
    Given,
    Labels,
    Unit,
    agreement,
    jaccard,
    krippendorff,
    read_labels,
    read_shapes,
    similarity,
)
from fp2.methods.fhibe.narrow.truth import Person, people_of
from fp2.methods.fhibe.scores.analysis import disparity_rows, highest_disparities
from fp2.methods.fhibe.scores.benchmark import BenchmarkOptions, benchmark
from fp2.methods.fhibe.scores.benchmark_values import estimate, group_charts
from fp2.methods.fhibe.scores.published import EQUAL_MEDIANS

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import RunTables

BLOCK = "annotator_agreement"
SCORE = "agreement"
_FILES = ("labels", *SHAPES)


@dataclass(frozen=True)
class AgreementOptions:
    """`task.options`: whether the data set's own annotation is an annotator, and the smallest effect of interest."""

    data: Flag = True
    smallest_effect: Annotated[float, Range(0, 1)] = 0.05


class AnnotatorAgreement(Collects[AgreementOptions]):
    """Agreement of several annotations of the same people in images."""

    name = BLOCK
    Options = AgreementOptions
    states = Statements(
        title="Agreement of annotators",
        sections=("fp2.methods.fhibe.narrow.agreement_protocol:AgreementSection",),
        methods=(*ROW_METHODS, EQUAL_MEDIANS),
        tests=SCORE_TESTS,
        limitations=(NULL_MEAN,),
    )

    def check(self, inputs: Inputs) -> Sequence[str]:
        """Refuse unknown files, and a run without any."""
        if not given_files(inputs.config.task.files, _FILES):
            fix = f"Add task.files.KIND=FILE: {', '.join(_FILES)}"
            raise Fp2Error("there are no annotations to compare", where="task=annotator_agreement", fix=fix)
        return ()

    def collect(self, inputs: Inputs) -> Collected:
        """Read the annotations, and compute the agreement about each person in each image."""
        import pandas as pd

        people = people_of(inputs.people)
        persons = {(person.image_id, person.subject_id): person for person in people}
        rows: list[tuple[str, str, str, str, float]] = []
        outcomes = []
        with inputs.progress.steps("Comparing annotations", len(_FILES)) as tick:
            for kind, given in self._given(inputs, people).items():
                several = {unit: list(by_name.values()) for unit, by_name in given.items() if len(by_name) > 1}
                compared = []
                for unit, annotations in several.items():
                    compare = similarity(kind, persons, unit) if kind in SHAPES else jaccard
                    value = agreement(annotations, compare)
                    if value is not None and value == value:
                        compared.append((*unit, kind, SCORE, value))
                if not compared:
                    continue
                rows += compared
                annotators = {name for unit in several for name in given[unit]}
                shape = SHAPES.get(kind)
                alpha = None if shape else krippendorff(list(several.values()))
                outcomes.append(
                    {
                        "probe": kind,
                        "label": shape.title if shape else kind.replace("_", " "),
                        "measure": shape.measure if shape else JACCARD,
                        "n_annotators": len(annotators),
                        "with_data": OWN in annotators,
                        "n_compared": len(several),
                        "n_alone": len(given) - len(several),
                        "alpha": alpha,
                    }
                )
                tick()
        if not outcomes:
            fix = "Give a second annotation of the same people in the same images, by another annotator"
            raise Fp2Error("no person has two annotations", where="task.files", fix=fix)
        scores = pd.DataFrame(rows, columns=LONG)
        return Collected(
            tables=score_tables(inputs.people, scores), model={"name": NO_MODEL}, facts={"outcomes": outcomes}
        )

    def _given(self, inputs: Inputs, people: list[Person]) -> dict[str, Given]:
        """Return what was annotated, by kind of shape or attribute."""
        files = given_files(inputs.config.task.files, _FILES)
        annotations: dict[str, Given] = {}
        for kind in (name for name in files if name in SHAPES):
            path = Path(files[kind]).expanduser()
            annotations[kind] = read_shapes(path, kind, people, with_data=self.options.data)
        if "labels" in files:
            own_labels = _own_labels(inputs.people) if self.options.data else {}
            labels = read_labels(Path(files["labels"]).expanduser(), people, own_labels)
            annotations |= {name: given for name, given in labels.items() if given}
        return annotations

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the agreement of every kind, overall and by group."""
        assert tables.scores is not None
        effect, outcomes = self.options.smallest_effect, job.facts["outcomes"]
        how = BenchmarkOptions(
            **vars(ScoreComparison.from_config(job.config)), smallest_effect=effect, value_range=(0.0, 1.0)
        )
        shown = []
        with job.progress.steps("Comparing groups", len(outcomes) * len(job.cuts)) as tick:
            for outcome in outcomes:
                part = tables.scores[tables.scores["probe"] == outcome["probe"]]
                scores = part[["image_id", "subject_id"]].assign(score=part["value"])
                compared = benchmark(scores, tables.people, job.cuts, how, tick, outcome=outcome["label"])
                shown.append({**outcome, "metric": SCORE, "mean": compared["overall"], "benchmark": compared})
        metrics = {f"{one['probe']}.agreement": one["mean"] for one in shown}
        metrics |= {f"{one['probe']}.alpha": one["alpha"] for one in shown if one["alpha"] is not None}
        headline = {one["probe"]: {"agreement": one["mean"], "alpha": one["alpha"]} for one in shown}
        block = {
            "outcomes": shown,
            "top": highest_disparities(shown, how.top_k),
            "metrics": metrics,
            "headline": headline,
        }
        probes = [{"id": one["probe"], "label": one["label"], "text": one["measure"]} for one in shown]
        return Analysis(
            settings=score_settings(job.config, {SCORE: effect}),
            blocks={BLOCK: block},
            disparities=disparity_rows(shown, job.cuts),
            about={"probes": probes, "scorers": [describe_metric(SCORE, effect)]},
        )

    def recall(self, results: Block) -> Block:
        """Return the outcomes of a logged run; alpha, which needs the annotations, stays that of the first run."""
        computed = ("metric", "mean", "benchmark")
        return {
            "outcomes": [
                {name: value for name, value in outcome.items() if name not in computed}
                for outcome in results[BLOCK]["outcomes"]
            ]
        }


def _own_labels(people: pd.DataFrame) -> dict[str, dict[Unit, Labels]]:
    """Return attribute -> unit -> labels of the people table."""
    units = list(zip(people["image_id"].astype(str), people["subject_id"].astype(str), strict=True))
    return {
        name: {unit: frozenset(cell) for unit, cell in zip(units, people[ATTRIBUTE_PREFIX + name], strict=True)}
        for name in attribute_columns(people)
    }


HOW_TO_READ = (
    "The agreement about a person in an image is the mean similarity over all pairs of annotators; means are over "
    "subjects. Krippendorff’s alpha sets the agreement about labels against that of labels drawn at random (0 is "
    "chance, 1 is perfect)."
)


class AgreementSection(Section):
    """A table of kinds and attributes, and their agreement by group."""

    name = "annotator_agreement"
    title = "Agreement of annotators"

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield the agreement of each kind of annotation, and whether it depends on the group."""
        rows = []
        for outcome in block["outcomes"]:
            annotators = Cell(outcome["n_annotators"], "with the data set’s" if outcome["with_data"] else "")
            rows.append(
                Row(
                    [
                        outcome["label"],
                        outcome["measure"],
                        annotators,
                        outcome["n_compared"],
                        outcome["benchmark"]["n_subjects"],
                        outcome["mean"],
                        outcome["alpha"],
                    ]
                )
            )
        yield Table("agreement", _AGREEMENT, rows, primary=True)
        for n, outcome in enumerate(block["outcomes"]):
            groups = [
                {"cut": row["cut"], "low": None, "high": None, **group}
                for row in outcome["benchmark"]["rows"]
                for group in row["ours"]["groups"]
            ]
            name, keys = f"annotator_agreement_{n}", ("mean", "low", "high")
            yield from group_charts(groups, name, f"Agreement: {outcome['label']}", Axis(outcome["measure"]), keys)
            cuts = [
                Row(
                    [
                        cut_label(row["cut"]),
                        estimate(row["ours"], "raw"),
                        row["ours"]["null_mean"],
                        row["ours"]["adjusted_p"],
                        (row["published"] or {}).get("disparity"),
                    ]
                )
                for row in outcome["benchmark"]["rows"]
            ]
            yield Table(f"cuts_{n}", _CUTS, cuts, [Name(outcome["label"]), ": does the agreement depend on the group?"])
        yield Sentence(HOW_TO_READ, Weight.DETAIL)


_AGREEMENT = [
    Column("Annotation", Kind.NAME), Column("Measure", terminal=False), Column("Annotators", Kind.COUNT),
    Column("People in images", Kind.COUNT), Column("Subjects", Kind.COUNT),
    Column("Mean", Kind.NUMBER, compared=True), Column("Alpha", Kind.NUMBER, 2),
]  # fmt: skip
_CUTS = [
    Column("Cut"), Column("Disparity", Kind.ESTIMATE), Column("Null mean", Kind.NUMBER), Column("Adjusted p", Kind.P),
    Column("Published D", Kind.NUMBER, 2),
]  # fmt: skip
