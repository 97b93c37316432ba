"""What figures that are drawn by hand share: palette, type sizes, heading, saving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fp2.report.drawing import (
    CHANCE,
    FAINT,
    GRID,
    INK,
    LINES,
    draw_heading,
    figure,
    run_heading,
    save,
    shorten,
    style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CHANCE", "FAINT", "GRID", "INK", "LINES", "figure", "head", "save", "shorten", "style"]


def head(drawn: Figure, title: str, runs: Sequence[Mapping[str, Any]]) -> None:
    """Write title and subtitle: model, data set, subjects, and a note where effects were planted."""
    draw_heading(drawn, run_heading(title, runs))
