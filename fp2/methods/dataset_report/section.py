"""The data set report: totals, Vendi scores, group sizes, and positions of people in the images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fp2.extension import (
    Axis,
    Block,
    Chart,
    ChartKind,
    Column,
    Estimate,
    Kind,
    Point,
    Results,
    Row,
    Section,
    Sentence,
    Series,
    Table,
    Value,
    Weight,
    cut_label,
    number,
    plain,
    scorer_label,
    sentence,
)


class DiversitySection(Section):
    """Vendi scores, intersections, and the groups of every attribute."""

    name = "diversity_report"
    title = "Data set report"

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield totals, shapes, Vendi scores, intersections, and the groups of each attribute."""
        totals = [Row([name.replace("_", " "), block["totals"].get(name)]) for name in TOTALS]
        counts = [f"{block['totals'][name]:,} {name.replace('_', ' ')}" for name in TOTALS if name in block["totals"]]
        yield Sentence(f"{', '.join(counts)}.", Weight.LEAD)
        if block["shapes"]:
            yield from _shapes(block)
        yield Table("totals", TOTAL_COLUMNS, totals, "Totals", primary=True, fold="All totals")
        if block["vendi"]:
            yield from _vendi_scores(block["vendi"])
        intersections = [
            Row(
                [
                    " × ".join(cut_label(name) for name in row["by"]),
                    row["groups"],
                    row["comparable"],
                    row["median_images"],
                    row["largest"],
                ]
            )
            for row in block["intersections"]
        ]
        yield Table("intersections", INTERSECTION_COLUMNS, intersections, "Groups by attribute and intersection")
        for group in block["groups"]:
            label = cut_label(group["attribute"])
            rows = [
                Row([row["group"], row["n_subjects"], row["n_images"], row["share"]], row["n_subjects"])
                for row in group["rows"]
            ]
            caption = f"Images by {label}"
            yield Table(
                f"groups_{group['attribute']}", GROUP_COLUMNS, rows, caption, fold=sentence(label), omit_small=True
            )
        annotators = [Row([cut_label(row["attribute"]), row["group"], row["n"]]) for row in block.get("annotators", ())]
        if annotators:
            yield Table("annotators", ANNOTATOR_COLUMNS, annotators, "Annotators", fold="Annotators")


def _shapes(block: Block) -> Iterator[Value]:
    """Yield boxes, masks and keypoints: quantiles, and where they are in the images."""
    title = "People in the images"
    shapes = [(row, Estimate(row["quantiles"][2], row["quantiles"][0], row["quantiles"][4])) for row in block["shapes"]]
    points = [
        Point(q.value, row["meaning"], low=q.low, high=q.high)
        for row, q in shapes
        if not row["name"].startswith("centre_")
    ]
    yield Chart(
        ChartKind.INTERVALS,
        "diversity_report_shapes",
        title,
        [Series(points)],
        value=Axis("median, 5 and 95 % quantile", low=0),
    )
    for name, label in (("centres", "box centres"), ("keypoints", "keypoints")):
        if block[name]:
            shares = block[name]
            last = len(shares) - 1
            series = [
                Series(
                    [Point(share, {0: "left", last: "right"}.get(x, "")) for x, share in enumerate(row)],
                    {0: "top", last: "bottom"}.get(y, ""),
                )
                for y, row in enumerate(shares)
            ]
            yield Chart(
                ChartKind.HEAT,
                f"diversity_report_{name}",
                title,
                series,
                value=Axis("share of the points"),
                file="diversity_report_shapes",
                panel=label,
                on_page=False,
            )
    rows = [Row([row["meaning"], row["n"], row["mean"], quantiles]) for row, quantiles in shapes]
    yield Table("shapes", SHAPE_COLUMNS, rows, title, fold="Boxes, masks and keypoints in numbers")


def _vendi_scores(scores: Sequence[Mapping[str, Any]]) -> Iterator[Value]:
    """Yield the scores of all images and of equal samples; scores of samples of different sizes share no row."""
    for row in scores:
        if row["by"] is None:
            yield Sentence(f"Vendi score ({scorer_label(row['variant'])}): {number(row['score'], 2)}")
    compared = [row for row in scores if row["equal_n"] is not None]
    if compared:
        yield Chart(
            ChartKind.INTERVALS,
            "diversity_report_vendi",
            f"Vendi scores of samples of {compared[0]['sample']} subjects",
            [
                Series(
                    [
                        Point(row["equal_n"], _group(row), low=row["low"], high=row["high"], subjects=row["n_subjects"])
                        for row in compared
                        if row["variant"] == variant
                    ],
                    scorer_label(variant),
                )
                for variant in dict.fromkeys(row["variant"] for row in compared)
            ],
            value=Axis("Vendi score of one image per subject (1: all equal)", low=1),
            caption="Mean and 95 % range over samples.",
        )
    rows = [
        Row(
            [
                _group(row),
                scorer_label(row["variant"]),
                "" if row["equal_n"] is None else f"{row['sample']} subjects",
                row["n_subjects"],
                row["n_images"],
                row["score"],
                None if row["equal_n"] is None else Estimate(row["equal_n"], row["low"], row["high"]),
            ],
            row["n_subjects"],
        )
        for row in scores
    ]
    yield Table("vendi", VENDI_COLUMNS, rows, "Vendi scores (1: all images equal)", omit_small=True)
    text = "The Vendi score of all images grows with their number; those of equal samples can be compared."
    yield Sentence(text, Weight.DETAIL)


def _group(row: Mapping[str, Any]) -> str:
    return "all subjects" if row["by"] is None else f"{cut_label(row['by'])}: {plain(row['group'])}"


TOTALS = ("images", "subjects", "attributes", "attribute_values")
TOTAL_COLUMNS = [Column("Of"), Column("Number", Kind.COUNT, compared=True)]
SHAPE_COLUMNS = [
    Column("Number"),
    Column("Images", Kind.COUNT),
    Column("Mean", Kind.NUMBER),
    Column("Median (5 and 95 % quantile)", Kind.ESTIMATE, compared=True),
]
VENDI_COLUMNS = [
    Column("Group", Kind.NAME),
    Column("Image variant"),
    Column("Equal samples of"),
    Column("Subjects", Kind.COUNT, public=True),
    Column("Images", Kind.COUNT, public=True),
    Column("Score, all images", Kind.NUMBER, digits=2),
    Column("Score, equal samples", Kind.ESTIMATE, digits=2, compared=True),
]
INTERSECTION_COLUMNS = [
    Column("By"),
    Column("Groups", Kind.COUNT),
    Column("Groups with enough subjects", Kind.COUNT, compared=True),
    Column("Images per group, median", Kind.NUMBER, digits=1),
    Column("Largest group, images", Kind.COUNT),
]
ANNOTATOR_COLUMNS = [Column("Attribute", Kind.NAME), Column("Group", Kind.NAME), Column("Annotators", Kind.COUNT)]
GROUP_COLUMNS = [
    Column("Group", Kind.NAME),
    Column("Subjects", Kind.COUNT, public=True),
    Column("Images", Kind.COUNT),
    Column("Share of the images", Kind.SHARE, compared=True),
]
