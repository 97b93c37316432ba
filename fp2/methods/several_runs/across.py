"""Tables over several runs: what `Section.across` returns, as JSON and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fp2.extension import (
    DASH,
    Column,
    Estimate,
    Kind,
    Results,
    Row,
    Section,
    Table,
    as_cell,
    plain,
    plain_cell,
    suppressed,
    variant_name,
)


def across_runs(
    results: Sequence[Results], labels: Sequence[str], sections: Sequence[Section], min_cell: int
) -> list[dict[str, Any]]:
    """Return the tables over several runs of every section that at least two runs of an image variant have.

    Returns
    -------
    list of dict
        `section`, `name`, `title`, `cut`, `variant` (None: original), `columns` (label, kind, digits), and `rows`, a
        cell for each column.
    """
    by_variant: dict[str | None, list[tuple[str, Results]]] = {}
    for label, result in zip(labels, results, strict=True):
        by_variant.setdefault(variant_name(result), []).append((label, result))
    tables = []
    for section in {type(result): result for result in sections}.values():
        for variant, runs in by_variant.items():
            having = [(label, result[section.name], result) for label, result in runs if section.applies(result)]
            for table in suppressed(section.across(having), min_cell) if len(having) > 1 else ():
                assert isinstance(table, Table)
                tables.append({
                    "section": section.name, "name": table.name, "title": table.label, "cut": table.cut,
                    "variant": variant,
                    "columns": [{"label": c.label, "kind": str(c.kind), "digits": c.digits} for c in table.columns],
                    "rows": [[plain_cell(as_cell(cell).value) for cell in row.cells] for row in table.rows],
                })  # fmt: skip
    return tables


def across_table(table: Mapping[str, Any]) -> Table:
    """Return a table of `across_runs`."""
    columns = [Column(column["label"], Kind(column["kind"]), digits=column["digits"]) for column in table["columns"]]
    rows = [Row([Estimate(*cell) if isinstance(cell, list | tuple) else cell for cell in row]) for row in table["rows"]]
    title = plain(table["title"]) + (f", {plain(table['variant'])}" if table["variant"] else "")
    return Table(f"{table['section']}_{table['name']}", columns, rows, title, cut=table["cut"])


def cell_words(cell: Any) -> str:
    """Return a cell of `tables_of` in words."""
    if cell is None or isinstance(cell, str):
        return plain(cell or DASH)
    if isinstance(cell, Sequence):
        value, low, high = (f"{end:.3g}" for end in cell)
        return f"{value} ({low} to {high})"
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:.3g}"
