"""How the specification curves are shown: a table of the claims, a figure per cut, and what each choice does.

A figure has the estimates with intervals above, and the choices as a dot matrix below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from fp2.extension import (
    FAINT,
    GRID,
    INK,
    Block,
    Results,
    Section,
    Verdict,
    cut_label,
    figure,
    head,
    number,
    plain,
    probability,
    probe_labels,
    save,
    scorer_label,
    shorten,
    style,
    verdict_words,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import RenderableType


def picture(cut: str, place: int | None = None) -> str:
    """Return the file name of a curve's figure: of a cut's composite, or of its claim number `place`."""
    safe = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in cut)
    return f"multiverse_{safe}.png" if place is None else f"multiverse_{safe}_{place}.png"


class MultiverseSection(Section):
    """The claims of the primary scorer under every specification."""

    name = "multiverse"
    title = "Specification curves"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the claims by cut in words; they hold no number of a single group."""
        labels = probe_labels(results)
        cuts = []
        for about in block["cuts"]:
            rows = [_in_words(row, labels) for row in block["rows"] if row["cut"] == about["cut"]]
            choices = {
                CHOICES[name]: [level_words(name, level) for level in levels]
                for name, levels in about["choices"].items()
            }
            cuts.append({**about, "rows": rows, "choices": choices, "figure": picture(about["cut"])})
        return {
            "block": block,
            "cuts": cuts,
            "alts": {
                one["figure"]: f"Specification curve of {_first(block, one['cut'], labels)} by {cut_label(one['cut'])}"
                for one in cuts
            },
        }

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw the curve of every cut's composite, or of its one probe."""

        for about in block["cuts"]:
            row = _shown(block, about["cut"])
            if row["n_computed"]:
                yield draw_curve(row, about, results, folder / picture(about["cut"]))

    def further_figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw the curve of every claim as PNG and SVG."""

        for about in block["cuts"]:
            rows = [row for row in block["rows"] if row["cut"] == about["cut"]]
            for place, row in enumerate(rows, start=1):
                if row["n_computed"]:
                    name = folder / picture(about["cut"], place)
                    for path in (name, name.with_suffix(".svg")):
                        yield draw_curve(row, about, results, path)

    def lines(self, block: Block, results: Results, min_cell: int) -> list[RenderableType]:
        """Return a table of the claims: the verdict, how many specifications share it, and the joint tests."""
        labels = probe_labels(results)
        table = Table(title="specification curves", box=box.SIMPLE, title_justify="left", pad_edge=False)
        for name in ("claim", "verdict of the run"):
            table.add_column(name, overflow="fold")
        for name in ("same", "p ≤ α", "median", "joint p"):
            table.add_column(name, justify="right", no_wrap=True)
        for about in block["cuts"]:
            table.add_row(Text(f"by {cut_label(about['cut'])}", style="bold"))
            for row in (row for row in block["rows"] if row["cut"] == about["cut"]):
                said = _in_words(row, labels)
                joint = f"{probability(row['adjusted_share_p'])}, {probability(row['adjusted_median_p'])}"
                table.add_row(
                    Text(said["label"]), Text(said["verdict_label"]), said["same"], said["significant"],
                    number(row["median_estimate"], 2), joint,
                )  # fmt: skip
        text = (
            "same: specifications with the run's verdict; p ≤ α: significant one by one; median: of the estimates, in "
            "multiples of the smallest effect of interest; joint p: of that share, and of the median p, corrected"
        )
        warnings = [Text(plain(note), style="yellow") for note in block["warnings"]]
        return [table, Text(text, style="dim"), *warnings]


def _first(block: Block, cut: str, labels: Mapping[str, str]) -> str:
    return claim_label(_shown(block, cut), labels)


def _shown(block: Block, cut: str) -> Mapping[str, Any]:
    """Return the row whose curve is drawn: the composite's, which is the last one where there are several probes."""
    row: Mapping[str, Any] = [row for row in block["rows"] if row["cut"] == cut][-1]
    return row


