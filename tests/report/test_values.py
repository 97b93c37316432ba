"""The vocabulary of reports and its renderers: what each shows of a value, and that small groups are never in it."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fp2.report.cells import cell_text
from fp2.report.html import render_values
from fp2.report.plots import plot
from fp2.report.several import side_by_side
from fp2.report.terminal import terminal
from fp2.report.text import markdown, records
from fp2.report.values import (
    Cell,
    Chart,
    ChartKind,
    Column,
    Estimate,
    Finding,
    Kind,
    Name,
    Part,
    Point,
    Row,
    Sentence,
    Series,
    Strong,
    Table,
    Value,
    Weight,
    charts,
    findings,
    suppressed,
)

COLUMNS = [
    Column("Group", Kind.NAME),
    Column("Subjects", Kind.COUNT, public=True),
    Column("Mean", Kind.ESTIMATE, compared=True),
    Column("p", Kind.P),
    Column("Verdict", Kind.VERDICT),
    Column("Refused", Kind.SHARE),
]


def _table(n: int = 30, **more: Any) -> Table:
    row = Row(["a<b>", n, Estimate(0.25, 0.125, 0.375), 0.0004, "no_difference_found", 0.1234], n)
    return Table("means", COLUMNS, [row], "Means", **more)


def _terminal(values: list[Value], width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    for shown in terminal(values, 10):
        console.print(shown)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_every_renderer_formats_a_table_alike() -> None:
    table = _table(primary=True)
    expected = ["30", "0.250 (0.125 to 0.375)", "<0.001", "no difference found", "12.3 %"]
    (html, md) = (str(render_values([table], 10)), "\n".join(markdown([table], 10)))
    shown = [html.replace("&lt;", "<"), md.replace("&lt;", "<"), " ".join(_terminal([table], 120).split())]
    for text in shown:
        assert [words for words in expected if words not in text] == []
    assert "<bdi>a&lt;b&gt;</bdi>" in html
    assert 'data-value="0.25"' in html
    assert records(table) == [
        {
            "Group": "a<b>",
            "Subjects": 30,
            "Mean": 0.25,
            "Mean low": 0.125,
            "Mean high": 0.375,
            "p": 0.0004,
            "Verdict": "no_difference_found",
            "Refused": 0.1234,
        }
    ]


@given(st.integers(0, 9))
def test_numbers_of_a_small_group_are_in_no_rendering(n: int) -> None:
    values: list[Value] = [
        Part("Groups", [_table(n, primary=True)]),
        Chart(ChartKind.BARS, "bars", "Bars", [Series([Point(0.25, "a", low=0.125, high=0.375, subjects=n)])]),
        Chart(ChartKind.HEAT, "heat", "Heat", [Series([Point(0.25, "a", subjects=n), Point(0.75, "b")], "row")]),
    ]
    rendered = [str(render_values(values, 10)), "\n".join(markdown(values, 10)), _terminal(values)]
    rendered += [str(records(one)) for one in suppressed([_table(n)], 10) if isinstance(one, Table)]
    rendered += [str(plot(one)) for one in charts(suppressed(values, 10))]
    rendered += [str(side_by_side([values, values], ["one", "two"], 10))]
    for text in rendered:
        assert not re.search(r"0\.25|0\.125|0\.375|0\.0004|no.difference|12\.3", text), text
    assert "too few subjects" in rendered[0]


def test_a_share_with_its_interval_is_in_per_cent() -> None:
    column = Column("Share", Kind.SHARE, 2)
    assert cell_text(Cell(Estimate(0.25, 0.125, 0.375)), column) == "25 % (12 to 38)"
    assert cell_text(Cell(Estimate(None)), column) == "–"


def test_rows_of_small_groups_can_be_left_out_and_are_counted() -> None:
    large, small = _table(30).rows[0], _table(3).rows[0]
    (table,) = suppressed([Table("pairs", COLUMNS, [large, small], "Pairs", omit_small=True)], 10)
    assert isinstance(table, Table)
    assert (len(table.rows), table.label) == (1, "Pairs; 1 of small groups not shown")


def test_the_name_of_a_small_group_that_stands_out_is_hidden_and_terminal_tables_have_their_caption() -> None:
    columns = [Column("Cut"), Column("Disparity", Kind.NUMBER), Column("Worst", Kind.NAME)]
    rows = [Row(["age", 0.5, Cell("old", subjects=9)]), Row(["tone", 0.25, Cell("VI", subjects=10)])]
    shown = _terminal([Table("worst", columns, rows, ["By ", Name("<cut>")], primary=True)])
    assert shown.startswith("By <cut>")
    assert "VI" in shown
    assert "old" not in shown


def test_explanations_are_folded_once_and_findings_are_not_repeated() -> None:
    finding = Finding("valence by region", True, "biased")
    values: list[Value] = [
        Sentence("First explanation.", Weight.DETAIL),
        Sentence(["Worst for ", Name("<x>"), Strong("now"), "."]),
        Sentence("Second explanation.", Weight.DETAIL),
        Sentence("Careful.", Weight.WARNING),
        Part("All", [finding]),
    ]
    html = str(render_values(values, 10))
    assert html.count("<details") == 1
    assert html.index("Careful.") < html.index("First explanation.") < html.index("Second explanation.")
    assert "Worst for <bdi>&lt;x&gt;</bdi><strong>now</strong>." in html
    assert "valence by region" not in html
    assert findings(values) == [finding]
    assert "explanation" not in _terminal(values)
    assert "Worst for <x>now." in _terminal(values)


def test_tables_of_several_runs_are_matched_by_their_words() -> None:
    first = Table("t", COLUMNS[:3], [Row(["a", 30, Estimate(0.1)]), Row(["b", 30, Estimate(0.2)])], "Means")
    second = Table("t", COLUMNS[:3], [Row(["b", 40, Estimate(0.3)])], "Means")
    (merged,) = side_by_side([[first], [], [second]], ["m1", "m2", "m3"], 10)
    assert [column.label for column in merged.columns] == ["Group", "m1", "m2", "m3"]
    values = [[row.cells[0], *(cell.value for cell in row.cells[1:] if isinstance(cell, Cell))] for row in merged.rows]
    assert values == [["a", Estimate(0.1), None, None], ["b", Estimate(0.2), None, Estimate(0.3)]]


def test_a_row_with_a_missing_cell_is_an_error() -> None:
    with pytest.raises(ValueError, match="longer"):
        render_values([Table("t", COLUMNS, [Row(["a"])])], 10)
