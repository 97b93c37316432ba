"""The page of a monitor: the course of the evidence, and of the gaps."""

from __future__ import annotations

import math
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
    Value,
    Weight,
    plural,
    reading,
    render_document,
    write_page,
)
from fp2.methods.monitor.looks import Monitor

PAGE = "index.html"
MOST_LINES, MOST_ROWS = 6, 12
COLUMNS = (
    Column("Row", Kind.NAME), Column("Answers", Kind.COUNT), Column("Difference", Kind.NUMBER, signed=True),
    Column("log10 e", Kind.NUMBER, digits=2), Column("Changed"),
)  # fmt: skip
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
    unlike = [
        (row, evidence) for row, evidence in monitor.rows.items() if evidence.n >= reading.MIN_CELL and evidence.squares
    ]
    unlike.sort(key=lambda item: -item[1].log_e)
    changed, n = set(monitor.changed_rows()), len(monitor.rows)
    cells = [
        Row([row.label, evidence.n, evidence.mean, evidence.log_e / math.log(10), "yes" if row in changed else "no"])
        for row, evidence in unlike[:MOST_ROWS]
    ]
    caption = (
        f"The {len(cells)} of {n} rows with most evidence; a row needs {n} / alpha by itself. Rows of fewer than "
        f"{reading.MIN_CELL} answers are not shown"
    )
    looks = list(enumerate(monitor.looks, 1))
    series = [
        Series([Point(each.means.get(row), f"look {number}", x=float(number)) for number, each in looks], row.label)
        for row, _ in unlike[:MOST_LINES]
        if row in monitor.looks[-1].means
    ]
    courses = Chart(
        ChartKind.LINES,
        "courses",
        "Mean difference over all looks so far",
        series,
        Axis("new less stored, of the range"),
        Axis("look"),
        [Reference(0.0)],
        filled="",
    )
    values = (courses, Table("rows", COLUMNS, cells, caption))
    points = [Point(each.log10_e, f"look {number}, {each.when[:10]}", x=float(number)) for number, each in looks]
    evidence_chart = Chart(
        ChartKind.LINES,
        "evidence",
        "Evidence that the model has changed",
        [Series(points)],
        Axis("evidence (log10 of the e-value)"),
        Axis("look"),
        [Reference(math.log10(1 / monitor.alpha), "changed")],
        filled="",
    )
    header: list[Value] = [*summary(monitor), evidence_chart, Part(reading.HOW_TO_READ, HOW, folded=True)]
    sections = [PageSection("rows", "Where answers differ most", values)] if unlike else []
    return write_page(folder / PAGE, render_document(f"Monitor of {name}", header, sections))


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
