"""The report section of measurement error: gaps as scored and corrected, and the scorer's errors by group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fp2.extension import (
    Block,
    Cell,
    Column,
    Estimate,
    Kind,
    Part,
    Results,
    Row,
    Section,
    Sentence,
    Table,
    Value,
    Weight,
    cut_label,
    first_of,
    number,
    plain,
    plural,
    probability,
    probe_labels,
    scorer_label,
    sentence,
)
from fp2.methods.labels.measurement_error import CONFIRMED, FOUND, MEANINGS, NEITHER, NOT_CONFIRMED


class MeasurementErrorSection(Section):
    """A table per scorer and cut: the gap as scored and corrected, and the errors by group."""

    name = "measurement_error"
    title = "Measurement error and corrected disparities"
    detail = True

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield who labelled how much, what stands and where errors differ, and the gaps and errors by cut."""
        labels = probe_labels(results)
        yield from (Sentence(f"{sentence(text)}.") for text in sentences(block, labels))
        for scorer, cut in dict.fromkeys((row["scorer"], row["cut"]) for row in block["rows"]):
            rows = [row for row in block["rows"] if (row["scorer"], row["cut"]) == (scorer, cut)]
            about = f"{scorer_label(scorer)} by {cut_label(cut)}"
            gaps = [_gap(row, labels) for row in rows]
            yield Table("gaps", GAP_COLUMNS, gaps, f"{sentence(about)}, on the scale of the labels", cut=cut)
            errors = [_errors(row, labels) for row in rows]
            yield Part(f"Errors of {about}", errors, folded=True, cut=cut)
        yield Sentence(HOW_TO_READ.format_map(block), Weight.DETAIL)


def sentences(block: Block, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the findings in sentences, without names of groups."""
    for labelled in block["labellers"]:
        n = len(labelled["n_labels"])
        scorer, who = plain(labelled["scorer"]), plural(n, "labeller")
        agreement = ""
        for pair in labelled["agreement"]:
            interval = f" ({number(pair['ci_low'], 2)} to {number(pair['ci_high'], 2)})"
            kappa = f"{number(pair['kappa'], 2)}{interval if pair['kappa'] is not None else ''}"
            agreement += f"; kappa {kappa} on {pair['n']}"
        yield f"labels of {labelled['n_answers']} answers for {scorer} by {who}{agreement}"

    def named(rows: Sequence[Mapping[str, Any]]) -> str:
        return first_of(
            [f"{labels.get(r['probe'], r['probe'])} by {cut_label(r['cut'])} ({plain(r['scorer'])})" for r in rows]
        )

    for outcome, meaning in OUTCOMES.items():
        if rows := [row for row in block["rows"] if row["outcome"] == outcome]:
            yield f"{meaning}: {named(rows)}"
    if rows := [row for row in block["rows"] if row["error_differs"]]:
        p = min(row["adjusted_error_p"] for row in rows)
        yield f"the scorer's error differs between groups: {named(rows)} (smallest adjusted p {probability(p)})"
    if rows := [row for row in block["rows"] if row["outcome"] is None]:
        yield f"too few labels for {named(rows)}: a group needs {block['least_labelled']:g} labelled subjects"


def _gap(row: Mapping[str, Any], labels: Mapping[str, str]) -> Row:
    label, muted = labels.get(row["probe"], row["probe"]), not row["significant"]
    if row["status"] != "ok":
        return Row([label, Cell(None, detail="too few labels"), *[None] * (len(GAP_COLUMNS) - 2)])
    more = ""
    if row["outcome"] == NOT_CONFIRMED and row["more_labels"] is not None and row["more_labels"] > 1:
        more = f"{number(row['more_labels'], 1)} times the labels would find a gap of this size"
    return Row(
        [
            label,
            row["scored_gap"],
            Estimate(row["gap"], row["ci_low"], row["ci_high"]),
            row["adjusted_p"],
            Cell(row["lower_group"], muted=muted),
            Cell(row["higher_group"], muted=muted),
            row["plain_verdict"],
            Cell(MEANINGS.get(row["outcome"]), detail=more),
            row["adjusted_error_p"],
        ]
    )


def _errors(row: Mapping[str, Any], labels: Mapping[str, str]) -> Table:
    """Return the errors of a scorer in one probe by group."""
    caption = [labels.get(row["probe"], row["probe"])]
    for one in row["classes"]:
        if one["group"] is None:
            precision, recall = (number(one[name][0] if one[name] else None, 2) for name in ("precision", "recall"))
            caption.append(f"{number(one['value'], 0)}: precision {precision}, recall {recall}")
    if row["power_tuning"] is not None:
        caption.append(f"power tuning λ {number(row['power_tuning'], 2)}")
    lines = []
    for group in row["groups"]:
        sizes = [group["group"], group["n_subjects"], group["n_labels"], group["n_labelled"]]
        estimates: list[Any] = [None, Cell(None, detail=f"{group['needed']} more labelled subjects needed"), None, None]
        if group["mean"] is not None:
            estimates = [
                group["score"],
                Estimate(group["mean"], group["ci_low"], group["ci_high"]),
                Estimate(group["error"], group["error_low"], group["error_high"]),
                group["absolute_error"],
            ]
        lines.append(Row([*sizes, *estimates], group["n_subjects"]))
    return Table("errors", ERROR_COLUMNS, lines, "; ".join(caption), omit_small=True, cut=row["cut"])


OUTCOMES = {
    CONFIRMED: "the verdict remains after correction for the scorer's error",
    NOT_CONFIRMED: "the verdict does not remain after correction for the scorer's error",
    FOUND: "no difference in the scores, but one after correction for the scorer's error",
    NEITHER: "no difference found, with or without the correction",
}
GAP_COLUMNS = [
    Column("Probe"),
    Column("Gap as scored", Kind.NUMBER),
    Column("Corrected gap", Kind.ESTIMATE),
    Column("Adjusted p", Kind.P),
    Column("Lower", Kind.NAME),
    Column("Higher", Kind.NAME),
    Column("Verdict by scores alone", Kind.VERDICT),
    Column("Corrected for the scorer's error"),
    Column("Equal error: adjusted p", Kind.P),
]
ERROR_COLUMNS = [
    Column("Group", Kind.NAME),
    Column("Subjects", Kind.COUNT, public=True),
    Column("Labels", Kind.COUNT),
    Column("Labelled subjects", Kind.COUNT),
    Column("Mean score", Kind.NUMBER),
    Column("Corrected mean", Kind.ESTIMATE),
    Column("Score less label", Kind.ESTIMATE),
    Column("Absolute error", Kind.NUMBER),
]
HOW_TO_READ = (
    "People labelled some of the answers; scores are read on the scale of the labels. A corrected mean is that of the "
    "scores plus the mean difference between labels and scores in the sample, weighted by the inverse of the "
    "probability with which an answer was drawn (prediction-powered inference); it holds although the scorer errs, as "
    "far as the labels are right. Family: {family}. Subjects are the units. Where labellers differ and nobody has "
    "decided, their mean counts; a label that depends on the group beyond what the answer says would bias the "
    "corrected gap as well. Groups with fewer than {least_labelled:.0f} labelled subjects (of equal weight) are not "
    "compared."
)
