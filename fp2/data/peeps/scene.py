"""The placement of figures in an image, and the abstract backdrops that represent a region.

A backdrop is a flat colour with a pattern in a second colour. It is the only cue of a region: no physical trait
represents one.
"""

from __future__ import annotations

from dataclasses import dataclass

from fp2.data.peeps.figure import Cues
from fp2.data.peeps.style import CANVAS

# Ground and pattern colour per region, in the order of figure.REGIONS.
BACKDROPS = (
    ("#fbe3c0", "#e5b064"),
    ("#cfe5f2", "#8db7d8"),
    ("#fbd5d8", "#e39aa2"),
    ("#d6efd4", "#98c894"),
    ("#e5d9f5", "#b39ddb"),
)
PAIR_WIDTH = 0.56


@dataclass(frozen=True)
class Placement:
    """An affine map from canvas units to pixels: pixel = offset + scale * canvas."""

    scale: float
    x: float
    y: float

    @property
    def transform(self) -> str:
        """The same map as an SVG transform."""
        return f"translate({self.x:.4f} {self.y:.4f}) scale({self.scale:.6f})"


def place(cues: Cues, size: int, *, left: float = 0.0, width: float = 1.0) -> Placement:
    """Return the placement of a figure: its canvas is centred in a square, its lower edge is the image's.

    Parameters
    ----------
    left, width : float
        The square's left edge and side, as fractions of the image's side; the square is at the lower edge.
    """
    side = size * width
    scale = cues.scale * side / CANVAS
    x = left * size + side * (0.5 + cues.dx) - scale * CANVAS / 2
    y = size + side * cues.dy - scale * CANVAS
    return Placement(scale, x, y)


def backdrop(region: int, phase: float) -> str:
    """Return the SVG elements of a region's backdrop on a unit square; `phase` in [0, 1) shifts the pattern."""
    ground, ink = BACKDROPS[region]
    shapes = (_stripes, _bars, _dots, _checks, _waves)[region](phase)
    return f'<rect width="1" height="1" fill="{ground}"/><g fill="{ink}" stroke="none">{shapes}</g>'


def _stripes(phase: float) -> str:
    step, width = 0.16, 0.075
    edges = [(n + phase) * step - 1.2 for n in range(16)]
    return "".join(f'<path d="M{a:.5f} 0L{a + 1:.5f} 1h{width}L{a + width:.5f} 0z"/>' for a in edges)


def _bars(phase: float) -> str:
    step = 0.15
    tops = [(n + phase) * step - 0.2 for n in range(9)]
    return "".join(f'<rect x="0" y="{top:.5f}" width="1" height="{step / 2}"/>' for top in tops)


def _dots(phase: float) -> str:
    step, dots = 0.17, []
    for row in range(9):
        for column in range(9):
            x, y = (column + phase + 0.5 * (row % 2)) * step - 0.25, (row + phase) * step - 0.25
            dots.append(f'<circle cx="{x:.5f}" cy="{y:.5f}" r="0.042"/>')
    return "".join(dots)


def _checks(phase: float) -> str:
    step, tiles = 0.17, []
    for row in range(8):
        for column in range(row % 2, 9, 2):
            x, y = (column + 2 * phase) * step - 0.45, (row + phase) * step - 0.2
            tiles.append(f'<rect x="{x:.5f}" y="{y:.5f}" width="{step}" height="{step}"/>')
    return "".join(tiles)


def _waves(phase: float) -> str:
    step, length, height = 0.15, 0.28, 0.075
    start, lines = -(1 + phase) * length, []
    for row in range(9):
        top = (row + phase) * step - 0.2
        arcs = f"q{length / 4:.4f} {-height} {length / 2:.4f} 0t{length / 2:.4f} 0" * 6
        lines.append(f'<path d="M{start:.5f} {top:.5f}{arcs}" fill="none"/>')
    return f'<g stroke="{BACKDROPS[4][1]}" stroke-width="0.034">{"".join(lines)}</g>'
