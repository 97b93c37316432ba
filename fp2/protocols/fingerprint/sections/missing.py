"""Missing answers as outcomes: values that are missing by group, and refusals beside the score given an answer."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from fp2.report.reading import cut_label, number, plain, probe_labels, scorer_label
from fp2.report.section import Block, Results, Section

_MOST = 3  # lines of the terminal


class MissingSection(Section):
    """."""

    name = "missing"
    title = "Missing answers and refusals"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the tests of missing values with the rates of large groups, and the two-part readings, by cut."""
        labels = probe_labels(results)
        rows = [
            {
                **row,
                "label": labels[row["probe"]],
                "rates": [group for group in row["groups"] if group["n_subjects"] >= min_cell],
                "hidden": sum(group["n_subjects"] < min_cell for group in row["groups"]),
            }
            for row in block["rows"]
        ]
        return {
            "missing": block,
            "by_cut": {cut: [row for row in rows if row["cut"] == cut] for cut in results["cuts"]},
            "two_part": {
                cut: [{**row, "label": labels[row["probe"]]} for row in block["two_part"] if row["cut"] == cut]
                for cut in results["cuts"]
            },
        }

    def lines(self, block: Block, results: Results) -> list[Text]:
        """Name what is missing oftener for one group than for another: it can look like fairness in the score."""
        labels = probe_labels(results)
        found = [
            f"{labels[row['probe']]} ({scorer_label(row['scorer'])}) by {cut_label(row['cut'])} "
            f"{number(row['raw'])}, most for {plain(row['worst_group'])}"
            for row in sorted(block["rows"], key=lambda row: -(row["raw"] or 0.0))
            if row["verdict"] == "biased"
        ]
        more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
        return [Text(f"values missing unequally: {'; '.join(found[:_MOST])}{more}", style="yellow")] if found else []
