"""Intersections: sizes of the combinations of attributes, and what they add to the effects of their parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fp2.cuts import LABEL_JOIN, Cut, combinations
from fp2.protocols.fingerprint.adjusted import PERMUTATIONS, interactions, step_down
from fp2.protocols.fingerprint.settings import ComparedRun, Supplement
from fp2.report.reading import cut_label, probability, probe_labels, scorer_label
from fp2.report.section import Beside, Block, Cell, Results, Section
from fp2.scorers.outcomes import entries_of, members, outcome_columns


class Intersections(Supplement):
    """Sizes of the combinations, and their means beyond the effects of their parts."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `intersections`, or None without a cut by several attributes."""
        cuts = [cut for cut in run.cuts if len(cut.by) > 1]
        if not cuts or not run.disparities:
            return None
        n = min(PERMUTATIONS, run.comparison.n_permutations)
        return {
            "scorer": run.comparison.primary,
            "min_subjects": run.comparison.min_subjects,
            "meaning": "mean less its prediction from the main effects (least squares); descriptive",
            "cuts": [_cut(run, cut) for cut in cuts],
            "tests": _tests(run, cuts, n),
            "family": "the interactions of all probes and intersections, step-down max-T",
            "n_permutations": n,
        }


def _tests(run: ComparedRun, cuts: Sequence[Cut], n: int) -> list[dict[str, Any]]:
    """Return the test of the interaction of each probe and intersection."""
    rows, found = [], []
    for cut in cuts:
        probes, tests = interactions(run, cut, n)
        found += [(None, None) if test is None else (test.max_t, test.permuted) for test in tests]
        rows += [
            {"probe": probe, "cut": cut.name, "p_value": test.p_value if test else None}
            for probe, test in zip(probes, tests, strict=True)
        ]
    for row, p in zip(rows, step_down(found), strict=True):
        row.update(adjusted_p=p, significant=p is not None and p <= run.comparison.alpha)
    return rows


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


class IntersectionsSection(Section):
    """A table per intersection: subjects of each combination, and its mean beyond the main effects."""

    name = "intersections"
    title = "Intersections"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return a table per intersection, with a line per combination that is large enough."""
        labels = probe_labels(results)
        tests = {(row["cut"], row["probe"]): row for row in block.get("tests", [])}  # runs of 0.3.0 have none
        return {"block": block, "tables": [_table(cut, labels, min_cell, tests) for cut in block["cuts"]]}

    def beside(self, blocks: Sequence[Block], min_cell: int) -> Sequence[Beside]:
        """Return a table of the tests of interaction: adjusted p by intersection and probe."""
        rows: dict[str, list[Cell]] = {}
        for place, block in enumerate(blocks):
            for row in block.get("tests", []):
                label = f"{cut_label(row['cut'])}: {scorer_label(row['probe'])}"
                rows.setdefault(label, [None] * len(blocks))[place] = probability(row["adjusted_p"])
        return [Beside("intersections, tests of the interaction (adjusted p)", rows)] if rows else []


def _table(
    cut: Mapping[str, Any], labels: Mapping[str, str], min_cell: int, tests: Mapping[tuple[str, str], Mapping[str, Any]]
) -> dict[str, Any]:
    large = [group for group in cut["groups"] if group["eligible"] and group["n_subjects"] >= min_cell]
    small = [group for group in cut["groups"] if group not in large and group["n_subjects"]]
    return {
        "cut": cut["cut"],
        "probes": [labels[row["probe"]] for row in cut["beyond"]],
        "lines": [{**group, "beyond": [row["groups"].get(group["group"]) for row in cut["beyond"]]} for group in large],
        "p_values": [tests.get((cut["cut"], row["probe"]), {}).get("adjusted_p") for row in cut["beyond"]],
        "small": len(small),
        "absent": sum(not group["n_subjects"] for group in cut["groups"]),
    }
