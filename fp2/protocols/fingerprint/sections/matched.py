"""Counterfactual sets: differences within the same scene, by probe, beside what chance makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fp2.report.reading import cut_label, number, plain, primary_scorer, probe_labels, scorer_label, verdict_words
from fp2.report.section import Block, Results, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST = 10  # figures know no config: as `report.suppress_below` ships
_MARKS = {"biased": "bold red", "significant_but_small": "yellow", "equivalent": "green"}


class MatchedSection(Section):
    """."""

    name = "matched"
    title = "The same scene with one attribute changed"

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return a table per cut and scorer: a line per probe with the differences from the worst version to the best."""
        labels = probe_labels(results)
        tables = [
            {
                "cut": cut["cut"],
                "scorer": scorer["name"],
                "n_sets": cut["n_sets"],
                "versions": cut["versions"],
                "lines": [_line(row, labels, min_cell) for row in _rows(block, cut["cut"], scorer["name"])],
            }
            for cut in block["cuts"]
            for scorer in results["scorers"]
        ]
        primary = scorer_label(primary_scorer(results))
        alts = {
            _file(cut["cut"]): f"Mean {primary} of each version beside its sets' mean, by {cut_label(cut['cut'])}; the "
            "grey bar is as wide as the largest difference that chance makes in 19 of 20 cases"
            for cut in block["cuts"]
            if cut["n_sets"] >= max(min_cell, _LEAST)
        }
        tables = [table for table in tables if table["lines"]]
        first = primary_scorer(results)
        scorers = sorted(dict.fromkeys(str(table["scorer"]) for table in tables), key=lambda name: name != first)
        pictures = [(cut["cut"], _file(cut["cut"])) for cut in block["cuts"] if _file(cut["cut"]) in alts]
        return {"matched": block, "own_pictures": pictures, "tables": tables, "scorers": scorers, "alts": alts}

    def figures(self, block: Block, results: Results, folder: Path) -> Iterator[Path]:
        """Draw one figure per cut: the versions' levels under each probe for the primary scorer."""
        for cut in block["cuts"]:
            rows = [row for row in _rows(block, cut["cut"], primary_scorer(results)) if row["raw"] is not None]
            if rows and cut["n_sets"] >= _LEAST:
                yield _levels(rows, cut["cut"], results, folder / _file(cut["cut"]))

    def lines(self, block: Block, results: Results) -> list[Text]:
        """Return for each cut what differs within the sets under the primary scorer."""
        labels, out = probe_labels(results), []
        for cut in block["cuts"]:
            rows = _rows(block, cut["cut"], primary_scorer(results))
            line = Text(f"within {cut['n_sets']} sets that vary in {cut_label(cut['cut'])}: ")
            for place, row in enumerate(rows):
                ends = f" ({plain(row['worst_version'])} → {plain(row['best_version'])})" if row["significant"] else ""
                size = f" {number(row['raw'])}" if row["raw"] is not None else ""
                line.append(f"{'; ' if place else ''}{labels[row['probe']]}{size} ")
                line.append(verdict_words(row["verdict"]) + ends, style=_MARKS.get(row["verdict"], "dim"))
            out.append(line)
        return out


def _rows(block: Block, cut: str, scorer: str) -> list[Mapping[str, Any]]:
    return [row for row in block["rows"] if row["cut"] == cut and row["scorer"] == scorer]


def _file(cut: str) -> str:
    return f"matched_{re.sub(r'[^0-9A-Za-z_-]', '-', cut)}.png"


def _line(row: Mapping[str, Any], labels: Mapping[str, str], min_cell: int) -> dict[str, Any]:
    """Return one probe's line: the row, and the pair that its difference is of if enough sets have both."""
    ends = {row["worst_version"], row["best_version"]}
    pair = next((pair for pair in row["pairs"] if {pair["first"], pair["second"]} == ends), None)
    if pair is None or pair["n_sets"] < min_cell:
        return {"label": labels[row["probe"]], "row": row, "pair": None, "hidden": pair is not None}
    low, high = pair["ci_low"], pair["ci_high"]
    if pair["difference"] < 0:
        low, high = (None if high is None else -high), (None if low is None else -low)
    shown = {"n_sets": pair["n_sets"], "low": low, "high": high}
    return {"label": labels[row["probe"]], "row": row, "pair": shown, "hidden": False}


def _levels(rows: list[Mapping[str, Any]], cut: str, results: Results, path: Path) -> Path:
    from fp2.report.figures.style import FAINT, figure, head, save, shorten, style

    labels = probe_labels(results)
    reach = max(
        [abs(v["level"]) for row in rows for v in row["versions"] if v["level"] is not None]
        + [row["null_p95"] / 2 for row in rows]
        + [0.05]
    )
    with style():
        drawn = figure(8.2, 2.0 + 0.62 * len(rows))
        width, height = drawn.get_figwidth(), drawn.get_figheight()
        axes = drawn.add_axes((1.75 / width, 0.85 / height, 1 - 3.5 / width, 1 - 1.85 / height))
        for y, row in enumerate(rows):
            _probe(axes, y, row, reach)
        axes.axvline(0, color=FAINT, linewidth=0.8, zorder=1)
        axes.set(xlim=(-1.8 * reach, 1.8 * reach), ylim=(len(rows) - 0.4, -0.6))
        axes.set_yticks(range(len(rows)), [shorten(labels[row["probe"]], 20) for row in rows])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(f"mean {scorer_label(primary_scorer(results))}, beside the mean of the same scene's versions")
        title = f"The same scene, {shorten(cut_label(cut), 40)} changed: {rows[0]['n_sets']} sets"
        head(drawn, title, [results])
        note = "Filled: significant after correction. Grey bar: the widest spread that chance makes in 19 of 20 cases."
        drawn.text(0.15 / width, 0.15 / height, note, fontsize=7.5, color=FAINT)
        return save(drawn, path)


def _probe(axes: Axes, y: int, row: Mapping[str, Any], reach: float) -> None:
    """Draw one probe: chance as a bar around 0, the versions as points, the ends named."""
    from fp2.report.figures.style import CHANCE, FAINT, INK, VERDICT_MARKS, shorten

    axes.barh(y, row["null_p95"], left=-row["null_p95"] / 2, height=0.46, color=CHANCE, alpha=0.6, zorder=1)
    colour, _, filled = VERDICT_MARKS.get(row["verdict"], (FAINT, "o", False))
    known = [v for v in row["versions"] if v["level"] is not None and v["n_sets"] >= _LEAST]
    levels = [v["level"] for v in known]
    if not levels:
        return
    axes.plot([min(levels), max(levels)], [y, y], color=colour, linewidth=1.2, zorder=2)
    axes.scatter(levels, [y] * len(levels), s=26, facecolor=colour if filled else "white", edgecolor=colour, zorder=3)
    if row["significant"]:
        named = [v for v in known if v["name"] in (row["worst_version"], row["best_version"])]
        for version in named:
            left = version["level"] == min(v["level"] for v in named)
            axes.annotate(
                    shorten(plain(version["name"]), 16), (version["level"], y), (-6 if left else 6, 0),
                    textcoords="offset points", ha="right" if left else "left", va="center", fontsize=8, color=INK,
                )  # fmt: skip
    gap = f"{number(row['raw'])} {verdict_words(row['verdict'])}"
    axes.text(1.85 * reach, y, gap, va="center", ha="left", fontsize=8, color=INK if row["significant"] else FAINT)
