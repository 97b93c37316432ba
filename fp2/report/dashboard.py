"""The dashboard: one HTML file with everything in it, that opens without a network and trusts no string it shows.

Jinja2 escapes every value; style and script are fixed files that the page's own Content-Security-Policy admits by their
SHA-256, and nothing else can load or run. The script only shows, hides and sorts what the HTML already holds.
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
from fp2.report import reading, wording
from fp2.report.figures.fingerprint import FEWEST_SPOKES
from fp2.report.figures.style import axis_end
from fp2.report.leaderboard import rank
from fp2.report.passport import write_atomically
from fp2.report.radar_svg import HEIGHT, WIDTH, radar_geometry
from fp2.report.section import Section, present
from fp2.report.suppress import MIN_CELL, suppress_small_cells

_TEMPLATES = Path(__file__).parent / "templates"
MIN_EXAMPLE_COUNT = 2  # an answer that came once is about one picture, and may describe who is in it
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
) -> Path:
    """Write the dashboard of one run and return its path.

    Parameters
    ----------
    results : mapping
        What `results.json` holds.
    examples : sequence of {probe, text, count}
        Distinct answers with how often each came; the most frequent few of each probe are shown, and none that came
        fewer than `MIN_EXAMPLE_COUNT` times.
    leaderboard : sequence of dicts
        Summaries of the runs in the store, as `fp2.report.leaderboard.summarise` gives them (one per run and cut).
    path : Path
        The HTML file to write (in one step).
    min_cell : int
        Subjects below which a group's numbers are not shown.
    figures : Path, optional
        The folder of the run's figures: those of a protocol's sections are shown in the page.
    sections : sequence of Section
        Those of the run's protocol; each is shown where the results have its block.

    Raises
    ------
    Fp2Error
        If the file cannot be written.
    """
    page = render_dashboard(results, examples, leaderboard, min_cell, figures, sections)
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
) -> str:
    """Return the dashboard's HTML (parameters as for `write_dashboard`)."""
    there = present(sections, results)
    own = [
        {
            "name": section.name,
            "title": section.title,
            "detail": section.detail,
            **section.context(results[section.name], results, min_cell),
        }
        for section in there
    ]
    shown = suppress_small_cells(results, min_cell)
    css, script = ((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("dashboard.css", "dashboard.js"))
    context = {
        "css": Markup(css),
        "script": Markup(script),
        "policy": Markup(_policy(css, script)),
        "results": shown,
        "heading": reading.heading(results),
        "sections": own,
        "pictures": _pictures(own, figures),
        "calibration": reading.is_calibration(results),
        "variant": reading.variant_line(results),
        "cuts": list(results["cuts"]),
        "scorers": reading.scorer_names(results) or _scorers_of(own),
        "primary": reading.primary_scorer(results),
        "balance": results.get("balance"),
        "radars": (radars := _radars(shown)),
        "has_radar": any(len(radar.spokes) >= FEWEST_SPOKES for radar in radars),
        "svg": {"width": WIDTH, "height": HEIGHT},
        "means": _means(shown),
        "tables": _tables(shown),
        "answers_by_group": _answers_by_group(shown),
        "examples": _examples(results, examples),
        "leaderboard": rank(leaderboard),
        "min_cell": min_cell,
        "min_count": MIN_EXAMPLE_COUNT,
        "wording": wording,
        "labels": reading.probe_labels(results),
    }
    return _environment(there).get_template("dashboard.html.j2").render(context)


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
        reading.verdict_words, reading.model_name, reading.severity_legend,
    ):  # fmt: skip
        made.filters[function.__name__] = function
    return made


def _policy(css: str, script: str) -> str:
    """Return the Content-Security-Policy: no network at all, and only this style and this script by their digests."""
    style, code = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, script))
    # pictures only from within the page itself
    rules = f"img-src data:; style-src 'sha256-{style}'; script-src 'sha256-{code}'"
    return f"default-src 'none'; {rules}; base-uri 'none'; form-action 'none'"


