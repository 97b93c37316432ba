"""Values as HTML, for pages: every text is escaped, every table can be sorted, explanations are folded."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from markupsafe import Markup, escape

from fp2.report.cells import HIGH, LOW, cell_text, sort_key
from fp2.report.plots import level_class, plot, run_style
from fp2.report.reading import HOW_TO_READ, plain, scorer_label, spaced
from fp2.report.templating import environment, sortable
from fp2.report.values import (
    Cell,
    Chart,
    Code,
    Column,
    Finding,
    Hidden,
    Kind,
    Link,
    Name,
    Part,
    Sentence,
    Shown,
    Strong,
    Table,
    Value,
    Weight,
    as_cell,
    suppressed,
)
from fp2.verdicts import mark_of

BESIDE = re.compile(r"[\w-]+\.html")
"""The target of a link that leads to another page of the same folder."""


def render_values(
    values: Iterable[Value], min_cell: int, where: str = "", anchors: Collection[str] = frozenset()
) -> Markup:
    """Return values as HTML; the numbers of groups of fewer than `min_cell` subjects are hidden.

    `where` is the heading above them, which the names of tables for screen readers begin with; `anchors` are those of
    the page, to which links lead.
    """
    return _rendered(suppressed(values, min_cell), where, anchors)


def _rendered(values: Sequence[Value], where: str, anchors: Collection[str], in_fold: bool = False) -> Markup:
    """Return the values in order, then the explanations, folded. Findings are in the tables already."""
    visible, details = [], []
    for value in values:
        if isinstance(value, Sentence) and value.weight is Weight.DETAIL and not in_fold:
            details.append(value)
        elif not isinstance(value, Finding):
            visible.append(_value(value, where, anchors))
    if details:
        visible.append(_folded(HOW_TO_READ, Markup("").join(_value(detail, where, anchors) for detail in details)))
    return Markup("\n").join(visible)


def _value(value: Value, where: str, anchors: Collection[str]) -> Markup:
    template: Any = environment().get_template("values.html.j2").module
    if isinstance(value, Sentence):
        return Markup(template.sentence(value, text(value.parts, anchors), facets(value)))
    if isinstance(value, Chart):
        if not (value.on_page and any(series.points for series in value.series)):
            return Markup("")
        return Markup(template.chart(plot(value, anchors), value, facets(value)))
    if isinstance(value, Table):
        return _table(value, template, where, anchors)
    if isinstance(value, Part):
        title = text([value.title] if isinstance(value.title, str) else value.title, anchors)
        inside = _rendered(value.values, ", ".join(filter(None, (where, "".join(value.title)))), anchors, value.folded)
        if value.folded:
            return _folded(title, inside, value)
        return Markup(template.part(title, inside, facets(value), "beside" if value.beside else ""))
    raise TypeError(f"no value of a report: {value!r}")


def _table(table: Table, template: Any, where: str, anchors: Collection[str]) -> Markup:
    if not table.rows:
        return Markup("<p{}>{}</p>").format(facets(table), plain(table.empty)) if table.empty else Markup("")
    caption = text([table.caption] if isinstance(table.caption, str) else table.caption, anchors)
    rows = [
        (row, [_cell(as_cell(cell), column, anchors) for cell, column in zip(row.cells, table.columns, strict=True)])
        for row in table.rows
    ]
    label = ": ".join(filter(None, (where, table.label or scorer_label(table.name))))
    coloured = {index for row in table.rows for index, cell in enumerate(row.cells) if as_cell(cell).level is not None}
    drawn = Markup(template.table(table, caption, rows, plain(label), facets(table), coloured))
    return _folded(plain(table.fold), drawn, table) if table.fold else drawn


def _folded(summary: str, inside: Markup, value: Shown | None = None) -> Markup:
    anchor = Markup(' id="{}"').format(value.anchor) if isinstance(value, Part) and value.anchor else ""
    screen = Markup(' class="on-screen"') if isinstance(value, Part) and not value.on_paper else ""
    opening = Markup("<details{}{}{}>").format(anchor, screen, facets(value) if value else "")
    return opening + Markup("\n<summary>{}</summary>\n{}\n</details>").format(summary, inside)


def text(parts: Iterable[str], anchors: Collection[str]) -> Markup:
    """Return texts as HTML: names are isolated from the direction of their surroundings."""
    tags = {Name: "<bdi>{}</bdi>", Strong: "<strong>{}</strong>", Code: "<code>{}</code>"}
    out = Markup("")
    for segment in parts:
        wrapping = next((tag for kind, tag in tags.items() if isinstance(segment, kind)), "{}")
        markup = segment if isinstance(segment, Markup) else Markup(wrapping).format(spaced(segment))
        out += _linked(markup, segment, anchors)
    return out


def _linked(markup: Markup, value: object, anchors: Collection[str]) -> Markup:
    """Return words as a link, where the value is a `Link` to an anchor of the page or to a page beside it."""
    if not isinstance(value, Link) or not (value.target in anchors or BESIDE.fullmatch(value.target)):
        return markup
    return Markup('<a href="{}{}"><bdi>{}</bdi></a>').format("#" * (value.target in anchors), value.target, markup)


def facets(value: Shown) -> Markup:
    """Return the attributes by which the switches of a page find what to show."""
    pairs = [(name, chosen) for name, chosen in (("cut", value.cut), ("scorer", value.scorer)) if chosen]
    return Markup("").join(Markup(' data-{}="{}"').format(*pair) for pair in pairs)


def swatch(place: int) -> Markup:
    """Return a short line in the colour of a run."""
    svg_start = '<svg class="swatch" viewBox="0 0 28 10" width="28" height="10" aria-hidden="true">'
    svg_start += '<line class="line {}" x1="1" y1="5" x2="27" y2="5"/></svg>'
    return Markup(svg_start).format(run_style(place))


_PICTURE = '<img src="{}" alt="the image that was described">'
_BLANK = '<span class="blank">image not shown</span>'


def _cell(cell: Cell, column: Column, anchors: Collection[str]) -> dict[str, object]:
    markup = _linked(escape(cell_text(cell, column)), cell.value, anchors)
    if column.kind in (Kind.NAME, Kind.CODE):
        markup = Markup("<bdi>{}</bdi>" if column.kind is Kind.NAME else "<code><bdi>{}</bdi></code>").format(markup)
    elif column.kind is Kind.VERDICT and isinstance(cell.value, str):
        emphasised = " v-emphasised" if mark_of(cell.value).emphasised else ""
        markup = Markup('<span class="verdict{}">{}</span>').format(emphasised, markup)
    if cell.series is not None:
        markup = Markup("{} {}").format(swatch(cell.series), markup)
    if cell.strong:
        markup = Markup("<strong>{}</strong>").format(markup)
    if cell.mark:
        arrow, meaning = (LOW, "lower") if cell.mark == "low" else (HIGH, "higher")
        markup += Markup(' {}<span class="hide">{}</span>').format(arrow, meaning)
    if cell.detail:
        markup += Markup('<br><span class="faint">{}</span>').format(plain(cell.detail))
    if cell.picture is not None:
        markup += Markup(_PICTURE if cell.picture else _BLANK).format(cell.picture)
    numeric = not (column.kind.is_words or column.kind is Kind.VERDICT)
    if cell.level is not None:
        classes = f"cell {level_class(cell.level)}"
    else:
        muted = "chance-only" if cell.muted else "faint" if isinstance(cell.value, Hidden) else ""
        wordy = column.kind is Kind.TEXT and len(str(cell.value)) > _SHORT
        classes = " ".join(filter(None, ("num" if numeric else "", "words" if wordy else "", muted)))
    return {
        "words": markup,
        "classes": classes,
        "key": sortable(sort_key(cell)) if numeric else None,
        "title": plain(cell.title),
    }


_SHORT = 20
