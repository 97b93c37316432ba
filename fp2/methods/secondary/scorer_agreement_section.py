"""The report section of agreement between scorers: pairs, tests by group, and what each scorer concludes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fp2.extension import (
    Block,
    Cell,
    Column,
    Estimate,
    Kind,
    Results,
    Row,
    Section,
    Sentence,
    Table,
    Value,
    Weight,
    cut_label,
    probe_labels,
    scorer_label,
    sentence,
)
from fp2.methods.secondary.scorer_agreement import SAME, summary


class ScorerAgreementSection(Section):
    """How far scorers of one dimension agree, and which verdicts depend on the scorer."""

    name = "scorer_agreement"
    title = "Agreement between scorers"
    detail = True

    def applies(self, results: Results) -> bool:
        """Return whether two scorers measure one dimension."""
        return bool(_several(results.get(self.name) or {}))

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield how many verdicts depend on the scorer, the pairs, the verdicts by cut, and the tests by group."""
        labels, several = probe_labels(results), _several(block)
        yield from self.brief(block, results)
        pairs = [
            Row(
                [
                    scorer_label(pair["first"]),
                    scorer_label(pair["second"]),
                    "all probes" if pair["probe"] is None else labels[pair["probe"]],
                    pair["n_answers"],
                    pair["coverage_first"],
                    pair["coverage_second"],
                    pair["n_both"],
                    Estimate(**pair["rho"]),
                    pair["same_class"],
                    Estimate(**pair["kappa"]) if pair["kappa"] else None,
                ]
            )
            for pair in block["pairs"]
        ]
        yield Table("pairs", PAIR_COLUMNS, pairs, "Pairs of scorers of one dimension")
        for dimension, scorers in several.items():
            for cut in results["cuts"]:
                rows = [row for row in block["verdicts"] if (row["dimension"], row["cut"]) == (dimension, cut)]
                yield _verdicts(dimension, cut, scorers, rows, labels)
        for cut in results["cuts"]:
            yield _tests(cut, [row for row in block["tests"] if row["cut"] == cut], labels)
        yield Sentence(HOW_TO_READ.format_map(block), Weight.DETAIL)

    def brief(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield how many verdicts depend on the scorer."""
        for dimension, scorers in _several(block).items():
            n = summary(block["verdicts"], dimension)
            measured = f"{sentence(scorer_label(dimension))} by {' and '.join(map(scorer_label, scorers))}"
            if n["n_significant"] or n["n_verdict_depends"]:
                yield Sentence(
                    f"{measured}: {n['n_verdict_depends']} of {n['n_verdicts']} verdicts depend on the scorer; of "
                    f"{n['n_significant']} with a significant difference, "
                    f"{n['n_direction_depends']} in direction and {n['n_worst_group_depends']} in the worst group.",
                    Weight.WARNING if n["n_verdict_depends"] else Weight.PLAIN,
                )


def _several(block: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return the scorers of each dimension that several measure."""
    return {name: scorers for name, scorers in block.get("dimensions", {}).items() if len(scorers) > 1}


def _verdicts(
    dimension: str, cut: str, scorers: Sequence[str], rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str]
) -> Table:
    """Return what each scorer of a dimension concludes about every probe."""
    columns, table_rows = [Column("Probe")], []
    for name in map(scorer_label, scorers):
        columns += [
            Column(sentence(name), Kind.VERDICT),
            Column(f"{name}: disparity", Kind.NUMBER),
            Column(f"{name}: adjusted p", Kind.P),
            Column(f"{name}: worst group", Kind.NAME),
        ]
    for row in rows:
        cells: list[Any] = [labels[row["probe"]]]
        for name in scorers:
            of_scorer = row["scorers"].get(name)
            if of_scorer is None:
                cells += [None] * 4
                continue
            worst = Cell(of_scorer["worst_group"], muted=not of_scorer["significant"])
            cells += [of_scorer["verdict"], of_scorer["raw"], of_scorer["adjusted_p"], worst]
        depends = [DEPENDS[name] for name in row["depends"] if name == "verdict" or row["significant"]]
        table_rows.append(Row([*cells, Cell(", ".join(depends) or "no", strong=bool(depends))]))
    caption = f"Verdicts on {scorer_label(dimension)} by {cut_label(cut)}, by scorer"
    return Table(f"verdicts_{dimension}", [*columns, Column("Depends on the scorer")], table_rows, caption, cut=cut)


def _tests(cut: str, rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> Table:
    """Return the tests of agreement by one cut, with the mean of each group."""
    groups = list(dict.fromkeys(group["group"] for row in rows for group in row["groups"]))
    table_rows = []
    for row in rows:
        means = {group["group"]: Cell(group["mean"], subjects=group["n_subjects"]) for group in row["groups"]}
        cells = [
            scorer_label(row["first"]),
            scorer_label(row["second"]),
            labels[row["probe"]],
            "same sign or class" if row["outcome"] == SAME else "first minus second",
            row["raw"],
            Cell(row["adjusted_p"], strong=bool(row["significant"])),
            Cell(row["lowest_group"], muted=not row["significant"]),
        ]
        table_rows.append(Row([*cells, *(means.get(group) for group in groups)]))
    differing = sum(bool(row["significant"]) for row in rows)
    fold = f"Agreement by {cut_label(cut)}: {differing} of {len(rows)} tests differ between groups"
    columns = [*TEST_COLUMNS, *(Column(group, Kind.NUMBER, digits=2) for group in groups)]
    return Table("agreement", columns, table_rows, fold=fold, cut=cut)


DEPENDS = {"verdict": "verdict", "direction": "direction", "worst_group": "worst group"}
PAIR_COLUMNS = [
    Column("First"),
    Column("Second"),
    Column("Probe"),
    Column("Answers", Kind.COUNT),
    Column("Coverage, first", Kind.SHARE, digits=2),
    Column("Coverage, second", Kind.SHARE, digits=2),
    Column("Both", Kind.COUNT),
    Column("Spearman's rho", Kind.ESTIMATE, digits=2),
    Column("Same sign or class", Kind.SHARE, digits=2),
    Column("Cohen's kappa", Kind.ESTIMATE, digits=2),
]
TEST_COLUMNS = [
    Column("First"),
    Column("Second"),
    Column("Probe"),
    Column("Outcome"),
    Column("Largest difference", Kind.NUMBER),
    Column("Adjusted p", Kind.P),
    Column("Lowest", Kind.NAME),
]
HOW_TO_READ = (
    "Agreement is over the answers that were not refused and of which both scorers have a value; a sign is positive or "
    "negative where the value is at least the scorer's smallest effect of interest. Spearman's ρ pooled over probes "
    "also has the differences between probes in it. Intervals resample subjects; there is none where fewer than 15 "
    "subjects have an answer outside the most common value. A scorer that errs more often about one group makes a "
    "disparity: where the share of answers with the same sign, or the first value minus the second (shares of their "
    "scales), differs between groups, the gap depends on the scorer, though a difference need not be an error. "
    "{n_permutations:,} permutations of the group labels across subjects; family: {family}. Verdicts are those of the "
    "run, each at its own level of the run's correction."
)
