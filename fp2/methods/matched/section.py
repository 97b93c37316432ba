"""Differences within counterfactual sets in the reports: by cut, the levels of the versions and the tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
    plural,
    primary_scorer,
    probe_labels,
    row_finding,
    scorer_label,
    sentence,
    verdict_meanings,
    verdict_words,
)

MOST_SHOWN = 12
"""Differences of the first chart."""


class MatchedSection(Section):
    """Differences within the sets, a table per cut and scorer."""

    name = "matched"
    title = "Differences within counterfactual sets"

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield what differs, by cut the versions of the primary scorer and all tests, then every row's finding."""
        labels, primary = probe_labels(results), primary_scorer(results)
        yield from _in_short([row for row in block["rows"] if row["scorer"] == primary], results)
        yield Sentence(HOW_TO_READ, Weight.DETAIL)
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
        for verdict, meaning in verdict_meanings(block["rows"]).items():
            yield Sentence([Strong(verdict_words(verdict)), f": {meaning}"], Weight.DETAIL)
        for row in block["rows"]:
            name = f"{scorer_label(row['scorer'])} of {plain(row['probe'])} within sets that vary in "
            worst, best = row["worst_version"], row["best_version"]
            ends = f", {plain(worst)} against {plain(best)}" if row["significant"] else ""
            yield row_finding(name + cut_label(row["cut"]), row, ends, sized=row["scorer"] == primary)


def _in_short(rows: Sequence[Mapping[str, Any]], results: Results) -> Iterator[Value]:
    """Yield the largest difference of the primary scorer in words, and the differences of all cuts as a chart."""
    labels, score = probe_labels(results), scorer_label(primary_scorer(results))
    tested = sorted((row for row in rows if row["raw"] is not None), key=lambda row: -row["raw"])
    significant = [row for row in tested if row["significant"]]
    if significant:
        row = significant[0]
        better = {one["name"]: one.get("higher_is_better", True) for one in results["scorers"]}
        direction = "lower" if better.get(row["scorer"], True) else "higher"
        yield Sentence(
            [
                "Answers about the version ",
                Strong(plain(row["worst_version"])),
                f" ({cut_label(row['cut'])}) score ",
                f"{direction} in {scorer_label(row['scorer'])} than answers about ",
                Strong(plain(row["best_version"])),
                f" on {labels[row['probe']]}, by {number(row['raw'])}.",
            ],
            Weight.LEAD,
        )
        if more := len(significant) - 1:
            count = f"{plural(more, 'more difference')} {'is' if more == 1 else 'are'} significant in {score}."
            yield Sentence(count, Weight.LEAD)
    elif tested:
        compared = f" in {plural(len(tested), 'comparison')} of {score}."
        yield Sentence([Strong("No difference between versions was found"), compared], Weight.LEAD)
    else:
        yield Sentence([Strong("Nothing could be tested"), ": too few sets."], Weight.LEAD)
    rows = significant or tested
    more_rows = f"The {MOST_SHOWN} largest of {len(rows)}." if len(rows) > MOST_SHOWN else ""
    points = [_point(row, f"{labels[row['probe']]}, {cut_label(row['cut'])}") for row in rows[:MOST_SHOWN]]
    title = "Significant differences within sets" if significant else "Differences within sets, none significant"
    yield Chart(
        ChartKind.INTERVALS,
        "matched_differing",
        title,
        [Series(points)],
        Axis(f"difference of {score}", 0.0),
        caption=more_rows,
        in_files=False,
    )


def _point(row: Mapping[str, Any], label: str) -> Point:
    value = _interval(row).value
    low, high = (value.low, value.high) if isinstance(value, Estimate) else (None, None)
    return Point(
        row["raw"],
        label,
        low=low,
        high=high,
        null_mean=row["null_mean"],
        null_p95=row["null_p95"],
        filled=bool(row["significant"]),
        verdict=row["verdict"],
        subjects=row["n_sets"],
    )


def _versions(cut: Mapping[str, Any], rows: list[Mapping[str, Any]], scorer: str, labels: Mapping[str, str]) -> Chart:
    """Return the mean of each version less that of the set: a row for each probe, a column for each version.

    A difference below the smallest effect of interest has a pale colour, however small the others are.
    """
    tested = [row for row in rows if row["raw"] is not None]
    least_end = max((row.get("smallest_effect") or 0.0 for row in tested), default=0.0)
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
            for row in tested
        ],
        value=Axis(f"mean {scorer_label(scorer)} less the mean of the set", -least_end, least_end),
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
            *((row["worst_version"], row["best_version"]) if row["significant"] else (None, None)),
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
