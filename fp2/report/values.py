"""The vocabulary of reports: values that a section returns and renderers show.

A section (`fp2.report.section.Section`) is a function from results to values: it says what a reader should see, and
nothing about how. Renderers know these types and no method: pages (`html`), terminal (`terminal`), Markdown and CSV
(`text`), figure files (`drawing`), pages of several runs (`several`). They format numbers, escape texts, sort, fold,
and leave out the numbers of groups that are too small (`suppressed`).

    Sentence   a statement
    Table      typed columns, rows
    Chart      data and axes
    Finding    one result on differences between groups, which `fp2 gate` checks
    Part       a titled group of these
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from fp2.verdicts import Verdict

TOO_FEW = "too few subjects"


class Name(str):
    """A text from the data or the user, such as a group or a model: shown apart from its surroundings."""

    __slots__ = ()


class Strong(str):
    """A text that is emphasised."""

    __slots__ = ()


class Code(str):
    """A command, a path or a digest."""

    __slots__ = ()


class Link(str):
    """A text that leads to the part of a page with the anchor `target`, or to the page `target` (`NAME.html`) beside
    it; where there is no such anchor, it is a text.

    It may stand in a sentence, and as the value of a cell of words or the label of a point.
    """

    target: str

    def __new__(cls, text: str, target: str) -> Link:
        """Return the text with its target."""
        link = super().__new__(cls, text)
        link.target = target
        return link


class Weight(StrEnum):
    """How important a sentence is.

    `LEAD` stands out; `PLAIN` is read on pages and in the terminal; `DETAIL` explains how to read the numbers, on pages
    only, folded; `WARNING` says what limits them.
    """

    LEAD = "lead"
    PLAIN = "plain"
    DETAIL = "detail"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What is common to values: `cut` and `scorer` are those it is about, where a reader can switch between them."""

    cut: str = ""
    scorer: str = ""


@dataclass(frozen=True)
class Sentence(Shown):
    """A statement, of texts in order: `Sentence(["Worst for ", Name(group), "."])`.

    Attributes
    ----------
    texts : str or sequence of str
        Plain text, `Name`, `Strong`, `Code` and `Link`.
    weight : Weight
    """

    texts: str | Sequence[str]
    weight: Weight = Weight.PLAIN

    @property
    def parts(self) -> Sequence[str]:
        """The texts as a sequence."""
        return [self.texts] if isinstance(self.texts, str) else self.texts


class Kind(StrEnum):
    """What a column holds.

    `TEXT` words; `NAME` texts from the data; `NUMBER` a float; `ESTIMATE` an `Estimate`, shown with its interval;
    `INTERVAL` an `Estimate`, of which the interval is shown; `P` a p-value; `VERDICT` a verdict of `fp2.verdicts`;
    `COUNT` an integer; `SHARE` a float from 0 to 1, shown in per cent; `CODE` commands, digests and ids.
    """

    TEXT = "text"
    NAME = "name"
    CODE = "code"
    NUMBER = "number"
    ESTIMATE = "estimate"
    INTERVAL = "interval"
    P = "p"
    VERDICT = "verdict"
    COUNT = "count"
    SHARE = "share"

    @property
    def is_words(self) -> bool:
        """Whether cells are words, shown at the left and for groups of any size."""
        return self in (Kind.TEXT, Kind.NAME, Kind.CODE)


@dataclass(frozen=True)
class Estimate:
    """A number with the ends of its interval; None where unknown."""

    value: float | None
    low: float | None = None
    high: float | None = None


Scalar = float | int | str | Estimate | None


