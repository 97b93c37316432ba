"""Charts (`fp2.report.values.Chart`) drawn with Matplotlib: as figure files, and on axes of a caller.

The palette is safe for colour blindness and print. Equal charts give files of equal bytes. Matplotlib is imported on
first use.
"""

from __future__ import annotations

import math
import textwrap
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from fp2.report.cells import HIGH, LOW
from fp2.report.plots import heat_digits, heat_range, label_rows, place_of, radar_end, radar_rings
from fp2.report.reading import (
    calibration_of,
    calibration_words,
    model_name,
    model_was_used,
    number,
    plain,
    verdict_words,
)
from fp2.report.values import Axis, Chart, ChartKind, Point, Reference, Series
from fp2.results import RunResults
from fp2.verdicts import Verdict, mark_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.projections.polar import PolarAxes

Legend = dict[str, "Artist"]
"""Artists by label, in the order of the legend."""

# Okabe and Ito's palette (https://jfly.uni-koeln.de/color/), in the order in which series are coloured.
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
INK, FAINT, GRID, CHANCE, EMPTY = "#1a1a1a", "#5f6368", "#d9dce0", "#b8bec6", "#f2f3f5"
Dashes = Literal["", "-"] | tuple[float, Sequence[float]]
_DASHES: tuple[Dashes, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
_MARKERS = ("o", "s", "^", "D", "v", "P")
_RC: Any = {
    "font.size": 9,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.labelsize": 8.5,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.usetex": False,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "fp2",
}
_FALLBACKS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "PingFang SC", "Microsoft YaHei", "Noto Sans Devanagari", "Noto Sans Thai",
    "Arial Unicode MS",
)  # fmt: skip
_LETTER = 0.072  # inches, the mean width of a letter of 9 points
_WIDEST, _NARROWEST = 11.8, 6.4  # inches, of the panels side by side and of a figure
_LABEL = 24  # letters of a label
_MOST_MARKED = 24  # points of a line with markers


@dataclass(frozen=True)
class Heading:
    """What stands above the panels: the title, lines below it, and a remark on the runs in italics."""

    title: str
    lines: Sequence[str] = ()
    remark: str = ""


def run_heading(title: str, runs: Sequence[RunResults]) -> Heading:
    """Return the title with model, data set and sizes of the first run, and a remark where effects were planted."""
    run = runs[0]
    who = f"{_cut(model_name(run), 40) if len(runs) == 1 else f'{len(runs)} runs'} · " if model_was_used(run) else ""
    data = _cut(plain(run["dataset"]["name"]), 30)
    partial = "" if all(r["complete"] for r in runs) else " · partial run" if len(runs) == 1 else " · some partial"
    caption = f"{who}{data} · {run['n_subjects']:,} subjects, {run['n_images']:,} images{partial}"
    return Heading(title, [caption], calibration_words(map(calibration_of, runs)))


def write_charts(charts: Sequence[Chart], results: RunResults, folder: Path) -> Iterator[Path]:
    """Draw charts as PNG files into `folder` and yield their paths; charts of one `file` are its panels.

    A `file` that ends in `.svg` is written as SVG. Charts without points are left out.
    """
    files: dict[str, list[Chart]] = {}
    for chart in charts:
        if any(series.points for series in chart.series):
            files.setdefault(chart.file or chart.name, []).append(chart)
    for name, panels in files.items():
        path = folder / (name if name.endswith((".png", ".svg")) else f"{name}.png")
        yield draw_panels(panels, path, run_heading(panels[0].title, [results]))


