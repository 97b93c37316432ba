"""`task=annotator_agreement`: how far annotators agree about each person, and whether that depends on the group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from fp2.extension import (
    ATTRIBUTE_PREFIX,
    LONG,
    NO_MODEL,
    NULL_MEAN,
    ROW_METHODS,
    SCORE_TESTS,
    Analysis,
    Block,
    Collected,
    EvaluationProtocol,
    Flag,
    Fp2Error,
    Inputs,
    Job,
    Range,
    Results,
    ScoreComparison,
    Section,
    attribute_columns,
    cut_label,
    describe_metric,
    given_files,
    number,
    plain,
    score_settings,
    score_tables,
)
from fp2.methods.fhibe.narrow.agreement import (
    JACCARD,
    MEASURES,
    OWN,
    SHAPES,
    TITLES,
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
from fp2.methods.fhibe.narrow.figures import by_group
from fp2.methods.fhibe.narrow.truth import Person, people_of
from fp2.methods.fhibe.scores.analysis import disparity_rows, highest_disparities
from fp2.methods.fhibe.scores.benchmark import BenchmarkOptions, benchmark
from fp2.methods.fhibe.scores.figures import large_top, short_group

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


class AnnotatorAgreement(EvaluationProtocol[AgreementOptions]):
    """Agreement of several annotations of the same people in images."""

    name = BLOCK
    Options = AgreementOptions
    asks = False
    scoring = "none"
    methods = ROW_METHODS
    tests = SCORE_TESTS
    limitations = (NULL_MEAN,)
    sections = ("fp2.methods.fhibe.narrow.agreement_protocol:AgreementSection",)

    def title(self, inputs: Inputs) -> str:
        """Return the title of the report."""
        return "Agreement of annotators"

    def check(self, inputs: Inputs) -> None:
        """Refuse unknown files, and a run without any."""
        if not given_files(inputs.config.task.files, _FILES):
            fix = f"Add task.files.KIND=FILE: {', '.join(_FILES)}"
            raise Fp2Error("there are no annotations to compare", where="task=annotator_agreement", fix=fix)

    def collect(self, inputs: Inputs) -> Collected:
        """Read the annotations, and compute the agreement about each person in each image."""
        import pandas as pd

        people = people_of(inputs.people)
        persons = {(one.image_id, one.subject_id): one for one in people}
        rows: list[tuple[str, str, str, str, float]] = []
        outcomes = []
        with inputs.progress.steps("Comparing annotations", len(_FILES)) as tick:
            for kind, given in self._given(inputs, people).items():
                if not (found := _agreements(kind, given, persons)):
                    continue
                rows += [(*unit, kind, SCORE, value) for unit, value in found.items()]
                outcomes.append(_outcome(kind, given))
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
        found: dict[str, Given] = {}
        for kind in (name for name in files if name in SHAPES):
            path = Path(files[kind]).expanduser()
            found[kind] = read_shapes(path, kind, people, with_data=self.options.data)
        if "labels" in files:
            own = _own_labels(inputs.people) if self.options.data else {}
            labels = read_labels(Path(files["labels"]).expanduser(), people, own)
            found |= {name: given for name, given in labels.items() if given}
        return found

    def n_steps(self, job: Job, tables: RunTables) -> int:
        """Return how often `analyse` ticks."""
        return len(job.facts["outcomes"]) * len(job.cuts)

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the agreement of every kind, overall and by group."""
        assert tables.scores is not None
        effect = self.options.smallest_effect
        how = BenchmarkOptions(
            **vars(ScoreComparison.from_config(job.config)), smallest_effect=effect, value_range=(0.0, 1.0)
        )
        shown = []
        for outcome in job.facts["outcomes"]:
            part = tables.scores[tables.scores["probe"] == outcome["probe"]]
            scores = part[["image_id", "subject_id"]].assign(score=part["value"])
            label = outcome["label"]
            compared = benchmark(scores, tables.people, job.cuts, how, job.tick, outcome=label)
            shown.append({**outcome, "metric": SCORE, "mean": compared["overall"], "benchmark": compared})
        metrics = {f"{one['probe']}.agreement": one["mean"] for one in shown}
        metrics |= {f"{one['probe']}.alpha": one["alpha"] for one in shown if one["alpha"] is not None}
        headline = {one["probe"]: {"agreement": one["mean"], "alpha": one["alpha"]} for one in shown}
        block = {
            "outcomes": shown, "top": highest_disparities(shown, how.top_k), "metrics": metrics, "headline": headline
        }  # fmt: skip
        probes = [{"id": one["probe"], "label": one["label"], "text": one["measure"]} for one in shown]
        return Analysis(
            settings=score_settings(job.config, {SCORE: effect}),
            blocks={BLOCK: block},
            disparities=disparity_rows(shown, job.cuts),
            about={"probes": probes, "scorers": [describe_metric(SCORE, effect)]},
        )

    def recall(self, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outcomes of a logged run; alpha, which needs the annotations, stays that of the first run."""
        computed = ("metric", "mean", "benchmark")
        return {
            "outcomes": [
                {name: value for name, value in one.items() if name not in computed}
                for one in results[BLOCK]["outcomes"]
            ]
        }


def _agreements(kind: str, given: Given, persons: Mapping[Unit, Person]) -> dict[Unit, float]:
    found = {}
    for unit, said in given.items():
        compare = similarity(kind, persons, unit) if kind in SHAPES else jaccard
        value = agreement(list(said.values()), compare) if len(said) > 1 else None
        if value is not None and value == value:
            found[unit] = value
    return found


def _outcome(kind: str, given: Given) -> dict[str, Any]:
    several = [said for said in given.values() if len(said) > 1]
    annotators = {name for said in several for name in said}
    alpha = None if kind in SHAPES else krippendorff([list(said.values()) for said in several])
    return {
        "probe": kind,
        "label": TITLES.get(kind, kind.replace("_", " ")),
        "measure": MEASURES.get(kind, JACCARD),
        "n_annotators": len(annotators),
        "with_data": OWN in annotators,
        "n_compared": len(several),
        "n_alone": len(given) - len(several),
        "alpha": alpha,
    }


def _own_labels(people: pd.DataFrame) -> dict[str, dict[Unit, Labels]]:
    """Return attribute -> unit -> labels of the people table."""
    units = list(zip(people["image_id"].astype(str), people["subject_id"].astype(str), strict=True))
    return {
        name: {unit: frozenset(cell) for unit, cell in zip(units, people[ATTRIBUTE_PREFIX + name], strict=True)}
        for name in attribute_columns(people)
    }


_DRAWN = 6


class AgreementSection(Section):
    """A table of kinds and attributes, and their agreement by group."""

    name = "annotator_agreement"
    title = "Agreement of annotators"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the tables, without groups of fewer than `min_cell` subjects."""
        return {
            "outcomes": [
                {**one, "rows": [{**row, "label": cut_label(row["cut"])} for row in one["benchmark"]["rows"]]}
                for one in block["outcomes"]
            ],
            "top": [
                {**line, **{end: short_group(line[end]) for end in ("worst", "best")}}
                for line in large_top(block, min_cell)
            ],
            "alts": {name: alt for name, alt, _ in _files(block, min_cell)},
        }

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw the agreement by group."""
        for name, _, place in _files(block, min_cell):
            one = block["outcomes"][place]
            yield by_group(_groups(one, min_cell), results, folder / name, plain(one["label"]), one["measure"])

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return one line per kind."""
        lines = []
        for one in block["outcomes"]:
            alpha = "" if one["alpha"] is None else f", Krippendorff's alpha {number(one['alpha'], 2)}"
            words = f"{plain(one['label'])}: {number(one['mean'])} ({one['measure']}{alpha})"
            lines.append(Text(f"{words}, {one['n_annotators']} annotators, {one['n_compared']:,} people in images"))
        return lines


def _groups(one: Any, min_cell: int) -> list[dict[str, Any]]:
    """Return the groups of every cut with the mean over subjects, and no interval."""
    return [
        {"cut": row["cut"], **group, "value": group["mean"], "low": None, "high": None}
        for row in one["benchmark"]["rows"]
        for group in row["ours"]["groups"]
        if group["n_subjects"] >= min_cell and group["mean"] is not None
    ]


def _files(block: Block, min_cell: int) -> list[tuple[str, str, int]]:
    return [
        (f"annotator_agreement_{place}.png", f"Agreement by group: {plain(one['label'])}", place)
        for place, one in enumerate(block["outcomes"][:_DRAWN])
        if _groups(one, min_cell)
    ]
