"""The figures of disparities: the fingerprint as a radar, intervals beside the null distribution, group means."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.report.figures.style import (
    CHANCE,
    FAINT,
    GRID,
    INK,
    LINES,
    axis_end,
    axis_rings,
    figure,
    head,
    save,
    shorten,
    style,
)
from fp2.report.reading import (
    MIN_CELL,
    cut_label,
    group_order,
    model_name,
    number,
    plain,
    primary_scorer,
    probe_labels,
    rows_of,
    scorer_label,
    scorer_names,
    severity_words,
    suppress_small_cells,
    verdict_words,
)
from fp2.verdicts import Verdict, mark_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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
        One run, or several.
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


def radar_axes(axes: Axes, results: Results, cut: str) -> None:
    """Draw one cut of a run on polar axes of the caller's: see `radar`."""
    rows = rows_of(results, cut)
    end = axis_end([row[key] for row in rows.values() for key in ("raw", "null_p95")])
    _radar_panel(axes, [results], cut, probe_labels(results), end)


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
        severity = severity_words(value["severity"], value["value"], runs[0]["complete"])
        words = f"composite {number(value['value'])}, {null}: severity {severity}"
        polar.text(0.5, above, words, transform=polar.transAxes, ha="center", fontsize=8.5, color=FAINT)
    if not probes:
        return
    for key, how in (("null_p95", {"linewidth": 0}), ("null_mean", {"linestyle": (0, (4, 3)), "linewidth": 0.9})):
        ring = [max((rows_of(r, cut).get(p, {}).get(key) or 0.0) for r in runs) for p in probes]
        polar.plot(_closed(turn), _closed(ring), color=FAINT, **how)
        if key == "null_p95":
            polar.fill(turn, ring, color=CHANCE, alpha=0.6, linewidth=0)
    for place, run in enumerate(runs):
        if rows := rows_of(run, cut):  # a sweep over cuts: a run has its own only
            _radar_line(polar, [rows.get(p, {}) for p in probes], turn, LINES[place % len(LINES)])


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
            _interval_panel(axes, panels[cut], labels, largest * 1.04 or 1.0)
            axes.set_title(shorten(cut_label(cut), 40), loc="left")
        what = shorten(scorer_label(scorer), 24).capitalize()
        head(drawn, f"{what} disparity (max \u2212 min) and its null distribution", [results])
        _interval_legend(drawn)
        return save(drawn, path)


def _interval_panel(axes: Axes, rows: Mapping[str, Mapping[str, Any]], labels: Mapping[str, str], end: float) -> None:
    """Draw one cut: a line per probe, the first on top, with the verdict at the right."""
    for y, row in enumerate(rows.values()):
        colour, marker, filled, *_ = mark_of(row["verdict"])
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
            fontweight="bold" if mark_of(row["verdict"]).emphasised else "normal",
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
    for verdict in (verdict for verdict in Verdict if verdict.is_tested):
        colour, marker, filled, *_ = verdict.mark
        face = colour if filled else "white"
        point = Line2D([], [], color=colour, marker=marker, markerfacecolor=face, linestyle="", markersize=6)
        point.set_label(verdict.label)
        marks.append(point)
    drawn.legend(
        handles=marks, loc="lower center", ncols=4 if drawn.get_figwidth() > 8 else 3, frameon=False, fontsize=8
    )


def means_axes(axes: Axes, row: Mapping[str, Any], min_cell: int = MIN_CELL) -> None:
    """Draw the group means of one disparity on axes of the caller's, and the interval of their difference.

    The last line starts at the smallest mean of the groups that are compared: the point is the disparity (so it is at
    the largest mean), the line its interval, the bar the null distribution up to its 95th percentile. Hollow: groups
    that are not compared. Groups of fewer than `min_cell` subjects are left out.
    """
    groups = [g for g in row["groups"] if g["mean"] is not None and g["n_subjects"] >= min_cell]
    for y, group in enumerate(groups):
        axes.axhline(y, color=GRID, linewidth=0.6, zorder=0)
        face = LINES[0] if group["eligible"] else "white"
        axes.plot(group["mean"], y, "o", color=LINES[0], markerfacecolor=face, markersize=6)
    names = [f"{shorten(plain(group['group']), 24)} (n={group['n_subjects']})" for group in groups]
    compared = [group["mean"] for group in row["groups"] if group["eligible"]]
    if row["raw"] is not None:
        y, start = len(groups), min(compared)
        colour, marker, filled, *_ = mark_of(row["verdict"])
        axes.barh(y, row["null_p95"] or 0.0, left=start, height=0.5, color=CHANCE, alpha=0.6, linewidth=0)
        if row["ci_low"] is not None and row["ci_high"] is not None:
            axes.plot([start + row["ci_low"], start + row["ci_high"]], [y, y], color=colour, linewidth=1.8)
        axes.plot(start + row["raw"], y, marker, color=colour, markerfacecolor=colour if filled else "white")
        names.append("disparity")
        axes.set_title(f"disparity {number(row['raw'])}: {verdict_words(row['verdict'])}", loc="left", fontsize=10)
    axes.use_sticky_edges = False  # a point at the end of the bar is drawn whole
    axes.autoscale_view()
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names, fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("group mean; line: smallest mean plus the interval of the disparity; bar: by chance", fontsize=8)


def _large_groups(results: Results, cut: str, min_cell: int) -> list[str]:
    """Return the groups of at least `min_cell` subjects, in order."""
    sizes = results["dataset"]["groups"].get(cut, {})
    return [g for g in group_order(results, cut) if sizes.get(g, {}).get("n_subjects", 0) >= min_cell]


