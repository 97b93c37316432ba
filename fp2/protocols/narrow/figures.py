"""Figures of the narrow tasks: what was found, and a task's score by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.protocols.fhibe.scores.figures import short_group
from fp2.report.figures.style import CHANCE, FAINT, GRID, LINES, figure, head, save, shorten, style
from fp2.report.reading import cut_label, number, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Results = Mapping[str, Any]
_ROW = 0.3


def tasks(block: Mapping[str, Any], results: Results, path: Path) -> Path:
    """Draw for each task and model the share of people found, and the mean score where it could be measured."""
    outcomes = block["outcomes"]
    with style():
        drawn = figure(9.2, 1.9 + 0.55 * len(outcomes))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((2.9 / width, 0.75 / height, 4.1 / width, 1 - 1.65 / height))
        for y, one in enumerate(outcomes):
            colour = LINES[0] if one["measurable"] else CHANCE
            axes.barh(y, one["found_share"], height=0.55, color=GRID)
            mean = one["means"].get(one["metric"])
            words = "not measurable here"
            if mean is not None:
                axes.plot(mean, y, "o", color=colour, markersize=7)
                words = f"{one['metric']} {number(mean, 2)}"
            says = f"{words} · found {one['found_share']:.0%}"
            axes.text(1.04, y, says, va="center", fontsize=8, color=colour if mean is not None else FAINT)
        axes.axvline(block["measurable_from"], color=FAINT, linewidth=0.8, linestyle=":")
        _bare(axes, len(outcomes))
        axes.set(xlim=(0, 1))
        axes.set_yticks(range(len(outcomes)), [shorten(plain(one["label"]), 44) for one in outcomes], fontsize=8)
        axes.set_xlabel("bar: share of people found · point: mean score over people", fontsize=8)
        head(drawn, "Narrow tasks: who was found, and how well", [results])
        return save(drawn, path)


def by_group(rows: Sequence[Mapping[str, Any]], results: Results, path: Path, title: str, axis: str) -> Path:
    """Draw a value and its interval for each group, cut under cut.

    Rows have `cut, group, n_subjects, value, low, high`.
    """
    places, labels, place, before = [], [], 0.0, None
    for row in rows:
        place += 1.0 if row["cut"] == before else 1.9
        places.append(place)
        labels.append(f"{shorten(short_group(row['group']), 34)}  (n={row['n_subjects']})")
        before = row["cut"]
    with style():
        drawn = figure(8.2, 1.7 + _ROW * (places[-1] + 1))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((3.0 / width, 0.7 / height, 1 - 3.4 / width, 1 - 1.55 / height))
        shown = None
        for y, row in zip(places, rows, strict=True):
            if row["cut"] != shown:
                label = cut_label(row["cut"])
                axes.text(-0.02, y - 0.95, label, transform=axes.get_yaxis_transform(), ha="right", va="center",
                          fontsize=8.5, fontweight="bold")  # fmt: skip
                shown = row["cut"]
            if row["low"] is not None:
                axes.plot([row["low"], row["high"]], [y, y], color=LINES[0], linewidth=1.6, alpha=0.5)
            axes.plot(row["value"], y, "o", color=LINES[0], markersize=5)
        ends = [row[key] for row in rows for key in ("low", "high", "value") if row[key] is not None]
        reach = max(max(ends) - min(ends), 0.1)
        low, high = max(min(ends) - 0.06 * reach, -0.02), min(max(max(ends), min(ends) + 0.1) + 0.06 * reach, 1.02)
        axes.set(xlim=(low, high), ylim=(places[-1] + 0.7, 0.4))
        axes.set_yticks(places, labels, fontsize=8)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_xlabel(axis, fontsize=8)
        head(drawn, shorten(title, 70), [results])
        return save(drawn, path)


def _bare(axes: Axes, n: int) -> None:
    axes.set(ylim=(n - 0.5, -0.5))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