def draw_panels(charts: Sequence[Chart], path: Path, heading: Heading) -> Path:
    """Draw charts as panels of one PNG or SVG, with the heading above, and the legend and the captions below."""
    sizes = [_panel_size(chart, 2.6 if len(charts) <= 6 else 2.0) for chart in charts]
    columns = max(1, min(len(charts), int(_WIDEST // max(wide for wide, _ in sizes))))
    rows = math.ceil(len(charts) / columns)
    columns = math.ceil(len(charts) / rows)
    tall = [max(size[1] for size in sizes[row * columns : (row + 1) * columns]) for row in range(rows)]
    width = max(columns * max(wide for wide, _ in sizes), _NARROWEST)
    with style():
        drawn, legend = figure(width, sum(tall)), Legend()
        drawn.set_layout_engine(
            "constrained", w_pad=0.08, h_pad=0.08, wspace=0.06 if columns > 1 else 0.0, hspace=0.04 if rows > 1 else 0.0
        )
        grid = drawn.add_gridspec(rows, columns, height_ratios=tall)
        for index, chart in enumerate(charts):
            polar = "polar" if chart.kind is ChartKind.RADAR else None
            axes = drawn.add_subplot(grid[index // columns, index % columns], projection=polar)
            legend |= _draw(axes, chart, sizes[index][0])
            if chart.kind is ChartKind.HEAT:
                _colour_bar(drawn, axes, chart)
        captions = "\n".join(
            textwrap.fill(shorten(plain(caption), 600), int((width - 0.3) / _LETTER * 9 / 7.5))
            for caption in dict.fromkeys(chart.caption for chart in charts if chart.caption)
        )
        foot = 0.15 + 0.145 * (captions.count("\n") + 1 if captions else 0)
        labels = [label for label in legend if label]
        legend_width = _legend_columns(labels, width - 0.2)
        below = foot + 0.19 * math.ceil(len(labels) / legend_width) + (0.1 if labels else 0.0)
        title = textwrap.wrap(plain(heading.title), int((width - 0.3) / _LETTER * 9 / 14)) or [""]
        text_lines = [
            text_line for text in heading.lines for text_line in textwrap.wrap(text, int((width - 0.3) / _LETTER))
        ]
        above = 0.3 + 0.24 * len(title) + 0.18 * (len(text_lines) + bool(heading.remark))
        height = above + sum(tall) + below
        drawn.set_size_inches(width, height)
        layout: Any = drawn.get_layout_engine()
        layout.set(rect=(0, below / height, 1, 1 - (above + below) / height))
        draw_heading(drawn, Heading("\n".join(title), text_lines, heading.remark))
        if labels:
            drawn.legend(
                handles=[_labelled(legend[label], label) for label in labels],
                loc="lower center",
                ncols=legend_width,
                bbox_to_anchor=(0.5, foot / height),
                frameon=False,
                fontsize=8,
                handlelength=2.8,
            ).set_in_layout(False)
        if captions:
            drawn.text(0.15 / width, 0.12 / height, captions, fontsize=7.5, color=FAINT, linespacing=1.3)
        return save(drawn, path)


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """Return in how many columns the entries of a legend fit into `width` inches; they are filled from the left."""
    entries = [_width(label) * _LETTER * 8 / 9 + 0.7 for label in labels]
    for columns in range(len(entries), 1, -1):
        rows, longer = divmod(len(entries), columns)
        starts = [column * rows + min(column, longer) for column in range(columns + 1)]
        if sum(max(entries[at:to]) for at, to in pairwise(starts)) <= width:
            return columns
    return 1


def draw_chart(axes: Axes, chart: Chart) -> Axes:
    """Draw a chart on axes of the caller's, polar ones for a `RADAR`, and return them; several series have a legend."""
    with style():
        legend = _draw(axes, chart, 6.0)
        names = [plain(series.name) for series in chart.series if series.name]
        if len(names) > 1 and chart.kind is not ChartKind.HEAT:
            handles = [_labelled(handle, label) for label, handle in legend.items() if label]
            axes.legend(handles=handles, fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.02, 1))
    return axes


def _draw(axes: Axes, chart: Chart, wide: float) -> Legend:
    """Draw one panel of `wide` inches with its heading, and return what its legend explains."""
    drawing: dict[ChartKind, Callable[[Axes, Chart], Legend]] = {
        ChartKind.INTERVALS: _intervals,
        ChartKind.RADAR: _radar,
        ChartKind.HEAT: _heat,
        ChartKind.BARS: _bars,
        ChartKind.LINES: _lines,
        ChartKind.POINTS: _points,
        ChartKind.HISTOGRAM: _histogram,
    }
    legend = drawing[chart.kind](axes, chart)
    title, _, subtitle = chart.panel.partition("\n")
    radar = chart.kind is ChartKind.RADAR
    over = (31 if _is_level(chart) else 85) if radar else 6  # points, of the label of the first spoke
    if chart.kind in (ChartKind.INTERVALS, ChartKind.BARS):
        wide -= _side(chart)
    if title:
        title_lines = wrapped(title, int(wide / _LETTER * 9 / 12), 2)
        pad = over + (11 if subtitle and radar else 12 if subtitle else 0)
        axes.set_title(title_lines, loc="center" if radar else "left", pad=pad, fontsize=10.5)
    if subtitle:
        axes.annotate(
            wrapped(subtitle, int(wide / _LETTER * 9 / 8.5), 1),
            (0.5 if radar else 0.0, 1),
            (0, over),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center" if radar else "left",
            fontsize=8,
            color=FAINT,
        )
    return legend


def _panel_size(chart: Chart, rows_width: float) -> tuple[float, float]:
    """Return width and height of a panel in inches, with the labels; what is beside those of rows is `rows_width`."""
    title = 0.3 + 0.2 * chart.panel.count("\n") if chart.panel else 0.1
    if chart.kind is ChartKind.RADAR:
        return (4.7, 3.6 + title) if _is_level(chart) else (6.2, 5.2 + title)
    if chart.kind in (ChartKind.LINES, ChartKind.POINTS, ChartKind.HISTOGRAM):
        return 5.2, 3.2 + title
    if chart.kind is ChartKind.HEAT:
        column, row = _cell_size(chart)
        names, columns = [_width(_series_label(series)) for series in chart.series], label_rows(chart)[0]
        side = 1.3 + _LETTER * min(max(names, default=0), _LABEL if row > 0.3 else 2 * _LABEL)
        turned = max(map(_width, columns), default=0) * _LETTER if column < _FLAT else 0.35
        return side + column * max(len(columns), 2), row * max(len(names), 2) + min(turned, 1.9) + title + 0.2
    n = len(label_rows(chart)[0])
    verdicts = 1.7 if _with_verdicts(chart) else 0.4
    return _side(chart) + verdicts + rows_width, _row_height(chart, n) * max(n, 2) + 0.55 + title


def _is_level(chart: Chart) -> bool:
    """Return whether the labels of a radar's spokes are level: those of many are turned."""
    return len(label_rows(chart)[0]) <= 12


def _side(chart: Chart) -> float:
    return 0.3 + _LETTER * min(max(map(_width, label_rows(chart)[0]), default=0), _LABEL)


def _row_height(chart: Chart, n: int) -> float:
    return max(0.36 if n <= 40 else 0.22, 0.15 * len(chart.series) + 0.12)


def _with_verdicts(chart: Chart) -> bool:
    """Return whether the verdicts of points are written beside them: those of a single series of rows are."""
    if len(chart.series) != 1 or chart.kind not in (ChartKind.INTERVALS, ChartKind.BARS):
        return False
    return any(point.verdict for point in chart.series[0].points)


def _look(chart: Chart, order: int) -> tuple[str, Dashes, str]:
    position = place_of(chart.series[order], order)
    marker = "o" if len(chart.series) == 1 else _MARKERS[position % len(_MARKERS)]
    return LINES[position % len(LINES)], _DASHES[position // len(LINES) % len(_DASHES)], marker


def _marker(axes: Axes, x: float, y: float, marker: str, colour: str, filled: bool, size: float = 5.5) -> None:
    face = colour if filled else "white"
    axes.plot(x, y, marker, color=colour, markerfacecolor=face, markeredgecolor=colour, markersize=size, zorder=5)


def _handle(marker: str, colour: str, filled: bool = True, dashes: Dashes = "") -> Line2D:
    from matplotlib.lines import Line2D

    face = colour if filled else "white"
    return Line2D([], [], color=colour, marker=marker, linestyle=dashes, markerfacecolor=face, markersize=5.5)


def _chance_handles(chart: Chart) -> Legend:
    """Return the entries of the null distribution, where it is drawn."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    points = [point for series in chart.series for point in series.points]
    upright = {"marker": "|", "linestyle": "", "markersize": 9}
    dashed = {"linestyle": (0, (4, 3)), "linewidth": 0.9}
    mean: Any = dashed if chart.kind in (ChartKind.RADAR, ChartKind.LINES) else upright
    legend: Legend = {}
    if any(point.null_p95 is not None for point in points):
        legend["null, up to 95th percentile"] = Patch(color=CHANCE, alpha=0.6, linewidth=0)
    if any(point.null_mean is not None for point in points):
        legend["null mean"] = Line2D([], [], color=FAINT, **mean)
    return legend


def _series_handles(chart: Chart, dashes: bool = False) -> Legend:
    """Return an entry for each series, if there are several, and what filled and open points are."""
    looks = [_look(chart, order) for order in range(len(chart.series))]
    legend: Legend = {}
    if len(looks) > 1 or (chart.series and chart.series[0].place is not None):
        legend = {
            shorten(plain(series.name), 40): _handle(marker, colour, dashes=dash if dashes else "")
            for series, (colour, dash, marker) in zip(chart.series, looks, strict=True)
        }
    points = [point for series in chart.series for point in series.points if point.value is not None]
    if chart.filled and not _with_verdicts(chart) and any(not point.filled for point in points):
        colour = LINES[0] if len(looks) == 1 else FAINT
        legend |= {chart.filled: _handle("o", colour), f"not {chart.filled}": _handle("o", colour, False)}
    return legend


def _labelled(handle: Artist, label: str) -> Artist:
    handle.set_label(shorten(plain(label), 60))
    return handle


def _references(axes: Axes, references: Sequence[Reference], upright: bool) -> Legend:
    """Draw lines and bands across the value axis: `upright` ones where it is the horizontal axis."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    legend: Legend = {}
    for order, reference in enumerate(references):
        if reference.high is not None:
            (axes.axvspan if upright else axes.axhspan)(
                reference.value, reference.high, color=CHANCE, alpha=0.35, linewidth=0
            )
            legend[plain(reference.label)] = Patch(color=CHANCE, alpha=0.35, linewidth=0)
            continue
        look: Any = {"color": FAINT, "linewidth": 1.0, "linestyle": _DASHES[(order + 1) % len(_DASHES)]}
        (axes.axvline if upright else axes.axhline)(reference.value, **look)
        legend[plain(reference.label)] = Line2D([], [], **look)
    return legend


def _ends(axis: Axis, values: Iterable[float | None], *, zero: bool = False) -> tuple[float, float]:
    """Return the ends of an axis: those it states, or such that all values are within; `zero` is one of them."""
    numbers = [value for value in values if value is not None and math.isfinite(value)] + ([0.0] if zero else [])
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    margin = 0.05 * (high - low) or 0.5 * (abs(high) or 1.0)
    first = low if zero and low == 0.0 else low - margin
    last = high if zero and low < high == 0.0 else high + margin
    return axis.low if axis.low is not None else first, axis.high if axis.high is not None else last


def _all_points(chart: Chart) -> list[Point]:
    return [point for series in chart.series for point in series.points]


def _row_axes(axes: Axes, chart: Chart, labels: Sequence[str], limits: tuple[float, float]) -> None:
    """Set up labelled rows, the first on top."""
    n_lines = 2 if _row_height(chart, len(labels)) >= 0.3 else 1
    axes.set(xlim=limits, ylim=(max(len(labels), 1) - 0.5, -0.5))
    axes.set_yticks(range(len(labels)), [wrapped(label, _LABEL, n_lines) for label in labels], fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_xlabel(wrapped(chart.value.label, 44, 2))


def _intervals(axes: Axes, chart: Chart) -> Legend:
    """Draw a row for each label: null distribution, interval, point; with the verdict in words of a single series."""
    from matplotlib.lines import Line2D

    labels, rows = label_rows(chart)
    legend, n = _chance_handles(chart), len(chart.series)
    points = _all_points(chart)
    values = [value for p in points for value in (p.value, p.low, p.high, p.null_p95)]
    _row_axes(axes, chart, labels, _ends(chart.value, values, zero=any(p.null_p95 is not None for p in points)))
    handles, verdicts = _references(axes, chart.references, upright=True), _with_verdicts(chart)
    for order, series in enumerate(chart.series):
        shift, tall = _dodge(order, n), 0.56 / n
        for point, row in zip(series.points, rows[order], strict=True):
            colour, _, marker = _look(chart, order)
            y, filled = row + shift, point.filled
            if verdicts and point.verdict:
                colour, marker, filled, *_ = mark_of(point.verdict)
                _beside(axes, y, verdict_words(point.verdict), mark_of(point.verdict).emphasised)
            if point.value is None:
                continue
            _chance(axes, point, y, tall, tall, 0.6)
            if point.low is not None and point.high is not None:
                axes.plot([point.low, point.high], [y, y], color=colour, linewidth=1.8, solid_capstyle="butt")
            _marker(axes, point.value, y, marker, colour, filled)
    if any(point.low is not None and point.high is not None for point in points):
        legend["interval"] = Line2D([], [], color=INK, linewidth=1.8)
    present = {point.verdict for point in points} if verdicts else set()
    for verdict in (shown_verdict for shown_verdict in Verdict if shown_verdict in present and shown_verdict.is_tested):
        legend[verdict.label] = _handle(verdict.mark.marker, verdict.mark.colour, verdict.mark.filled)
    return _series_handles(chart) | legend | handles


def _dodge(order: int, n: int) -> float:
    """Return how far the rows of series are shifted, so that they lie side by side."""
    return (order - (n - 1) / 2) * 0.8 / n


def _beside(axes: Axes, y: float, text: str, bold: bool = False) -> None:
    weight = "bold" if bold else "normal"
    axes.text(1.02, y, shorten(text, 30), transform=axes.get_yaxis_transform(), va="center", fontsize=8, weight=weight)


def _chance(axes: Axes, point: Point, y: float, tall: float, band: float, alpha: float) -> None:
    """Draw the null distribution of a row: a band of the height `band`, and a line as tall as the row at its mean."""
    if point.null_p95 is not None:
        axes.barh(y, point.null_p95, height=band, color=CHANCE, alpha=alpha, linewidth=0)
    if point.null_mean is not None:
        axes.plot([point.null_mean] * 2, [y - tall / 2, y + tall / 2], color=FAINT, linewidth=1)


def _bars(axes: Axes, chart: Chart) -> Legend:
    """Draw a bar from 0 for each point, with its value; open bars are those that are not filled."""
    labels, rows = label_rows(chart)
    points, n = _all_points(chart), len(chart.series)
    low, high = _ends(chart.value, [v for p in points for v in (p.value, p.low, p.high, p.null_p95)], zero=True)
    room = 0.14 * (high - low)  # for the values
    negative = any(point.value is not None and point.value < 0 for point in points)
    low, high = low - room if negative and chart.value.low is None else low, high + room
    _row_axes(axes, chart, labels, (low, high))
    legend = _chance_handles(chart) | _references(axes, chart.references, upright=True)
    if low < 0:
        axes.axvline(0, color=FAINT, linewidth=0.8)
    for order, series in enumerate(chart.series):
        colour, _, _ = _look(chart, order)
        for point, row in zip(series.points, rows[order], strict=True):
            if point.value is None:
                continue
            y, tall = row + _dodge(order, n), 0.72 / n
            axes.barh(
                y, point.value, height=tall, color=colour if point.filled else "white", edgecolor=colour, linewidth=1
            )
            _chance(axes, point, y, tall, tall / 2, 0.8)
            if point.low is not None and point.high is not None:
                axes.plot([point.low, point.high], [y, y], color=INK, linewidth=1.2)
            is_negative = point.value < 0
            end = min(point.value, point.low or 0.0) if is_negative else max(point.value, point.high or 0.0)
            if tall * _row_height(chart, len(labels)) > 0.1:
                axes.annotate(
                    number(point.value, 2),
                    (end, y),
                    (-3 if is_negative else 3, 0),
                    textcoords="offset points",
                    va="center",
                    ha="right" if is_negative else "left",
                    fontsize=7.5,
                    color=INK,
                )
            if _with_verdicts(chart) and point.verdict:
                _beside(axes, y, verdict_words(point.verdict), mark_of(point.verdict).emphasised)
    return _series_handles(chart) | legend


def _radar(axes: Axes, chart: Chart) -> Legend:
    """Draw a spoke for each label from the top clockwise, the null distribution, and a line for each series."""
    polar, (labels, rows) = cast("PolarAxes", axes), label_rows(chart)
    n, end = len(labels), radar_end(chart)
    turn = [2 * math.pi * index / max(n, 1) for index in range(n)]
    polar.set_theta_offset(math.pi / 2)
    polar.set_theta_direction(-1)
    polar.set_ylim(0, end)
    rings = radar_rings(end)
    ring_labels = [f"{ring:g}" if ring < end or _is_level(chart) else "" for ring in rings]
    polar.set_rgrids(rings, ring_labels, angle=180 / max(n, 1), fontsize=7, color=FAINT)
    polar.set_xticks(turn, [""] * n)
    polar.grid(color=GRID, linewidth=0.7)
    polar.spines["polar"].set_color(GRID)
    for angle, label in zip(turn, labels, strict=True):
        across = "center" if abs(math.sin(angle)) < 0.1 else "left" if math.sin(angle) > 0 else "right"
        upright = "bottom" if math.cos(angle) > 0.9 else "top" if math.cos(angle) < -0.9 else "center"
        if _is_level(chart):
            polar.text(angle, end * 1.06, wrapped(label, 16, 2), ha=across, va=upright, fontsize=8.5)
            continue
        is_upside_down = math.pi < angle  # a label that would be upside down is turned round
        polar.text(
            angle,
            end * 1.04,
            wrapped(label, 18, 1),
            ha="right" if is_upside_down else "left",
            va="center",
            fontsize=7,
            rotation=math.degrees(math.pi / 2 - angle) + 180 * is_upside_down,
            rotation_mode="anchor",
        )
    if not n:
        return {}
    for key, look in (("null_p95", {"linewidth": 0}), ("null_mean", {"linestyle": (0, (4, 3)), "linewidth": 0.9})):
        ring = spoke_maxima(chart, key)
        if any(ring):
            polar.plot(_closed(turn), _closed(ring), color=FAINT, **look)
        if key == "null_p95":
            polar.fill(turn, ring, color=CHANCE, alpha=0.6, linewidth=0)
    handles: Legend = {}
    for reference in chart.references:
        (curve,) = polar.plot(
            [angle / 60 * math.tau for angle in range(61)], [reference.value] * 61, color=FAINT, linewidth=1
        )
        handles[plain(reference.label)] = curve
    for order, series in enumerate(chart.series):
        colour, dashes, marker = _look(chart, order)
        values = [math.nan] * n
        for point, index in zip(series.points, rows[order], strict=True):
            if point.value is None:
                polar.plot([turn[index]], [0.02 * end], "x", color=colour, markersize=5)
                continue
            values[index] = point.value
            _marker(polar, turn[index], point.value, marker, colour, point.filled, 5)
        polar.plot(_closed(turn), _closed(values), color=colour, linestyle=dashes, linewidth=1.7)
        if not any(map(math.isnan, values)) and len(chart.series) <= 3:
            polar.fill(turn, values, color=colour, alpha=0.10, linewidth=0)
    return _series_handles(chart, dashes=True) | _chance_handles(chart) | handles


def spoke_maxima(chart: Chart, key: str) -> list[float]:
    """Return at each spoke the largest `null_p95` or `null_mean` of the series; 0 where there is none."""
    labels, rows = label_rows(chart)
    largest = [0.0] * len(labels)
    for series, rows_of_series in zip(chart.series, rows, strict=True):
        for point, row_y in zip(series.points, rows_of_series, strict=True):
            largest[row_y] = max(largest[row_y], getattr(point, key) or 0.0)
    return largest


def _closed(values: Sequence[float]) -> list[float]:
    """Return the values with the first one again at the end."""
    return [*values, values[0]]


_FLAT = 0.75  # inches: labels of narrower columns are turned


def _cell_size(chart: Chart) -> tuple[float, float]:
    """Return width and height of the cells of a heat map in inches."""
    columns, rows = len(label_rows(chart)[0]), len(chart.series)
    return max(0.3, min(1.05, 8.6 / max(columns, 1))), 0.42 if rows <= 14 else 0.28 if rows <= 40 else 0.17


def _series_label(series: Series) -> str:
    """Return the name of a heat map's row, with the size of its group."""
    size = "" if series.subjects is None else f" (n={series.subjects:,})"
    name = plain(series.name)
    while _width(name) > 2 * _LABEL - 4 - len(size):
        name = f"{name[:-2].rstrip()}…"
    return f"{name}{size}"


def _colours(chart: Chart) -> Colormap:
    import matplotlib

    return matplotlib.colormaps["PuOr" if chart.diverging else "Purples"]


def _heat(axes: Axes, chart: Chart) -> Legend:
    """Draw a row for each series and a column for each label; a cell without a value has a dash."""
    from matplotlib.patches import Rectangle

    labels, positions = label_rows(chart)
    (low, high), digits, colours = heat_range(chart), heat_digits(chart), _colours(chart)
    column, row = _cell_size(chart)
    size = min(9.0 if column >= 0.8 else 6.5, 40 * row)
    for y, series in enumerate(chart.series):
        cells = {place: point for place, point in zip(positions[y], series.points, strict=True)}
        for x in range(len(labels)):
            point = cells.get(x, Point(None))
            level = None if point.value is None else (point.value - low) / ((high - low) or 1.0)
            face: Any = EMPTY if level is None else colours(0.9 * level if not chart.diverging else level)
            axes.add_patch(Rectangle((x, y), 1, 1, facecolor=face, edgecolor="white", linewidth=1.2))
            if column < 0.45 and not point.mark:
                continue
            dark = level is not None and 0.299 * face[0] + 0.587 * face[1] + 0.114 * face[2] < 0.5
            mark = {"low": LOW, "high": HIGH, "significant": "*"}.get(point.mark, "")
            text = f"{number(point.value, digits)}{' ' if mark and mark != '*' else ''}{mark}"
            axes.text(
                x + 0.5,
                y + 0.5,
                text if column >= 0.45 else mark,
                ha="center",
                va="center",
                fontsize=size,
                color=FAINT if level is None else "white" if dark else INK,
                weight="bold" if mark else "normal",
            ).set_in_layout(False)
    axes.set(xlim=(0, max(len(labels), 1)), ylim=(max(len(chart.series), 1), 0))
    flat = column >= _FLAT
    axes.set_xticks(
        [x + 0.5 for x in range(len(labels))],
        [wrapped(label, int(column / _LETTER * 9 / 8), 3) if flat else wrapped(label, _LABEL, 1) for label in labels],
        rotation=0 if flat else 90,
    )
    names = [wrapped(_series_label(series), _LABEL if row > 0.3 else 2 * _LABEL, 2) for series in chart.series]
    axes.set_yticks([y + 0.5 for y in range(len(names))], names)
    axes.tick_params(length=0, labelsize=min(8.5, 50 * row), colors=INK)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[:].set_visible(False)
    return {}


def _colour_bar(drawn: Figure, axes: Axes, chart: Chart) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    low, high = heat_range(chart)
    end = 1.0 if chart.diverging else 0.9
    colours = LinearSegmentedColormap.from_list("scale", _colours(chart)([end * i / 255 for i in range(256)]))
    scale = drawn.colorbar(ScalarMappable(Normalize(low, high), colours), ax=axes, fraction=0.05, pad=0.02, aspect=30)
    scale.outline.set_visible(False)
    ticks = [low, (low + high) / 2, high]
    scale.set_ticks(ticks, labels=[number(tick, 1 if high - low >= 1 else 2) for tick in ticks])
    scale.ax.tick_params(labelsize=8, length=0)
    if chart.value.label:
        scale.set_label(wrapped(chart.value.label, 30, 2), fontsize=8)


def _plane(axes: Axes, chart: Chart, values: Iterable[float | None], xs: Iterable[float | None]) -> None:
    axes.set(xlim=_ends(chart.x, xs), ylim=_ends(chart.value, values))
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_xlabel(wrapped(chart.x.label, 60, 2))
    axes.set_ylabel(wrapped(chart.value.label, 40, 2))


def _lines(axes: Axes, chart: Chart) -> Legend:
    """Draw a line over x for each series, with a band from low to high; it has a gap where a value is missing."""
    points = _all_points(chart)
    end_values = [value for p in points for value in (p.value, p.low, p.high, p.null_p95)]
    _plane(axes, chart, [*end_values, *(reference.value for reference in chart.references)], [p.x for p in points])
    legend = _references(axes, chart.references, upright=False)
    for order, series in enumerate(chart.series):
        colour, dashes, marker = _look(chart, order)
        own_points = [point for point in series.points if point.x is not None]
        xs = [point.x for point in series.points if point.x is not None]
        gaps = {
            key: [math.nan if getattr(point, key) is None else getattr(point, key) for point in own_points]
            for key in ("value", "low", "high", "null_mean", "null_p95")
        }
        if not all(map(math.isnan, gaps["null_p95"])):
            axes.fill_between(xs, gaps["null_p95"], 0, color=CHANCE, alpha=0.6, linewidth=0)
        if not all(map(math.isnan, gaps["null_mean"])):
            axes.plot(xs, gaps["null_mean"], color=FAINT, linestyle=(0, (4, 3)), linewidth=0.9)
        axes.fill_between(
            xs, gaps["low"], gaps["high"], color=colour, alpha=0.15 if len(chart.series) <= 4 else 0.05, linewidth=0
        )
        axes.plot(xs, gaps["value"], color=colour, linestyle=dashes, linewidth=1.7)
        if len(own_points) <= _MOST_MARKED:
            for point in own_points:
                if point.x is not None and point.value is not None:
                    _marker(axes, point.x, point.value, marker, colour, point.filled, 4.5)
    return _chance_handles(chart) | _series_handles(chart, dashes=True) | legend


def _points(axes: Axes, chart: Chart) -> Legend:
    """Draw a point for each x and y, with its interval."""
    points = _all_points(chart)
    end_values = [value for p in points for value in (p.value, p.low, p.high)]
    _plane(axes, chart, [*end_values, *(reference.value for reference in chart.references)], [p.x for p in points])
    legend = _references(axes, chart.references, upright=False)
    for order, series in enumerate(chart.series):
        colour, _, marker = _look(chart, order)
        for point in series.points:
            if point.x is None or point.value is None:
                continue
            if point.low is not None and point.high is not None:
                axes.plot([point.x, point.x], [point.low, point.high], color=colour, linewidth=1.2, alpha=0.6)
            _marker(axes, point.x, point.value, marker, colour, point.filled, 4.5)
    return _series_handles(chart) | legend


def _histogram(axes: Axes, chart: Chart) -> Legend:
    """Draw a bar from `low` to `high` for each point; references lie on the axis below."""
    from matplotlib.patches import Patch

    points = [point for point in _all_points(chart) if point.low is not None and point.high is not None]
    xs = [value for p in points for value in (p.low, p.high)] + [reference.value for reference in chart.references]
    _plane(axes, chart, [], xs)
    axes.set_ylim(_ends(chart.value, [point.value for point in points], zero=True))
    axes.grid(visible=False, axis="x")
    several = len(chart.series) > 1
    legend: Legend = {}
    for order, series in enumerate(chart.series):
        colour, _, _ = _look(chart, order)
        own_points = [p for p in series.points if p.low is not None and p.high is not None and p.value is not None]
        look: Any = {"facecolor": colour, "edgecolor": "white", "linewidth": 0.5, "alpha": 0.5 if several else 0.85}
        widths = [(p.high or 0.0) - (p.low or 0.0) for p in own_points]
        starts, heights = [p.low or 0.0 for p in own_points], [p.value or 0.0 for p in own_points]
        axes.bar(starts, heights, widths, align="edge", **look)
        if several:
            legend[shorten(plain(series.name), 40)] = Patch(**look)
    return legend | _references(axes, chart.references, upright=True)


def shorten(text: str, limit: int) -> str:
    """Cut `text` to `limit` characters, and escape dollar signs, which matplotlib would read as mathematics."""
    return _cut(text, limit).replace("$", r"\$")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def wrapped(text: str, width: int, lines: int) -> str:
    """Return `text` in at most so many lines of `width` letters (of wide scripts half as many), the rest cut off."""
    padded = "".join(f"{char}\0" if _is_wide(char) else char for char in plain(text))  # as many characters as widths
    rows = textwrap.wrap(padded, max(width, 4), break_on_hyphens=False) or [""]
    if len(rows) > lines:
        rows = [*rows[: lines - 1], f"{' '.join(rows[lines - 1 :])[: max(width, 4) - 1].rstrip()}…"]
    return "\n".join(rows).replace("\0", "").replace("$", r"\$")


def _is_wide(char: str) -> bool:
    return unicodedata.east_asian_width(char) in "WF"


def _width(text: str) -> int:
    return sum(1 + _is_wide(char) for char in plain(text))


def figure(width: float, height: float) -> Figure:
    """Return an empty figure of `width` x `height` inches that needs no window system."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    new = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(new)
    return new


def style() -> AbstractContextManager[None]:
    """Return the context with the style of the figures."""
    import matplotlib

    return matplotlib.rc_context({**_RC, "font.family": _families()})


@lru_cache(maxsize=1)
def _families() -> list[str]:
    """Return the font of the figures, and those of this machine that have letters which it lacks."""
    from matplotlib.font_manager import fontManager

    present = {font.name for font in fontManager.ttflist}
    return ["DejaVu Sans", *(name for name in _FALLBACKS if name in present)]


def save(drawn: Figure, path: Path) -> Path:
    """Write the figure as PNG (200 dpi) or SVG, without date or software name: equal data give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a letter the font lacks is drawn as a box
        if path.suffix == ".svg":
            drawn.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
        else:
            drawn.savefig(path, format="png", dpi=200, metadata={"Software": None})
    return path


def draw_heading(drawn: Figure, heading: Heading) -> None:
    """Write the heading at the top of a figure."""
    width, height = drawn.get_figwidth(), drawn.get_figheight()
    x, y = 0.15 / width, height - 0.12
    look: Any = {"va": "top", "linespacing": 1.25}
    drawn.text(x, y / height, heading.title.replace("$", r"\$"), fontsize=14, fontweight="bold", **look)
    y -= 0.06 + 0.24 * (heading.title.count("\n") + 1)
    for text in heading.lines:
        drawn.text(x, y / height, text.replace("$", r"\$"), fontsize=8.5, color=FAINT, **look)
        y -= 0.18
    if heading.remark:
        drawn.text(x, y / height, heading.remark, fontsize=8, color=FAINT, style="italic", **look)
