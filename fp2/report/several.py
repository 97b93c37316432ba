"""Values of several runs side by side: for each compared column, a table with a column for each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fp2.report.values import Cell, Row, Table, Value, as_cell, suppressed, tables


def side_by_side(runs: Sequence[Sequence[Value]], names: Sequence[str], min_cell: int) -> list[Table]:
    """Return the tables of runs set side by side.

    Parameters
    ----------
    runs : sequence of sequences of Value
        The values of each run; none for a run without the section.
    names : sequence of str
        What each run is called.
    min_cell : int
        Numbers of groups of fewer subjects are hidden, in each run.

    Returns
    -------
    list of Table
        One for each column with `compared` of each table, in the order of the first run that has it. Rows are matched
        by their columns of words; a run without a row has an empty cell there.
    """
    groups: dict[tuple[str, str, str, str], list[tuple[int, Table, int]]] = {}
    for number, values in enumerate(runs):
        for table in tables(suppressed(values, min_cell)):
            for index, column in enumerate(table.columns):
                if column.compared:
                    key = (table.name, table.cut, table.scorer, column.label)
                    groups.setdefault(key, []).append((number, table, index))
    return [_merged(group, names) for group in groups.values()]


def _merged(group: Sequence[tuple[int, Table, int]], names: Sequence[str]) -> Table:
    """Return the table of one compared column."""
    _, first, index = group[0]
    word_columns = [number for number, column in enumerate(first.columns) if column.kind.is_words]
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for number, table, compared in group:
        for row in table.rows:
            key = tuple(str(as_cell(row.cells[i]).value) for i in word_columns)
            rows.setdefault(key, [Cell(None)] * len(names))[number] = as_cell(row.cells[compared])
    first_column = first.columns[index]
    columns = [
        *(first.columns[i] for i in word_columns),
        *(replace(first_column, label=name, compared=False) for name in names),
    ]
    label = ", ".join(text for text in (first.label, first_column.label) if text)
    merged = [Row([*key, *cells]) for key, cells in rows.items()]
    return Table(first.name, columns, merged, label, cut=first.cut, scorer=first.scorer)
