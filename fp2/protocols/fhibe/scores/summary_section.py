"""The summary of disparities in reports: by number and kind of attributes, and by value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from fp2.protocols.fhibe.scores.figures import bare, short_group
from fp2.protocols.fhibe.scores.summary import SUMMARY
from fp2.report.figures.style import FAINT, LINES, figure, head, save, shorten, style
from fp2.report.reading import number
from fp2.report.section import Block, Results, Section

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
