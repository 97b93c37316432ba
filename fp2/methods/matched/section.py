"""Differences within counterfactual sets in the reports: by cut, the levels of the versions and the tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fp2.extension import (
    Axis,
    Block,
    Cell,
    Chart,
    ChartKind,
    Column,
    Estimate,
    Kind,
    Point,
    Results,
    Row,
    Section,
    Sentence,
    Series,
    Strong,
    Table,
    Value,
    Verdict,
    Weight,
    correction_label,
    cut_label,
    number,
    plain,
    primary_scorer,
    probe_labels,
    row_finding,
    scorer_label,
    sentence,
    verdict_meanings,
    verdict_words,
)


class MatchedSection(Section):
    """Differences within the sets, a table per cut and scorer."""

    name = "matched"
    title = "Differences within counterfactual sets"

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield by cut the versions of the primary scorer and the tests of every scorer, then every row's finding."""
        labels, primary = probe_labels(results), primary_scorer(results)
        scorers = sorted((scorer["name"] for scorer in results["scorers"]), key=lambda name: name != primary)
        for cut in block["cuts"]:
            rows_of_cut = [row for row in block["rows"] if row["cut"] == cut["cut"]]
            yield Sentence(f"{cut['n_sets']} sets vary in {cut_label(cut['cut'])}.", cut=cut["cut"])
            yield _versions(cut, [row for row in rows_of_cut if row["scorer"] == primary], primary, labels)
            for scorer in scorers:
                rows = [_row(row, labels) for row in rows_of_cut if row["scorer"] == scorer]
                caption = f"{sentence(scorer_label(scorer))} within sets that vary in {cut_label(cut['cut'])}"
                shown = {"cut": cut["cut"], "scorer": scorer}
                yield Table("matched", COLUMNS, rows, caption, primary=scorer == primary, **shown)
        yield Sentence(
            f"{block['n_sets']} sets, {results['analysis']['n_permutations']:,} permutations of the labels within the "
            f"sets; adjusted p-values: {correction_label(results['analysis']['correction'])} correction over "
            f"{results['analysis']['family']}.",
            Weight.DETAIL,
        )
        yield Sentence(HOW_TO_READ, Weight.DETAIL)
        for verdict, meaning in verdict_meanings(block["rows"]).items():
            yield Sentence([Strong(verdict_words(verdict)), f": {meaning}"], Weight.DETAIL)
        for row in block["rows"]:
            name = f"{scorer_label(row['scorer'])} of {plain(row['probe'])} within sets that vary in "
            worst, best = row["worst_version"], row["best_version"]
            ends = f", {plain(worst)} against {plain(best)}" if worst else ""
            yield row_finding(name + cut_label(row["cut"]), row, ends, sized=row["scorer"] == primary)


def _versions(
    cut: Mapping[str, Any], rows: list[Mapping[str, Any]], scorer: str, labels: Mapping[str, str]
) -> Chart:  # fmt: skip
    """Return the mean of each version less that of the set: a row for each probe, a column for each version."""
    return Chart(
        ChartKind.HEAT,
        f"matched_{re.sub(r'[^0-9A-Za-z_-]', '-', cut['cut'])}",
        f"Mean {scorer_label(scorer)} of each version less the mean of the set, by {cut_label(cut['cut'])}",
        [
            Series(
                [
                    Point(v["level"], plain(v["name"]), subjects=v["n_sets"], mark=_end(row, v["name"]))
                    for v in row["versions"]
                ],
                labels[row["probe"]],
            )
            for row in rows
            if row["raw"] is not None
        ],
        value=Axis(f"mean {scorer_label(scorer)} less the mean of the set"),
        caption="Marked: the versions that differ most, where the difference is significant after correction.",
        diverging=True,
        cut=cut["cut"],
    )


def _end(row: Mapping[str, Any], version: str) -> str:
    """Return which end of a significant difference a version is."""
    levels = {v["name"]: v["level"] for v in row["versions"]}
    ends = (row["worst_version"], row["best_version"])
    if not row["significant"] or version not in ends:
        return ""
    return "low" if levels[version] == min(levels[end] for end in ends) else "high"


def _row(row: Mapping[str, Any], labels: Mapping[str, str]) -> Row:
    detail = ""
    if row["verdict"] == Verdict.NO_DIFFERENCE_FOUND and row["mde80"] is not None:
        detail = f"MDE {number(row['mde80'])}"
    elif row["verdict"] == Verdict.BIASED and row.get("smallest_effect") is not None:
        detail = f"larger than {number(row['smallest_effect'])}"
    return Row(
        [
            labels[row["probe"]],
            Cell(row["raw"], strong=bool(row["significant"])),
            row["null_mean"],
            row["null_p95"],
            _interval(row),
            row["p_value"],
            row["adjusted_p"],
            Cell(row["verdict"], detail=detail),
            Cell(row["worst_version"], muted=not row["significant"]),
            Cell(row["best_version"], muted=not row["significant"]),
            row["n_sets"],
        ]
    )


def _interval(row: Mapping[str, Any]) -> Cell:
    """Return the interval of the difference from the worst version to the best."""
    ends = {row["worst_version"], row["best_version"]}
    pair = next((pair for pair in row["pairs"] if {pair["first"], pair["second"]} == ends), None)
    if pair is None or pair["ci_low"] is None or pair["ci_high"] is None:
        return Cell(None)
    low, high = pair["ci_low"], pair["ci_high"]
    interval = Estimate(-pair["difference"], -high, -low) if pair["difference"] < 0 else Estimate(row["raw"], low, high)
    return Cell(interval, subjects=pair["n_sets"])


COLUMNS = [
    Column("Probe"),
    Column("Difference", Kind.NUMBER),
    Column("Null mean", Kind.NUMBER, terminal=False),
    Column("Null 95th pct.", Kind.NUMBER, terminal=False),
    Column("95 % interval, worst to best", Kind.INTERVAL, terminal=False),
    Column("p", Kind.P, terminal=False),
    Column("Adjusted p", Kind.P),
    Column("Verdict", Kind.VERDICT),
    Column("Worst", Kind.NAME),
    Column("Best", Kind.NAME),
    Column("Sets", Kind.COUNT, terminal=False),
]
HOW_TO_READ = (
    "Every set shows one scene several times, with one attribute changed. Answers are compared within their set, so "
    "that differences between scenes cancel: these are no disparities of a population, and have no composite. "
    "Difference: the largest mean difference of two versions; the interval is of this pair, not corrected for the "
    "others. Equivalent: every pair was shown to differ by less than the smallest effect of interest. MDE: minimum "
    "detectable effect (80 % power before correction)."
)
