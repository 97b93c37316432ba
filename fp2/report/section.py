"""How one part of the results is shown: in the dashboard, as figures, and in the terminal.

A protocol names its sections by import path (`EvaluationProtocol.section_targets`), so that they are imported with the
report and not before. A section reads the results and computes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fp2.plugins import load_path
from fp2.report.reading import DASH, MIN_CELL, number, plain, verdict_words
from fp2.report.several import side_by_side
from fp2.report.values import Estimate, Finding, Value, as_cell, charts, findings, suppressed
from fp2.verdicts import Verdict

if TYPE_CHECKING:
    from rich.console import RenderableType

DISPARITIES = "fp2.report.disparities:DisparitiesSection"
"""The section that every run with disparities has."""
Block = Mapping[str, Any]
Results = Mapping[str, Any]
Cell = float | tuple[float, float, float] | str | None


def cell_words(cell: Cell) -> str:
    """Return a cell of a table of several runs in words."""
    if cell is None or isinstance(cell, str):
        return plain(cell or DASH)
    if isinstance(cell, Sequence):
        value, low, high = (f"{one:.3g}" for one in cell)
        return f"{value} ({low} to {high})"
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:.1f}"


@dataclass(frozen=True)
class Beside:
    """A table of several runs: `rows` are label -> one cell per run, in the order of the runs.

    A cell is a number, an estimate with its interval (value, low, high), words, or None.
    """

    title: str
    rows: Mapping[str, Sequence[Cell]]


def row_finding(name: str, row: Mapping[str, Any], details: str = "", *, sized: bool = True) -> Finding:
    """Return the finding of a row with `raw`, `status` and `verdict`; `sized`: whether `--max-disparity` limits it."""
    message = f"{verdict_words(row['verdict'])}, disparity {number(row['raw'])}{details}"
    differs = row["verdict"] == Verdict.BIASED if row["status"] == "ok" else None
    return Finding(name, differs, message, row["raw"] if sized else None, row=row)


def worst_and_best(row: Mapping[str, Any]) -> str:
    """Return the groups with the lowest and the highest mean of a row, for the end of a finding's message."""
    return f", {plain(row['worst_group'] or DASH)} against {plain(row['best_group'] or DASH)}"


