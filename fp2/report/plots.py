"""Charts as data for `templates/charts.js`, which draws them on pages with Observable Plot.

A page holds a chart as JSON in the attribute `data-chart` of a figure. Numbers are rounded to four digits, finer than a
pixel. Scales and places that pages and figure files (`drawing`) share are here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable

from fp2.report.reading import number, plain
from fp2.report.values import Axis, Chart, ChartKind, Link, Point, Series

_AXIS_ENDS = (0.6, 1.0, 2.0)
"""The ends of an axis of disparities: fixed steps, so that most charts share one scale."""
_N_COLOURS = 6


def plot(chart: Chart, anchors: Collection[str] = frozenset()) -> dict[str, object]:
    """Return a chart as JSON values; labels lead to the `anchors` of its page."""
    panel = plain(chart.panel.partition("\n")[0])
    labels, rows = label_rows(chart)
    end = radar_end(chart) if chart.kind is ChartKind.RADAR else None
    return _stated(
        kind=chart.kind.value,
        name=", ".join(text for text in (plain(chart.title), panel) if text),
        value=_axis(chart.value),
        x=_axis(chart.x),
        labels=[plain(label) for label in labels],
        links={
            index: f"#{label.target}"
            for index, label in enumerate(labels)
            if isinstance(label, Link) and label.target in anchors
        },
        end=end,
        rings=[] if end is None else radar_rings(end),
        references=[
            _stated(value=_rounded(reference.value), high=_rounded(reference.high), label=plain(reference.label))
            for reference in chart.references
        ],
        series=[_series(chart, order, rows[order]) for order in range(len(chart.series))],
    )


def _stated(**values: object) -> dict[str, object]:
    """Return the values that say something: no None, nor empty texts and lists."""
    return {key: value for key, value in values.items() if value is not None and value not in ("", [], {})}


def label_rows(chart: Chart) -> tuple[list[str], list[list[int]]]:
    """Return the labels of a chart's rows, spokes or columns, and for each series those of its points.

    Points of several series with one label share a row; two of one series with one label do not.
    """
    rows: dict[tuple[str, int], int] = {}
    positions = []
    for series in chart.series:
        occurred: Counter[str] = Counter()
        own_points = []
        for point in series.points:
            own_points.append(rows.setdefault((point.label, occurred[point.label]), len(rows)))
            occurred[point.label] += 1
        positions.append(own_points)
    return [label for label, _ in rows], positions


def place_of(series: Series, order: int) -> int:
    """Return the place that chooses the colour of a series: its own, or its order in the chart."""
    return order if series.place is None else series.place


def run_style(place: int) -> str:
    """Return the classes of a colour and, beyond as many series as there are colours, of its dashes."""
    dashes = place // _N_COLOURS % 4
    return f"r{place % _N_COLOURS}{f' d{dashes}' if dashes else ''}"


def level_class(level: float) -> str:
    """Return the colour class of a cell, n10 ... n1, z, p1 ... p10, of a level from -1 to 1."""
    step = max(-10, min(10, round(10 * level)))
    return "z" if step == 0 else f"p{step}" if step > 0 else f"n{-step}"


def axis_end(values: Iterable[float | None]) -> float:
    """Return the end of a disparity axis that holds all `values`: 0.6 in most cases, so that charts are comparable."""
    largest = max((value for value in values if value is not None), default=0.0)
    return next((end for end in _AXIS_ENDS if largest <= end), 10.0 * (largest // 10 + 1))


def radar_end(chart: Chart) -> float:
    """Return the end of the axis of a radar, which starts at 0."""
    if chart.value.high is not None:
        return chart.value.high
    return axis_end(
        value for series in chart.series for point in series.points for value in (point.value, point.null_p95)
    )


def radar_rings(end: float) -> list[float]:
    """Return the rings of a radar, in steps with short exact labels."""
    n = 3 if end == _AXIS_ENDS[0] else 4
    return [round(end * i / n, 10) for i in range(1, n + 1)]


def heat_range(chart: Chart) -> tuple[float, float]:
    """Return the ends of a heat map's colour scale: of its axis, or of its values.

    A diverging one is symmetric, and ends at a larger round number where values are beyond the ends of the axis.
    """
    values = [point.value for series in chart.series for point in series.points if point.value is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    if chart.diverging:
        stated = max(abs(chart.value.low or 0.0), abs(chart.value.high or 0.0))
        end = max(abs(low), abs(high)) or 1.0
        return (-stated, stated) if stated >= end else (-_round_end(end), _round_end(end))
    return low if chart.value.low is None else chart.value.low, high if chart.value.high is None else chart.value.high


def _round_end(value: float) -> float:
    """Return the next number from a value on of 1, 2, 4, 6, 8 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if value <= step * power * (1 + 1e-9))


