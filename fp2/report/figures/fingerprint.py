"""The bias fingerprint as a radar: disparity by probe, with its null distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.report.figures.style import (
    CHANCE,
    FAINT,
    GRID,
    LINES,
    axis_end,
    axis_rings,
    figure,
    head,
    save,
    shorten,
    style,
)
from fp2.report.reading import DASH, cut_label, model_name, number, primary_scorer, probe_labels, rows_of, scorer_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Results = Mapping[str, Any]
_COLUMNS = 2
# Inches: a panel with its circle inside, the heading above all panels and the legend below them.
_CELL, _CIRCLE, _BASE, _HEAD, _FOOT = (4.7, 4.3), 2.7, 0.55, 0.95, 0.75


def radar(results: Results | Sequence[Results], path: Path, cuts: Sequence[str] | None = None) -> Path:
    """Draw the bias fingerprint: raw disparity of the primary scorer per probe, a panel per cut, a line per model.

    The shaded area is the null distribution up to its 95th percentile; the dashed line is the null mean (with several
    models, the largest of theirs). Filled points are significant after correction. All panels share one axis that
    starts at 0.

    Parameters
    ----------
    results : mapping or sequence of mappings
        One run, or several of different models.
    path : Path
        The PNG to write.
    cuts : sequence of str, optional
        The panels; by default the first run's cuts.

    Returns
    -------
    Path
        `path`.
    """
    runs = [results] if isinstance(results, Mapping) else list(results)
    panels = list(cuts or runs[0]["cuts"])
    labels = probe_labels(runs[0])
    rows = [row for run in runs for cut in panels for row in rows_of(run, cut).values()]
    end = axis_end([row[key] for row in rows for key in ("raw", "null_p95")])
    columns = min(_COLUMNS, len(panels))
    lines = math.ceil(len(panels) / columns)
    with style():
        drawn = figure(_CELL[0] * columns, _CELL[1] * lines + _HEAD + _FOOT)
        for place, cut in enumerate(panels):
            _radar_panel(_panel_axes(drawn, place % columns, lines - 1 - place // columns), runs, cut, labels, end)
        head(drawn, f"Bias fingerprint: {scorer_label(primary_scorer(runs[0]))} disparity by probe", runs)
        _radar_legend(drawn, runs)
        return save(drawn, path)


def _closed(values: Sequence[float]) -> list[float]:
    """Return the values with the first one again at the end."""
    return [*values, values[0]]


def _panel_axes(drawn: Figure, column: int, line: int) -> Any:
    """Return polar axes for one panel; `line` counts from the bottom."""
    width, height = drawn.get_figwidth(), drawn.get_figheight()
    left, bottom = column * _CELL[0] + (_CELL[0] - _CIRCLE) / 2, _FOOT + line * _CELL[1] + _BASE
    return drawn.add_axes((left / width, bottom / height, _CIRCLE / width, _CIRCLE / height), projection="polar")


def _radar_panel(polar: Any, runs: Sequence[Results], cut: str, labels: Mapping[str, str], end: float) -> None:
    """Draw one cut: the null distribution, then a line per model."""
    probes = [probe for probe in labels if any(probe in rows_of(run, cut) for run in runs)]
    turn = [2 * math.pi * i / max(len(probes), 1) for i in range(len(probes))]
    polar.set_theta_offset(math.pi / 2)
    polar.set_theta_direction(-1)
    polar.set_ylim(0, end)
    ticks = axis_rings(end)
    polar.set_rgrids(ticks, [f"{tick:g}" for tick in ticks], angle=180 / max(len(probes), 1), fontsize=7, color=FAINT)
    polar.set_xticks(turn, [""] * len(turn))
    polar.grid(color=GRID, linewidth=0.7)
    polar.spines["polar"].set_color(GRID)
    for angle, probe in zip(turn, probes, strict=True):
        words = "\n".join(shorten(part, 15) for part in labels[probe].split(" ", 1))
        across = "center" if abs(math.sin(angle)) < 0.1 else "left" if math.sin(angle) > 0 else "right"
        upright = "bottom" if math.cos(angle) > 0.9 else "top" if math.cos(angle) < -0.9 else "center"
        polar.text(angle, end * 1.06, words, ha=across, va=upright, fontsize=8.5)
    above = 1 + 0.55 / _CIRCLE
    polar.text(
        0.5,
        above + 0.06,
        shorten(cut_label(cut), 40),
        transform=polar.transAxes,
        ha="center",
        fontsize=10.5,
        fontweight="bold",
    )
    value = runs[0]["composites"].get(cut) or {}
    if len(runs) == 1 and value.get("value") is not None:
        null = f"null mean {number(value['null_mean'])}"
        words = f"composite {number(value['value'])}, {null}: severity {value['severity'] or DASH}"
        polar.text(0.5, above, words, transform=polar.transAxes, ha="center", fontsize=8.5, color=FAINT)
    if not probes:
        return
    for key, how in (("null_p95", {"linewidth": 0}), ("null_mean", {"linestyle": (0, (4, 3)), "linewidth": 0.9})):
        ring = [max((rows_of(r, cut).get(p, {}).get(key) or 0.0) for r in runs) for p in probes]
        polar.plot(_closed(turn), _closed(ring), color=FAINT, **how)
        if key == "null_p95":
            polar.fill(turn, ring, color=CHANCE, alpha=0.6, linewidth=0)
    for place, run in enumerate(runs):
        _radar_line(polar, [rows_of(run, cut).get(p, {}) for p in probes], turn, LINES[place % len(LINES)])


def _radar_line(polar: Any, rows: Sequence[Mapping[str, Any]], turn: Sequence[float], colour: str) -> None:
    """Draw one model's line; a probe without a value is a gap, with a small cross at the centre."""
    raws = [row.get("raw") for row in rows]
    line = [math.nan if raw is None else raw for raw in raws]
    polar.plot(_closed(turn), _closed(line), color=colour, linewidth=1.7)
    if None not in raws:
        polar.fill(turn, line, color=colour, alpha=0.10, linewidth=0)
    for angle, raw, row in zip(turn, raws, rows, strict=True):
        if raw is None:
            polar.plot([angle], [0.02 * polar.get_ylim()[1]], "x", color=colour, markersize=5)
        else:
            face = colour if row.get("significant") else "white"
            polar.plot([angle], [raw], "o", markersize=5, markerfacecolor=face, markeredgecolor=colour, zorder=5)


def _radar_legend(drawn: Figure, runs: Sequence[Results]) -> None:
    """Explain area, points and lines below the panels."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks: list[Any] = []
    if len(runs) > 1:
        marks += [
            Line2D([], [], color=LINES[i % len(LINES)], linewidth=1.7, label=shorten(model_name(run), 28))
            for i, run in enumerate(runs)
        ]
    point: dict[str, Any] = {"marker": "o", "linestyle": "", "markeredgecolor": LINES[0], "markersize": 5}
    marks += [
        Patch(color=CHANCE, alpha=0.6, linewidth=0, label="null distribution, up to its 95th percentile"),
        Line2D([], [], color=FAINT, linestyle=(0, (4, 3)), linewidth=0.9, label="null mean"),
        Line2D([], [], markerfacecolor=LINES[0], label="significant", **point),
        Line2D([], [], markerfacecolor="white", label="not significant", **point),
    ]
    drawn.legend(
        handles=marks, loc="lower center", ncols=4 if drawn.get_figwidth() > 6 else 2, frameon=False, fontsize=8
    )