def heatmap_axes(axes: Axes, results: Results, cut: str, min_cell: int = MIN_CELL) -> tuple[Any, float, float]:
    """Draw the heat map of one cut on axes of the caller's (see `heatmap`); return its colour map, low and high."""
    shown = suppress_small_cells(results, min_cell)
    rows, labels, sizes = rows_of(shown, cut), probe_labels(shown), shown["dataset"]["groups"].get(cut, {})
    groups = _large_groups(shown, cut, min_cell)
    cells = {(probe, group["group"]): group for probe, row in rows.items() for group in row["groups"]}
    colours, low, high = _scale(shown, [cell["mean"] for cell in cells.values() if cell["mean"] is not None])
    for x, (probe, row) in enumerate(rows.items()):
        for y, group in enumerate(groups):
            _cell(axes, x, y, cells.get((probe, group)), row, lambda mean: colours((mean - low) / (high - low)))
    axes.set(xlim=(0, len(rows)), ylim=(max(len(groups), 1), 0))
    axes.set_xticks([x + 0.5 for x in range(len(rows))], [shorten(labels[p], 16).replace(" ", "\n", 1) for p in rows])
    axes.set_yticks(
        [y + 0.5 for y in range(len(groups))],
        [f"{shorten(plain(group), 20)} (n={sizes[group]['n_subjects']})" for group in groups],
    )
    axes.tick_params(length=0, labelsize=8.5, colors=INK)
    axes.spines[:].set_visible(False)
    return colours, low, high


def heatmap(results: Results, cut: str, path: Path, min_cell: int = MIN_CELL) -> Path:
    """Draw the primary scorer's mean of each group of `cut` under each probe (rows groups, columns probes).

    Each group is labelled with its number of subjects. Colours diverge around 0 for scores of both signs, and run over
    the range of the score otherwise. ▼ and ▲ mark the pair with the largest |T| where the disparity is significant.
    Groups of fewer than `min_cell` subjects are not drawn; a group with fewer answered subjects has a hatched cell.
    """
    every, groups = group_order(results, cut), _large_groups(results, cut, min_cell)
    with style():
        drawn = figure(3.1 + 1.08 * max(len(rows_of(results, cut)), 3), 2.0 + 0.42 * max(len(groups), 2))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((2.2 / width, 0.95 / height, 1 - 3.0 / width, 1 - 1.85 / height))
        colours, low, high = heatmap_axes(axes, results, cut, min_cell)
        _colour_bar(drawn, axes, colours, low, high)
        scorer = scorer_label(primary_scorer(results))
        head(drawn, f"Mean {scorer} by {shorten(cut_label(cut), 40)} and probe", [results])
        note = (
            f"▼ worse, ▲ better: clearest pair if significant. Hatched: fewer than {min_cell} subjects with an answer."
        )
        if n_small := len(every) - len(groups):
            note += f"\nNot drawn: {n_small} group(s) of fewer than {min_cell} subjects."
        drawn.text(0.15 / width, 0.15 / height, note, fontsize=7.5, color=FAINT)
        return save(drawn, path)


def _scale(results: Results, means: Sequence[float]) -> tuple[Any, float, float]:
    """Return the colour map and the ends of its scale: symmetric about 0 for scores of both signs, else the range."""
    import matplotlib

    primary = primary_scorer(results)
    low, high = next((s.get("value_range") or [-1.0, 1.0] for s in results["scorers"] if s["name"] == primary), (-1, 1))
    if low < 0 < high:
        limit = math.ceil(max([*map(abs, means), 0.2]) * 5) / 5
        return matplotlib.colormaps["PuOr"], -limit, limit
    return matplotlib.colormaps["Purples"], float(low), float(high)


def _cell(
    axes: Axes, x: int, y: int, cell: Mapping[str, Any] | None, row: Mapping[str, Any], colour: Callable[[float], Any]
) -> None:
    """Draw one cell: the mean, hatching where it is suppressed, or a dash where there is none."""
    from matplotlib.patches import Rectangle

    mean = None if cell is None else cell["mean"]
    hidden = cell is not None and cell["suppressed"]
    fill: Any = colour(mean) if mean is not None else "#f2f3f5"
    axes.add_patch(Rectangle((x, y), 1, 1, facecolor=fill, edgecolor="white", linewidth=1.5))
    if hidden:
        axes.add_patch(Rectangle((x, y), 1, 1, fill=False, edgecolor="#9aa0a8", linewidth=0, hatch="////"))
        return
    if cell is None or mean is None:
        axes.text(x + 0.5, y + 0.5, number(None), ha="center", va="center", color=FAINT)
        return
    dark = 0.299 * fill[0] + 0.587 * fill[1] + 0.114 * fill[2] < 0.5
    ends = {row["worst_group"]: " ▼", row["best_group"]: " ▲"} if row["significant"] else {}
    words = number(mean, 2) + ends.get(cell["group"], "")
    axes.text(x + 0.5, y + 0.5, words, ha="center", va="center", color="white" if dark else INK, fontsize=9)


def _colour_bar(drawn: Figure, axes: Axes, colours: Any, low: float, high: float) -> None:
    """Draw the colour scale at the right edge."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    width = drawn.get_figwidth()
    box = axes.get_position()
    bar = drawn.add_axes((box.x1 + 0.14 / width, box.y0, 0.12 / width, box.height))
    scale = drawn.colorbar(ScalarMappable(Normalize(low, high), colours), cax=bar)
    scale.outline.set_visible(False)
    ticks = [low, (low + high) / 2, high]
    scale.set_ticks(ticks, labels=[number(tick, 1) for tick in ticks])
    scale.ax.tick_params(labelsize=8, length=0)
