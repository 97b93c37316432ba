"""FHIBE's CLIP analysis in reports: shares of labels by group, and accuracy by image variant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fp2.extension import (
    Axis,
    Block,
    Cell,
    Chart,
    ChartKind,
    Column,
    Kind,
    Point,
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
    plural,
    row_finding,
    scorer_label,
    sentence,
)
from fp2.methods.fhibe.clip.protocol import WRONG
from fp2.methods.fhibe.scores.benchmark_values import estimate

HOW_TO_READ = (
    "Each image gets the label of the text prompt that it is most similar to, in every image variant. A share is the "
    "mean over subjects of the share of their images with that label; its 95 % interval accounts for several images of "
    "one subject. Incorrect is the share with any other label than the right one, which follows from what the subject "
    "reported, or from the annotation of the image."
)

MOST_SHOWN = 12
"""Differences of the first chart."""


class ClipSection(Section):
    """A table of label shares per question, grouping and image variant, and the accuracy by variant."""

    name = "fhibe_clip"
    title = report_title = "Zero-shot labels"

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield what differs, the accuracy by image variant, all shares and tests."""
        rows = [
            row for row in block["disparities"] if row["variant"] == block["variants"][0] and row["raw"] is not None
        ]
        rows.sort(key=lambda row: (not row["significant"], -row["raw"]))
        if n := sum(bool(row["significant"]) for row in rows):
            words = _words(rows[0])
            largest = f" by {number(rows[0]['raw'])}: the largest of {plural(n, 'significant difference')}."
            yield Sentence(
                ["The share of images labelled ", Strong(words), " differs between groups", largest], Weight.LEAD
            )
        else:
            yield Sentence("No share of a zero-shot label differs significantly between groups.", Weight.LEAD)
        points = [
            Point(
                row["raw"],
                _words(row),
                low=row["ci_low"],
                high=row["ci_high"],
                null_mean=row["null_mean"],
                null_p95=row["null_p95"],
                filled=bool(row["significant"]),
                verdict=row["verdict"],
            )
            for row in rows[:MOST_SHOWN]
        ]
        yield Chart(
            ChartKind.INTERVALS,
            "fhibe_clip_differing",
            "Differences between groups in the share of a label",
            [Series(points)],
            Axis("largest share minus smallest", 0.0),
            in_files=False,
            caption=f"The {MOST_SHOWN} largest of {len(rows)}." if len(rows) > MOST_SHOWN else "",
        )
        differences = [Row(_difference(row)) for row in block["headline"]["differences"]]
        caption = "Significant differences (original images)"
        for question in dict.fromkeys(row["question"] for row in block["accuracy"]):
            of_question = [row for row in block["accuracy"] if row["question"] == question]
            series = [
                Series([_point(row) for row in of_question if row["label"] == label], _label(label))
                for label in dict.fromkeys(row["label"] for row in of_question)
            ]
            title, axis = (
                "Share of images with the right label, by image variant",
                Axis("share with the right label", 0, 1),
            )
            yield Chart(
                ChartKind.INTERVALS,
                f"accuracy_{question}",
                title,
                series,
                axis,
                file="fhibe_clip_accuracy",
                panel=scorer_label(question),
            )
        yield Table("differences", _DIFFERENCES, differences, caption, primary=True)
        for table in block["tables"]:
            yield from _shares(block, table)
        tests = [
            Row([*_difference(row)[:3], row["variant"], row["raw"], row["adjusted_p"], row["verdict"]])
            for row in block["disparities"]
        ]
        yield Table("tests", _TESTS, tests, fold="Tests of all shares")
        yield Sentence(HOW_TO_READ, Weight.DETAIL)
        for row in block["disparities"]:
            variant = "" if row["variant"] == block["variants"][0] else f", images {plain(row['variant'])}"
            name = f"share of “{_label(row['label'])}” ({scorer_label(row['question'])}) by {_by(row)}{variant}"
            yield row_finding(name, row)


def _words(row: Mapping[str, Any]) -> str:
    return f"{_label(row['label'])}, {scorer_label(row['question'])} by {_by(row)}"


def _label(label: str) -> str:
    return "incorrect" if label == WRONG else plain(label)


def _by(table: Mapping[str, Any]) -> str:
    return " and ".join(cut_label(name) for name in table["by"])


def _difference(row: Mapping[str, Any]) -> list[Any]:
    return [scorer_label(row["question"]), _label(row["label"]), _by(row), row["raw"], row["adjusted_p"]]


def _shares(block: Block, table: Mapping[str, Any]) -> Iterator[Value]:
    """Yield the shares of the labels of one question by group, as a heat map of the original images and as a table."""
    original = table["variant"] == block["variants"][0]
    title = f"{sentence(scorer_label(table['question']))} by {_by(table)}, {scorer_label(table['variant'])}"
    labels = list(dict.fromkeys(entry["label"] for row in table["rows"] for entry in row["labels"]))
    series, rows = [], []
    for row in table["rows"]:
        shares = {entry["label"]: entry for entry in row["labels"]}
        points = [Point(shares[label]["rate"] if label in shares else None, _label(label)) for label in labels]
        series.append(Series(points, row["group"], subjects=row["n_subjects"]))
        cells = [_share(shares.get(label)) for label in labels]
        rows.append(Row([row["group"], row["n_subjects"], row["n_images"], *cells], row["n_subjects"]))
    name = f"fhibe_clip_{re.sub(r'[^0-9A-Za-z_-]', '-', '_'.join([table['question'], *table['by']]))}"
    if original and labels:
        axis = Axis("share of images", 0.0, 1.0)
        yield Chart(ChartKind.HEAT, name, f"Shares of the labels: {title}", series, axis, on_page=False)
    columns = [*_GROUP, *(Column(_label(label), Kind.ESTIMATE, 2) for label in labels)]
    empty = f"{title}: no table, {plain(table['reason'])}." if table["reason"] and original else ""
    yield Table(f"{name}_{table['variant']}", columns, rows, fold=title, empty=empty)


def _share(entry: Mapping[str, Any] | None) -> Cell:
    if entry is None:
        return Cell(None)
    title = f"share of the group's images: {entry['share_images']:.3f}"
    return Cell(estimate(entry, "rate"), title=title)


def _point(row: Mapping[str, Any]) -> Point:
    label = scorer_label(row["variant"])
    return Point(row["rate"], label, low=row["ci_low"], high=row["ci_high"], subjects=row["n_subjects"])


_GROUP = [
    Column("Group", Kind.NAME),
    Column("Subjects", Kind.COUNT, public=True),
    Column("Images", Kind.COUNT, public=True),
]
_DIFFERENCES = [
    Column("Question"), Column("Label", Kind.NAME), Column("Groups by"), Column("Disparity", Kind.NUMBER),
    Column("Adjusted p", Kind.P),
]  # fmt: skip
_TESTS = [
    Column("Question"), Column("Label", Kind.NAME), Column("Groups by"), Column("Images", Kind.NAME),
    Column("Disparity", Kind.NUMBER, compared=True), Column("Adjusted p", Kind.P), Column("Verdict", Kind.VERDICT),
]  # fmt: skip
