"""FHIBE's CLIP analysis in reports: shares of labels by group, and accuracy by image variant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fp2.extension import Block, Finding, Results, Section, cut_label, number, plain, row_finding, scorer_label
from fp2.methods.fhibe.clip.protocol import WRONG

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ACCURACY = "fhibe_clip_accuracy.png"


class ClipSection(Section):
    """A table of label shares per question, grouping and image variant, and the accuracy by variant."""

    name = "fhibe_clip"
    title = report_title = "Zero-shot labels"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return a table per question and grouping, with the test of each label."""
        alts = {
            _file(table): f"Shares of the labels of “{table['question']}” by {_by(table)}, original images"
            for table in _original(block)
            if _rows(table, min_cell)
        }
        if _accuracies(block, min_cell):
            alts[_ACCURACY] = "Share of images with the right label, by image variant"
        tables = [_shown(block, table, min_cell) for table in block["tables"]]
        return {"block": block, "tables": tables, "alts": alts}

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw the label shares of each table (original images), and the accuracy by image variant."""
        for table in _original(block):
            if rows := _rows(table, min_cell):
                yield _shares(block, table, rows, results, folder / _file(table))
        if accuracies := _accuracies(block, min_cell):
            yield _accuracy(block, accuracies, results, folder / _ACCURACY)

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return the shares that differ significantly between groups, of original images."""
        found = block["headline"]["differences"]
        if not found:
            return [Text("zero-shot labels: no share differs significantly between groups")]
        return [
            Text(
                f"{scorer_label(row['question'])}: disparity {number(row['raw'])} in the share of "
                f"“{_label(row['label'])}” by {' x '.join(cut_label(name) for name in row['by'])}"
            )
            for row in found
        ]

    def findings(self, block: Block, results: Results) -> Iterator[Finding]:
        """Yield the share of every label by every grouping, in all image variants: they are one family."""
        for row in block["disparities"]:
            variant = "" if row["variant"] == block["variants"][0] else f", images {plain(row['variant'])}"
            name = f"share of “{_label(row['label'])}” ({scorer_label(row['question'])}) by {_by(row)}{variant}"
            yield row_finding(name, row)


def _original(block: Block) -> list[Mapping[str, Any]]:
    return [table for table in block["tables"] if table["variant"] == block["variants"][0]]


def _label(label: str) -> str:
    return "incorrect" if label == WRONG else plain(label)


def _by(table: Mapping[str, Any]) -> str:
    return " and ".join(cut_label(name) for name in table["by"])


def _file(table: Mapping[str, Any]) -> str:
    words = "_".join([table["question"], *table["by"]])
    return f"fhibe_clip_{re.sub(r'[^0-9A-Za-z_-]', '-', words)}.png"


def _rows(table: Mapping[str, Any], min_cell: int) -> list[Mapping[str, Any]]:
    return [row for row in table["rows"] if row["labels"] and row["n_subjects"] >= min_cell]


def _accuracies(block: Block, min_cell: int) -> list[Mapping[str, Any]]:
    return [row for row in block["accuracy"] if row["n_subjects"] >= min_cell]


def _shown(block: Block, table: Mapping[str, Any], min_cell: int) -> dict[str, Any]:
    """Return one table for the page: a column per label, a cell with share and interval per group."""
    tests = {
        row["label"]: row
        for row in block["disparities"]
        if (row["question"], row["by"], row["variant"]) == (table["question"], table["by"], table["variant"])
    }
    labels = list(dict.fromkeys(entry["label"] for row in table["rows"] for entry in row["labels"]))
    lines = []
    for row in table["rows"]:
        cells = {entry["label"]: entry for entry in row["labels"]} if row["n_subjects"] >= min_cell else {}
        lines.append({"row": row, "cells": [cells.get(label) for label in labels], "hidden": not cells})
    return {
        "table": table, "by": _by(table), "labels": [_label(label) for label in labels], "lines": lines,
        "tests": [tests.get(label) for label in labels],
    }  # fmt: skip