def _scorers_of(own: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the scorers that a section has tables of, where the run has no disparities."""
    return list(dict.fromkeys(name for section in own for name in section.get("scorers", ())))


def _pictures(own: Sequence[Mapping[str, Any]], folder: Path | None) -> dict[str, str]:
    """Return the sections' figures that were drawn, as data addresses by file name."""
    names = [name for section in own for name in section.get("alts", {})]
    paths = {name: folder / name for name in names} if folder else {}
    return {
        name: f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
        for name, path in paths.items()
        if path.is_file()
    }


def _radars(results: Mapping[str, Any]) -> list[Any]:
    """Return the radar of every cut, all on one axis."""
    rows = [row for cut in results["cuts"] for row in reading.rows_of(results, cut).values()]
    end = axis_end(row[key] for row in rows for key in ("raw", "null_p95"))
    if not rows:
        return []
    return [radar_geometry(results, cut, end) for cut in results["cuts"]]


def _panels(results: Mapping[str, Any]) -> list[tuple[str, str, dict[str, Mapping[str, Any]]]]:
    """Return (cut, scorer, rows by probe) for all that have rows."""
    pairs = ((cut, scorer) for cut in results["cuts"] for scorer in reading.scorer_names(results))
    panels = ((cut, scorer, reading.rows_of(results, cut, scorer)) for cut, scorer in pairs)
    return [panel for panel in panels if panel[2]]


def _means(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a table of group means per cut and scorer: a line per group, a cell per probe with its colour class."""
    ranges = {scorer["name"]: scorer.get("value_range") or [0.0, 1.0] for scorer in results["scorers"]}
    tables = []
    for cut, scorer, rows in _panels(results):
        cells = {(p, g["group"]): g for p, row in rows.items() for g in row["groups"]}
        scale = _Scale(ranges[scorer], [g["mean"] for g in cells.values()])
        sizes = results["dataset"]["groups"].get(cut, {})
        lines = [
            {
                "group": group,
                "size": sizes.get(group, {}),
                "cells": [_cell(cells.get((p, group)), row, group, scale) for p, row in rows.items()],
            }
            for group in reading.group_order(results, cut)
        ]
        tables.append({"cut": cut, "scorer": scorer, "probes": list(rows), "lines": lines, "scale": scale.words})
    return tables


class _Scale:
    """Which of the colour classes n10 ... n1, z, p1 ... p10 a mean gets, and how to say so.

    A scale with both signs diverges around 0 and ends at the largest mean, rounded up; others run over their range.
    """

    def __init__(self, value_range: Sequence[float], means: Sequence[float | None]) -> None:
        self.low, self.high = value_range
        if self.low < 0 < self.high:
            largest = max([abs(mean) for mean in means if mean is not None], default=0.0)
            self.low, self.high = 0.0, next(end for end in (0.2, 0.4, 0.6, 1.0, float("inf")) if largest <= end)
            self.words = f"colours diverge around 0 and end at ±{self.high:g}"
        else:
            self.words = f"colours run from {self.low:g} to {self.high:g}"

    def level(self, mean: float) -> str:
        """Return the colour class of a mean."""
        step = max(-10, min(10, round(10 * (mean - self.low) / (self.high - self.low))))
        return "z" if step == 0 else f"p{step}" if step > 0 else f"n{-step}"


def _cell(group: Mapping[str, Any] | None, row: Mapping[str, Any], name: str, scale: _Scale) -> dict[str, Any]:
    """Return one cell: its words, its colour class, and whether it is an end of a significant disparity."""
    if group is None or group["suppressed"] or group["mean"] is None:
        hidden = group is not None and group["suppressed"]
        return {"text": "" if hidden else reading.DASH, "level": "hidden" if hidden else "none", "mark": "", "n": group}
    ends = {row["worst_group"]: "worst", row["best_group"]: "best"} if row["significant"] else {}
    return {
        "text": reading.number(group["mean"], 2),
        "level": scale.level(group["mean"]),
        "mark": ends.get(name, ""),
        "n": group,
    }


def _tables(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the disparity table of each cut and scorer, with the little picture of each interval."""
    tables = []
    panels = _panels(results)
    ends: dict[str, float] = {}
    for _, scorer, rows in panels:
        values = [row[key] or 0.0 for row in rows.values() for key in ("raw", "ci_high", "null_p95")]
        ends[scorer] = max([ends.get(scorer, 0.01), *values])
    for cut, scorer, rows in panels:
        lines = [{"probe": p, "row": row, "bar": _bar(row, ends[scorer])} for p, row in rows.items()]
        tables.append({"cut": cut, "scorer": scorer, "lines": lines})
    return tables


def _bar(row: Mapping[str, Any], end: float) -> dict[str, float] | None:
    """Return the x positions (0 to 120) of a row's chance level, interval and point, or None without a value."""
    if row["raw"] is None:
        return None
    keys = ("raw", "null_mean", "null_p95", "ci_low", "ci_high")
    return {key: round(4 + 112 * (row[key] if row[key] is not None else row["raw"]) / end, 1) for key in keys}


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
