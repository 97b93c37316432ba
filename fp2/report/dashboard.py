"""The dashboard: one self-contained HTML file that needs no network and trusts no string it shows.

Jinja2 escapes every value. Style and script are fixed files that the page's own Content-Security-Policy admits by their
SHA-256; nothing else can load or run. The script only shows, hides and sorts what the HTML already holds.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, DictLoader, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fp2.errors import Fp2Error
from fp2.report import reading
from fp2.report.leaderboard import rank
from fp2.report.passport import write_atomically
from fp2.report.reading import MIN_CELL, suppress_small_cells
from fp2.report.section import Section, heading, present

_TEMPLATES = Path(__file__).parent / "templates"
MIN_EXAMPLE_COUNT = 2  # an answer that occurs once is about one image, and may describe the person in it
_EXAMPLES_PER_PROBE = 8
_EXAMPLE_LENGTH = 400


def write_dashboard(
    results: Mapping[str, Any],
    examples: Sequence[Mapping[str, Any]],
    leaderboard: Sequence[Mapping[str, Any]],
    path: Path,
    min_cell: int = MIN_CELL,
    figures: Path | None = None,
    sections: Sequence[Section] = (),
    sample: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Write the dashboard of one run and return its path.

    Parameters
    ----------
    results : mapping
        The content of `results.json`.
    examples : sequence of {probe, text, count}
        Distinct answers with their counts. The most frequent of each probe are shown, and none that occurs fewer than
        `MIN_EXAMPLE_COUNT` times.
    leaderboard : sequence of dicts
        Summaries of the runs in the store, as `fp2.report.leaderboard.summarise` returns them (one per run and cut).
    path : Path
        The HTML file, written atomically.
    min_cell : int
        Groups with fewer subjects are shown without their numbers.
    figures : Path, optional
        The folder of the run's figures, which are embedded in the page.
    sections : sequence of Section
        Those of the run's protocol (`fp2.report.section.load_sections`).
    sample : sequence of dicts
        Answers to read (`fp2.report.samples`).

    Raises
    ------
    Fp2Error
        If the file cannot be written.
    """
    page = render_dashboard(results, examples, leaderboard, min_cell, figures, sections, sample)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, page)
    except OSError as error:
        raise Fp2Error(f"the dashboard cannot be written: {error.strerror or error}", where=str(path)) from error
    return path


def render_dashboard(
    results: Mapping[str, Any],
    examples: Sequence[Mapping[str, Any]],
    leaderboard: Sequence[Mapping[str, Any]],
    min_cell: int = MIN_CELL,
    figures: Path | None = None,
    sections: Sequence[Section] = (),
    sample: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the dashboard's HTML (parameters as for `write_dashboard`)."""
    applying = present(sections, results)
    parts = [
        {
            "name": section.name,
            "title": section.title,
            **section.context(results[section.name], results, min_cell),
        }
        for section in applying
    ]
    shown = suppress_small_cells(results, min_cell)
    css, script = ((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("dashboard.css", "dashboard.js"))
    context = {
        "css": Markup(css),
        "script": Markup(script),
        "policy": Markup(_policy(css, script)),
        "results": shown,
        "heading": heading(sections, results),
        "model_was_used": reading.model_was_used(results),
        "sections": parts,
        "pictures": _embedded(parts, figures),
        "calibration": reading.is_calibration(results),
        "variant": reading.variant_line(results),
        "cuts": list(results["cuts"]),
        "scorers": list(dict.fromkeys(name for part in parts for name in part.get("scorers", ()))),
        "primary": reading.primary_scorer(results),
        "answers_by_group": _answers_by_group(shown),
        "examples": _examples(results, examples),
        "leaderboard": rank(leaderboard),
        "sample": [{**row, "text": _shorten(row["text"])} for row in sample],
        "min_cell": min_cell,
        "min_count": MIN_EXAMPLE_COUNT,
        "labels": reading.probe_labels(results),
    }
    return _environment(applying).get_template("dashboard.html.j2").render(context)


def _environment(sections: Sequence[Section]) -> Environment:
    """Return the Jinja2 environment: everything escaped, unknown names are errors; sections bring their templates."""
    own = {f"sections/{section.name}.html.j2": section.template.read_text(encoding="utf-8") for section in sections}
    made = Environment(
        loader=ChoiceLoader([DictLoader(own), FileSystemLoader(_TEMPLATES)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (
        reading.plain, reading.number, reading.probability, reading.cut_label, reading.scorer_label,
        reading.verdict_words, reading.correction_label, reading.model_name, reading.severity_legend,
        reading.magnitude_words, reading.adjusted_words,
    ):  # fmt: skip
        made.filters[function.__name__] = function
    return made


def _policy(css: str, script: str) -> str:
    """Return the Content-Security-Policy: no network, and only this style and this script by their digests."""
    style, code = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, script))
    # images only from within the page itself
    rules = f"img-src data:; style-src 'sha256-{style}'; script-src 'sha256-{code}'"
    return f"default-src 'none'; {rules}; base-uri 'none'; form-action 'none'"


def _embedded(parts: Sequence[Mapping[str, Any]], folder: Path | None) -> dict[str, str]:
    """Return the sections' figures that were drawn, as data URIs by file name."""
    names = [name for part in parts for name in part.get("alts", {})]
    paths = {name: folder / name for name in names} if folder else {}
    return {
        name: f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
        for name, path in paths.items()
        if path.is_file()
    }


def _answers_by_group(results: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return per cut the groups' answer counts with their sizes."""
    sizes = results["dataset"]["groups"]
    return {
        cut: [
            {**row, "size": sizes.get(cut, {}).get(row["group"], {})}
            for row in results["answers_by_group"]
            if row["cut"] == cut
        ]
        for cut in results["cuts"]
    }


def _examples(results: Mapping[str, Any], examples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the most frequent answers of each probe, shortened."""
    shown: list[dict[str, Any]] = []
    if not examples:
        return shown
    for probe in results["probes"]:
        mine = sorted((e for e in examples if e["probe"] == probe["id"]), key=lambda e: (-e["count"], e["text"]))
        frequent = [e for e in mine if e["count"] >= MIN_EXAMPLE_COUNT]
        texts = [{"text": _shorten(e["text"]), "count": e["count"]} for e in frequent[:_EXAMPLES_PER_PROBE]]
        more, rare = max(0, len(frequent) - _EXAMPLES_PER_PROBE), len(mine) - len(frequent)
        shown.append({"probe": probe, "answers": texts, "more": more, "rare": rare})
    return shown


def _shorten(text: str) -> str:
    """Return an answer on one line, cut to a readable length."""
    line = reading.plain(text)
    return line if len(line) <= _EXAMPLE_LENGTH else line[: _EXAMPLE_LENGTH - 1] + "…"
