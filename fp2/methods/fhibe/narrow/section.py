"""The narrow tasks in reports: share found, scores by group, highest disparities, and face verification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fp2.extension import (
    Axis,
    Block,
    Cell,
    Chart,
    ChartKind,
    Column,
    Kind,
    Name,
    Part,
    Point,
    Reference,
    Results,
    Row,
    Section,
    Sentence,
    Series,
    Strong,
    Table,
    Value,
    Weight,
    cut_label,
    number,
    plain,
)
from fp2.methods.fhibe.narrow.protocol import NOT_MEASURABLE
from fp2.methods.fhibe.scores.benchmark_values import (
    estimate,
    group_charts,
    highest_disparities,
    intersection_findings,
    short_group,
    within_table,
)

_HAIRSTYLES = 16  # pairs of each pronoun: those that most subjects have
_CURVES = 5  # groups of a chart: the largest
HOW_TO_READ = (
    "Specialised models on the same images, with one score per subject and image. If fewer than {measurable_from:.0%} "
    "of the people are found, or no subject has a score, the model does not fit these images, and groups are not "
    "compared. Intervals of group means are not corrected for the number of groups. The score per face of verification "
    "is this project's; the paper has none. With fewer than 1,000 impostor pairs none of them may be accepted."
)
DRAWN_PEOPLE = (
    "The people are drawn, and region is shown by a backdrop only: a disparity by region is one between backdrops, and "
    "nothing here is a finding about people."
)


class NarrowSection(Section):
    """A table of tasks and models; for each measurable one its groups, disparities and verification rates."""

    name = "fhibe_narrow"
    title = "Narrow vision tasks"

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield the tasks and models, the highest disparities, and the groups of each task."""
        if results["dataset"]["name"].startswith("peeps"):
            yield Sentence(DRAWN_PEOPLE, Weight.WARNING)
        outcomes = block["outcomes"]
        rows, metrics = [], []
        for outcome in outcomes:
            mean: Any = outcome["means"].get(outcome["metric"])
            if not outcome["measurable"]:
                mean = Cell(NOT_MEASURABLE, title=plain(outcome["why"]))
            definition = outcome["metrics"][outcome["metric"]]
            cells = [outcome[key] for key in ("title", "model", "n_subjects", "n_images", "found_share")]
            rows.append(Row([*cells, mean, definition]))
            metrics += [
                Row([outcome["title"], outcome["model"], name, outcome["means"][name]])
                for name in outcome["metrics"]
                if name in outcome["means"]
            ]
        yield Table("tasks", _TASKS, rows, "Tasks and models", primary=True)
        for outcome in outcomes:
            for remark in (
                outcome["scale_note"],
                None if outcome["measurable"] else f"{NOT_MEASURABLE}: {outcome['why']}",
            ):
                if remark:
                    yield Sentence([Strong(outcome["label"]), f": {remark}."], Weight.WARNING)
        shares = [Point(outcome["found_share"], outcome["label"], filled=outcome["measurable"]) for outcome in outcomes]
        means = [Point(outcome["means"].get(outcome["metric"]), outcome["label"]) for outcome in outcomes]
        threshold = Reference(block["measurable_from"], "needed for a result")
        panels = [("Share of people found", shares, [threshold]), ("Mean score over subjects", means, [])]
        for panel, points, references in panels:
            yield Chart(
                ChartKind.BARS,
                panel,
                "Share of people found and mean score",
                [Series(points)],
                Axis(panel.lower(), 0.0, 1.0),
                references=references,
                file="fhibe_narrow_tasks",
                panel=panel,
                filled="measurable",
                on_page=False,
            )
        yield Table("metrics", _METRICS, metrics, fold="All metrics, mean over subjects")
        yield from highest_disparities(block, "fhibe_narrow_top")
        for n, outcome in enumerate(block["outcomes"]):
            if values := [*_groups(outcome, n), *_published(outcome, n), *_verification(outcome, n)]:
                yield Part([Name(outcome["label"])], values)
        yield Sentence(HOW_TO_READ.format_map(block), Weight.DETAIL)
        yield from intersection_findings(block, results)


