"""Pages: self-contained HTML files that need no network and trust no string they show.

Jinja2 escapes every value. Style and scripts are fixed files that the page's own Content-Security-Policy admits by
their SHA-256; nothing else can load or run. The scripts show, hide, sort and draw what the HTML already holds. Charts
are drawn by Observable Plot (`vendor/`), which only pages with charts include.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fp2.errors import Fp2Error
from fp2.report.html import render_values
from fp2.report.passport import write_atomically
from fp2.report.templating import TEMPLATES, environment
from fp2.report.values import Value, anchors

_LIBRARY = Path(__file__).parent / "vendor" / "plot.js"


@dataclass(frozen=True)
class PageSection:
    """A section of a page: its anchor, its heading, its values; or a template that the page's context fills.

    `folded`: only its heading is shown at first; `on_paper`: whether it is printed, where the page has no switches.
    """

    name: str
    title: str
    values: Iterable[Value] = ()
    template: str = ""
    folded: bool = False
    on_paper: bool = True


def render_page(
    context: Mapping[str, Any], header: Iterable[Value], sections: Sequence[PageSection], min_cell: int
) -> str:
    """Return the HTML of a page: header, switches for cut and scorer, and the sections that have something to show.

    The switches stand before the first section that they change.

    Parameters
    ----------
    context : mapping
        `title`; `cuts` (label by name) and `scorers`, between which a reader can switch; `version` of fp2;
        `has_answers`: whether the page quotes answers; what the templates of sections read.
    header : iterable of Value
    sections : sequence of PageSection
    min_cell : int
        Numbers of groups of fewer subjects are hidden.
    """
    values = [list(s.values) for s in sections]
    targets = set(anchors(value for each in values for value in each))
    page_sections: list[dict[str, Any]] = [
        {
            "name": s.name,
            "title": s.title,
            "template": s.template,
            "folded": s.folded,
            "on_paper": s.on_paper,
            "html": render_values(section_values, min_cell, s.title, targets),
        }
        for s, section_values in zip(sections, values, strict=True)
    ]
    css, charts, rest = (
        (TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "charts.js", "page.js")
    )
    drawn = [entry for entry in page_sections if entry["html"] or entry["template"]]
    script, library = charts + rest, _LIBRARY.read_text(encoding="utf-8")
    # no network, and only this style and these scripts by their digests; images only from within the page itself
    rules = f"img-src data:; style-src {_digest(css)}; script-src {_digest(script)} {_digest(library)}"
    fixed = {
        "css": Markup(css),
        "script": Markup(script),
        "library": Markup(library),
        "policy": Markup(f"default-src 'none'; {rules}; base-uri 'none'; form-action 'none'"),
        "header": render_values(header, min_cell),
        "sections": drawn,
        "n_before": next((n for n, entry in enumerate(drawn) if "data-cut" in entry["html"] or entry["template"]), 0),
        "min_cell": min_cell,
    }
    return environment().get_template("page.html.j2").render({**fixed, **context})


def render_document(title: str, header: Iterable[Value], sections: Sequence[PageSection]) -> str:
    """Return the HTML of a page without switches or answers, about what was published: no group is hidden."""
    from fp2 import __version__

    context: dict[str, Any] = {
        "title": title,
        "cuts": {},
        "scorers": [],
        "settings": None,
        "version": __version__,
        "has_answers": False,
    }
    return render_page(context, header, sections, 0)


def write_page(path: Path, page: str) -> Path:
    """Write a page atomically and return its path.

    Raises
    ------
    Fp2Error
        If it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, page)
    except OSError as error:
        raise Fp2Error(f"the page cannot be written: {error.strerror or error}", where=str(path)) from error
    return path


def _digest(text: str) -> str:
    """Return the source expression of a text in a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
