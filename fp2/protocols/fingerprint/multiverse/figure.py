"""The figure of a specification curve: estimates with intervals above, choices as a dot matrix below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D

from fp2.protocols.fingerprint.multiverse.words import CHOICES, claim_label, level_words, verdict_label
from fp2.report.figures.style import FAINT, GRID, INK, VERDICT_MARKS, figure, head, save, shorten, style
from fp2.report.reading import cut_label, number, plain, probability, probe_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _LEFT, _RIGHT, _TOP, _CURVE, _LINE, _FOOT = 9.0, 2.3, 0.25, 1.5, 2.6, 0.2, 0.65
_MARKS = {
    **VERDICT_MARKS,
    "significant": VERDICT_MARKS["biased"],
    "not_significant": VERDICT_MARKS["no_difference_found"],
}


def draw_curve(
    row: Mapping[str, Any], about: Mapping[str, Any], block: Mapping[str, Any], results: Mapping[str, Any], path: Path
) -> Path:
    """Draw one row of the block `multiverse` as PNG or SVG; `about` is the entry of its cut."""
    pairs = zip(row["points"], about["specifications"], strict=True)
    kept = sorted((pair for pair in pairs if pair[0]["status"] == "ok"), key=lambda pair: pair[0].get("estimate", 0.0))
    own = next((k for k, (point, _) in enumerate(kept) if point is row["points"][0]), None)
    lines = _matrix_lines(about, [specification for _, specification in kept])
    with style():
        tall = _LINE * len(lines)
        drawn = figure(_WIDTH, _TOP + _CURVE + 0.15 + tall + _FOOT)
        height = drawn.get_figheight()
        left, wide = _LEFT / _WIDTH, 1 - (_LEFT + _RIGHT) / _WIDTH
        above = drawn.add_axes((left, (_FOOT + tall + 0.15) / height, wide, _CURVE / height))
        below = drawn.add_axes((left, _FOOT / height, wide, max(tall, 0.01) / height))
        _estimates(above, [point for point, _ in kept], own)
        _matrix(below, lines, [specification for _, specification in kept], own)
        label = claim_label(row, probe_labels(results))
        head(
            drawn,
            f"Specification curve: {shorten(plain(label), 40)} by {shorten(cut_label(row['cut']), 40)}",
            [results],
        )
        _words(drawn, row)
        return save(drawn, path)


def _estimates(axes: Axes, points: Sequence[Mapping[str, Any]], own: int | None) -> None:
    """Draw the estimates in order, with their intervals, coloured by verdict."""
    size = 4.2 if len(points) <= 80 else 2.4
    for x, point in enumerate(points):
        colour, marker, filled = _MARKS[point["verdict"]]
        if "low" in point:
            axes.plot((x, x), (point["low"], point["high"]), color=colour, linewidth=0.9, alpha=0.45, zorder=2)
        axes.plot(
            x, point.get("estimate", 0.0), marker, color=colour, markersize=size, zorder=3,
            markerfacecolor=colour if filled else "white",
        )  # fmt: skip
    axes.axhline(0, color=FAINT, linewidth=0.8)
    axes.axhline(1, color=FAINT, linewidth=0.8, linestyle=":")
    if own is not None:
        axes.axvspan(own - 0.5, own + 0.5, color=GRID, alpha=0.7, zorder=0, linewidth=0)
    axes.set(xlim=(-0.7, len(points) - 0.3), xticks=[])
    axes.set_ylabel("gap, multiples of the\nsmallest effect of interest", fontsize=8)
    seen = list(dict.fromkeys(point["verdict"] for point in points))
    handles = [
        Line2D([], [], linestyle="", marker=_MARKS[one][1], color=_MARKS[one][0], label=verdict_label(one),
               markerfacecolor=_MARKS[one][0] if _MARKS[one][2] else "white")
        for one in sorted(seen, key=list(_MARKS).index)
    ]  # fmt: skip
    axes.legend(handles=handles, frameon=False, fontsize=7.5, loc="upper left")


def _matrix_lines(
    about: Mapping[str, Any], specifications: Sequence[Mapping[str, Any]]
) -> list[tuple[str, Any]]:  # fmt: skip
    """Return the lines of the matrix: every level of every choice that occurs among the specifications drawn."""
    return [
        (name, level)
        for name, levels in about["choices"].items()
        for level in levels
        if any(one[name] == level for one in specifications)
    ]


def _matrix(
    axes: Axes, lines: Sequence[tuple[str, Any]], specifications: Sequence[Mapping[str, Any]], own: int | None
) -> None:
    """Draw a dot where a specification has the level of a line."""
    size = 3.2 if len(specifications) <= 80 else 1.8
    for y, (name, level) in enumerate(lines):
        first = y == 0 or lines[y - 1][0] != name
        if first and y:
            axes.axhline(y - 0.5, color=GRID, linewidth=0.8)
        if first:
            axes.annotate(
                CHOICES[name], (0, y), (-_LEFT * 72 + 12, 0), xycoords=("axes fraction", "data"),
                textcoords="offset points", va="center", fontsize=7.5, fontweight="bold",
            )  # fmt: skip
        here = [x for x, one in enumerate(specifications) if one[name] == level]
        axes.plot(here, [y] * len(here), "o", color=INK, markersize=size)
    if own is not None and lines:
        axes.axvspan(own - 0.5, own + 0.5, color=GRID, alpha=0.7, zorder=0, linewidth=0)
    axes.set(xlim=(-0.7, len(specifications) - 0.3), ylim=(len(lines) - 0.5, -0.5), xticks=[])
    axes.set_yticks(range(len(lines)), [shorten(plain(level_words(*line)), 22) for line in lines], fontsize=7.5)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def _words(drawn: Figure, row: Mapping[str, Any]) -> None:
    """Write the verdict's share and the joint tests above the curve, and how to read it below."""
    width, height = drawn.get_figwidth(), drawn.get_figheight()
    n, share, chance = row["n_computed"], row["share_significant"], row["share_significant_null"]
    said = (
        f"{row['n_same_verdict']} of {n} specifications: {verdict_label(row['verdict'])}, as in the run. Significant "
        f"one by one: {share:.0%} ({chance:.0%} by chance; joint p {probability(row['share_p'])})."
    )
    median = (
        f"Joint p of the median p-value: {probability(row['median_p'])}. Median estimate "
        f"{number(row['median_estimate'], 2)}; median gap, noise included: {number(row['median_gap'], 2)} "
        f"({number(row['median_gap_null'], 2)} by chance)."
    )
    drawn.text(0.15 / width, 1 - 0.98 / height, said, fontsize=8.5, color=INK)
    drawn.text(0.15 / width, 1 - 1.17 / height, median, fontsize=8.5, color=INK)
    level = "90 %" if row["probe"] is None else "95 %"
    note = (
        f"Intervals: {level}. Verdicts: corrected within the specification. Grey column: the run's own specification. "
        "Dotted line: the smallest effect of interest.\nJoint p: permutation of group labels across subjects, the same "
        "for every specification; before correction over the curves."
    )
    drawn.text(0.15 / width, 0.15 / height, note, fontsize=7.5, color=FAINT, linespacing=1.4)