@dataclass(frozen=True)
class Cell:
    """A value of a table with what is said about it; a bare `Scalar` stands for a cell without.

    Attributes
    ----------
    value : Scalar
    detail : str
        A remark under the value.
    strong, muted : bool
        Emphasised; or faint, where the difference is not significant.
    subjects : int, optional
        The size of the group that the value is about, where that is not the row's; words are hidden, too.
    level : float, optional
        From -1 to 1: its place on the colour scale of a heat map; 0 is neutral.
    mark : {"", "low", "high"}
        An end of a significant difference.
    title : str
        What pointing at the cell shows.
    series : int, optional
        The place of the run that the cell names, for the colour of its line.
    picture : str, optional
        On pages, the image that the cell is about, a `data:` URI; empty: a blank for one that may not be shown.
    """

    value: Scalar
    detail: str = ""
    strong: bool = False
    muted: bool = False
    subjects: int | None = None
    level: float | None = None
    mark: str = ""
    title: str = ""
    series: int | None = None
    picture: str | None = None


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    label : str
    kind : Kind
    digits : int
        Decimals of numbers.
    signed : bool
        Whether positive numbers have a plus sign.
    public : bool
        Whether it is shown for groups of any size: group sizes are.
    terminal : bool
        Whether the terminal shows it.
    compared : bool
        Whether tables of several runs set it side by side; rows are matched by their columns of words.
    title : str
        What pointing at the heading shows.
    """

    label: str
    kind: Kind = Kind.TEXT
    digits: int = 3
    signed: bool = False
    public: bool = False
    terminal: bool = True
    compared: bool = False
    title: str = ""


@dataclass(frozen=True)
class Row:
    """A row of a table; `subjects` is the size of the group it is about, None where it is about no single group."""

    cells: Sequence[Cell | Scalar]
    subjects: int | None = None
    current: bool = False
    """Whether it is the run of this page."""


@dataclass(frozen=True)
class Table(Shown):
    """A table; the first column names the rows.

    Attributes
    ----------
    name : str
        Identifies it in the section: the name of its CSV file.
    columns : sequence of Column
    rows : sequence of Row
    caption : str or sequence of str
    primary : bool
        Whether the terminal shows it; there, all columns with `terminal`.
    fold : str
        The line behind which a page folds it; empty: not folded.
    empty : str
        What stands in place of a table without rows; empty: nothing.
    omit_small : bool
        Whether rows about too small groups are left out, and counted under the table, instead of blanked.
    """

    name: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    caption: str | Sequence[str] = ""
    primary: bool = False
    fold: str = ""
    empty: str = ""
    omit_small: bool = False

    @property
    def label(self) -> str:
        """The caption as plain text; without one, the line behind which the table is folded."""
        return "".join(self.caption) or self.fold


class ChartKind(StrEnum):
    """How a chart is drawn.

    `INTERVALS` a labelled row for each point: value, interval, null distribution; `RADAR` a spoke for each point;
    `HEAT` a row for each series, a column for each point; `BARS` a labelled bar for each point; `LINES` y over x with a
    band from low to high; `POINTS` y over x; `HISTOGRAM` a bar from `low` to `high` of height `value` for each point.
    """

    INTERVALS = "intervals"
    RADAR = "radar"
    HEAT = "heat"
    BARS = "bars"
    LINES = "lines"
    POINTS = "points"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Axis:
    """An axis: its label with the unit, and its ends where they are fixed."""

    label: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Point:
    """A point of a chart.

    Attributes
    ----------
    value : float or None
        None is a gap.
    label : str
        Its row, spoke or column; of `LINES` and `POINTS` what pointing at it shows first.
    x : float, optional
        Of `LINES` and `POINTS`.
    low, high : float, optional
        The ends of its interval.
    null_mean, null_p95 : float, optional
        Mean and 95th percentile of the null distribution.
    filled : bool
        Whether it is drawn filled: `Chart.filled` says what that means.
    verdict : str, optional
        Whose mark figure files draw.
    subjects : int, optional
        The size of the group it is about; points of too small groups are not drawn.
    mark : {"", "low", "high", "significant"}
        Of `HEAT`: an end of a significant difference, or that the value is significant.
    title : str
        What pointing at it shows; empty: label, value and interval.
    """

    value: float | None
    label: str = ""
    x: float | None = None
    low: float | None = None
    high: float | None = None
    null_mean: float | None = None
    null_p95: float | None = None
    filled: bool = True
    verdict: str | None = None
    subjects: int | None = None
    mark: str = ""
    title: str = ""


@dataclass(frozen=True)
class Series:
    """The points of one line, colour or heat map row; `place` chooses the colour, the order by default."""

    points: Sequence[Point]
    name: str = ""
    place: int | None = None
    subjects: int | None = None


@dataclass(frozen=True)
class Reference:
    """A line on the value axis, or a band up to `high`."""

    value: float
    label: str = ""
    high: float | None = None


@dataclass(frozen=True)
class Chart(Shown):
    """Data and axes of a drawing.

    Attributes
    ----------
    kind : ChartKind
    name : str
        Identifies it in the section.
    title : str
        What it shows, for its heading and for screen readers; the first of a figure file is that file's heading.
    series : sequence of Series
    value, x : Axis
        The axis of the values, and that of `x`.
    references : sequence of Reference
        On the value axis; of `HISTOGRAM` on the `x` axis.
    caption : str
        How to read it.
    file : str
        Charts with one `file` are panels of one figure file `<file>.png` (or of that file if it ends in `.svg`);
        empty: `name`.
    panel : str
        The heading of the panel; a second line is smaller.
    filled : str
        What filled points are, for the legend; empty: it is not said.
    diverging : bool
        Of `HEAT`: colours run from both ends to a neutral 0.
    on_page, in_files : bool
        Where it is drawn.
    """

    kind: ChartKind
    name: str
    title: str
    series: Sequence[Series]
    value: Axis = Axis()
    x: Axis = Axis()
    references: Sequence[Reference] = ()
    caption: str = ""
    file: str = ""
    panel: str = ""
    filled: str = "significant"
    diverging: bool = False
    on_page: bool = True
    in_files: bool = True


@dataclass(frozen=True)
class Finding:
    """One result on differences between groups, of the family that conclusions rest on; `fp2 gate` checks it.

    Attributes
    ----------
    name : str
        What was compared by what: `valence of trust by region`.
    differs : bool or None
        Whether the groups differ in the sense of `condition`; None where that was not tested.
    message : str
        The numbers, in a sentence.
    size : float, optional
        The disparity that `--max-disparity` limits; None where there is none, or it is not of the primary scorer.
    kind, condition : str
        The kind of result, and what is required of it.
    row : mapping, optional
        The row of the results that it is made of, which `fp2 export` writes.
    """

    name: str
    differs: bool | None
    message: str
    size: float | None = None
    kind: str = "verdict"
    condition: str = f'no verdict "{Verdict.BIASED.label}"'
    row: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Part(Shown):
    """A titled group of values.

    Attributes
    ----------
    title : str or sequence of str
        Empty: none is shown.
    values : sequence of Value
    folded : bool
        Whether a page shows the title, and the rest on request.
    beside : bool
        Whether a page that is wide enough sets the charts beside each other.
    anchor : str
        What a `Link` to it names.
    on_paper : bool
        Whether a page prints it; not what is too long.
    """

    title: str | Sequence[str]
    values: Sequence[Value]
    folded: bool = False
    beside: bool = False
    anchor: str = ""
    on_paper: bool = True


Value = Sentence | Table | Chart | Finding | Part


def flat(values: Iterable[Value]) -> Iterator[Value]:
    """Yield the values, those of parts in place of the parts."""
    for value in values:
        if isinstance(value, Part):
            yield from flat(value.values)
        else:
            yield value


def anchors(values: Iterable[Value]) -> Iterator[str]:
    """Yield the anchors of the parts that have one."""
    for value in values:
        if isinstance(value, Part):
            yield from [value.anchor] if value.anchor else ()
            yield from anchors(value.values)


def tables(values: Iterable[Value]) -> list[Table]:
    """Return the tables, those of parts among them."""
    return [value for value in flat(values) if isinstance(value, Table)]


def charts(values: Iterable[Value]) -> list[Chart]:
    """Return the charts, those of parts among them."""
    return [value for value in flat(values) if isinstance(value, Chart)]


def findings(values: Iterable[Value]) -> list[Finding]:
    """Return the findings, those of parts among them."""
    return [value for value in flat(values) if isinstance(value, Finding)]


def as_cell(value: Cell | Scalar) -> Cell:
    """Return a cell."""
    return value if isinstance(value, Cell) else Cell(value)


def suppressed(values: Iterable[Value], min_cell: int) -> list[Value]:
    """Return the values without the numbers of groups of fewer than `min_cell` subjects.

    A cell of such a group is hidden (`Hidden`) unless its column is words or public; its points are not drawn, and a
    series without points is left out. A value whose group has no size (None) is not about a single group.
    """
    return [_suppressed(value, min_cell) for value in values]


class Hidden(str):
    """The value of a cell that is not shown, in words."""

    __slots__ = ()


def _suppressed(value: Value, min_cell: int) -> Value:
    if isinstance(value, Part):
        return replace(value, values=suppressed(value.values, min_cell))
    if isinstance(value, Table):
        if value.omit_small:
            rows = [row for row in value.rows if row.subjects is None or row.subjects >= min_cell]
            value = replace(value, rows=rows, caption=_with_omitted(value, len(value.rows) - len(rows)))
        return replace(value, rows=[replace(row, cells=_cells(row, value.columns, min_cell)) for row in value.rows])
    if isinstance(value, Chart):
        large = [series for series in value.series if series.subjects is None or series.subjects >= min_cell]
        drawn = [replace(series, points=_points(series.points, min_cell, value.kind)) for series in large]
        lost = {point.label for series in large for point in series.points} - {
            p.label for series in drawn for p in series.points
        }
        n = len(value.series) - len(large) + len(lost)
        omitted = f"Not drawn: {n} group{'s' if n > 1 else ''} of fewer than {min_cell} subjects." if n else ""
        caption = " ".join(text for text in (value.caption, omitted) if text)
        return replace(value, series=[series for series in drawn if series.points], caption=caption)
    return value


def _with_omitted(table: Table, n: int) -> str | Sequence[str]:
    if not n:
        return table.caption
    segments = [table.caption] if isinstance(table.caption, str) else table.caption
    return [*segments, f"{'; ' if table.label else ''}{n} of small groups not shown"]


def _cells(row: Row, columns: Sequence[Column], min_cell: int) -> list[Cell]:
    cells = []
    for given, column in zip(row.cells, columns, strict=True):
        cell = as_cell(given)
        n = row.subjects if cell.subjects is None else cell.subjects
        is_shown = cell.subjects is None and (column.public or column.kind.is_words)
        small = n is not None and n < min_cell and not is_shown
        cells.append(replace(cell, value=Hidden(TOO_FEW), detail="", level=None, mark="", title="") if small else cell)
    return cells


def _points(points: Sequence[Point], min_cell: int, kind: ChartKind) -> list[Point]:
    """Return the points of large groups; a heat map keeps the others as gaps, so that its columns stay in line."""
    small = [point.subjects is not None and point.subjects < min_cell for point in points]
    if kind is ChartKind.HEAT:
        return [replace(p, value=None, mark="", title="") if gone else p for p, gone in zip(points, small, strict=True)]
    return [point for point, gone in zip(points, small, strict=True) if not gone]