def heat_digits(chart: Chart) -> int:
    """Return the decimals of a heat map's cells."""
    return 2 if chart.diverging or heat_range(chart)[1] >= 1 else 3


def _axis(axis: Axis) -> dict[str, object]:
    return _stated(label=plain(axis.label), low=axis.low, high=axis.high)


def _series(chart: Chart, order: int, rows: list[int]) -> dict[str, object]:
    """Return a series; `run` is what a reader can hide on pages of several runs, `style` its colour.

    The only series of a chart has the colour of the page. The row of a point is its place in the series, if not stated.
    """
    series = chart.series[order]
    anchor = place_of(series, order)
    alone = len(chart.series) == 1 and series.place is None
    points = [
        {**_stated(row=None if row == before else row), **_point(point, series, chart)}
        for before, (row, point) in enumerate(zip(rows, series.points, strict=True))
    ]
    size = "" if series.subjects is None else f" (n={series.subjects:,})"
    name = f"{plain(series.name)}{size}" if series.name else ""
    return {**_stated(name=name, style="" if alone else run_style(anchor)), "run": anchor, "points": points}


_NUMBERS = ("value", "x", "null_mean", "null_p95", "low", "high")
_RADAR_NUMBERS = ("value", "null_mean", "null_p95")


def _point(point: Point, series: Series, chart: Chart) -> dict[str, object]:
    """Return a point: its numbers that are known, and what pointing at it shows; of a heat map its text and colour."""
    drawn = _RADAR_NUMBERS if chart.kind is ChartKind.RADAR else _NUMBERS
    numbers = {name: _rounded(getattr(point, name)) for name in drawn}
    cell = _cell(point, chart) if chart.kind is ChartKind.HEAT else {}
    title = plain(point.title) or _title(point, series.name, chart)
    return _stated(open=None if point.filled else 1, title=title, **numbers, **cell)


def _cell(point: Point, chart: Chart) -> dict[str, object]:
    if point.value is None:
        return {"text": number(None), "level": "none", "mark": ""}
    low, high = heat_range(chart)
    level = point.value / high if chart.diverging else (point.value - low) / ((high - low) or 1.0)
    return {"text": number(point.value, heat_digits(chart)), "level": level_class(level), "mark": point.mark}


def _title(point: Point, name: str, chart: Chart) -> str:
    """Return label, value and interval of a point; of `LINES` and `POINTS` with their x, of `HISTOGRAM` the bar."""
    if point.value is None:
        return ""
    label = plain(", ".join(text for text in (name, point.label) if text))
    if chart.kind is ChartKind.HISTOGRAM:
        bar = f"{_short(point.low)} to {_short(point.high)}: {_short(point.value)}"
        return f"{label}, {bar}" if label else bar
    where = f"{plain(chart.x.label) or 'x'} {_short(point.x)}" if point.x is not None else ""
    interval = ""
    if point.low is not None and point.high is not None:
        interval = f" ({number(point.low)} to {number(point.high)})"
    label = ", ".join(text for text in (label, where) if text)
    return f"{label}: {number(point.value)}{interval}" if label else f"{number(point.value)}{interval}"


def _short(value: float | None) -> str:
    """Return a number with as many digits as it needs, at most four."""
    return number(None) if value is None else f"{value:.4g}".replace("-", "\u2212")


def _rounded(value: float | None) -> float | None:
    """Return a number with four digits after the point, or four significant ones if it is small; None if infinite."""
    if value is None or not math.isfinite(value):
        return None
    return round(value, 4) if abs(value) >= 0.1 else float(f"{value:.4g}")
