"""The power of the test by the number of subjects in each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fp2.report.figures.style import FAINT, GRID, INK, LINES, figure, save, shorten, style
from fp2.report.reading import cut_label, plain, scorer_label


def power_figure(
    curves: Sequence[Mapping[str, Any]], block: Mapping[str, Any], row: Mapping[str, Any], path: Path
) -> Path:
    """Draw a line per number of images each, the stated power, and the number of subjects that reaches it.

    Parameters
    ----------
    curves
        `images, needed, subjects, power` of each line.
    block, row
        The result of `fp2 plan --power`, and its row that is drawn.
    path
        A PNG or SVG file.
    """
    with style():
        drawn = figure(7.2, 4.2)
        axes = drawn.add_axes((0.1, 0.15, 0.86, 0.63))
        for place, curve in enumerate(curves):
            colour, k = LINES[place % len(LINES)], curve["images"]
            needed = "over a million" if curve["needed"] is None else f"{curve['needed']:,}"
            label = f"{k} image{'s' if k > 1 else ''} each: {needed} subjects"
            axes.plot(curve["subjects"], curve["power"], color=colour, linewidth=1.6, label=label)
            if curve["needed"] is not None:
                axes.plot(curve["needed"], block["power"], "o", color=colour, markersize=5)
        axes.axhline(block["power"], color=FAINT, linewidth=0.8, linestyle=":")
        axes.set(xscale="log", ylim=(0, 1.02), xlabel="subjects in each group", ylabel="power")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.xaxis.set_minor_formatter(lambda value, _: "")
        axes.grid(color=GRID, linewidth=0.6)
        axes.legend(frameon=False, loc="lower right", fontsize=8.5)
        title = f"Power to find a gap of {block['gap']:g}"
        drawn.text(0.02, 0.93, title, fontsize=12.5, fontweight="bold", color=INK)
        what = [scorer_label(block["scorer"]), f"by {shorten(cut_label(row['cut']), 40)}"]
        what += [shorten(plain(row["probe"]), 30)] if row["probe"] else []
        icc = "" if row["icc"] is None else f", ICC {row['icc']:.2f}"
        line = f"{' · '.join(what)} · {row['groups']} groups · SD {row['sd']:.3f}{icc}"
        drawn.text(0.02, 0.88, line, fontsize=8.5, color=FAINT)
        level = f"level {block['level']:.2g}: {block['alpha']:g} over a family of {block['family_size']}"
        drawn.text(0.02, 0.83, f"{level}; the outcome that needs the most subjects", fontsize=8.5, color=FAINT)
        return save(drawn, path)
