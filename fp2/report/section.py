"""How one part of the results is shown: in the dashboard, as figures, and in the terminal.

A protocol names its sections by import path (`Analyses.section_targets`), so that they are imported with the
report and not before. A section reads the results and computes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fp2.plugins import load_path
from fp2.report.reading import DASH, number, plain, verdict_words
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


@dataclass(frozen=True)
class Finding:
    """One result on differences between groups, which `fp2 gate` checks.

    Attributes
    ----------
    name : str
        What was compared by what: `valence of trust by region`.
    differs : bool or None
        Whether the groups differ in the sense of `condition`; None where that was not tested.
    message : str
        The numbers, in a sentence.
    size : float, optional
        The disparity that `--max-disparity` limits; None where there is none, or it is not of the primary scorer.
    kind, condition : str
        The kind of result, and what is required of it.
    row : mapping, optional
        The row of the results that it is made of, which `fp2 export` writes.
    """

    name: str
    differs: bool | None
    message: str
    size: float | None = None
    kind: str = "verdict"
    condition: str = f'no verdict "{Verdict.BIASED.label}"'
    row: Mapping[str, Any] | None = None


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

    @property
    def template(self) -> Path:
        """The Jinja2 template of the dashboard: `<name>.html.j2` beside the module of the class."""
        return Path(inspect.getfile(type(self))).with_name(f"{self.name}.html.j2")

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
        """Draw PNG files into `folder` and yield their paths; groups of fewer than `min_cell` subjects are left out."""
        return iter(())

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
        return ()

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
        for table in tables:
            rows = {
                label: [dict(zip(places, cells, strict=True)).get(place) for place in range(len(results))]
                for label, cells in table.rows.items()
            }
            found.append({"section": section.name, "title": table.title, "rows": rows})
    return found
