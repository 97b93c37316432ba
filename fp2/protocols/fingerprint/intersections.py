"""Intersections: sizes of the combinations of attributes, and what they add to the effects of their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fp2.cuts import LABEL_JOIN, Cut, combinations
from fp2.protocols.fingerprint.outcomes import entries_of, members, outcome_columns
from fp2.protocols.fingerprint.settings import ComparedRun, Supplement
from fp2.report.reading import probe_labels
from fp2.report.section import Block, Results, Section

PERMUTATIONS = 4_000


class Intersections(Supplement):
    """Sizes of the combinations, and their means beyond the effects of their parts."""

    name = "intersections"
    section = "fp2.protocols.fingerprint.intersections:IntersectionsSection"

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `intersections`, or None without a cut by several attributes."""
        cuts = [cut for cut in run.cuts if len(cut.by) > 1]
        if not cuts or not run.disparities:
            return None
        return {
            "scorer": run.comparison.primary,
            "min_subjects": run.comparison.min_subjects,
            "meaning": "mean less its prediction from the main effects (least squares), with a permutation test",
            "family": "all rows of this block, Holm",
            "n_permutations": min(PERMUTATIONS, run.comparison.n_permutations),
            "cuts": _corrected([_cut(run, cut) for cut in cuts]),
        }


def _corrected(cuts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the adjusted p-value to every row: the probes of all cuts are one family."""
    from fp2.stats.adjustment import adjust_p_values

    rows = [row for cut in cuts for row in cut["beyond"]]
    for row, p in zip(rows, adjust_p_values([row["p_value"] for row in rows]), strict=True):
        row["adjusted_p"] = p
    return cuts


def _cut(run: ComparedRun, cut: Cut) -> dict[str, Any]:
    from fp2.stats.intersections import interaction, intersection_table

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
        extra = interaction(
            entries.values[:, j], attributes, subjects, min_subjects=least, joiner=LABEL_JOIN,
            n_permutations=min(PERMUTATIONS, run.comparison.n_permutations), seed=run.comparison.seed,
        )  # fmt: skip
        beyond.append({"probe": str(probe), "groups": extra.beyond, "p_value": extra.p_value, "largest": extra.largest})
    return {
        "cut": cut.name,
        "by": list(cut.by),
        "groups": [
            {"group": row.group, "n_subjects": row.n_subjects, "n_images": row.n_images, "eligible": row.eligible}
            for row in sizes
        ],
        "beyond": beyond,
    }


class IntersectionsSection(Section):
    """A table per intersection: subjects of each combination, and its mean beyond the main effects."""

    name = "intersections"
    title = "Intersections"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return a table per intersection, with a line per combination that is large enough."""
        labels = probe_labels(results)
        return {"block": block, "tables": [_table(cut, labels, min_cell) for cut in block["cuts"]]}


def _table(cut: Mapping[str, Any], labels: Mapping[str, str], min_cell: int) -> dict[str, Any]:
    large = [group for group in cut["groups"] if group["eligible"] and group["n_subjects"] >= min_cell]
    small = [group for group in cut["groups"] if group not in large and group["n_subjects"]]
    return {
        "cut": cut["cut"],
        "probes": [
            {"label": labels[row["probe"]], "adjusted_p": row.get("adjusted_p"), "tested": "adjusted_p" in row}
            for row in cut["beyond"]
        ],
        "lines": [{**group, "beyond": [row["groups"].get(group["group"]) for row in cut["beyond"]]} for group in large],
        "small": len(small),
        "absent": sum(not group["n_subjects"] for group in cut["groups"]),
    }
