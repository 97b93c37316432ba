"""How much a finding hangs on the wording: probes that are asked with several questions, compared question by question.

The fingerprint averages a probe's questions per picture; this block says whether they agree.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fp2.protocols.fingerprint.outcomes import entries_of, members, outcome_columns
from fp2.protocols.fingerprint.settings import ComparedRun, Supplement

PERMUTATIONS = 2_000


class Templates(Supplement):
    """Prompt sensitivity of the probes that are asked with several questions."""

    name = "templates"
    section = "fp2.protocols.fingerprint.sections.templates:TemplatesSection"

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the `templates` part of the results, or None where every probe is one question."""
        import numpy as np

        from fp2.stats.adjustment import adjust_p_values
        from fp2.stats.templates import template_sensitivity

        if not run.disparities or run.battery.people != 1:
            return None
        primary, c = run.comparison.primary, run.comparison
        scores = run.scores[run.scores["scorer"] == primary]
        rows: list[dict[str, Any]] = []
        for probe, part in scores.groupby("probe", sort=False):
            if part["question_id"].nunique() < 2:
                continue
            wide = outcome_columns(part.assign(probe=part["question_id"]))
            questions = [str(question) for question in wide.columns.get_level_values("probe")]
            for cut in run.cuts:
                entries = entries_of(wide, members(run.people, cut))
                if not np.isfinite(entries.values).all(axis=1).any():
                    continue
                found = template_sensitivity(
                    entries.values, entries.groups, entries.subjects, images=entries.images,
                    n_permutations=min(PERMUTATIONS, c.n_permutations), seed=c.seed, min_subjects=c.min_subjects,
                )  # fmt: skip
                rows.append({"probe": str(probe), "cut": cut.name, "questions": questions, **asdict(found)})
        if not rows:
            return None
        adjusted = adjust_p_values([row["interaction_p"] for row in rows])
        for row, p in zip(rows, adjusted, strict=True):
            row["interaction_adjusted_p"] = p
        plain = [{k: _listed(v) for k, v in row.items()} for row in rows]
        return {"scorer": primary, "family": "all rows of this block, Holm", "alpha": c.alpha, "rows": plain}


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, (tuple, list)) else value
