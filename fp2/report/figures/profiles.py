"""Two fingerprints side by side: the centred group means of two runs under each probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.report.figures.style import FAINT, GRID, INK, LINES, figure, save, shorten, style
from fp2.report.reading import CALIBRATION_SHORT, cut_label, number, plain, scorer_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_GROUPS = 24
_LEFT, _RIGHT, _COLUMN, _HEAD, _FOOT, _TITLE, _LINE, _GAP = 1.75, 0.25, 1.4, 1.4, 0.55, 0.5, 0.24, 0.42


def profile_figure(block: Mapping[str, Any], path: Path) -> Path:
    """Draw the result of `fp2.runs.compare.compare`: a row of panels per cut, a panel per probe, a line per group."""
    rows = block["profiles"]
    cuts = list(dict.fromkeys(row["cut"] for row in rows))
    probes = [probe for probe in block["probes"] if any(row["probe"] == probe for row in rows)]
    groups = {cut: _groups(rows, cut) for cut in cuts}
    end = 1.1 * max([abs(row[run]) for row in rows for run in ("first", "second")] + [0.01])
    body = sum(_TITLE + _LINE * len(groups[cut]) + _GAP for cut in cuts)
    with style():
        drawn = figure(max(_LEFT + _COLUMN * len(probes) + _RIGHT, 6.5), _HEAD + body + _FOOT)
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        column = (width - _LEFT - _RIGHT) / len(probes)
        _head(drawn, block)
        top = height - _HEAD
        for cut in cuts:
            distances = _distances(block, cut)
            drawn.text(0.15 / width, (top - 0.13) / height, f"by {shorten(cut_label(cut), 60)}", fontweight="bold")
            top -= _TITLE
            tall = _LINE * len(groups[cut])
            for x, probe in enumerate(probes):
                left = (_LEFT + x * column) / width
                axes = drawn.add_axes((left, (top - tall) / height, (column - 0.14) / width, tall / height))
                own = {row["group"]: row for row in rows if row["cut"] == cut and row["probe"] == probe}
                _panel(axes, own, groups[cut], end, first=x == 0)
                distance, differs = distances.get(probe, (None, False))
                axes.set_title(
                    f"{shorten(plain(block['probes'][probe]), 18)}\n{number(distance)}{' *' if differs else ''}",
                    fontsize=7.5, fontweight="bold" if differs else "normal", pad=3,
                )  # fmt: skip
            top -= tall + _GAP
        where = "images with a value in both runs" if block["samples"] == "shared" else "each run's own subjects"
        note = (
            f"Group means over subjects less their mean over groups, of {where}; groups of at "
            "least 10 subjects.\nUnder each probe: the distance of the two profiles; * significant after Holm's "
            "correction over probes and cuts."
        )
        drawn.text(0.15 / width, 0.12 / height, note, fontsize=7.5, color=FAINT, linespacing=1.4)
        return save(drawn, path)


def _groups(rows: Sequence[Mapping[str, Any]], cut: str) -> list[str]:
    """Return the groups of a cut in order, the largest ones where there are many."""
    sizes = {row["group"]: row["n_subjects"] for row in rows if row["cut"] == cut}
    kept = set(sorted(sizes, key=lambda group: -sizes[group])[:MOST_GROUPS])
    return sorted(kept)


def _distances(block: Mapping[str, Any], cut: str) -> dict[str, tuple[float, bool]]:
    """Return each probe's distance in a cut, and whether it is significant."""
    alpha = block["settings"]["alpha"]
    row = next(row for row in block["distances"] if row["cut"] == cut and row["scorer"] == block["primary"])
    return {entry["probe"]: (entry["distance"], entry["adjusted_p"] <= alpha) for entry in row["by_probe"]}


def _head(drawn: Figure, block: Mapping[str, Any]) -> None:
    width, height = drawn.get_figwidth(), drawn.get_figheight()
    title = f"Two fingerprints: {scorer_label(block['primary'])}"
    drawn.text(0.15 / width, 1 - 0.32 / height, title, fontsize=12.5, fontweight="bold")
    shared = block["shared"]
    line = f"{shared['n_subjects']:,} subjects and {shared['n_images']:,} images in both runs"
    if block["samples"] == "independent":
        line = f"{shared['n_subjects_first']:,} and {shared['n_subjects_second']:,} subjects, none in both runs"
    drawn.text(0.15 / width, 1 - 0.55 / height, line, fontsize=8.5, color=FAINT)
    for y, (run, colour, marker) in enumerate((("first", LINES[0], "●"), ("second", LINES[1], "◆"))):
        name = shorten(plain(block[run]["name"]), 60)
        drawn.text(0.15 / width, 1 - (0.76 + 0.19 * y) / height, marker, fontsize=9, color=colour)
        drawn.text(0.33 / width, 1 - (0.76 + 0.19 * y) / height, name, fontsize=8.5, color=INK)
    if block["first"]["calibration"] or block["second"]["calibration"]:
        drawn.text(0.15 / width, 1 - 1.14 / height, CALIBRATION_SHORT, fontsize=8, color=FAINT, style="italic")


def _panel(axes: Axes, rows: Mapping[str, Mapping[str, Any]], groups: Sequence[str], end: float, first: bool) -> None:
    """Draw one probe: two points per group, joined by a thin line."""
    axes.axvline(0, color=GRID, linewidth=1)
    for y, group in enumerate(groups):
        axes.axhline(y, color=GRID, linewidth=0.5, zorder=0)
        if group not in rows:
            continue
        a, b = rows[group]["first"], rows[group]["second"]
        axes.plot((a, b), (y, y), color=FAINT, linewidth=1)
        axes.plot(a, y, "o", color=LINES[0], markersize=5)
        axes.plot(b, y, "D", color=LINES[1], markersize=4.3)
    axes.set(xlim=(-end, end), ylim=(len(groups) - 0.5, -0.5))
    axes.set_yticks(range(len(groups)), [shorten(plain(group), 24) for group in groups] if first else [])
    axes.tick_params(length=0, labelsize=7.5)
    axes.locator_params(axis="x", nbins=3)
    axes.spines["left"].set_visible(False)