def _in_words(row: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return a row with its parts in words."""
    n = row["n_computed"]
    share = row["share_significant"]
    return {
        **row,
        "label": plain(claim_label(row, labels)),
        "verdict_label": verdict_label(row["verdict"]),
        "same": f"{row['n_same_verdict']} of {n}" if n else "–",
        "direction": f"{row['n_same_direction']} of {row['n_compared_direction']}" if row["probe"] and n else "–",
        "significant": f"{share:.0%}" if share is not None else "–",
        "significant_null": f"{row['share_significant_null']:.0%}" if share is not None else "–",
        "found": [f"{verdict_label(name)} {count}" for name, count in row["verdicts"].items()],
        "left_out": [f"{count} {STATUSES[status]}" for status, count in row["not_computed"].items()],
        "levels": [
            {"choice": CHOICES[name], **level, "level": level_words(name, level["level"])}
            for name, levels in row["by_choice"].items()
            for level in levels
        ],
    }


COMPOSITE = "Composite"
CHOICES = {
    "scorer": "Scorer", "refusals": "Refused answers", "question": "Question", "unit": "What counts alike",
    "covariates": "Held equal", "min_subjects": "Smallest group",
}  # fmt: skip
REFUSALS = {"missing": "missing", "neutral": "mean score of the answers", "worst": "worst score of the scale"}
STATUSES = {
    "same_data": "have the data and the test of another, and count once",
    "not_scored": "have no score for the probe, or not for every probe",
    "incomplete": "cannot be tested on every probe",
    Verdict.TOO_FEW_SUBJECTS: "have too few subjects",
    Verdict.UNINFORMATIVE: "have constant answers, or none",
    "not_separable": "cannot tell the groups from the covariates",
}
_VERDICTS = {"significant": "significant", "not_significant": "not significant"}


def level_words(name: str, level: Any) -> str:
    """Return one level of a choice in words."""
    if name == "scorer":
        return scorer_label(level)
    if name == "refusals":
        return REFUSALS[level]
    if name == "question":
        return f"number {level}" if level else "all, averaged"
    if name == "covariates":
        return ", ".join(cut_label(one) for one in level) or "nothing"
    return f"{level} subjects" if name == "min_subjects" else str(level)


def claim_label(row: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Return what a curve is about."""
    return COMPOSITE if row["probe"] is None else labels[row["probe"]]


def verdict_label(verdict: str | None) -> str:
    """Return the verdict of a row or of a composite in words."""
    return _VERDICTS.get(verdict or "") or verdict_words(verdict)


_WIDTH, _LEFT, _RIGHT, _TOP, _CURVE, _LINE, _FOOT = 9.0, 2.3, 0.25, 1.5, 2.6, 0.2, 0.65
_MARKS = {
    **{verdict.value: verdict.mark for verdict in Verdict},
    "significant": Verdict.BIASED.mark,
    "not_significant": Verdict.NO_DIFFERENCE_FOUND.mark,
}


def draw_curve(row: Mapping[str, Any], about: Mapping[str, Any], results: Mapping[str, Any], path: Path) -> Path:
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
        _estimates(above, [point for point, _ in kept], own)
        if lines:  # no choice has more than one level left
            below = drawn.add_axes((left, _FOOT / height, wide, tall / height))
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
    from matplotlib.lines import Line2D

    size = 4.2 if len(points) <= 80 else 2.4
    for x, point in enumerate(points):
        colour, marker, filled, *_ = _MARKS[point["verdict"]]
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
    if own is not None:
        axes.axvspan(own - 0.5, own + 0.5, color=GRID, alpha=0.7, zorder=0, linewidth=0)
    axes.set(xlim=(-0.7, len(specifications) - 0.3), ylim=(len(lines) - 0.5, -0.5), xticks=[])
    axes.set_yticks(range(len(lines)), [shorten(plain(level_words(*line)), 27) for line in lines], fontsize=7.5)
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
