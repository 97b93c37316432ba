"""The figures of a run, read from `results.json`; groups below the reporting minimum are left out.

Matplotlib is imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fp2.report.figures.disparities import heatmap, intervals, radar
from fp2.report.reading import MIN_CELL
from fp2.report.section import Section, present

__all__ = ["heatmap", "intervals", "radar", "write_figures"]


def write_figures(
    results: Mapping[str, Any],
    folder: Path,
    sections: Sequence[Section] = (),
    tick: Callable[[], None] = lambda: None,
    min_cell: int = MIN_CELL,
) -> dict[str, Path]:
    """Draw the figures of every section that applies and return them by file name.

    `tick` is called after each. Groups of fewer than `min_cell` subjects are not drawn.
    """
    paths: dict[str, Path] = {}
    for section in present(sections, results):
        for path in section.figures(results[section.name], results, folder, min_cell):
            paths[path.name] = path
            tick()
    return paths
