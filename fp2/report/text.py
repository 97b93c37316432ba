"""Values as Markdown and as tables of plain values (CSV)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fp2.report.cells import HIGH, LOW, cell_text
from fp2.report.reading import plain, spaced
from fp2.report.values import (
    Chart,
    Code,
    Estimate,
    Finding,
    Hidden,
    Kind,
    Part,
    Sentence,
    Strong,
    Table,
    Value,
    Weight,
    as_cell,
    suppressed,
)


def escape_markdown(text: str) -> str:
    """Escape characters with a meaning in Markdown or HTML."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{char}" if char in "\\`*_[]|" else char for char in escaped)


def markdown(values: Iterable[Value], min_cell: int, level: int = 2, figures: Iterable[str] = ()) -> Iterator[str]:
    """Yield the lines of a Markdown document; `figures` are the files of charts that were drawn, `level` the headings'.

    Every block ends with an empty line. Explanations (`Weight.DETAIL`) are left out.
    """
    yield from _lines(suppressed(values, min_cell), level, set(figures))


def _lines(values: Sequence[Value], level: int, figures: set[str]) -> Iterator[str]:
    for value in values:
        if isinstance(value, Part):
            title = [value.title] if isinstance(value.title, str) else value.title
            yield from (f"{'#' * level} {_text(title)}", "")
            yield from _lines(value.values, min(level + 1, 6), figures)
        elif isinstance(value, Sentence) and value.weight is not Weight.DETAIL:
            yield from (_text(value.parts), "")
        elif isinstance(value, Chart) and (file := f"{value.file or value.name}.png") in figures:
            yield from (f"![{escape_markdown(plain(value.title))}]({file})", "")
        elif isinstance(value, Table) and value.rows:
            yield from _table(value)
        elif isinstance(value, Finding):
            continue


def _text(texts: Iterable[str]) -> str:
    return "".join(_wrapped(piece) for piece in texts)


def _wrapped(piece: str) -> str:
    if isinstance(piece, Code):
        return f"`{plain(piece)}`"
    text = escape_markdown(spaced(piece))
    bold = text.strip()
    return text.replace(bold, f"**{bold}**") if isinstance(piece, Strong) and bold else text


def _table(table: Table) -> Iterator[str]:
    if table.label:
        yield from (f"**{escape_markdown(plain(table.label))}**", "")
    yield f"| {' | '.join(escape_markdown(plain(column.label)) for column in table.columns)} |"
    yield (
        "|"
        + "|".join("---" if column.kind.is_words or column.kind is Kind.VERDICT else "---:" for column in table.columns)
        + "|"
    )
    for row in table.rows:
        cells = []
        for given, column in zip(row.cells, table.columns, strict=True):
            cell = as_cell(given)
            text = escape_markdown(cell_text(cell, column)) + {"low": f" {LOW}", "high": f" {HIGH}"}.get(cell.mark, "")
            text = f"**{text}**" if cell.strong else text
            cells.append(f"{text} ({escape_markdown(plain(cell.detail))})" if cell.detail else text)
        yield f"| {' | '.join(cells)} |"
    yield ""


def records(table: Table) -> list[dict[str, object]]:
    """Return the rows of a table by column, as plain values: an estimate is three columns, what is hidden is None."""
    out = []
    for row in table.rows:
        record: dict[str, object] = {}
        for cell, column in zip(row.cells, table.columns, strict=True):
            value = as_cell(cell).value
            if isinstance(value, Estimate):
                if column.kind is not Kind.INTERVAL:
                    record[column.label] = value.value
                record |= {f"{column.label} low": value.low, f"{column.label} high": value.high}
            else:
                record[column.label] = None if isinstance(value, Hidden) else value
        out.append(record)
    return out
