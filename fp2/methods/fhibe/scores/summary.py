"""Disparities summed up: by the number and the kind of attributes in an intersection, and by value.

The paper's Supplementary Fig. 21 shows that intersections of several attributes have the largest disparities, and its
text which values are most often among the best and the worst groups. Both grow by chance alone: an intersection has
more and smaller groups, and a value that is in many groups is often among the extreme ones. What chance gives stands
beside: the mean disparity under permutation (subject-level analysis), and how often a value would be worst or best if
these were two groups drawn at random from those of each cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from fp2.extension import (
    LABEL_JOIN,
    Axis,
    Block,
    Chart,
    ChartKind,
    Column,
    Cut,
    Kind,
    Point,
    Results,
    Row,
    Section,
    Sentence,
    Series,
    Table,
    Value,
    Weight,
    cut_label,
)
from fp2.methods.fhibe.scores.benchmark_values import ABBREVIATED, short_group

SUMMARY = "disparity_summary"
SUMMARY_SECTION = "fp2.methods.fhibe.scores.summary:SummarySection"
CutRow = Mapping[str, Any]


def summarise(outcomes: Sequence[Mapping[str, Any]], cuts: Sequence[Cut]) -> dict[str, Any]:
    """Return the block `disparity_summary`, under its name, from the benchmarks of another block.

    Parameters
    ----------
    outcomes : sequence of mappings
        Each with `benchmark`: None, or `rows` (`fp2.methods.fhibe.scores.benchmark`).
    cuts : sequence of Cut
        Those of the rows, by name.

    Returns
    -------
    dict
        `disparity_summary`: `by_number` and `by_kind` have a row per number of attributes, and per combination (as P,
        A, ST, AR, AS). Each has `n_cases` (outcome and cut, with two groups to compare), `n_significant`, median and
        maximum of the significant published disparities (`median`, `highest`), and means over all cases of the
        subject-level disparity, of its null mean and of their difference. `values` has a row per attribute
        and value with `n_cases` (significant ones with a group of that value), `n_worst`, `n_best` and `expected`, the
        number of either under random choice. Empty where no cut has two groups to compare.
    """
    rows = [row for outcome in outcomes if outcome["benchmark"] is not None for row in outcome["benchmark"]["rows"]]
    rows = [row for row in rows if row["n_groups"] >= 2]
    if not rows:
        return {}
    by_number: dict[int, list[CutRow]] = defaultdict(list)
    by_kind: dict[tuple[int, str], list[CutRow]] = defaultdict(list)
    for row in rows:
        by_number[row["n_parts"]].append(row)
        by_kind[row["n_parts"], row["abbreviation"]].append(row)
    block = {
        "by_number": [{"n_parts": n, **_sizes(by_number[n])} for n in sorted(by_number)],
        "by_kind": [{"n_parts": n, "kind": kind, **_sizes(by_kind[n, kind])} for n, kind in sorted(by_kind)],
        "values": _values(rows, {cut.name: cut.by for cut in cuts}),
    }
    return {SUMMARY: block}


def _sizes(rows: Sequence[CutRow]) -> dict[str, Any]:
    sizes = [size for row in rows if row["published"] and (size := row["published"]["disparity"]) is not None]
    ours = [row["ours"] for row in rows if row["ours"]["raw"] is not None and row["ours"]["null_mean"] is not None]
    raw, null = (_mean(disparity["raw"] for disparity in ours), _mean(disparity["null_mean"] for disparity in ours))
    return {
        "n_cases": len(rows),
        "n_significant": sum(row["published"] is not None for row in rows),
        "median": median(sizes) if sizes else None,
        "highest": max(sizes, default=None),
        "raw": raw,
        "null_mean": null,
        "excess": None if raw is None or null is None else raw - null,
    }


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None


def _values(rows: Sequence[CutRow], by: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row["published"] is None:
            continue
        groups = [group["group"].split(LABEL_JOIN) for group in row["groups"]]
        ends = {end: row["published"][end].split(LABEL_JOIN) for end in ("worst", "best")}
        for n, attribute in enumerate(by[row["cut"]]):
            if any(len(parts) != row["n_parts"] for parts in (*groups, *ends.values())):
                continue  # a value that holds the separator
            of_value = [parts[n] for parts in groups]
            for value in sorted(set(of_value)):
                entry = counts.setdefault(
                    (attribute, value), {"n_cases": 0, "n_worst": 0, "n_best": 0, "expected": 0.0}
                )
                entry["n_cases"] += 1
                entry["expected"] += of_value.count(value) / len(of_value)
                for end, parts in ends.items():
                    entry[f"n_{end}"] += parts[n] == value
    return [{"attribute": name, "value": value, **counts[name, value]} for name, value in sorted(counts)]


_MAX_KINDS, _MAX_VALUES = 30, 40
HOW_TO_READ = (
    "D is that of the published analysis, of the significant cases. An intersection has more and smaller groups, so "
    "that D and the largest difference of means grow by chance alone; excess is the subject-level disparity less its "
    "mean under permutation, over all cases. Expected by chance: the number if the worst and the best group of a case "
    "(a score and a cut with a significant pair) were drawn at random. Cases share people, so that the counts are not "
    "independent. " + ABBREVIATED
)


class SummarySection(Section):
    """Tables by number and kind of attributes, and of the values that are most often worst or best."""

    name = SUMMARY
    title = "Which intersections, and which values"
    detail = True

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield the disparities by number and by kind of attributes, and the values farthest from chance."""
        by_number = [Row([str(row["n_parts"]), *(row[key] for key in _SIZES)]) for row in block["by_number"]]
        yield Table("by_number", [Column("Attributes"), *_SIZES.values()], by_number, "By number of attributes", True)
        kinds = block["by_kind"]
        points = [Point(row["raw"], row["kind"], null_mean=row["null_mean"]) for row in kinds[:_MAX_KINDS]]
        yield Chart(
            ChartKind.INTERVALS,
            SUMMARY,
            "Subject-level disparity by kind of intersection, beside its null mean",
            [Series(points)],
            Axis("mean disparity", 0.0),
        )
        by_kind = [Row([row["kind"], *(row[key] for key in _SIZES)]) for row in kinds]
        yield Table("by_kind", [Column("Attributes"), *_SIZES.values()], by_kind, fold="By kind of intersection")
        rows = [
            Row([short_group(row["value"]), cut_label(row["attribute"]), *(row[key] for key in _COUNTS)])
            for row in sorted(block["values"], key=_distance_from_chance, reverse=True)[:_MAX_VALUES]
        ]
        caption = "How often a value is in the worst and in the best group of the published analysis"
        yield Table("values", [Column("Value", Kind.NAME), Column("Attribute"), *_COUNTS.values()], rows, caption)
        yield Sentence(HOW_TO_READ, Weight.DETAIL)


def _distance_from_chance(row: Mapping[str, Any]) -> float:
    return max(abs(float(row[f"n_{end}"]) - float(row["expected"])) for end in ("worst", "best"))


_SIZES = {
    "n_cases": Column("Cases", Kind.COUNT),
    "n_significant": Column("Significant", Kind.COUNT),
    "median": Column("Median D", Kind.NUMBER, 2),
    "highest": Column("Highest D", Kind.NUMBER, 2),
    "raw": Column("Disparity", Kind.NUMBER),
    "null_mean": Column("Null mean", Kind.NUMBER, terminal=False),
    "excess": Column("Excess", Kind.NUMBER, compared=True),
}
_COUNTS = {
    "n_cases": Column("Cases", Kind.COUNT),
    "n_worst": Column("In the worst, published", Kind.COUNT),
    "n_best": Column("In the best, published", Kind.COUNT),
    "expected": Column("Expected by chance", Kind.NUMBER, 1),
}
