"""Group means as a heatmap: groups by probes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.report.figures.style import FAINT, INK, figure, head, save, shorten, style
from fp2.report.reading import (
    cut_label,
    group_order,
    number,
    plain,
    primary_scorer,
    probe_labels,
    rows_of,
    scorer_label,
)
from fp2.report.suppress import MIN_CELL, suppress_small_cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Results = Mapping[str, Any]


def heatmap(results: Results, cut: str, path: Path) -> Path:
    """Draw the primary scorer's mean of each group of `cut` under each probe (rows groups, columns probes).

    Each group is labelled with its number of subjects. Colours diverge around 0 for scores of both signs, and run over
    the range of the score otherwise. ▼ and ▲ mark the pair with the largest |T| where the disparity is significant.
    Groups below the reporting minimum are hatched and blank.
    """
    shown = suppress_small_cells(results)
    rows, groups, labels = rows_of(shown, cut), group_order(shown, cut), probe_labels(shown)
    cells = {(probe, group["group"]): group for probe, row in rows.items() for group in row["groups"]}
    colours, low, high = _scale(shown, [cell["mean"] for cell in cells.values() if cell["mean"] is not None])
    with style():
        drawn = figure(3.1 + 1.08 * max(len(rows), 3), 2.0 + 0.42 * max(len(groups), 2))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((2.2 / width, 0.95 / height, 1 - 3.0 / width, 1 - 1.85 / height))
        for x, (probe, row) in enumerate(rows.items()):
            for y, group in enumerate(groups):
                _cell(axes, x, y, cells.get((probe, group)), row, lambda mean: colours((mean - low) / (high - low)))
        axes.set(xlim=(0, len(rows)), ylim=(len(groups), 0))
        axes.set_xticks(
            [x + 0.5 for x in range(len(rows))], [shorten(labels[p], 16).replace(" ", "\n", 1) for p in rows]
        )
        axes.set_yticks([y + 0.5 for y in range(len(groups))], [_group_label(shown, cut, group) for group in groups])
        axes.tick_params(length=0, labelsize=8.5, colors=INK)
        axes.spines[:].set_visible(False)
        _colour_bar(drawn, axes, colours, low, high)
        scorer = scorer_label(primary_scorer(results))
        head(drawn, f"Mean {scorer} by {shorten(cut_label(cut), 40)} and probe", [results])
        note = f"▼ worse, ▲ better: clearest pair if significant. Hatched: fewer than {MIN_CELL} subjects, not shown."
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


def _group_label(results: Results, cut: str, group: str) -> str:
    """Return a group's name with its number of subjects."""
    size = results["dataset"]["groups"].get(cut, {}).get(group, {}).get("n_subjects")
    return shorten(plain(group), 20) + (f" (n={size})" if size is not None else "")


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
