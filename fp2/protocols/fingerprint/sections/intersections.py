"""Intersections: how many people each combination has, and what it adds to the effects of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fp2.report.reading import probe_labels
from fp2.report.section import Block, Results, Section


class IntersectionsSection(Section):
    """."""

    name = "intersections"
    title = "Combinations of attributes"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
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
