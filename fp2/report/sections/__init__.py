"""The parts of reports that belong to one protocol: a section of the dashboard, figures, and lines for the terminal.

A module here shows the block of the results that has its name. It reads and never computes, and hides groups of fewer
than `min_cell` people. It has

- `TITLE`: the section's heading,
- `context(block, results, min_cell)`: what its template `templates/sections/<name>.html.j2` needs; with the key `alts`
  (file name -> text) for the figures that are shown there,
- `figures(block, results, folder)`: draws PNG files named `<name>_*.png` into `folder` and yields their paths,
- `lines(block, results)`: the headline in the terminal,
- `DETAIL = True`, where the section stands behind the group means of the fingerprint that it explains.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

SECTIONS: tuple[str, ...] = (
    "matched",
    "pairwise",
    "missing",
    "templates",
    "intersections",
    "gras",
    "fhibe_clip",
    "fhibe_vqa",
    "fhibe_scores",
    "fhibe_narrow",
    "diversity_report",
)  # fmt: skip
"""Names of the blocks that have a section, in the order of the page."""


def present(results: Mapping[str, Any]) -> list[tuple[str, ModuleType]]:
    """Return name and module of every section that the results have a block for."""
    names = [name for name in SECTIONS if results.get(name)]
    return [(name, importlib.import_module(f"{__name__}.{name}")) for name in names]


def draw(results: Mapping[str, Any], folder: Path) -> Iterator[Path]:
    """Draw the figures of every section that is present."""
    for name, module in present(results):
        yield from module.figures(results[name], results, folder)


def shown(results: Mapping[str, Any], min_cell: int) -> list[dict[str, Any]]:
    """Return name, title and template context of every section that is present."""
    return [
        {
            "name": name,
            "title": module.TITLE,
            "detail": getattr(module, "DETAIL", False),
            **module.context(results[name], results, min_cell),
        }
        for name, module in present(results)
    ]
