"""The page of a monitor: the course of the evidence, and of the gaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from fp2.extension import (
    Axis,
    Chart,
    ChartKind,
    Column,
    Kind,
    Name,
    PageSection,
    Part,
    Point,
    Reference,
    Row,
    Sentence,
    Series,
    Table,
    Weight,
    plural,
    reading,
    render_document,
    write_page,
)
from fp2.methods.monitor.evidence import Evidence
from fp2.methods.monitor.looks import Monitor, RowKey

PAGE = "index.html"
MOST_LINES, MOST_ROWS = 6, 12
HOW = (
    Sentence(
        "Evidence: how many times better a bet against an unchanged model has done than one on it (an e-value). It "
        "reaches 1 / alpha with a probability of at most alpha while the model is the same, however often one looks.",
        Weight.DETAIL,
    ),
    Sentence(
        "A difference is the score of a new answer less that of the stored answer to the same question, in units of "
        "the score's range, averaged over all looks.",
        Weight.DETAIL,
    ),
)


def write(monitor: Monitor, name: str, folder: Path) -> Path:
    """Write the page of a monitor of the run `name`, and return its path."""
    unlike = [(row, evidence) for row, evidence in monitor.rows.items()
              if evidence.n >= reading.MIN_CELL and evidence.squares]  # fmt: skip
    unlike.sort(key=lambda item: -item[1].log_e)
    courses, rows = _courses(monitor, [row for row, _ in unlike[:MOST_LINES]]), _rows(monitor, unlike[:MOST_ROWS])
    sections = [PageSection("rows", "Where answers differ most", (courses, rows))] if unlike else []
    how = Part(reading.HOW_TO_READ, HOW, folded=True)
    return write_page(
        folder / PAGE, render_document(f"Monitor of {name}", [*summary(monitor), _evidence(monitor), how], sections)
    )


def summary(monitor: Monitor) -> list[Sentence]:
    """Return what the looks have shown, in sentences."""
    n, equal = sum(each.answers for each in monitor.looks), sum(each.equal for each in monitor.looks)
    read = f"{plural(len(monitor.looks), 'look')}, {plural(n, 'answer')} compared, {equal:,} of them equal."
    if not monitor.changed:
        bound = f"(false alarms over all looks: at most {100 * monitor.alpha:g} %)"
        return [Sentence(f"No change was found {bound}.", Weight.LEAD), Sentence(read)]
    first = next(number for number, each in enumerate(monitor.looks, 1) if each.changed)
    rows = monitor.changed_rows()
    where = ["; most clearly ", Name(rows[0].label), f", by {monitor.rows[rows[0]].mean:+.3f}"] if rows else []
    return [Sentence([f"The model has changed: found at look {first}", *where, "."], Weight.LEAD), Sentence(read)]


def _evidence(monitor: Monitor) -> Chart:
    points = [
        Point(each.log10_e, f"look {number}, {each.when[:10]}", x=float(number))
        for number, each in enumerate(monitor.looks, 1)
    ]
    limit = Reference(math.log10(1 / monitor.alpha), "changed")
    return Chart(
        ChartKind.LINES, "evidence", "Evidence that the model has changed", [Series(points)],
        Axis("evidence (log10 of the e-value)"), Axis("look"), [limit], filled="",
    )  # fmt: skip


def _courses(monitor: Monitor, rows: Sequence[RowKey]) -> Chart:
    """Return the courses of rows."""
    series = [
        Series(
            [
                Point(each.means.get(row), f"look {number}", x=float(number))
                for number, each in enumerate(monitor.looks, 1)
            ],
            row.label,
        )
        for row in rows
        if row in monitor.looks[-1].means
    ]
    return Chart(
        ChartKind.LINES, "courses", "Mean difference over all looks so far", series,
        Axis("new less stored, of the range"), Axis("look"), [Reference(0.0)], filled="",
    )  # fmt: skip


def _rows(monitor: Monitor, rows: Sequence[tuple[RowKey, Evidence]]) -> Table:
    changed = set(monitor.changed_rows())
    columns = (
        Column("Row", Kind.NAME), Column("Answers", Kind.COUNT), Column("Difference", Kind.NUMBER, signed=True),
        Column("log10 e", Kind.NUMBER, digits=2), Column("Changed"),
    )  # fmt: skip
    n = len(monitor.rows)
    caption = (
        f"The {len(rows)} of {n} rows with most evidence; a row needs {n} / alpha by itself. Rows of fewer than "
        f"{reading.MIN_CELL} answers are not shown"
    )
    cells = [
        Row([row.label, evidence.n, evidence.mean, evidence.log_e / math.log(10), "yes" if row in changed else "no"])
        for row, evidence in rows
    ]
    return Table("rows", columns, cells, caption)
