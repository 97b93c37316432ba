"""The figures of a run: the bias fingerprint (radar), group means (heatmap), disparities against chance (intervals).

All read `results.json` as it is; groups below the reporting minimum are blanked first. Matplotlib loads on first use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fp2.report.figures.disparity_intervals import intervals
from fp2.report.figures.fingerprint import FEWEST_SPOKES, radar
from fp2.report.figures.group_means import heatmap
from fp2.report.reading import rows_of, scorer_names
from fp2.report.section import Section, present

__all__ = ["heatmap", "intervals", "radar", "write_figures"]


def write_figures(
    results: Mapping[str, Any], folder: Path, sections: Sequence[Section], tick: Callable[[], None] = lambda: None
) -> dict[str, Path]:
    """Draw every figure that the run has rows for and return them by file name; `tick` is called after each.

    `fingerprint.png` and `heatmap_CUT.png` show the primary scorer, and a radar needs three probes; `intervals.png`
    shows the first scorer there is.
    The sections of a protocol draw their own.
    """
    paths: dict[str, Path] = {}
    for path in _drawn(results, folder, sections):
        paths[path.name] = path
        tick()
    return paths


def _drawn(results: Mapping[str, Any], folder: Path, sections: Sequence[Section]) -> Iterator[Path]:
    """Draw one figure after the other."""
    cuts = [cut for cut in results["cuts"] if cut in results["composites"] and rows_of(results, cut)]
    if spread := [cut for cut in cuts if len(rows_of(results, cut)) >= FEWEST_SPOKES]:
        yield radar(results, folder / "fingerprint.png", cuts=spread)
    for cut in cuts:
        yield heatmap(results, cut, folder / f"heatmap_{re.sub(r'[^0-9A-Za-z_-]', '-', cut)}.png")
    if scorer_names(results):
        yield intervals(results, folder / "intervals.png")
    for section in present(sections, results):
        yield from section.figures(results[section.name], results, folder)
