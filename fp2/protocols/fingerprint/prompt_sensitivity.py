"""Prompt sensitivity: whether the questions of one probe agree about the groups.

The disparities average a probe's questions per image; this supplement compares them question by question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from rich.text import Text

from fp2.protocols.fingerprint.settings import ComparedRun, Supplement
from fp2.report.reading import cut_label, probe_labels
from fp2.report.section import Block, Results, Section
from fp2.scorers.outcomes import entries_of, members, outcome_columns
from fp2.stats.rows import json_ready
from fp2.tables import question_of

PERMUTATIONS = 2_000


class PromptSensitivity(Supplement):
    """Prompt sensitivity of the probes with several questions."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `templates`, or None where every probe is one question."""
        from fp2.stats.adjustment import adjust_p_values

        if not run.disparities or run.battery.people != 1:
            return None
        rows = _rows(run)
        if not rows:
            return None
        adjusted = adjust_p_values([row["interaction_p"] for row in rows])
        for row, p in zip(rows, adjusted, strict=True):
            row["interaction_adjusted_p"] = p
        return {
            "scorer": run.comparison.primary,
            "family": "all rows of this block, Holm",
            "scope": "disparities are about the questions asked; `wordings` is about questions like them",
            "alpha": run.comparison.alpha,
            "rows": json_ready(rows),
        }

    def columns(self, block: Mapping[str, Any]) -> Mapping[tuple[str, str, str], Mapping[str, Any]]:
        """Return the interval of the gap for questions like those asked."""
        return {
            (row["probe"], block["scorer"], row["cut"]): {
                "wordings_low": row["wordings"]["gap_low"],
                "wordings_high": row["wordings"]["gap_high"],
            }
            for row in block["rows"]
            if row["wordings"]
        }


def _rows(run: ComparedRun) -> list[dict[str, Any]]:
    """Return one row per probe with several questions and cut, of the primary scorer."""
    import numpy as np

    from fp2.stats.templates import template_sensitivity

    settings = replace(run.comparison, n_permutations=min(PERMUTATIONS, run.comparison.n_permutations), n_bootstrap=0)
    scores = run.scores[run.scores["scorer"] == settings.primary]
    rows: list[dict[str, Any]] = []
    for probe, part in scores.groupby("probe", sort=False):
        asked = part["question_id"].map(question_of)
        if asked.nunique() < 2:
            continue
        wide = outcome_columns(part.assign(probe=asked))
        questions = [str(question) for question in wide.columns.get_level_values("probe")]
        for cut in run.cuts:
            entries = entries_of(wide, members(run.people, cut))
            if not np.isfinite(entries.values).all(axis=1).any():
                continue
            sensitivity = template_sensitivity(
                entries.values, entries.groups, entries.subjects, settings, images=entries.images
            )
            rows.append({"probe": str(probe), "cut": cut.name, "questions": questions, **asdict(sensitivity)})
    return rows


class PromptSensitivitySection(Section):
    """The questions of each probe compared, by cut."""

    name = "templates"
    title = "Prompt sensitivity"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the rows by cut; they hold no number of a single group."""
        labels = probe_labels(results)
        rows = [{**row, "label": labels[row["probe"]]} for row in block["rows"]]
        return {"block": block, "by_cut": {cut: [row for row in rows if row["cut"] == cut] for cut in results["cuts"]}}

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return the disparities that depend on the question, and those that hold for other questions."""
        labels = probe_labels(results)
        found = [
            f"{labels[row['probe']]} by {cut_label(row['cut'])}"
            for row in block["rows"]
            if row["interaction_adjusted_p"] is not None and row["interaction_adjusted_p"] <= block["alpha"]
        ]
        hold = [
            f"{labels[row['probe']]} by {cut_label(row['cut'])}"
            for row in block["rows"]
            if row["wordings"] and row["wordings"]["holds"]
        ]
        lines = [Text(f"significant prompt sensitivity: {'; '.join(found)}", style="yellow")] if found else []
        return [*lines, Text(f"a difference holds for other wordings: {'; '.join(hold) or 'in no comparison'}")]
