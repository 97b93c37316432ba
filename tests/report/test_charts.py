"""Charts as figure files: marks lie at the numbers, charts of one file are its panels, equal data give equal bytes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from report.chart_examples import CHARTS
from report.test_figures import assert_tidy

from fp2.report.drawing import draw_chart, wrapped, write_charts
from fp2.report.plots import heat_range, label_rows, plot
from fp2.report.reading import number
from fp2.report.values import Axis, Chart, ChartKind, Point, Series, charts, suppressed

AXIS = Axis()
VALUES = {kind: [p.value for s in chart.series for p in s.points if p.value is not None]
          for kind, chart in CHARTS.items()}  # fmt: skip


def axes_of(kind: ChartKind) -> Any:
    polar = "polar" if kind is ChartKind.RADAR else None
    return draw_chart(Figure(figsize=(6, 5)).add_subplot(projection=polar), CHARTS[kind])


def markers(axes: Any) -> list[tuple[float, float]]:
    return [
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.lines
        if len(line.get_xdata()) == 1 and line.get_marker() not in ("x", "None")
    ]


def test_points_lie_at_their_values() -> None:
    assert [x for x, _ in markers(axes_of(ChartKind.INTERVALS))] == VALUES[ChartKind.INTERVALS]
    for kind in (ChartKind.LINES, ChartKind.POINTS):
        points = [p for s in CHARTS[kind].series for p in s.points if p.value is not None]
        assert markers(axes_of(kind)) == [(p.x, p.value) for p in points]
    assert [y for _, y in markers(axes_of(ChartKind.RADAR))] == VALUES[ChartKind.RADAR]


def test_bars_and_cells_have_their_values() -> None:
    bars = [bar.get_width() for bar in axes_of(ChartKind.BARS).patches if bar.get_height() == pytest.approx(0.72)]
    assert bars == pytest.approx(VALUES[ChartKind.BARS])
    columns = [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in axes_of(ChartKind.HISTOGRAM).patches]
    assert columns == [(p.low, 1 / 8, p.value) for p in CHARTS[ChartKind.HISTOGRAM].series[0].points]
    cells = [text.get_text().rstrip("▼▲* ") for text in axes_of(ChartKind.HEAT).texts]
    assert cells == [number(p.value, 2) for s in CHARTS[ChartKind.HEAT].series for p in s.points]


def test_intervals_bands_and_gaps() -> None:
    axes = axes_of(ChartKind.LINES)
    lines = [line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 8]
    assert [math.isnan(y) for y in lines[0]] == [place == 3 for place in range(8)]
    assert [len(lines), len(axes.collections)] == [12, 12]
    intervals = {tuple(line.get_xdata()) for line in axes_of(ChartKind.INTERVALS).lines if len(line.get_xdata()) == 2}
    points = [p for s in CHARTS[ChartKind.INTERVALS].series for p in s.points if p.value is not None]
    assert {(p.low, p.high) for p in points} <= intervals


@pytest.mark.parametrize("kind", ChartKind)
def test_nothing_overlaps(kind: ChartKind, results: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    caught: list[Figure] = []
    monkeypatch.setattr("fp2.report.drawing.save", lambda figure, path: caught.append(figure) or path)
    list(write_charts([CHARTS[kind]], results, tmp_path))
    assert_tidy(caught[0])


def test_charts_of_one_file_are_its_panels(results: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    caught: list[Figure] = []
    monkeypatch.setattr("fp2.report.drawing.save", lambda figure, path: caught.append(figure) or path)
    empty = Chart(ChartKind.BARS, "none", "None", [Series([])])
    paths = list(write_charts([*CHARTS.values(), empty], results, tmp_path))
    assert [path.name for path in paths] == [
        "rows.png",
        "plane.svg",
        "points.png",
        "histogram.png",
        "heat.png",
        "radar.png",
    ]
    assert [len(figure.axes) for figure in caught] == [2, 1, 1, 1, 2, 1]  # a heat map has a colour bar
    texts = [text.get_text() for text in caught[0].texts]
    assert [text.count("How to read rows.") for text in texts].count(1) == 1
    assert texts[0] == "Intervals"


def test_equal_charts_give_equal_files(results: dict[str, Any], tmp_path: Path) -> None:
    for name, start in (("rows.png", b"\x89PNG"), ("plane.svg", b"<?xml")):
        drawn = [chart for chart in CHARTS.values() if chart.file in (name, name.removesuffix(".png"))]
        one, two = (next(write_charts(drawn, results, tmp_path / folder)).read_bytes() for folder in "ab")
        assert one == two
        assert one.startswith(start)


def test_the_groups_that_are_not_drawn_are_counted() -> None:
    points = [Point(0.1, "a", subjects=30), Point(0.2, "b", subjects=3)]
    (bars,) = charts(suppressed([Chart(ChartKind.BARS, "bars", "Bars", [Series(points)], caption="Bars.")], 10))
    assert [point.label for point in bars.series[0].points] == ["a"]
    assert bars.caption == "Bars. Not drawn: 1 group of fewer than 10 subjects."


def test_a_label_has_a_row_for_all_series_and_two_of_one_series_have_two() -> None:
    series = [Series([Point(1, "a"), Point(2, "a")]), Series([Point(3, "b"), Point(4, "a")])]
    assert label_rows(Chart(ChartKind.BARS, "x", "X", series)) == (["a", "a", "b"], [[0, 1], [2, 0]])


def test_a_diverging_scale_is_symmetric_and_holds_all_values() -> None:
    def ends(*values: float, axis: Axis = AXIS) -> tuple[float, float]:
        series = [Series([Point(value) for value in values])]
        return heat_range(Chart(ChartKind.HEAT, "x", "X", series, axis, diverging=True))

    assert ends(0.03, -0.31) == pytest.approx((-0.4, 0.4))
    assert ends(0.03, axis=Axis("", -0.2, 0.2)) == (-0.2, 0.2)
    assert ends(0.35, axis=Axis("", -0.2, 0.2)) == pytest.approx((-0.4, 0.4))
    assert ends(0.0) == (-1.0, 1.0)


def test_long_names_are_wrapped_and_cut() -> None:
    assert wrapped("one two three four", 8, 2) == "one two\nthree f…"
    assert wrapped("東アジアの人々", 8, 2) == "東アジア\nの人々"
    assert wrapped("x" * 30, 10, 2) == f"{'x' * 10}\n{'x' * 9}…"
    assert wrapped("cost $x$", 20, 1) == r"cost \$x\$"


def test_a_page_holds_numbers_places_and_what_a_mark_says() -> None:
    spec = plot(CHARTS[ChartKind.INTERVALS])
    assert spec["name"] == "Intervals, by region"
    assert [series["style"] for series in spec["series"]] == ["r0", "r1", "r2"]
    first = spec["series"][0]["points"][0]
    assert first == {"title": "model 0, Africa: 0.100 (0.000 to 0.225)", "value": 0.1, "low": 0.0, "high": 0.225}
    assert "style" not in plot(CHARTS[ChartKind.BARS])["series"][0]  # the only series has the page's colour
    assert [one["style"] for one in plot(CHARTS[ChartKind.LINES])["series"]][5:7] == ["r5", "r0 d1"]
    heat = plot(CHARTS[ChartKind.HEAT])["series"][0]["points"]
    assert [cell["level"] for cell in heat] == ["none", "p2", "p5", "p8", "p10"]
