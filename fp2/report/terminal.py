"""What the terminal shows at the end of a run: its sections, the answers, and where the files are.

Every string from a model, a data set or a user is printed as `Text`, never as markup, without control characters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from fp2.config import ReportConfig
from fp2.data.group_sizes import ALIKE, MEMBERSHIP, SMALL_GROUPS
from fp2.notes import read_notes
from fp2.report.cells import HIGH, LOW, cell_text
from fp2.report.reading import (
    SUPPLIED,
    absent_words,
    calibration_of,
    calibration_words,
    calls_words,
    cut_label,
    failed_words,
    model_name,
    model_was_used,
    plain,
    scorer_label,
    scorer_names,
    spaced,
    variant_line,
    were_supplied,
)
from fp2.report.section import Section, heading, present
from fp2.report.values import Cell, Column, Kind, Sentence, Strong, Table, Value, Weight, as_cell, flat, suppressed
from fp2.results import RunResults
from fp2.verdicts import mark_of

if TYPE_CHECKING:
    from rich.console import RenderableType


def print_results(
    results: RunResults,
    console: Console,
    paths: Mapping[str, object] | None = None,
    sections: Sequence[Section] = (),
    next_command: str | None = None,
    *,
    min_cell: int = ReportConfig.suppress_below,
    told: Collection[str] = (),
) -> None:
    """Print the results of a run.

    Parameters
    ----------
    results : mapping
        The content of `results.json`.
    console : rich.console.Console
        Where to print; from 80 columns on nothing essential is cut.
    paths : mapping, optional
        Names and paths to print at the end, in the order given (never wrapped or cut, so that they can be copied).
    sections : sequence of Section
        Those of the run's protocol (`fp2.report.section.load_sections`).
    next_command : str, optional
        A command to suggest, on a line of its own.
    min_cell : int
        Sections leave out groups of fewer subjects (`report.suppress_below`).
    told : collection of str
        Limitations that were shown before, and are not repeated.
    """
    who = f" of {model_name(results)}" if model_was_used(results) else ""
    head = Text(f"{heading(sections, results)}{who}", style="bold")
    size = f"{results['n_subjects']:,} subjects, {results['n_images']:,} images"
    shown_scorers = scorer_names(results)[:1]
    prefix = f"{scorer_label(shown_scorers[0])}, " if shown_scorers else ""
    where = f" on {plain(results['dataset']['name'])}: {prefix}{size}"
    console.print(head + Text(where, style="not bold"))
    if calibration := calibration_words([calibration_of(results)]):
        console.print(Text(calibration, style="italic"))
    if were_supplied(results):
        console.print(Text(SUPPLIED, style="bold"))
    if variant := variant_line(results):
        console.print(Text(variant, style="bold"))
    if not results["complete"]:
        console.print(Text("Partial run: some planned answers are missing.", style="bold yellow"))
    for section in present(sections, results):
        for renderable in terminal(section.brief(results[section.name], results), min_cell):
            console.print(renderable)
    for note in read_notes(results):
        if note.code in (ALIKE.code, MEMBERSHIP.code, SMALL_GROUPS.code) and note not in told:
            console.print(Text(plain(note), style="yellow"))
    if results["answers"]["planned"]:
        answers = results["answers"]
        answered = f"{answers['answered']:,} answered ({answers['refused']:,} of them refusals)"
        counts = [f"{answers['planned']:,} planned", answered, failed_words(answers), *absent_words(answers)]
        counted = ", ".join([*counts, f"{answers['cached']:,} from earlier runs"])
        console.print(Text(f"answers: {counted}; {calls_words(results)}"))
    for name, path in (paths or {}).items():
        console.print(Text(f"{name:<12} {plain(path)}"), soft_wrap=True)
    if next_command:
        console.print(Text(next_command, style="bold"), soft_wrap=True)


_STYLES = {Weight.LEAD: "", Weight.PLAIN: "dim", Weight.WARNING: "yellow"}
_MOST_CHARACTERS = 30


def terminal(values: Iterable[Value], min_cell: int) -> Iterator[RenderableType]:
    """Yield what Rich prints; primary tables of one name that follow each other are one table with a part per cut."""
    shown_values = [
        value
        for value in flat(suppressed(values, min_cell))
        if (isinstance(value, Table) and value.primary and value.rows)
        or (isinstance(value, Sentence) and value.weight in _STYLES)
    ]
    for name, group in groupby(shown_values, key=lambda value: value.name if isinstance(value, Table) else ""):
        if name:
            tables = [value for value in group if isinstance(value, Table)]
            if tables[0].label and not tables[0].cut:
                yield Text(spaced(tables[0].label), style="bold")
            yield _table(tables)
            continue
        for value in group:
            if isinstance(value, Sentence):
                text = Text(style=_STYLES[value.weight])
                for segment in value.parts:
                    text.append(spaced(segment), style="bold" if isinstance(segment, Strong) else "")
                yield text


def _table(tables: list[Table]) -> RichTable:
    """Return one table, its columns one space apart so that common groups fit 80 columns."""
    table = RichTable(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, header_style="bold", show_edge=False)
    columns = [column for column in tables[0].columns if column.terminal]
    for column in columns:
        right = not (column.kind.is_words or column.kind is Kind.VERDICT)
        table.add_column(
            column.label,
            justify="right" if right else "left",
            no_wrap=column.kind in (Kind.ESTIMATE, Kind.VERDICT),  # of a number only the heading is broken
            overflow="fold",
            max_width=_MOST_CHARACTERS if column.kind is Kind.NAME else None,
        )
    for one in tables:
        if one.cut and (len(tables) > 1 or one.label):
            table.add_row(Text(f"by {cut_label(one.cut)}", style="bold underline"))
        for index, row in enumerate(one.rows):
            pairs = zip(row.cells, one.columns, strict=True)
            table.add_row(
                *[_cell(as_cell(cell), column) for cell, column in pairs if column.terminal],
                end_section=index == len(one.rows) - 1,
            )
    return table


def _cell(cell: Cell, column: Column) -> Text:
    style = "bold" if cell.strong else "dim" if cell.muted else ""
    if column.kind is Kind.VERDICT and isinstance(cell.value, str):
        style = mark_of(cell.value).terminal
    arrow = {"low": f" {LOW}", "high": f" {HIGH}"}.get(cell.mark, "")
    return Text(cell_text(cell, column) + arrow, style=style)
