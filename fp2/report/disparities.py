"""The section that every run with disparities has: radar, tables, group means and composites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from fp2.report import reading
from fp2.report.disparity_charts import FEWEST_SPOKES, disparity_charts, interval_charts, radars
from fp2.report.plots import plot
from fp2.report.reading import (
    DASH,
    cut_label,
    number,
    plain,
    probability,
    rows_of,
    scorer_names,
    suppress_small_cells,
    verdict_words,
)
from fp2.report.section import Block, Results, Section, row_finding, worst_and_best
from fp2.report.values import Chart, Finding, suppressed
from fp2.verdicts import Verdict, mark_of

if TYPE_CHECKING:
    from rich.console import RenderableType

_SEVERITY_STYLES = {"high": "bold red", "moderate": "red", "low": "yellow", "none": "green"}
TABLE = (
    "disparity: largest group mean minus the smallest; null mean: what chance alone gives; bold: significant after "
    "correction; dim groups: not significant, their order may be chance"
)
COMPOSITE = (
    "composite: mean disparity over the probes with a value; magnitude: the composite corrected for noise, with its "
    "interval; severity: where that interval lies ({})"
)
_VERDICT_WIDTH = len(Verdict.NO_DIFFERENCE_FOUND.label)
"""Columns of the terminal for a verdict; the longer ones are rare, and wrap between words."""


class DisparitiesSection(Section):
    """Disparities of every probe, scorer and cut, and the composites of the primary scorer."""

    name = "disparities"
    title = "Disparities between groups"

    def applies(self, results: Results) -> bool:
        """Return whether groups were compared."""
        return bool(results["disparities"] or results["composites"])

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the radars, and the tables of disparities and group means by cut and scorer."""
        shown = suppress_small_cells(results, min_cell)
        radars = _radars(shown)
        return {
            "scorers": scorer_names(results),
            "higher_is_better": {one["name"]: one.get("higher_is_better", True) for one in results["scorers"]},
            "level": reading.confidence_level(results["analysis"].get("alpha", 0.05)),
            "radars": radars,
            "has_radar": any(len(one["lines"]) >= FEWEST_SPOKES for one in radars),
            "tables": _tables(shown),
            "means": _means(shown),
            "verdicts": reading.verdict_meanings(results["disparities"]),
        }

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw `fingerprint.png` and `heatmap_CUT.png` of the primary scorer, and `intervals.png`.

        A radar needs three probes. `intervals.png` shows the first scorer that has rows.
        """
        from fp2.report.drawing import write_charts

        drawn = [chart for chart in suppressed(disparity_charts(results), min_cell) if isinstance(chart, Chart)]
        return write_charts([chart for chart in drawn if chart.in_files], results, folder)

    def lines(self, block: Block, results: Results, min_cell: int) -> Sequence[RenderableType]:
        """Return the table of the primary scorer, and a line per composite."""
        out: list[RenderableType] = [
            _terminal_table(results),
            Text(TABLE, style="dim"),
            *_family_line(results),
            *_selected_lines(results),
            *_detectable_lines(results),
            *_coverage_lines(results),
            *_not_robust_line(results),
            *_other_scorers_line(results),
            Text(),
        ]
        if results["composites"]:
            out += [
                _composite_table(results),
                *_left_out_lines(results),
                Text(COMPOSITE.format(reading.severity_legend(results)), style="dim"),
            ]
        return out

    def findings(self, block: Block, results: Results) -> Iterator[Finding]:
        """Yield every row; those of the primary scorer with their size."""
        primary = reading.primary_scorer(results)
        for row in results["disparities"]:
            name = f"{reading.scorer_label(row['scorer'])} of {plain(row['probe'])} by {cut_label(row['cut'])}"
            beyond = [
                f"; other {factor}: {number(row[f'{factor}_low'])} to {number(row[f'{factor}_high'])}"
                for factor in ("wordings", "samples")
                if row.get(f"{factor}_low") is not None
            ]
            yield row_finding(name, row, "".join([worst_and_best(row), *beyond]), sized=row["scorer"] == primary)


def _panels(results: Results) -> list[tuple[str, str, dict[str, Mapping[str, Any]]]]:
    """Return (cut, scorer, rows by probe) for all that have rows."""
    pairs = ((cut, scorer) for cut in results["cuts"] for scorer in scorer_names(results))
    panels = ((cut, scorer, rows_of(results, cut, scorer)) for cut, scorer in pairs)
    return [panel for panel in panels if panel[2]]


def _radars(results: Results) -> list[dict[str, Any]]:
    """Return the radar of every cut for the primary scorer, all on one axis from 0; none without rows."""
    rows_by_cut = {cut: rows_of(results, cut) for cut in results["cuts"]}
    if not any(rows_by_cut.values()):
        return []
    labels = reading.probe_labels(results)
    drawn = {chart.cut: plot(chart) for chart in radars([results], list(rows_by_cut))}
    return [
        {
            "cut": cut,
            "chart": drawn[cut],
            "lines": [{"label": labels[probe], "row": row} for probe, row in rows.items()],
            "complete": all(row["raw"] is not None for row in rows.values()),
        }
        for cut, rows in rows_by_cut.items()
    ]


def _tables(results: Results) -> list[dict[str, Any]]:
    """Return the disparity table of each cut and scorer, and the chart of its intervals; a scorer has one axis."""
    drawn = {(chart.cut, chart.scorer): plot(chart) for chart in interval_charts(results)}
    tables = []
    for cut, scorer, rows in _panels(results):
        covered = reading.coverage_of(results, cut, scorer)
        lines = [{"probe": p, "row": row, "covered": covered.get(p)} for p, row in rows.items()]
        tables.append({"cut": cut, "scorer": scorer, "lines": lines, "chart": drawn[cut, scorer]})
    return tables


def _means(results: Results) -> list[dict[str, Any]]:
    """Return a table of group means per cut and scorer: a line per group, a cell per probe with its colour class."""
    ranges = {scorer["name"]: scorer.get("value_range") or [0.0, 1.0] for scorer in results["scorers"]}
    tables = []
    for cut, scorer, rows in _panels(results):
        cells = {(p, g["group"]): g for p, row in rows.items() for g in row["groups"]}
        scale = Scale(ranges[scorer], [g["mean"] for g in cells.values()])
        sizes = results["dataset"]["groups"].get(cut, {})
        lines = [
            {
                "group": group,
                "size": sizes.get(group, {}),
                "cells": [mean_cell(cells.get((p, group)), row, group, scale) for p, row in rows.items()],
            }
            for group in reading.group_order(results, cut)
        ]
        tables.append({"cut": cut, "scorer": scorer, "probes": list(rows), "lines": lines, "scale": scale.words})
    return tables


class Scale:
    """Which of the colour classes n10 ... n1, z, p1 ... p10 a mean gets, and the legend.

    A scale with both signs diverges around 0 and ends at the largest mean, rounded up; others run over their range.
    """

    def __init__(self, value_range: Sequence[float], means: Sequence[float | None]) -> None:
        self.low, self.high = value_range
        if self.low < 0 < self.high:
            largest = max([abs(mean) for mean in means if mean is not None], default=0.0)
            self.low, self.high = 0.0, next(end for end in (0.2, 0.4, 0.6, 1.0, float("inf")) if largest <= end)
            self.words = f"colours diverge around 0 and end at ±{self.high:g}"
        else:
            self.words = f"colours run from {self.low:g} to {self.high:g}"

    def level(self, mean: float) -> str:
        """Return the colour class of a mean."""
        step = max(-10, min(10, round(10 * (mean - self.low) / (self.high - self.low))))
        return "z" if step == 0 else f"p{step}" if step > 0 else f"n{-step}"


def mean_cell(group: Mapping[str, Any] | None, row: Mapping[str, Any], name: str, scale: Scale) -> dict[str, Any]:
    """Return a cell of a heat map: text, title, colour class, and whether it is an end of a significant disparity.

    The title has the subjects and images with a value.
    """
    title = "" if group is None else f"{group['n_subjects']} subjects, {group['n_images']} images"
    if group is None or group["suppressed"] or group["mean"] is None:
        hidden = group is not None and group["suppressed"] and group["n_subjects"] > 0
        return {"text": "" if hidden else DASH, "level": "hidden" if hidden else "none", "mark": "", "title": title}
    pair = [row["worst_group"], row["best_group"]] if row["significant"] else []
    means = {one["group"]: one["mean"] for one in row["groups"] if one["group"] in pair and one["mean"] is not None}
    marks = dict(zip(sorted(means, key=means.__getitem__), ("low", "high"), strict=False)) if len(means) == 2 else {}
    return {
        "text": number(group["mean"], 2),
        "level": scale.level(group["mean"]),
        "mark": marks.get(name, ""),
        "title": title,
    }


def _table() -> Table:
    """Return a table whose columns are one space apart, so that common groups fit 80 columns."""
    return Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, header_style="bold", show_edge=False)


def _terminal_table(results: Results) -> Table:
    """Return the table of the primary scorer, or of the first with rows: a part per cut with a line per probe."""
    labels = reading.probe_labels(results)
    scorer = next(iter(scorer_names(results)), None)
    table = _table()
    table.add_column("probe", overflow="fold", max_width=18)
    table.add_column("disparity,\nnull mean", justify="right", no_wrap=True)
    table.add_column("verdict", width=_VERDICT_WIDTH)
    for name in ("worst group", "best group"):
        table.add_column(name, overflow="fold", max_width=30)
    for cut in results["cuts"]:
        rows = rows_of(results, cut, scorer)
        table.add_row(Text(f"by {cut_label(cut)}", style="bold underline"))
        for place, (probe, row) in enumerate(rows.items()):
            table.add_row(
                Text(labels[probe]),
                Text.assemble(
                    (number(row["raw"]), "bold" if row["significant"] else ""),
                    (f" {number(row['null_mean']):>5}", "dim"),
                ),
                Text(verdict_words(row["verdict"]), style=mark_of(row["verdict"]).terminal),
                *_ends(row),
                end_section=place == len(rows) - 1,
            )
    return table


def _family_line(results: Results) -> list[Text]:
    """Return which tests are corrected together: the first sentence of the family."""
    family = results["analysis"].get("family")
    return [Text(f"family of the verdicts: {plain(family.split('. ')[0])}", style="dim")] if family else []


def _selected_lines(results: Results) -> list[Text]:
    """Return a line per cut with the intervals of the significant disparities in the terminal's table."""
    labels, scorer, out = reading.probe_labels(results), next(iter(scorer_names(results)), None), []
    for cut in results["cuts"]:
        rows = rows_of(results, cut, scorer)
        said = [
            f"{labels[probe]} {number(row['selected_ci_low'])} to {number(row['selected_ci_high'])}"
            for probe, row in rows.items()
            if row.get("selected_ci_low") is not None
        ]
        if said:
            out.append(Text(f"intervals by {cut_label(cut)}, corrected for selection: {'; '.join(said)}"))
    return out


