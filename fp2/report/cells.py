"""The text of a cell, for every renderer: numbers, intervals, p-values, verdicts, counts, shares."""

from __future__ import annotations

from fp2.report.reading import DASH, number, plain, probability, verdict_words
from fp2.report.values import Cell, Column, Estimate, Hidden, Kind, Scalar

LOW, HIGH = "▼", "▲"
"""Marks of the two ends of a significant difference."""


def cell_text(cell: Cell, column: Column) -> str:
    """Return what a cell says, without its detail and mark; a dash where there is no value."""
    value = cell.value
    if value is None:
        return DASH
    if isinstance(value, Hidden) or column.kind.is_words:
        return plain(value) or DASH
    if isinstance(value, Estimate):
        return _estimate(value, column)
    if isinstance(value, str):
        return verdict_words(value) if column.kind is Kind.VERDICT else plain(value)
    if column.kind is Kind.P:
        return probability(value)
    if column.kind is Kind.SHARE:
        return f"{100 * value:.{max(0, column.digits - 2)}f} %"
    return f"{value:,}" if column.kind is Kind.COUNT or isinstance(value, int) else _number(value, column)


def _number(value: float | None, column: Column) -> str:
    return number(value, column.digits, signed=column.signed)


def _estimate(estimate: Estimate, column: Column) -> str:
    unit = " %" if column.kind is Kind.SHARE and estimate.value is not None else ""
    if column.kind is Kind.SHARE:
        values = [None if end is None else 100 * end for end in (estimate.value, estimate.low, estimate.high)]
        estimate, column = Estimate(*values), Column(column.label, digits=max(0, column.digits - 2))
    interval = DASH
    if estimate.low is not None and estimate.high is not None:
        interval = f"{_number(estimate.low, column)} to {_number(estimate.high, column)}"
    if column.kind is Kind.INTERVAL:
        return interval
    text = _number(estimate.value, column) + unit
    return text if estimate.value is None or interval == DASH else f"{text} ({interval})"


def sort_key(cell: Cell) -> float | None:
    """Return the number by which a column is sorted; None where there is none."""
    value: Scalar = cell.value.value if isinstance(cell.value, Estimate) else cell.value
    return value if isinstance(value, (int, float)) else None
