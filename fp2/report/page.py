"""Pages: self-contained HTML files that need no network and trust no string they show.

Jinja2 escapes every value. Style and scripts are fixed files that the page's own Content-Security-Policy admits by
their SHA-256; nothing else can load or run. The scripts show, hide, sort and draw what the HTML already holds. Charts
are drawn by Observable Plot (`vendor/`), which only pages with charts include.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, DictLoader, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fp2.errors import Fp2Error
from fp2.report import reading
from fp2.report.passport import write_atomically
from fp2.verdicts import Verdict, mark_of

TEMPLATES = Path(__file__).parent / "templates"
_LIBRARY = Path(__file__).parent / "vendor" / "plot.js"


def render(
    template: str,
    context: Mapping[str, Any],
    more: Mapping[str, str] | None = None,
    filters: Sequence[Callable[..., Any]] = (),
) -> str:
    """Return the HTML of a template that extends `page.html.j2`; `more` are further templates by name."""
    css, charts, rest = (
        (TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "charts.js", "page.js")
    )
    script, library = charts + rest, _LIBRARY.read_text(encoding="utf-8")
    fixed = {
        "css": Markup(css),
        "script": Markup(script),
        "library": Markup(library),
        "policy": Markup(_policy(css, (script, library))),
    }
    return environment(more, filters).get_template(template).render({**fixed, **context})


def stylesheet(path: str | Path) -> str:
    """Return the styles of all pages, and those of one more file: of our templates, or of a package."""
    return "".join((TEMPLATES / part).read_text(encoding="utf-8") for part in ("page.css", path))


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


def environment(more: Mapping[str, str] | None = None, filters: Sequence[Callable[..., Any]] = ()) -> Environment:
    """Return the Jinja2 environment: everything escaped, unknown names are errors; `more` are further templates."""
    return _environment(tuple((more or {}).items()), tuple(filters))


@lru_cache(maxsize=16)
def _environment(more: tuple[tuple[str, str], ...], filters: tuple[Callable[..., Any], ...]) -> Environment:
    """One environment for the same templates: it keeps them compiled, for the next run of a sweep."""
    made = Environment(
        loader=ChoiceLoader([DictLoader(dict(more)), FileSystemLoader(TEMPLATES)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (
        reading.plain, reading.number, reading.probability, reading.cut_label, reading.scorer_label,
        reading.verdict_words, mark_of, reading.correction_label, reading.model_name, reading.severity_legend,
        reading.magnitude_words, reading.severity_words, reading.sentence, reading.scorer_version, sortable, *filters,
    ):  # fmt: skip
        made.filters[function.__name__] = function
    made.globals[Verdict.__name__] = Verdict
    return made


def sortable(value: float | None) -> str:
    """Return a number for `data-value`, by which a column is sorted: six digits, or nothing where there is none."""
    return "" if value is None else f"{value:.6g}"


def _policy(css: str, scripts: Sequence[str]) -> str:
    """Return the Content-Security-Policy: no network, and only this style and these scripts by their digests."""
    # images only from within the page itself
    rules = f"img-src data:; style-src {_digest(css)}; script-src {' '.join(map(_digest, scripts))}"
    return f"default-src 'none'; {rules}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    """Return the source expression of a text in a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