def _shares(
    block: Block, table: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], results: Results, path: Path
) -> Path:
    """Draw stacked bars of label shares, one per group; the error rate, if known, as a point with its interval."""
    from fp2.extension import FAINT, figure, head, save, shorten, style

    labels = list(block["questions"][table["question"]])
    with style():
        drawn = figure(8.6, 2.0 + 0.36 * len(rows))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((2.6 / width, 0.8 / height, 1 - 3.6 / width, 1 - 1.95 / height))
        head(drawn, f"{scorer_label(table['question']).capitalize()}: labels by {_by(table)}", [results])
        for place, row in enumerate(rows):
            _bar(axes, place, {entry["label"]: entry for entry in row["labels"]}, labels)
            axes.text(1.02, place, f"n = {row['n_subjects']:,}", va="center", fontsize=8, color=FAINT)
        axes.set_yticks(range(len(rows)), [shorten(plain(row["group"]), 36) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(0, 1)
        axes.set_xlabel("share of a subject's images, mean over subjects")
        _legend(axes, labels, any(entry["label"] == WRONG for row in rows for entry in row["labels"]))
        return save(drawn, path)


def _bar(axes: Axes, place: int, entries: Mapping[str, Mapping[str, Any]], labels: Sequence[str]) -> None:
    from fp2.extension import INK, LINES

    start = 0.0
    for colour, label in zip(LINES, labels, strict=False):
        share = entries[label]["rate"] if label in entries else 0.0
        axes.barh(place, share, left=start, color=colour, height=0.62)
        if share >= 0.08:
            axes.text(start + share / 2, place, f"{share:.2f}", ha="center", va="center", fontsize=7.5, color="white")
        start += share
    if WRONG in entries:
        wrong = entries[WRONG]
        axes.plot([wrong["ci_low"], wrong["ci_high"]], [place + 0.42] * 2, color=INK, linewidth=1.4)
        axes.plot(wrong["rate"], place + 0.42, "o", color=INK, markersize=3.6)


def _legend(axes: Axes, labels: Sequence[str], errors: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from fp2.extension import INK, LINES

    marks: list[Any] = [Patch(color=colour, label=label) for colour, label in zip(LINES, labels, strict=False)]
    if errors:
        marks.append(Line2D([], [], color=INK, marker="o", markersize=3.6, label="incorrect, 95 % interval"))
    axes.legend(
        handles=marks, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(marks), frameon=False, fontsize=8,
        borderaxespad=0.2, columnspacing=1.2, handlelength=1.2,
    )  # fmt: skip


def _accuracy(block: Block, accuracies: Sequence[Mapping[str, Any]], results: Results, path: Path) -> Path:
    """Draw the share with the right label by variant: a panel per question, a colour per right label."""
    from fp2.extension import FAINT, LINES, figure, head, save, style

    questions = list(dict.fromkeys(row["question"] for row in accuracies))
    with style():
        drawn = figure(max(5.6, 1.2 + 3.9 * len(questions)), 4.0)
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        head(drawn, "Accuracy of the labels by image variant", [results])
        for place, question in enumerate(questions):
            axes = drawn.add_axes(((0.75 + 3.9 * place) / width, 0.7 / height, 3.1 / width, 1 - 2.15 / height))
            rows = [row for row in accuracies if row["question"] == question]
            present = {row["label"] for row in rows}
            for turn, (colour, label) in enumerate(zip(LINES, block["questions"][question], strict=False)):
                if label in present:
                    own = [row for row in rows if row["label"] == label]
                    _points(axes, own, block["variants"], colour, label, 0.09 * (turn - 1))
            axes.set_xticks(range(len(block["variants"])), [v.replace("_", "\n") for v in block["variants"]])
            axes.set_ylim(-0.02, 1.02)
            axes.set_title(scorer_label(question), loc="left", pad=20)
            axes.legend(
                frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=4, columnspacing=1.0,
                handletextpad=0.2, borderaxespad=0.2,
            )  # fmt: skip
            if place == 0:
                axes.set_ylabel("share with the right label", color=FAINT)
        return save(drawn, path)


def _points(
    axes: Axes, rows: Sequence[Mapping[str, Any]], variants: Sequence[str], colour: str, label: str, aside: float
) -> None:
    x = [variants.index(row["variant"]) + aside for row in rows]
    y = [row["rate"] for row in rows]
    spread = [[row["rate"] - row["ci_low"] for row in rows], [row["ci_high"] - row["rate"] for row in rows]]
    axes.errorbar(x, y, yerr=spread, color=colour, fmt="o", markersize=4, capsize=2.5, label=label)
