"""A chart of every kind: several series, long names, names in other scripts, missing values. No test in here."""

from __future__ import annotations

from fp2.report.values import Axis, Chart, ChartKind, Point, Reference, Series

LABELS = (
    "Africa",
    "An uncommonly long name of a group of people",
    "東アジアと東南アジアの人々",
    "مجموعة من الناس",
    "$x^2$",
)


def _rows(shift: float) -> list[Point]:
    values = (0.1, -0.2, 0.35, None, 0.05)
    return [
        Point(None, label)
        if value is None
        else Point(value + shift, label, low=value + shift - 0.1, high=value + shift + 0.125, filled=value > 0)
        for label, value in zip(LABELS, values, strict=True)
    ]


def _plane(shift: float) -> list[Point]:
    return [
        Point(
            None if place == 3 else shift + 0.05 * place,
            x=float(place * place),
            low=shift,
            high=shift + 0.4,
            filled=place % 2 == 0,
        )
        for place in range(8)
    ]


def _bins(height: float) -> list[Point]:
    return [Point(height * (4 - abs(place - 3)), low=place / 8, high=(place + 1) / 8) for place in range(7)]


def _heat(row: int) -> list[Point]:
    marks = {1: "low", 2: "high", 4: "significant"}
    return [
        Point(None if column == row else 0.1 * (column - row), label, mark=marks.get(column, ""))
        for column, label in enumerate(LABELS)
    ]


REFERENCES = (Reference(0.25, "overall mean"), Reference(0.3, "equivalence", 0.45))
VALUE, X = Axis("mean score"), Axis("threshold")
CHARTS = {
    ChartKind.INTERVALS: Chart(
        ChartKind.INTERVALS, "intervals", "Intervals", [Series(_rows(0.02 * n), f"model {n}") for n in range(3)], VALUE,
        references=REFERENCES, file="rows", panel="by region\nof three models", caption="How to read rows.",
    ),
    ChartKind.BARS: Chart(
        ChartKind.BARS, "bars", "Bars", [Series(_rows(0.3))], VALUE, references=REFERENCES, file="rows",
        caption="How to read rows.",
    ),
    ChartKind.LINES: Chart(
        ChartKind.LINES, "lines", "Lines", [Series(_plane(0.02 * n), f"model {n}") for n in range(12)], VALUE, X,
        references=REFERENCES, file="plane.svg",
    ),
    ChartKind.POINTS: Chart(
        ChartKind.POINTS, "points", "Points", [Series(_plane(0.1 * n), f"model {n}") for n in range(2)], VALUE, X,
        references=REFERENCES,
    ),
    ChartKind.HISTOGRAM: Chart(
        ChartKind.HISTOGRAM, "histogram", "Histogram", [Series(_bins(5.0))], Axis("permutations"), Axis("score"),
        references=[Reference(0.9, "observed")],
    ),
    ChartKind.HEAT: Chart(
        ChartKind.HEAT, "heat", "Heat map",
        [Series(_heat(n), label, subjects=10 * n) for n, label in enumerate(LABELS)],
        diverging=True,
    ),
    ChartKind.RADAR: Chart(
        ChartKind.RADAR, "radar", "Radar",
        [Series([Point(p.value and abs(p.value), p.label, null_mean=0.1, null_p95=0.2) for p in _rows(0.1)])],
    ),
}  # fmt: skip
