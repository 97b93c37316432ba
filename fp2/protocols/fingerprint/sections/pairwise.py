"""Which groups are behind a significant disparity: its pairs, by permutation and by ranks."""

from __future__ import annotations

from typing import Any

from fp2.report.reading import probe_labels
from fp2.report.section import Block, Results, Section


class PairwiseSection(Section):
    """."""

    name = "pairwise"
    title = "Which groups differ"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
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
