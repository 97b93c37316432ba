"""Models of one task, paired by person, in reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from fp2.protocols.fhibe.scores.figures import bare, short_group
from fp2.protocols.narrow.model_comparison import COMPARISONS
from fp2.report.figures.style import FAINT, LINES, figure, head, save, shorten, style
from fp2.report.reading import cut_label, number, plain, probability
from fp2.report.section import Block, Results, Section

_FIGURE = "model_comparisons.png"
_ALT = "Difference of the mean scores of two models on the same people, with 95 % intervals"


class ComparisonSection(Section):
    """A table of the pairs of models, and of the cuts on which their difference depends."""

    name = COMPARISONS
    title = "Models compared on the same people"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the pairs, without groups of fewer than `min_cell` subjects."""
        return {
            "pairs": [
                {**pair, "cuts": [_row(row, min_cell) for row in pair["cuts"]]} for pair in _large(block, min_cell)
            ],
            "alts": {_FIGURE: _ALT} if _drawn(block, min_cell) else {},
        }

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw the differences."""
        if rows := _drawn(block, min_cell):
            yield _differences(rows, results, folder / _FIGURE)

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return one line per pair."""
        return [
            Text(
                f"{pair['title']}: {plain(pair['first'])} - {plain(pair['second'])} "
                f"{number(pair['difference'], signed=True)} ({pair['metric']}, {pair['n_subjects']:,} shared subjects, "
                f"adjusted p {probability(pair['adjusted_p'])}{', approximate' if pair.get('approximate') else ''})"
            )
            for pair in _drawn(block, min_cell)
        ]


def _large(block: Block, min_cell: int) -> list[Mapping[str, Any]]:
    return [pair for pair in block["pairs"] if pair["n_subjects"] >= min_cell]


def _drawn(block: Block, min_cell: int) -> list[Mapping[str, Any]]:
    return [pair for pair in _large(block, min_cell) if pair["difference"] is not None]


def _row(row: Mapping[str, Any], min_cell: int) -> dict[str, Any]:
    sizes = {group["group"]: group["n_subjects"] for group in row["groups"]}
    ends = {
        end: short_group(row[end]) if row[end] is not None and sizes.get(row[end], 0) >= min_cell else None
        for end in ("worst_group", "best_group")
    }
    return {**row, **ends, "label": cut_label(row["cut"])}


def _differences(rows: Sequence[Mapping[str, Any]], results: Results, path: Path) -> Path:
    with style():
        drawn = figure(8.6, 1.9 + 0.36 * len(rows))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((4.0 / width, 0.7 / height, 4.2 / width, 1 - 1.6 / height))
        for y, row in enumerate(rows):
            if row["ci_low"] is not None:
                axes.plot([row["ci_low"], row["ci_high"]], [y, y], color=LINES[0], linewidth=1.6, alpha=0.5)
            axes.plot(row["difference"], y, "o", color=LINES[0], markersize=5)
        axes.axvline(0, color=FAINT, linewidth=0.8)
        labels = [shorten(f"{row['title']}: {plain(row['first'])} − {plain(row['second'])}", 58) for row in rows]
        axes.set_yticks(range(len(rows)), labels, fontsize=8)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        bare(axes)
        axes.set_xlabel("difference of mean scores over shared subjects (right of 0: the first is better)", fontsize=8)
        head(drawn, "Models compared on the same people", [results])
        return save(drawn, path)