def _groups(outcome: Mapping[str, Any], n: int) -> Iterator[Value]:
    """Yield the scores by group, at every threshold, and within conditions."""
    if not outcome["measurable"]:
        return
    axis = Axis(plain(outcome["metrics"][outcome["metric"]]))
    keys = ("mean", "low", "high")
    yield from group_charts(
        outcome["groups"], f"fhibe_narrow_groups_{n}", f"{outcome['label']}: mean score", axis, keys
    )
    for cut in dict.fromkeys(row["cut"] for row in outcome["groups"]):
        rows = [
            Row(
                [
                    short_group(row["group"]),
                    row["n_subjects"],
                    row["n_images"],
                    Cell(row["found_share"], subjects=row["n_judged_subjects"]),
                    estimate(row, *keys),
                    row["median"],
                ],
                row["n_subjects"],
            )
            for row in outcome["groups"]
            if row["cut"] == cut
        ]
        yield Table(f"groups_{n}", _GROUPS, rows, fold=f"All groups by {cut_label(cut)}", cut=cut)
    if outcome.get("curves"):
        yield from _curves(outcome["curves"], outcome["label"], n)
    for index, within in enumerate(outcome["within"]):
        yield within_table(outcome, within, f"within_{n}_{index}")


def _curves(curves: Mapping[str, Any], label: str, n: int) -> Iterator[Chart]:
    """Yield the mean score at every threshold: a chart per cut with its largest groups."""
    thresholds = curves["thresholds"]
    everyone = Series([Point(value, x=x) for x, value in zip(thresholds, curves["overall"], strict=True)], "all")
    for cut in list(dict.fromkeys(row["cut"] for row in curves["groups"])) or [""]:
        largest = sorted((row for row in curves["groups"] if row["cut"] == cut), key=lambda row: -row["n_subjects"])
        series = [
            Series(
                [Point(value, x=x) for x, value in zip(thresholds, row["values"], strict=True)],
                short_group(row["group"]),
                subjects=row["n_subjects"],
            )
            for row in sorted(largest[:_CURVES], key=lambda row: str(row["group"]))
        ]
        yield Chart(
            ChartKind.LINES,
            f"curves_{n}_{cut}",
            f"{label}: mean score at each threshold",
            [everyone, *series],
            Axis("mean score", 0.0, 1.0),
            Axis("threshold"),
            cut=cut,
            file=f"fhibe_narrow_curves_{n}",
            panel=cut_label(cut),
        )


def _published(outcome: Mapping[str, Any], n: int) -> Iterator[Part]:
    """Yield the numbers of FHIBE's evaluation code, overall and for the groups of the run's cuts."""
    if not outcome.get("published"):
        return
    overall = [
        Row([metric["title"], metric["n"], metric["overall"]])
        for metric in outcome["published"]
        if metric["overall"] is not None
    ]
    tables = [Table(f"published_{n}", _PUBLISHED, overall, "Mean over people in images")]
    for cut in dict.fromkeys(row["cut"] for row in outcome["groups"]):
        rows = [
            Row(
                [metric["title"].split(":")[0], short_group(row["group"]), row["n_subjects"], row["n"], row["value"]],
                row["n_subjects"],
            )
            for metric in outcome["published"]
            for row in metric["groups"]
            if row["cut"] == cut
        ]
        caption = f"By {cut_label(cut)}"
        tables.append(Table(f"published_groups_{n}", _PUBLISHED_GROUPS, rows, caption, cut=cut, omit_small=True))
    yield Part("As FHIBE’s evaluation code computes it", tables, folded=True)


def _verification(outcome: Mapping[str, Any], n: int) -> Iterator[Value]:
    """Yield the true acceptance rates of the whole set and by group, and the errors by hairstyles."""
    if not outcome["verification"]:
        return
    whole, groups = outcome["verification"]["whole"], outcome["verification"]["groups"]
    shared = f" (same {', nearly the same '.join(whole['negatives_share'])})" if whole["negatives_share"] else ""
    ends = ""
    if whole["tar_low"] is not None:
        ends = f" (95 % interval {number(whole['tar_low'])} to {number(whole['tar_high'])}, bootstrap over subjects)"
    yield Sentence(
        [
            Strong(outcome["label"]),
            f": true acceptance rate {number(whole['tar'])}{ends} at a false acceptance rate of at most 0.001, of "
            f"{whole['n_same']:,} genuine pairs (two faces of one subject) and {whole['n_different']:,} hard "
            "impostor pairs"
            f"{shared} of the whole set.",
        ]
    )
    axis, keys = Axis("true acceptance rate at a false acceptance rate of 0.001"), ("tar", "tar_low", "tar_high")
    title = f"Face verification: {outcome['model']}"
    yield from group_charts(groups, f"fhibe_narrow_verification_{n}", title, axis, keys)
    for cut in dict.fromkeys(row["cut"] for row in groups):
        rows = [
            Row(
                [short_group(row["group"]), row["n_subjects"], row["n_same"], row["n_different"], estimate(row, *keys)],
                row["n_subjects"],
            )
            for row in groups
            if row["cut"] == cut
        ]
        fold = f"Verification by {cut_label(cut)}, each group with its own pairs and threshold"
        yield Table(f"verification_{n}", _VERIFICATION, rows, fold=fold, cut=cut)
    rows = [
        Row([row["pronoun"], row["hairstyles"], row["n_subjects"], row["n_same"], row["missed"]], row["n_subjects"])
        for row in whole["by_hairstyle"]
    ]
    caption = "False rejection rate of genuine pairs whose two images show the same or different hairstyles"
    yield Table(f"by_hairstyle_{n}", _BY_HAIRSTYLE, rows, caption, omit_small=True)
    yield from hairstyle_values(whole["hairstyles"], outcome["model"], n)


