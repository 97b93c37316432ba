"""Prompt sensitivity: whether the questions of one probe agree about the groups.

The disparities average a probe's questions per image; this supplement compares them question by question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from fp2.extension import (
    Block,
    Cell,
    Column,
    ComparedRun,
    Estimate,
    Kind,
    Results,
    Row,
    Section,
    Sentence,
    Supplement,
    Table,
    Value,
    Weight,
    cut_label,
    entries_of,
    json_ready,
    members,
    number,
    outcome_columns,
    probe_labels,
    question_of,
    scorer_label,
    sentence,
)

PERMUTATIONS = 2_000


class PromptSensitivity(Supplement):
    """Prompt sensitivity of the probes with several questions."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `templates`, or None where every probe is one question."""
        import numpy as np

        from fp2.extension import adjust_p_values
        from fp2.methods.prompt_variation.templates import template_sensitivity

        if not run.disparities or run.battery.people != 1:
            return None
        settings = replace(
            run.comparison, n_permutations=min(PERMUTATIONS, run.comparison.n_permutations), n_bootstrap=0
        )
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


class PromptSensitivitySection(Section):
    """The questions of each probe compared, by cut."""

    name = "templates"
    title = "Prompt sensitivity"
    detail = True

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield which differences depend on the question and which hold for others, and a table per cut."""
        labels = probe_labels(results)

        def named(rows: Iterable[Mapping[str, Any]]) -> str:
            return "; ".join(f"{labels[row['probe']]} by {cut_label(row['cut'])}" for row in rows)

        adjusted = [row for row in block["rows"] if row["interaction_adjusted_p"] is not None]
        sensitive = named(row for row in adjusted if row["interaction_adjusted_p"] <= block["alpha"])
        if sensitive:
            yield Sentence(f"Significant prompt sensitivity: {sensitive}.", Weight.WARNING)
        hold = named(row for row in block["rows"] if (row.get("wordings") or {}).get("holds"))
        yield Sentence(f"A difference holds for other wordings: {hold or 'in no comparison'}.")
        for cut in results["cuts"]:
            rows = []
            for row in [row for row in block["rows"] if row["cut"] == cut]:
                other = row.get("wordings") or dict.fromkeys(("worst", "best", "low", "high"))
                gaps = f"disparities {', '.join(number(gap) for gap in row['gaps'])}"
                measures = (
                    "share_group",
                    "share_interaction",
                    "interaction_adjusted_p",
                    "sign_flips",
                    "rank_correlation",
                    "n_left_out",
                )
                interval = Estimate(None, other["low"], other["high"])
                cells = [*(row[name] for name in measures), other["worst"], other["best"], interval]
                rows.append(Row([Cell(labels[row["probe"]], detail=gaps), *cells]))
            caption = f"{sentence(scorer_label(block['scorer']))} by {cut_label(cut)}"
            yield Table("templates", COLUMNS, rows, caption, cut=cut)
        yield Sentence(HOW_TO_READ, Weight.DETAIL)


COLUMNS = [
    Column("Probe"),
    Column("Share of groups", Kind.NUMBER, digits=2),
    Column("Share of template × group", Kind.NUMBER, digits=2),
    Column("Adjusted p", Kind.P),
    Column("Sign flips", Kind.NUMBER, digits=2),
    Column("Rank correlation", Kind.NUMBER, digits=2),
    Column("Images left out", Kind.COUNT),
    Column("Worse", Kind.NAME),
    Column("Better", Kind.NAME),
    Column("Difference for other questions", Kind.INTERVAL),
]
HOW_TO_READ = (
    "Disparities are listed question by question, for images with an answer to every question of the probe. The share "
    "of template × group is the part of the variation that depends on the question, noise included; its p-value "
    "(permutation of group labels, Holm over all rows here) shows whether it exceeds noise. Sign flips: how often the "
    "difference of two groups has another sign for one question than on average. Worse, better: the clearest pair of "
    "groups, with an interval of its difference for questions like those asked, which count as a sample (corrected for "
    "all pairs). Where it contains 0, the disparity is about the questions asked and no others."
)