class Section:
    """What a reader sees of one part of `results.json`.

    Attributes
    ----------
    name : str
        The key in the results: a block, as a rule.
    title : str
        The heading in the dashboard.
    report_title : str, optional
        What the whole report is called, before "of MODEL", where the results have no title; None leaves that open.
    detail : bool
        Whether the section follows the disparities, which it explains, or precedes them.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    report_title: ClassVar[str | None] = None
    detail: ClassVar[bool] = False

    def values(self, block: Block, results: Results) -> Iterable[Value]:
        """Return what is shown, as values (`fp2.report.values`); groups of any size, which renderers leave out."""
        return ()

    @property
    def template(self) -> Path:
        """The Jinja2 template of the dashboard: `<name>.html.j2` beside the module of the class."""
        return Path(inspect.getfile(type(self))).with_name(f"{self.name}.html.j2")

    @property
    def markup(self) -> str:
        """The text of the template; empty where there is none."""
        return self.template.read_text(encoding="utf-8") if self.template.is_file() else ""

    def applies(self, results: Results) -> bool:
        """Return whether the results have something to show."""
        return bool(results.get(self.name))

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return what the template reads, as `section`; groups of fewer than `min_cell` subjects are left out.

        Two keys are read by the dashboard itself: `alts` (file name -> text) lists the figures that the template
        shows, and `scorers` those that the reader can switch between.
        """
        return {}

    def figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw the charts as PNG files into `folder` and yield their paths, without groups of under `min_cell`."""
        drawn = [one for one in charts(suppressed(self.values(block, results), min_cell)) if one.in_files]
        if not drawn:
            return iter(())
        from fp2.report.drawing import write_charts

        paths: Iterator[Path] = write_charts(drawn, results, folder)
        return paths

    def further_figures(self, block: Block, results: Results, folder: Path, min_cell: int) -> Iterator[Path]:
        """Draw what the dashboard does not show, as PNG and SVG; only where a command asks for the section alone."""
        return iter(())

    def lines(self, block: Block, results: Results, min_cell: int) -> Sequence[RenderableType]:
        """Return what the terminal shows; groups of fewer than `min_cell` subjects are left out."""
        return []

    def findings(self, block: Block, results: Results) -> Iterable[Finding]:
        """Return the results on differences between groups that `fp2 gate` checks; none by default.

        They are those of the family of tests that the run's conclusions are based on, not of secondary analyses.
        """
        return findings(self.values(block, results))

    def beside(self, blocks: Sequence[Block], min_cell: int) -> Sequence[Beside]:
        """Return tables that set the blocks of several runs side by side; none by default."""
        return []


def load_sections(targets: Sequence[str]) -> list[Section]:
    """Return the sections that the import paths name.

    Raises
    ------
    Fp2Error
        If one cannot be imported.
    """
    return [load_path(target, "report section")() for target in targets]


def present(sections: Sequence[Section], results: Results) -> list[Section]:
    """Return the sections that apply to the results, the disparities among them, in reading order."""
    every = [*sections, *load_sections([DISPARITIES])]
    return sorted((section for section in every if section.applies(results)), key=lambda section: section.detail)


def write_figures(
    results: Results,
    folder: Path,
    sections: Sequence[Section] = (),
    tick: Callable[[], None] = lambda: None,
    min_cell: int = MIN_CELL,
) -> dict[str, Path]:
    """Draw the figures of every section that applies and return them by file name.

    `tick` is called after each. Groups of fewer than `min_cell` subjects are not drawn.
    """
    paths: dict[str, Path] = {}
    for section in present(sections, results):
        for path in section.figures(results[section.name], results, folder, min_cell):
            paths[path.name] = path
            tick()
    return paths


def heading(sections: Sequence[Section], results: Results) -> str:
    """Return what the report is called: the title in the results, or the protocol's, or a bias fingerprint."""
    own = (section.report_title for section in sections if section.report_title and section.applies(results))
    return plain(results.get("title") or next(own, "Bias fingerprint"))


def tables_of(
    results: Sequence[Mapping[str, Any]], sections: Sequence[Section], min_cell: int
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the tables of every section that some of the runs have.

    Returns
    -------
    list of dict
        `section`, `title`, and `rows`: label -> one cell per run (`Beside`), None for a run without
        the block.
    """
    found = []
    for section in {type(one): one for one in sections}.values():
        places = [place for place, one in enumerate(results) if section.applies(one)]
        tables = section.beside([results[place][section.name] for place in places], min_cell) if places else []
        found += _compared(section, results, min_cell)
        for table in tables:
            rows = {
                label: [dict(zip(places, cells, strict=True)).get(place) for place in range(len(results))]
                for label, cells in table.rows.items()
            }
            found.append({"section": section.name, "title": table.title, "rows": rows})
    return found


def _compared(section: Section, results: Sequence[Results], min_cell: int) -> list[dict[str, Any]]:
    """Return the compared columns of a section's tables, in the form of `tables_of`."""
    values = [list(section.values(one[section.name], one)) if section.applies(one) else [] for one in results]
    merged = side_by_side(values, ["" for _ in results], min_cell)
    return [
        {
            "section": section.name,
            "title": table.label,
            "rows": {
                ", ".join(str(as_cell(cell).value) for cell in row.cells[: -len(results)]): [
                    _plain_cell(as_cell(cell).value) for cell in row.cells[-len(results) :]
                ]
                for row in table.rows
            },
        }
        for table in merged
    ]


def _plain_cell(value: Any) -> Any:
    """Return the value of a cell as `Cell` of a table of several runs."""
    return (value.value, value.low, value.high) if isinstance(value, Estimate) else value
