"""The geometry of a radar in SVG: points and polygons in a fixed view box, no markup."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from fp2.report.figures.style import axis_end, axis_rings
from fp2.report.reading import probe_labels, rows_of

WIDTH, HEIGHT, RADIUS = 560.0, 400.0, 150.0
_WIDEST = 15
"""Characters of a line of a label that fit beside the radar, also at the size that phones show."""
_CENTRE = (WIDTH / 2, HEIGHT / 2)


@dataclass(frozen=True)
class Spoke:
    """One probe: the end of its axis, its label by line (x, y, text), its point if it has a value, and its row."""

    label: str
    end: tuple[float, float]
    words: tuple[tuple[float, float, str], ...]
    anchor: str
    point: tuple[float, float] | None
    significant: bool
    row: Mapping[str, Any]


@dataclass(frozen=True)
class Radar:
    """The radar of one cut: `rings` are (radius, label), `line` is a path, `area` is empty where the path has gaps."""

    cut: str
    spokes: tuple[Spoke, ...]
    rings: tuple[tuple[float, str], ...]
    null_p95: str
    null_mean: str
    line: str
    area: str


@dataclass(frozen=True)
class Line:
    """One run in an overlay: its path, and the points (x, y, significant, row) of the probes with a value."""

    run: int
    path: str
    points: tuple[tuple[float, float, bool, Mapping[str, Any]], ...]


@dataclass(frozen=True)
class Overlay:
    """Several runs on one radar; `null_p95` and `null_mean` are, at each probe, the largest of theirs."""

    spokes: tuple[Spoke, ...]
    rings: tuple[tuple[float, str], ...]
    null_p95: str
    null_mean: str
    lines: tuple[Line, ...]


def overlay_of(
    lines: Sequence[tuple[int, Mapping[str, Mapping[str, Any]]]], labels: Mapping[str, str], end: float
) -> Overlay:
    """Return the radar of several runs, from (run, rows by probe), with an axis from 0 to `end`.

    `labels` has the probes in order; a run without one of them has a gap there.
    """
    turn = {probe: 2 * math.pi * i / max(len(labels), 1) for i, probe in enumerate(labels)}
    nothing = {"raw": None, "significant": False}

    def ring(key: str) -> str:
        largest = {probe: max([(rows.get(probe) or {}).get(key) or 0.0 for _, rows in lines]) for probe in labels}
        return _polygon([_at(turn[probe], value / end) for probe, value in largest.items()])

    drawn = []
    for run, rows in lines:
        known = {p: _at(turn[p], rows[p]["raw"] / end) for p in labels if p in rows and rows[p]["raw"] is not None}
        points = tuple((*at, bool(rows[p]["significant"]), rows[p]) for p, at in known.items())
        drawn.append(Line(run, _path([known.get(p) for p in labels]), points))
    return Overlay(
        spokes=tuple(_spoke(labels[probe], nothing, turn[probe], end) for probe in labels),
        rings=_rings(end),
        null_p95=ring("null_p95"),
        null_mean=ring("null_mean"),
        lines=tuple(drawn),
    )


def radars_of(results: Mapping[str, Any]) -> list[Radar]:
    """Return the radar of every cut for the primary scorer, all on one axis from 0; none without rows."""
    rows = [row for cut in results["cuts"] for row in rows_of(results, cut).values()]
    end = axis_end(row[key] for row in rows for key in ("raw", "null_p95"))
    return [_radar(results, cut, end) for cut in results["cuts"]] if rows else []


def _radar(results: Mapping[str, Any], cut: str, end: float) -> Radar:
    rows, labels = rows_of(results, cut), probe_labels(results)
    turn = {probe: 2 * math.pi * i / max(len(rows), 1) for i, probe in enumerate(rows)}
    spokes = tuple(_spoke(labels[probe], row, turn[probe], end) for probe, row in rows.items())
    points = [spoke.point for spoke in spokes if spoke.point is not None]
    return Radar(
        cut=cut,
        spokes=spokes,
        rings=_rings(end),
        null_p95=_polygon([_at(turn[p], (row["null_p95"] or 0.0) / end) for p, row in rows.items()]),
        null_mean=_polygon([_at(turn[p], (row["null_mean"] or 0.0) / end) for p, row in rows.items()]),
        line=_path([spoke.point for spoke in spokes]),
        area=_polygon(points) if len(points) == len(spokes) else "",
    )


def _rings(end: float) -> tuple[tuple[float, str], ...]:
    return tuple((round(RADIUS * ring / end, 1), f"{ring:g}") for ring in axis_rings(end))


def _at(angle: float, share: float) -> tuple[float, float]:
    """Return the point at `share` of the radius, clockwise from the top."""
    far = min(share, 1.05) * RADIUS
    return round(_CENTRE[0] + far * math.sin(angle), 1), round(_CENTRE[1] - far * math.cos(angle), 1)


def _polygon(points: Sequence[tuple[float, float]]) -> str:
    """Return points as the value of an SVG `points` attribute."""
    return " ".join(f"{x},{y}" for x, y in points)


def _path(points: Sequence[tuple[float, float] | None]) -> str:
    """Return the closed line through neighbouring points as an SVG path; beside a missing point it has a gap."""
    pairs = zip(points, [*points[1:], *points[:1]], strict=True)
    return " ".join(f"M{a[0]},{a[1]}L{b[0]},{b[1]}" for a, b in pairs if a is not None and b is not None)


def _spoke(label: str, row: Mapping[str, Any], angle: float, end: float) -> Spoke:
    """Place one probe."""
    across = math.sin(angle)
    x, y = _at(angle, 1.0)
    first, _, rest = label.partition(" ")
    lines = [part for words in (first, rest) for part in wrap(words, _WIDEST, max_lines=2, placeholder="…")]
    top = y + 5 - 20 * math.cos(angle) - (len(lines) - 1) * 9.5 * (1 + max(0.0, math.cos(angle)) ** 4)
    if math.cos(angle) < -0.9:
        top = y + 21
    return Spoke(
        label=label,
        end=(x, y),
        words=tuple((round(x + 12 * across, 1), round(top + 19 * i, 1), line) for i, line in enumerate(lines)),
        anchor="middle" if abs(across) < 0.1 else "start" if across > 0 else "end",
        point=None if row["raw"] is None else _at(angle, row["raw"] / end),
        significant=bool(row["significant"]),
        row=row,
    )
