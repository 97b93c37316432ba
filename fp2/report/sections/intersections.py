"""Intersections: how many people each combination has, and what it adds to the effects of its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from fp2.report.reading import probe_labels

TITLE = "Combinations of attributes"
DETAIL = True

Block = Mapping[str, Any]
Results = Mapping[str, Any]


def context(block: Block, results: Results, min_cell: int) -> dict[str, Any]:
    """Return a table per intersection: a line per combination, with what is beyond the sum of its parts."""
    labels = probe_labels(results)
    return {"block": block, "tables": [_table(cut, labels, min_cell) for cut in block["cuts"]]}


def _table(cut: Mapping[str, Any], labels: Mapping[str, str], min_cell: int) -> dict[str, Any]:
    least = [group for group in cut["groups"] if group["eligible"] and group["n_subjects"] >= min_cell]
    small = [group for group in cut["groups"] if group not in least and group["n_subjects"]]
    return {
        "cut": cut["cut"],
        "probes": [labels[row["probe"]] for row in cut["beyond"]],
        "lines": [{**group, "beyond": [row["groups"].get(group["group"]) for row in cut["beyond"]]} for group in least],
        "small": len(small),
        "absent": sum(not group["n_subjects"] for group in cut["groups"]),
    }


def figures(block: Block, results: Results, folder: Path) -> Iterator[Path]:
    """No figure: the heatmap of the cut is one."""
    return iter(())


def lines(block: Block, results: Results) -> list[Text]:
    """Nothing: the table of disparities is about the combinations already."""
    return []