def hairstyle_values(pairs: Sequence[Mapping[str, Any]], model: str, n: int) -> Iterator[Value]:
    """Yield the error rates by pairs of hairstyles, a chart per pronoun (the paper's Extended Data Fig. 8)."""
    table = []
    for pronoun in dict.fromkeys(row["pronoun"] for row in pairs):
        common = sorted((row for row in pairs if row["pronoun"] == pronoun), key=lambda row: -row["n_subjects"])
        common = common[:_HAIRSTYLES]
        table += [
            Row(
                [
                    *(
                        row[key]
                        for key in (
                            "pronoun",
                            "first",
                            "second",
                            "n_subjects",
                            "share_of_subjects",
                            "n_same",
                            "missed",
                            "n_different",
                            "confused",
                        )
                    )
                ],
                row["n_subjects"],
            )
            for row in common
        ]
        points = [
            Point(
                row["missed"],
                f"{row['first']} / {row['second']}",
                filled=row["first"] == row["second"],
                subjects=row["n_subjects"],
            )
            for row in sorted(common, key=lambda row: -(row["missed"] or 0.0))
            if row["missed"] is not None
        ]
        title = f"Errors of {model} by the hairstyles of the two images"
        yield Chart(
            ChartKind.BARS,
            f"hairstyles_{n}_{pronoun}",
            title,
            [Series(points)],
            Axis("false rejection rate", 0.0),
            file=f"fhibe_narrow_hairstyles_{n}",
            panel=short_group(pronoun),
            filled="",
            caption=f"{short_group(pronoun)}; filled: both images show one hairstyle.",
        )
    yield Table(f"hairstyles_{n}", _HAIRSTYLE_PAIRS, table, fold="By pair of hairstyles", omit_small=True)


_TASKS = [
    Column("Task"), Column("Model", Kind.NAME), Column("Subjects", Kind.COUNT, title="With a score"),
    Column("Images", Kind.COUNT, terminal=False), Column("Found", Kind.SHARE, 2),
    Column("Mean", Kind.NUMBER, compared=True, title="Over subjects"), Column("Score", terminal=False),
]  # fmt: skip
_METRICS = [Column("Task"), Column("Model", Kind.NAME), Column("Metric"), Column("Mean", Kind.NUMBER)]
_SIZE = [Column("Group", Kind.NAME), Column("Subjects", Kind.COUNT, public=True)]
_GROUPS = [
    *_SIZE, Column("Images", Kind.COUNT, public=True), Column("Found", Kind.SHARE, 2),
    Column("Mean over subjects", Kind.ESTIMATE), Column("Median over images", Kind.NUMBER),
]  # fmt: skip
_PUBLISHED = [Column("Metric"), Column("Size", Kind.COUNT), Column("Value", Kind.NUMBER)]
_PUBLISHED_GROUPS = [Column("Metric"), *_SIZE, *_PUBLISHED[1:]]
_PAIRS = [Column("Genuine pairs", Kind.COUNT, public=True), Column("Impostor pairs", Kind.COUNT, public=True)]
_VERIFICATION = [*_SIZE, *_PAIRS, Column("True acceptance rate", Kind.ESTIMATE)]
_BY_HAIRSTYLE = [
    Column("Pronoun", Kind.NAME), Column("Hairstyles"), Column("Subjects", Kind.COUNT), _PAIRS[0],
    Column("False rejection rate", Kind.NUMBER),
]  # fmt: skip
_HAIRSTYLE_PAIRS = [
    Column("Pronoun", Kind.NAME), Column("First", Kind.NAME), Column("Second", Kind.NAME),
    Column("Subjects", Kind.COUNT), Column("Share of subjects", Kind.SHARE, 2), _PAIRS[0],
    Column("False rejection rate", Kind.NUMBER), _PAIRS[1], Column("False acceptance rate", Kind.NUMBER, 4),
]  # fmt: skip
