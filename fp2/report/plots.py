"""Charts as data for `templates/charts.js`, which draws them on pages with Observable Plot.

A page holds a chart as JSON in the attribute `data-chart` of a figure. Numbers are rounded to four digits, finer than a
pixel.
"""

from __future__ import annotations

from typing import Any

from fp2.report.reading import number, plain
from fp2.report.values import Axis, Chart, Point, Series


def plot(chart: Chart) -> dict[str, Any]:
    """Return a chart as JSON values."""
    return {
        "kind": chart.kind.value,
        "name": plain(chart.title),
        "value": _axis(chart.value),
        "x": _axis(chart.x),
        "diverging": chart.diverging,
        "references": [
            {"value": _rounded(one.value), "high": _rounded(one.high), "label": plain(one.label)}
            for one in chart.references
        ],
        "series": [_series(one, place) for place, one in enumerate(chart.series)],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    return {"label": plain(axis.label), "low": axis.low, "high": axis.high}


def _series(series: Series, order: int) -> dict[str, Any]:
    """Return a series; `run` chooses the colour and, on pages of several runs, what a reader can hide."""
    place = order if series.place is None else series.place
    points = [_point(point, series) for point in series.points]
    return {"name": plain(series.name), "run": place, "points": points}


_NUMBERS = ("value", "x", "low", "high", "null_mean", "null_p95")


def _point(point: Point, series: Series) -> dict[str, Any]:
    """Return a point: its numbers that are known, its label, and what pointing at it shows."""
    numbers = {name: _rounded(getattr(point, name)) for name in _NUMBERS if getattr(point, name) is not None}
    return {
        "label": plain(point.label),
        "filled": point.filled,
        "mark": point.mark,
        "title": plain(point.title) or _title(point, series.name),
        **numbers,
    }


def _title(point: Point, name: str) -> str:
    """Return label, value and interval of a point."""
    if point.value is None:
        return ""
    label = plain(", ".join(text for text in (name, point.label) if text))
    interval = ""
    if point.low is not None and point.high is not None:
        interval = f" ({number(point.low)} to {number(point.high)})"
    return f"{label}: {number(point.value)}{interval}" if label else f"{number(point.value)}{interval}"


def _rounded(value: float | None) -> float | None:
    """Return a number with four digits after the point, or four significant ones if it is small."""
    return None if value is None else round(value, 4) if abs(value) >= 0.1 else float(f"{value:.4g}")
