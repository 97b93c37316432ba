"""The Jinja2 environment of the pages: everything is escaped, and unknown names are errors."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fp2.report import reading

TEMPLATES = Path(__file__).parent / "templates"


@cache
def environment() -> Environment:
    """Return the Jinja2 environment: everything is escaped, unknown names are errors, templates stay compiled."""
    jinja = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (reading.plain, reading.number, reading.cut_label, reading.scorer_label, reading.sentence):
        jinja.filters[function.__name__] = function
    return jinja


def sortable(value: float | None) -> str:
    """Return a number for `data-value`, by which a column is sorted: five digits, or nothing where there is none."""
    return "" if value is None else f"{value:.5g}"


def stylesheet(path: str | Path) -> str:
    """Return the styles of all pages, and those of one more file: of these templates, or of a package."""
    return "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", path))
