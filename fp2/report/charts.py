"""What the charts of a page show, as data for `templates/charts.js`, which draws them with Observable Plot.

A chart is a mapping with its `kind` (a function of that script), its `name` for screen readers, and its values. A page
holds it as JSON in the attribute `data-chart` of a figure. Numbers are rounded to four decimals, finer than a pixel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fp2.report.figures.style import axis_rings
from fp2.report.reading import number, plain, verdict_words

Row = Mapping[str, Any]
Chart = dict[str, Any]


class Series(NamedTuple):
    """One line of a radar: its rows by probe, the name and place of its run, and its classes of style."""

    rows: Mapping[str, Row]
    name: str = ""
    run: int = 0
    style: str = ""


def radar(name: str, labels: Mapping[str, str], series: Sequence[Series], end: float) -> Chart:
    """Return a radar of disparities with an axis from 0 to `end`, a line per series.

    `labels` has the probes in order; a series without a value for one of them has a gap there. `null_p95` and
    `null_mean` are, at each probe, the largest of the series'.
    """
    known = [{probe: row for probe, row in one.rows.items() if row["raw"] is not None} for one in series]
    return {
        "kind": "radar",
        "name": name,
        "labels": list(labels.values()),
        "end": end,
        "rings": axis_rings(end),
        **{
            key: [max((_rounded(one.rows.get(probe, {}).get(key)) or 0.0 for one in series), default=0.0)
                  for probe in labels]
            for key in ("null_p95", "null_mean")
        },
        "series": [
            {
                "run": one.run,
                "style": one.style,
                "values": [_rounded(rows[probe]["raw"]) if probe in rows else None for probe in labels],
                "filled": [bool(probe in rows and rows[probe]["significant"]) for probe in labels],
                "titles": [
                    _words(rows[probe], f"{plain(one.name)}, {label}" if one.name else label) if probe in rows else ""
                    for probe, label in labels.items()
                ],
            }
            for one, rows in zip(series, known, strict=True)
        ],
    }  # fmt: skip


def intervals(name: str, rows: Sequence[tuple[str, Row]], end: float, unit: str) -> Chart:
    """Return the disparities of labelled rows with their intervals, beside what chance gives, on an axis to `end`."""
    keys = {"value": "raw", "low": "ci_low", "high": "ci_high", "null_mean": "null_mean", "null_p95": "null_p95"}
    return {
        "kind": "intervals",
        "name": name,
        "end": end,
        "unit": unit,
        "rows": [
            {
                "label": label,
                "filled": bool(row["significant"]),
                "title": "" if row["raw"] is None else _words(row, label),
                **{key: _rounded(row[source]) for key, source in keys.items()},
            }
            for label, row in rows
        ],
    }


def bars(name: str, rows: Sequence[Row], unit: str) -> Chart:
    """Return a bar from 0 for each row: its `label`, `value`, whether it is `filled`, its `style` and its `title`."""
    return {
        "kind": "bars",
        "name": name,
        "unit": unit,
        "rows": [{**row, "value": _rounded(row["value"])} for row in rows],
    }


def _words(row: Row, label: str) -> str:
    """Return what a point says: its value, its interval, what chance gives, its verdict and its two groups."""
    said = f"{label}: {number(row['raw'])}"
    if row.get("ci_low") is not None and row.get("ci_high") is not None:
        said += f", interval {number(row['ci_low'])} to {number(row['ci_high'])}"
    said += f", null mean {number(row['null_mean'])}; {verdict_words(row['verdict'])}"
    if row["worst_group"]:
        said += f"; worst {plain(row['worst_group'])}, best {plain(row['best_group'])}"
    return said


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
