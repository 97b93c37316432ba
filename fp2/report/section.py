"""One part of the results as values: what the dashboard, the terminal, figures, comparison and export show of it.

A protocol names its sections by import path (`Analyses.section_targets`), so that they are imported with the
report and not before. A section reads the results and computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from fp2.errors import Fp2Error
from fp2.plugins import load_path
from fp2.report.reading import FEWEST_SPOKES, MIN_CELL, extreme_groups, number, plain, verdict_words
from fp2.report.several import side_by_side
from fp2.report.values import Estimate, Finding, Scalar, Table, Value, as_cell, charts, findings, suppressed
from fp2.results import Block, ComparedRow, RunResults
from fp2.verdicts import Verdict

BIAS_FINGERPRINT = "Bias fingerprint"
DISPARITIES = "fp2.report.disparities:DisparitiesSection"
"""The section that every run with disparities has."""
Results = RunResults
"""What plug-ins call it."""


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
    headline : mapping
        The numbers of the block's `headline` in words, by their dotted names; others are shown by their names.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    report_title: ClassVar[str | None] = None
    detail: ClassVar[bool] = False
    headline: ClassVar[Mapping[str, str]] = {}

    def applies(self, results: RunResults) -> bool:
        """Return whether the results have something to show."""
        return bool(results.get(self.name))

    def subject(self, block: Block) -> str | None:
        """Return what the whole report is called because of the block (a benchmark's name), before any other title."""
        return None

    def values(self, block: Block, results: RunResults) -> Iterable[Value]:
        """Return what is shown (`fp2.report.values`).

        Groups of any size are in it, with their sizes: renderers leave out those that are too small. The `Finding`s are
        those of the family of tests that the run's conclusions are based on, which `fp2 gate` checks.
        """
        raise NotImplementedError

    def brief(self, block: Block, results: RunResults) -> Iterable[Value]:
        """Return the values of which the terminal prints the sentences and primary tables; by default all."""
        return self.values(block, results)

    def across(self, runs: Sequence[tuple[str, Block, RunResults]]) -> Iterable[Table]:
        """Return tables over several runs: (label, block, results) of each, all of one image variant; by default none.

        Cells are values without details, and names of columns are unique: `results.json` of a sweep has them.
        """
        return ()


def row_finding(name: str, row: ComparedRow, details: str = "", *, sized: bool = True) -> Finding:
    """Return the finding of a row with `raw`, `status` and `verdict`; `sized`: whether `--max-disparity` limits it."""
    message = f"{verdict_words(row['verdict'])}, disparity {number(row['raw'])}{details}"
    differs = row["verdict"] == Verdict.BIASED if row["status"] == "ok" else None
    return Finding(name, differs, message, row["raw"] if sized else None, row=row)


def worst_and_best(row: ComparedRow) -> str:
    """Return the worst and the best group of a significant row, for the end of a finding's message."""
    worst, best = extreme_groups(row)
    return "" if worst is None else f", {plain(worst)} against {plain(best)}"


def load_sections(targets: Sequence[str]) -> list[Section]:
    """Return the sections that the import paths name.

    Raises
    ------
    Fp2Error
        If one cannot be imported, or is no section.
    """
    classes = [load_path(target, "report section") for target in targets]
    for target, kind in zip(targets, classes, strict=True):
        if not (isinstance(kind, type) and issubclass(kind, Section)):
            raise Fp2Error(f"{target} is not a report section", fix="Derive it from fp2.report.section.Section")
    return [kind() for kind in classes]


def present(sections: Sequence[Section], results: RunResults) -> list[Section]:
    """Return the sections that apply to the results, the disparities among them, in reading order."""
    all_sections = [*sections, *load_sections([DISPARITIES])]
    return sorted((section for section in all_sections if section.applies(results)), key=lambda section: section.detail)


def findings_of(sections: Sequence[Section], results: RunResults) -> list[tuple[str, Finding]]:
    """Return the findings of the sections that apply, each with the name of its section."""
    return [
        (section.name, finding)
        for section in present(sections, results)
        for finding in findings(section.values(results.get(section.name) or {}, results))
    ]


def write_figures(
    results: RunResults,
    folder: Path,
    sections: Sequence[Section] = (),
    tick: Callable[[], None] = lambda: None,
    min_cell: int = MIN_CELL,
) -> dict[str, Path]:
    """Draw the charts of every section that applies as files, and return these by name.

    `tick` is called after each. Groups of fewer than `min_cell` subjects are not drawn.
    """
    from fp2.report.drawing import write_charts

    paths: dict[str, Path] = {}
    for section in present(sections, results):
        values = suppressed(section.values(results[section.name], results), min_cell)
        for path in write_charts([chart for chart in charts(values) if chart.in_files], results, folder):
            paths[path.name] = path
            tick()
    return paths


def heading(sections: Sequence[Section], results: RunResults) -> str:
    """Return what the report is called: a block's subject, the title in the results, a section's, or by its probes."""
    applying = [section for section in sections if section.applies(results)]
    subjects = (section.subject(results[section.name]) for section in applying)
    titles = (*subjects, results.get("title"), *(section.report_title for section in applying))
    default = BIAS_FINGERPRINT if len(results["probes"]) >= FEWEST_SPOKES else "Disparities"
    return plain(next(filter(None, titles), default))


def tables_of(results: Sequence[RunResults], sections: Sequence[Section], min_cell: int) -> list[dict[str, Any]]:
    """Return the compared columns of the tables of every section that some of the runs have.

    Returns
    -------
    list of dict
        `section`, `title`, and `rows`: label -> one cell per run: a number, an estimate (value, low, high), words, or
        None.
    """
    tables = []
    for section in {type(result): result for result in sections}.values():
        values = [section.values(result[section.name], result) if section.applies(result) else () for result in results]
        for table in side_by_side([list(result) for result in values], ["" for _ in results], min_cell):
            rows = {}
            for row in table.rows:
                cells = [as_cell(cell).value for cell in row.cells]
                label = ", ".join(str(cell) for cell in cells[: -len(results)])
                rows[label] = [plain_cell(cell) for cell in cells[-len(results) :]]
            tables.append({"section": section.name, "title": table.label, "rows": rows})
    return tables


def plain_cell(value: Scalar) -> float | str | tuple[float | None, ...] | None:
    """Return the value of a cell as JSON."""
    return (value.value, value.low, value.high) if isinstance(value, Estimate) else value
