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
from pathlib import Path
from statistics import median
from typing import Any

from rich.text import Text

from fp2.extension import (
    FAINT,
    LABEL_JOIN,
    LINES,
    Block,
    Cut,
    Results,
    Section,
    figure,
    head,
    number,
    save,
    shorten,
    style,
)
from fp2.methods.fhibe.scores.figures import bare, short_group

SUMMARY = "disparity_summary"
SUMMARY_SECTION = "fp2.methods.fhibe.scores.summary:SummarySection"
Row = Mapping[str, Any]


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
    rows = [row for one in outcomes if one["benchmark"] is not None for row in one["benchmark"]["rows"]]
    rows = [row for row in rows if row["n_groups"] >= 2]
    if not rows:
        return {}
    by_number: dict[int, list[Row]] = defaultdict(list)
    by_kind: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_number[row["n_parts"]].append(row)
        by_kind[row["n_parts"], row["abbreviation"]].append(row)
    block = {
        "by_number": [{"n_parts": n, **_sizes(by_number[n])} for n in sorted(by_number)],
        "by_kind": [{"n_parts": n, "kind": kind, **_sizes(by_kind[n, kind])} for n, kind in sorted(by_kind)],
        "values": _values(rows, {cut.name: cut.by for cut in cuts}),
    }
    return {SUMMARY: block}


def _sizes(rows: Sequence[Row]) -> dict[str, Any]:
    sizes = [size for row in rows if row["published"] and (size := row["published"]["disparity"]) is not None]
    ours = [row["ours"] for row in rows if row["ours"]["raw"] is not None and row["ours"]["null_mean"] is not None]
    raw, null = _mean(one["raw"] for one in ours), _mean(one["null_mean"] for one in ours)
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
    known = list(values)
    return sum(known) / len(known) if known else None


def _values(rows: Sequence[Row], by: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row["published"] is None:
            continue
        groups = [group["group"].split(LABEL_JOIN) for group in row["groups"]]
        ends = {end: row["published"][end].split(LABEL_JOIN) for end in ("worst", "best")}
        for place, attribute in enumerate(by[row["cut"]]):
            if any(len(parts) != row["n_parts"] for parts in (*groups, *ends.values())):
                continue  # a value that holds the separator
            of_value = [parts[place] for parts in groups]
            for value in sorted(set(of_value)):
                line = found.setdefault((attribute, value), {"n_cases": 0, "n_worst": 0, "n_best": 0, "expected": 0.0})
                line["n_cases"] += 1
                line["expected"] += of_value.count(value) / len(of_value)
                for end, parts in ends.items():
                    line[f"n_{end}"] += parts[place] == value
    return [{"attribute": name, "value": value, **found[name, value]} for name, value in sorted(found)]


_FIGURE = "disparity_summary.png"
_ALT = "Published disparity by kind of intersection, and the subject-level disparity beside what chance gives"
_MAX_KINDS, _MAX_VALUES = 30, 40
_ROW = 0.3


class SummarySection(Section):
    """Tables by number and kind of attributes, and of the values that are most often worst or best."""

    name = SUMMARY
    title = "Which intersections, and which values"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the tables; values far from chance first."""
        return {
            "numbers": block["by_number"],
            "kinds": block["by_kind"],
            "values": [
                {**row, "value": short_group(row["value"])} for row in sorted(block["values"], key=_far)[:_MAX_VALUES]
            ],
            "alts": {_FIGURE: _ALT},
        }

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw the disparities by kind of intersection."""
        yield _by_kind(block["by_kind"][:_MAX_KINDS], results, folder / _FIGURE)

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return one line per number of attributes."""
        return [
            Text(
                f"{row['n_parts']} attribute{'' if row['n_parts'] == 1 else 's'}: median published disparity "
                f"{number(row['median'], 2)}, {row['n_significant']} of {row['n_cases']} cases significant"
            )
            for row in block["by_number"]
        ]


def _far(row: Mapping[str, Any]) -> float:
    return -max(abs(float(row[f"n_{end}"]) - float(row["expected"])) for end in ("worst", "best"))


def _by_kind(rows: list[Mapping[str, Any]], results: Results, path: Path) -> Path:
    """Draw for each kind the median and the largest published D, and the subject-level disparity and its null mean."""
    with style():
        drawn = figure(9.2, 2.0 + _ROW * len(rows))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        box = (0.75 / height, 1 - 1.75 / height)
        panels = [drawn.add_axes((left / width, box[0], 3.5 / width, box[1])) for left in (1.5, 5.4)]
        for y, row in enumerate(rows):
            if row["median"] is not None:
                panels[0].plot([row["median"], row["highest"]], [y, y], color=LINES[0], linewidth=1.4, alpha=0.5)
                panels[0].plot(row["median"], y, "o", color=LINES[0], markersize=5)
            if row["raw"] is not None:
                panels[1].plot([row["null_mean"], row["raw"]], [y, y], color=FAINT, linewidth=1.0)
                panels[1].plot(row["null_mean"], y, "|", color=FAINT, markersize=9, markeredgewidth=2)
                panels[1].plot(row["raw"], y, "o", color=LINES[1], markersize=5)
        labels = [shorten(f"{row['kind']}  ({row['n_significant']}/{row['n_cases']})", 26) for row in rows]
        for place, axes in enumerate(panels):
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_xlim(left=0)
            axes.set_yticks(range(len(rows)), labels if place == 0 else [""] * len(rows), fontsize=8)
            bare(axes)
        panels[0].set_xlabel("published D of significant cases: point median, line to the highest", fontsize=7.5)
        panels[1].set_xlabel("subject-level disparity, mean: point; bar: under permutation", fontsize=7.5)
        head(drawn, "Disparities by kind of intersection", [results])
        note = "in brackets: significant / all cases. P pronoun, A age, ST skin tone, AR region, AS subregion"
        drawn.text(0.15 / width, 0.12 / height, note, fontsize=7.5, color=FAINT)
        return save(drawn, path)