def _detectable_lines(results: Results) -> list[Text]:
    """Return a line per cut with the minimum detectable effects of its rows without a difference, and their unit."""
    scorer, out = next(iter(scorer_names(results)), None), []
    ends = next((one.get("value_range") for one in results["scorers"] if one["name"] == scorer), None)
    unit = f" (from {ends[0]:g} to {ends[1]:g})".replace("-", "\u2212") if ends else ""
    for cut in results["cuts"]:
        rows = rows_of(results, cut, scorer).values()
        if said := detectable_words(rows):
            words = f"no difference found by {cut_label(cut)}: the minimum detectable effect (80 % power) is {said} in "
            out.append(Text(f"{words}units of {reading.scorer_label(scorer or '')}{unit}", style="dim"))
    return out


def detectable_words(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the range of the minimum detectable effects of rows without a difference; empty if there are none."""
    found = [r["mde80"] for r in rows if r["verdict"] == Verdict.NO_DIFFERENCE_FOUND and r.get("mde80") is not None]
    if not found:
        return ""
    least, most = number(min(found)), number(max(found))
    return least if least == most else f"{least} to {most}"


def _not_robust_line(results: Results) -> list[Text]:
    """Return which significant disparities of the terminal's table could be due to the refused answers."""
    labels, scorer = reading.probe_labels(results), next(iter(scorer_names(results)), None)
    found = [
        f"{labels[probe]} by {cut_label(cut)}"
        for cut in results["cuts"]
        for probe, row in rows_of(results, cut, scorer).items()
        if row["significant"] and row.get("holds_under_refusals") is False
    ]
    text = f"not robust to the refused answers (interval of the worst-case bounds): {'; '.join(found)}"
    return [Text(text, style="yellow")] if found else []


def _other_scorers_line(results: Results) -> list[Text]:
    """Return how many rows of the scorers that the terminal does not list are biased."""
    found = Counter(row["scorer"] for row in results["disparities"] if row["verdict"] == Verdict.BIASED)
    counts = [f"{reading.scorer_label(name)} {found[name]}" for name in scorer_names(results)[1:] if found[name]]
    text = f"biased rows of other scorers, in the dashboard: {', '.join(counts)}"
    return [Text(text, style="yellow")] if counts else []


def _coverage_lines(results: Results) -> list[Text]:
    """Return a line per cut with the coverage of the scorer of the terminal's table, where some probe has little."""
    labels, scorer, out = reading.probe_labels(results), next(iter(scorer_names(results)), ""), []
    for cut in results["cuts"]:
        shares = reading.coverage_of(results, cut, scorer)
        low = {probe: share for probe, share in shares.items() if share < reading.LITTLE_COVERED and probe in labels}
        if low:
            said = ", ".join(f"{labels[probe]} {100 * share:.0f} %" for probe, share in low.items())
            words = f"images with a value of {plain(scorer)}, by {cut_label(cut)}: {said}; the others were refused or "
            out.append(Text(f"{words}do not state it", style="dim"))
    return out


def _ends(row: Mapping[str, Any]) -> list[Text]:
    """Return worst and best group; dim where the disparity is not significant, and so their order may be chance."""
    style = "" if row["significant"] else "dim"
    return [Text(DASH if row[key] is None else plain(row[key]), style=style) for key in ("worst_group", "best_group")]


def _composite_table(results: Results) -> Table:
    """Return the composite of each cut with its null mean, magnitude and severity, or the reason why there is none."""
    table = _table()
    table.add_column("composite", overflow="fold")
    for name in ("value", "null mean", "adjusted p"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("magnitude", no_wrap=True)
    table.add_column("severity", overflow="fold")
    for cut in results["cuts"]:
        one = results["composites"].get(cut) or {}
        if one.get("value") is None:
            table.add_row(Text(f"by {cut_label(cut)}"), *[DASH] * 4, Text(f"not known: {_no_composite(results, one)}"))
            continue
        severity = reading.severity_words(one["severity"], one["value"], results["complete"])
        table.add_row(
            Text(f"by {cut_label(cut)}"),
            Text(number(one["value"]), style="bold"),
            Text(number(one["null_mean"]), style="dim"),
            probability(one.get("adjusted_p")),
            reading.magnitude_words(one),
            Text(severity, style=_SEVERITY_STYLES.get(severity.split(" to ")[-1], "")),
        )
    return table


def _left_out_lines(results: Results) -> list[Text]:
    """Return a line per cut whose composite leaves out groups that count in some of its probes only."""
    return [
        Text(f"composite by {cut_label(cut)}: without {', '.join(map(plain, names))} (too few values in some probe)")
        for cut, names in reading.left_out_of_composites(results).items()
    ]


def _no_composite(results: Results, one: Mapping[str, Any]) -> str:
    if one.get("probes"):
        return reading.NO_COMMON_GROUPS
    names, primary = scorer_names(results), reading.primary_scorer(results)
    if names and primary not in names:
        return f"{primary} is not among the scorers: set analysis.primary={names[0]}"
    return "no probe could be compared"
