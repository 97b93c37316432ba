"""Intersections: sizes of the combinations of attributes, and what they add to the effects of their parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fp2.extension import (
    LABEL_JOIN,
    Block,
    Column,
    ComparedRun,
    Cut,
    Kind,
    Results,
    Row,
    Section,
    Sentence,
    Supplement,
    Table,
    Value,
    Weight,
    combinations,
    cut_label,
    entries_of,
    members,
    outcome_columns,
    probe_labels,
    scorer_label,
    sentence,
)
from fp2.methods.adjusted.disparities import PERMUTATIONS, interactions, step_down


class Intersections(Supplement):
    """Sizes of the combinations, and their means beyond the effects of their parts."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `intersections`, or None without a cut by several attributes."""
        cuts = [cut for cut in run.cuts if len(cut.by) > 1]
        if not cuts or not run.disparities:
            return None
        n = min(PERMUTATIONS, run.comparison.n_permutations)
        rows, by_cut = [], []
        for cut in cuts:
            probes, tests = interactions(run, cut, n)
            by_cut += [(None, None) if test is None else (test.max_t, test.permuted) for test in tests]
            rows += [
                {"probe": probe, "cut": cut.name, "p_value": test.p_value if test else None}
                for probe, test in zip(probes, tests, strict=True)
            ]
        for row, p in zip(rows, step_down(by_cut), strict=True):
            row.update(adjusted_p=p, significant=p is not None and p <= run.comparison.alpha)
        return {
            "scorer": run.comparison.primary,
            "min_subjects": run.comparison.min_subjects,
            "meaning": "mean less its prediction from the main effects (least squares); descriptive",
            "cuts": [_cut(run, cut) for cut in cuts],
            "tests": rows,
            "family": "the interactions of all probes and intersections, step-down max-T",
            "n_permutations": n,
        }


def _cut(run: ComparedRun, cut: Cut) -> dict[str, Any]:
    from fp2.methods.adjusted.combinations import beyond_additive, intersection_table

    table = members(run.people, cut)
    labels = combinations(run.people, cut)
    attributes = {name: [values[k] for values in labels] for k, name in enumerate(cut.by)}
    subjects = table["subject_id"].to_numpy(dtype=object)
    min_subjects = run.comparison.min_subjects
    _, sizes = intersection_table(attributes, subjects, min_subjects=min_subjects, joiner=LABEL_JOIN)
    wide = outcome_columns(run.scores[run.scores["scorer"] == run.comparison.primary])
    entries = entries_of(wide, table)
    beyond = []
    for j, probe in enumerate(wide.columns.get_level_values("probe")):
        extra = beyond_additive(
            entries.values[:, j], attributes, subjects, min_subjects=min_subjects, joiner=LABEL_JOIN
        )
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

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield the combinations of each intersection, and the tests of the interactions."""
        labels = probe_labels(results)
        yield from (_combinations(cut, labels) for cut in block["cuts"])
        tests = [
            Row([cut_label(row["cut"]), labels[row["probe"]], row["adjusted_p"]])
            for row in block.get("tests", [])  # runs of 0.3.0 have none
        ]
        yield Table("interactions", TEST_COLUMNS, tests, "Tests of the interaction")
        yield Sentence(HOW_TO_READ.format_map({**block, "scorer": scorer_label(block["scorer"])}), Weight.DETAIL)


def _combinations(cut: Mapping[str, Any], labels: Mapping[str, str]) -> Table:
    """Return the combinations of one intersection that are compared; the others are counted."""
    rows = [
        Row(
            [
                group["group"],
                group["n_subjects"],
                group["n_images"],
                *(row["groups"].get(group["group"]) for row in cut["beyond"]),
            ],
            group["n_subjects"],
        )
        for group in cut["groups"]
        if group["eligible"]
    ]
    absent = sum(not group["n_subjects"] for group in cut["groups"])
    few = len(cut["groups"]) - len(rows) - absent
    caption = sentence(cut_label(cut["cut"]))
    caption += f": {few} combinations have too few subjects, {absent} do not occur" if few or absent else ""
    columns = [*SIZE_COLUMNS, *(Column(labels[row["probe"]], Kind.NUMBER, signed=True) for row in cut["beyond"])]
    return Table("intersections", columns, rows, caption, empty=f"{caption}.", omit_small=True)


SIZE_COLUMNS = [
    Column("Combination", Kind.NAME),
    Column("Subjects", Kind.COUNT, public=True),
    Column("Images", Kind.COUNT, public=True),
]
TEST_COLUMNS = [Column("Intersection"), Column("Probe"), Column("Adjusted p", Kind.P, compared=True)]
HOW_TO_READ = (
    "Mean {scorer} of each combination of attributes, less its prediction from the main effects of the attributes "
    "(least squares over the combinations with at least {min_subjects} subjects). Near 0, the combination adds nothing "
    "of its own. The test of the interaction: no combination departs from the main effects (residuals of the additive "
    "model permuted across subjects, largest |T|, step-down max-T over all probes and intersections)."
)
