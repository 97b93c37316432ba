"""What reports of several protocols show of a benchmark: highest disparities, groups, disparities within conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fp2.extension import (
    LABEL_JOIN,
    Axis,
    Block,
    Cell,
    Chart,
    ChartKind,
    Column,
    Estimate,
    Finding,
    Kind,
    Name,
    Point,
    Results,
    Row,
    Series,
    Table,
    Value,
    Verdict,
    cut_label,
    number,
    plain,
    primary_scorer,
    row_finding,
    worst_and_best,
)

AGREEMENT = {
    "both": "both",
    "published_only": "published only",
    "ours_only": "subject-level only",
    "neither": "neither",
    "none": "not compared",
}
_PRONOUNS = {"She/her/hers": "She", "He/him/his": "He", "They/them/their": "They"}
_TONES = ("I", "II", "III", "IV", "V", "VI")
_SHOWN, _DRAWN = 10, 25
NO_PAIR = "No pair of groups differs significantly in the published analysis."
ABBREVIATED = "P pronoun, A age, ST skin tone, AR region, AS subregion of ancestry."


def short_group(name: str) -> str:
    """Return a group's name as the paper's tables write it: `He/him/his x 60+ x V` -> `He × 60+ × Type V`."""
    parts = (_PRONOUNS.get(part, f"Type {part}" if part in _TONES else part) for part in name.split(LABEL_JOIN))
    return plain(" × ".join(parts))


def group_cell(group: str | None, sizes: Mapping[str, int]) -> Cell:
    """Return the name of a group that stands out, which is hidden if the group is small."""
    return Cell(None) if group is None else Cell(short_group(group), subjects=sizes.get(group, 0))


def extreme_cells(row: Mapping[str, Any], ends: tuple[str, str] = ("worst_group", "best_group")) -> list[Cell]:
    """Return the worst and the best group of a row, which no data show where its difference is not significant."""
    verdict = Verdict.of(row["verdict"])
    named = verdict is not None and verdict.is_significant
    return [group_cell(row[end] if named else None, sizes_of(row["groups"])) for end in ends]


def sizes_of(groups: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of subjects of each group of a row."""
    return {group["group"]: group["n_subjects"] for group in groups}


def estimate(row: Mapping[str, Any], value: str, low: str = "ci_low", high: str = "ci_high") -> Estimate:
    """Return a number of a row with its interval."""
    return Estimate(row[value], row[low], row[high])


def highest_disparities(block: Block, file: str) -> Iterator[Value]:
    """Yield the highest significant disparities of a block with benchmarks, as a chart and as tables."""
    sizes = {
        (outcome["label"], row["cut"]): sizes_of(row["groups"])
        for outcome in block["outcomes"]
        if outcome["benchmark"] is not None
        for row in outcome["benchmark"]["rows"]
    }
    several = len({line["outcome"] for line in block["top"]}) > 1
    points, rows = [], []
    for line in block["top"]:
        of_cut = sizes[line["outcome"], line["cut"]]
        n, both = min(of_cut[line["worst"]], of_cut[line["best"]]), line["agreement"] == "both"
        label = f"{line['outcome']} · {cut_label(line['cut'])}" if several else cut_label(line["cut"])
        worst, best = short_group(line["worst"]), short_group(line["best"])
        title = f"{label}: {number(line['disparity'], 2)}; published as the worst: {worst}, as the best: {best}"
        points.append(Point(line["disparity"], label, filled=both, subjects=n, title=title))
        groups = [Cell(name, muted=not both) for name in (worst, best)]
        intersection = Cell(line["intersection"], detail=cut_label(line["cut"]))
        cells = [line["outcome"], intersection, line["disparity"], *groups, AGREEMENT[line["agreement"]]]
        rows.append(Row(cells, n))
    title = "Highest significant disparities of the published analysis"
    yield Chart(
        ChartKind.BARS,
        "top",
        title,
        [Series(points[:_DRAWN])],
        D,
        file=file,
        filled="",
        caption="Filled: significant in the subject-level analysis, too; elsewhere it finds no difference.",
    )
    count = f"{min(_SHOWN, len(rows))} of {block.get('n_cases', len(rows))} cases"
    yield Table(
        "top",
        _TOP,
        rows[:_SHOWN],
        primary=True,
        fold=f"{title} ({count})" if rows else "",
        empty=NO_PAIR,
        omit_small=True,
    )
    yield Table("further", _TOP, rows[_SHOWN:], fold="Further significant disparities", omit_small=True)


def group_charts(
    rows: Sequence[Mapping[str, Any]], name: str, title: str, axis: Axis, keys: tuple[str, str, str]
) -> Iterator[Chart]:
    """Yield a chart of the groups of each cut: panels of the file `name`.

    rows : `cut, group, n_subjects`, and the value with its interval under `keys`.
    """
    for cut in dict.fromkeys(row["cut"] for row in rows):
        points = [
            Point(
                row[keys[0]], short_group(row["group"]), low=row[keys[1]], high=row[keys[2]], subjects=row["n_subjects"]
            )
            for row in rows
            if row["cut"] == cut and row[keys[0]] is not None
        ]
        yield Chart(
            ChartKind.INTERVALS,
            f"{name}_{cut}",
            title,
            [Series(points)],
            axis,
            cut=cut,
            file=name,
            panel=cut_label(cut),
        )


def within_table(outcome: Mapping[str, Any], within: Mapping[str, Any], name: str) -> Table:
    """Return each cut's disparity within a condition, beside the overall one."""
    rows = [
        Row(
            [
                cut_label(row["cut"]),
                row["gap_all"],
                row["p_all"],
                estimate(row, "gap"),
                row["chance"],
                row["p"],
                row["change"],
            ]
        )
        for row in within["rows"]
    ]
    sizes = f": {within['n_subjects']:,} subjects, {within['n_images']:,} images"
    return Table(name, _WITHIN, rows, [Name(outcome["label"]), " within ", Name(within["condition"]), sizes], True)


def intersection_findings(block: Block, results: Results) -> Iterator[Finding]:
    """Yield the subject-level rows of every outcome that are not among the disparities of the run."""
    primary = primary_scorer(results)
    for outcome in block["outcomes"]:
        for row in (outcome["benchmark"] or {}).get("rows", ()):
            ours = row["ours"]
            if row["cut"] not in results["cuts"]:
                name = f"{plain(outcome['label'])} by {cut_label(row['cut'])}"
                yield row_finding(name, ours, worst_and_best(ours), sized=outcome["metric"] == primary)


D = Axis("D = 1 − median of worst / median of best", 0.0)
_TOP = [
    Column("Score", Kind.NAME), Column("Intersection"), Column("D", Kind.NUMBER, 2),
    Column("Worst, published", Kind.NAME), Column("Best, published", Kind.NAME), Column("Significant in"),
]  # fmt: skip
_WITHIN = [
    Column("Cut"), Column("Overall", Kind.NUMBER, title="Disparity of all subjects"),
    Column("p, overall", Kind.P, terminal=False, title="Adjusted"), Column("Within", Kind.ESTIMATE),
    Column("Null mean", Kind.NUMBER, terminal=False), Column("p, within", Kind.P, title="Adjusted"), Column("Result"),
]  # fmt: skip
