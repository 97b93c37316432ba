"""Disparities with their confidence intervals, beside their null distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.report.figures.style import CHANCE, FAINT, GRID, INK, VERDICT_MARKS, figure, head, save, shorten, style
from fp2.report.reading import cut_label, probe_labels, rows_of, scorer_label, scorer_names, verdict_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Results = Mapping[str, Any]
_COLUMNS = 2


def intervals(results: Results, path: Path, scorer: str | None = None) -> Path:
    """Draw each disparity with its interval and null distribution, a panel per cut, with the verdict in words.

    The grey bar runs from 0 to the 95th percentile of the null distribution, with a tick at its mean; the marker is the
    raw max - min, the line its 95 % interval. `scorer` is the first one with rows by default.
    """
    scorer = scorer or scorer_names(results)[0]
    cuts, labels = list(results["cuts"]), probe_labels(results)
    panels = {cut: rows_of(results, cut, scorer) for cut in cuts}
    rows = [row for panel in panels.values() for row in panel.values()]
    largest = max(
        (row[key] for row in rows for key in ("ci_high", "raw", "null_p95") if row[key] is not None), default=0.1
    )
    columns = min(_COLUMNS, len(cuts))
    lines = math.ceil(len(cuts) / columns)
    depth = max(len(panel) for panel in panels.values())
    with style():
        drawn = figure(5.6 * columns, (0.36 * depth + 0.75) * lines + 1.65)
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        grid = drawn.add_gridspec(
            lines, columns, left=1.5 / width, right=1 - 1.45 / width, top=1 - 1.1 / height, bottom=0.95 / height,
            wspace=3.1 / ((width - 2.95 - 3.1 * (columns - 1)) / columns), hspace=0.75 / (0.36 * depth + 0.1),
        )  # fmt: skip
        for place, cut in enumerate(cuts):
            axes = drawn.add_subplot(grid[place // columns, place % columns])
            _interval_panel(axes, panels[cut], labels, largest * 1.04)
            axes.set_title(shorten(cut_label(cut), 40), loc="left")
        what = shorten(scorer_label(scorer), 24).capitalize()
        head(drawn, f"{what} disparity (max \u2212 min) and its null distribution", [results])
        _interval_legend(drawn)
        return save(drawn, path)


def _interval_panel(axes: Axes, rows: Mapping[str, Mapping[str, Any]], labels: Mapping[str, str], end: float) -> None:
    """Draw one cut: a line per probe, the first on top, with the verdict at the right."""
    for y, row in enumerate(rows.values()):
        colour, marker, filled = VERDICT_MARKS.get(row["verdict"] or "", (FAINT, "o", False))
        if row["raw"] is not None:
            axes.barh(y, row["null_p95"] or 0.0, height=0.56, color=CHANCE, alpha=0.6, linewidth=0)
            axes.plot([row["null_mean"] or 0.0] * 2, [y - 0.28, y + 0.28], color=FAINT, linewidth=1)
            if row["ci_low"] is not None and row["ci_high"] is not None:
                axes.plot([row["ci_low"], row["ci_high"]], [y, y], color=colour, linewidth=1.8, solid_capstyle="butt")
            face = colour if filled else "white"
            axes.plot(row["raw"], y, marker, color=colour, markerfacecolor=face, markersize=6, zorder=5)
        words = verdict_words(row["verdict"])
        axes.text(
            1.02,
            y,
            words,
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize=8,
            color=INK,
            fontweight="bold" if row["verdict"] == "biased" else "normal",
        )
    axes.set(xlim=(0, end), ylim=(max(len(rows), 1) - 0.5, -0.5))
    axes.set_yticks(range(len(rows)), [shorten(labels[probe], 18) for probe in rows], fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def _interval_legend(drawn: Figure) -> None:
    """Explain bar, tick, marker and line below the panels."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks: list[Any] = [
        Patch(color=CHANCE, alpha=0.6, linewidth=0, label="null, up to 95th percentile"),
        Line2D([], [], color=FAINT, marker="|", linestyle="", markersize=9, label="null mean"),
        Line2D([], [], color=INK, linewidth=1.8, label="95 % interval"),
    ]
    for verdict, (colour, marker, filled) in VERDICT_MARKS.items():
        face = colour if filled else "white"
        point = Line2D([], [], color=colour, marker=marker, markerfacecolor=face, linestyle="", markersize=6)
        point.set_label(verdict_words(verdict))
        marks.append(point)
    drawn.legend(
        handles=marks, loc="lower center", ncols=4 if drawn.get_figwidth() > 8 else 3, frameon=False, fontsize=8
    )
