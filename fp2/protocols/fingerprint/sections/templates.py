"""How much a finding hangs on the wording of the question."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from fp2.report.reading import cut_label, probe_labels
from fp2.report.section import Block, Results, Section


class TemplatesSection(Section):
    """."""

    name = "templates"
    title = "Does it hang on the wording?"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the rows by cut; they hold no number of a single group."""
        labels = probe_labels(results)
        rows = [{**row, "label": labels[row["probe"]]} for row in block["rows"]]
        by_cut = {cut: [row for row in rows if row["cut"] == cut] for cut in results["cuts"]}
        return {"block": block, "by_cut": by_cut}

    def lines(self, block: Block, results: Results) -> list[Text]:
        """Name the comparisons that come out otherwise in other words."""
        labels = probe_labels(results)
        found = [
            f"{labels[row['probe']]} by {cut_label(row['cut'])}"
            for row in block["rows"]
            if row["interaction_adjusted_p"] is not None and row["interaction_adjusted_p"] <= block["alpha"]
        ]
        return [Text(f"hangs on the wording: {'; '.join(found)}", style="yellow")] if found else []
