"""The agreement of annotators in reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.text import Text

from fp2.protocols.fhibe.scores.figures import large_top, short_group
from fp2.protocols.narrow.figures import by_group
from fp2.report.reading import cut_label, number, plain
from fp2.report.section import Block, Results, Section

_DRAWN = 6


class AgreementSection(Section):
    """A table of kinds and attributes, and their agreement by group."""

    name = "annotator_agreement"
    title = "Agreement of annotators"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the tables, without groups of fewer than `min_cell` subjects."""
        return {
            "outcomes": [
                {**one, "rows": [{**row, "label": cut_label(row["cut"])} for row in one["benchmark"]["rows"]]}
                for one in block["outcomes"]
            ],
            "top": [
                {**line, **{end: short_group(line[end]) for end in ("worst", "best")}}
                for line in large_top(block, min_cell)
            ],
            "alts": {name: alt for name, alt, _ in _files(block, min_cell)},
        }

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw the agreement by group."""
        for name, _, place in _files(block, min_cell):
            one = block["outcomes"][place]
            yield by_group(_groups(one, min_cell), results, folder / name, plain(one["label"]), one["measure"])

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return one line per kind."""
        lines = []
        for one in block["outcomes"]:
            alpha = "" if one["alpha"] is None else f", Krippendorff's alpha {number(one['alpha'], 2)}"
            words = f"{plain(one['label'])}: {number(one['mean'])} ({one['measure']}{alpha})"
            lines.append(Text(f"{words}, {one['n_annotators']} annotators, {one['n_compared']:,} people in images"))
        return lines


def _groups(one: Any, min_cell: int) -> list[dict[str, Any]]:
    """Return the groups of every cut with the mean over subjects, and no interval."""
    return [
        {"cut": row["cut"], **group, "value": group["mean"], "low": None, "high": None}
        for row in one["benchmark"]["rows"]
        for group in row["ours"]["groups"]
        if group["n_subjects"] >= min_cell and group["mean"] is not None
    ]


def _files(block: Block, min_cell: int) -> list[tuple[str, str, int]]:
    return [
        (f"annotator_agreement_{place}.png", f"Agreement by group: {plain(one['label'])}", place)
        for place, one in enumerate(block["outcomes"][:_DRAWN])
        if _groups(one, min_cell)
    ]
