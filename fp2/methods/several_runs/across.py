"""Tables over several runs: what `Section.across` returns, as JSON and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fp2.extension import (
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
    sentence,
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
                tables.append(
                    {
                        "section": section.name,
                        "name": table.name,
                        "title": table.label,
                        "cut": table.cut,
                        "variant": variant,
                        "columns": [{"label": c.label, "kind": str(c.kind), "digits": c.digits} for c in table.columns],
                        "rows": [[plain_cell(as_cell(cell).value) for cell in row.cells] for row in table.rows],
                    }
                )
    return tables


def across_table(table: Mapping[str, Any]) -> Table:
    """Return a table of `across_runs`."""
    columns = [Column(column["label"], Kind(column["kind"]), digits=column["digits"]) for column in table["columns"]]
    rows = [Row([*map(_cell, row)]) for row in table["rows"]]
    title = plain(table["title"]) + (f", {plain(table['variant'])}" if table["variant"] else "")
    return Table(f"{table['section']}_{table['name']}", columns, rows, title, cut=table["cut"])


def beside_tables(
    tables: Sequence[Mapping[str, Any]], names: Sequence[str], *, primary: bool = False
) -> Iterator[Table]:
    """Yield the tables that sections of the runs set side by side (`fp2.report.section.tables_of`)."""
    columns = [Column("Number", Kind.NAME), *(Column(name, Kind.ESTIMATE) for name in names)]
    for table in tables:
        rows = [Row([label, *map(_cell, cells)]) for label, cells in table["rows"].items()]
        yield Table(table["section"], columns, rows, sentence(plain(table["title"])), primary)


def _cell(value: Any) -> Any:
    return Estimate(*value) if isinstance(value, list | tuple) else value
