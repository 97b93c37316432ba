"""Which groups are behind a significant disparity: its pairs, by permutation and by ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from fp2.report.reading import probe_labels

TITLE = "Which groups differ"
DETAIL = True

Block = Mapping[str, Any]
Results = Mapping[str, Any]


def context(block: Block, results: Results, min_cell: int) -> dict[str, Any]:
    """Return a table per significant row, without pairs of groups that are too small to be told."""
    labels = probe_labels(results)
    tables = []
    for row in block["rows"]:
        told = [pair for pair in row["pairs"] if min(pair["n_first"], pair["n_second"]) >= min_cell]
        found = [pair for pair in told if pair["p_permutation"] <= block["alpha"]]
        hidden = len(row["pairs"]) - len(told)
        tables.append({"cut": row["cut"], "label": labels[row["probe"]], "found": found, "n": len(told)})
        tables[-1].update(hidden=hidden, dependent=row.get("dependent_groups", False))
    return {"pairwise": block, "tables": tables}


def figures(block: Block, results: Results, folder: Path) -> Iterator[Path]:
    """No figure: the group means are one."""
    return iter(())


def lines(block: Block, results: Results) -> list[Text]:
    """Nothing: worst and best group stand in the table already."""
    return []
