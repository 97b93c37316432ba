"""Intersections: which combinations have enough people, and what they add to the effects of their parts."""

from __future__ import annotations

from typing import Any

from fp2.cuts import LABEL_JOIN, Cut, combinations
from fp2.protocols.fingerprint.outcomes import entries_of, members, outcome_columns
from fp2.protocols.fingerprint.settings import ComparedRun, Supplement


class Intersections(Supplement):
    """Sizes of intersections, and what they add to the effects of their parts."""

    name = "intersections"
    section = "fp2.protocols.fingerprint.sections.intersections:IntersectionsSection"

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the `intersections` part of the results, or None without a cut by several attributes."""
        cuts = [cut for cut in run.cuts if len(cut.by) > 1]
        if not cuts or not run.disparities:
            return None
        return {
            "scorer": run.comparison.primary,
            "min_subjects": run.comparison.min_subjects,
            "meaning": "mean less what the sum of the parts' effects makes it (least squares): a description, no test",
            "cuts": [_cut(run, cut) for cut in cuts],
        }


def _cut(run: ComparedRun, cut: Cut) -> dict[str, Any]:
    from fp2.stats.intersections import beyond_additive, intersection_table

    table = members(run.people, cut)
    labels = combinations(run.people, cut)
    attributes = {name: [parts[k] for parts in labels] for k, name in enumerate(cut.by)}
    subjects = table["subject_id"].to_numpy(dtype=object)
    least = run.comparison.min_subjects
    _, sizes = intersection_table(attributes, subjects, min_subjects=least, joiner=LABEL_JOIN)
    wide = outcome_columns(run.scores[run.scores["scorer"] == run.comparison.primary])
    entries = entries_of(wide, table)
    beyond = []
    for j, probe in enumerate(wide.columns.get_level_values("probe")):
        extra = beyond_additive(entries.values[:, j], attributes, subjects, min_subjects=least, joiner=LABEL_JOIN)
        beyond.append({"probe": str(probe), "groups": extra})
    return {
        "cut": cut.name,
        "by": list(cut.by),
        "groups": [
            {"group": row.group, "n_subjects": row.n_subjects, "n_images": row.n_images, "eligible": row.eligible}
            for row in sizes
        ],
        "beyond": beyond,
    }
