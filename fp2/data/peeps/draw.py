"""Drawing of people: from visible cues to pixels, with or without the geometry of what was drawn.

`render_image` draws pixels only (for training); `render` and `render_pair` add person and face boxes, segment polygons
and face keypoints. An image is one SVG document, which resvg rasterises once.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import resvg_py
from PIL import Image

from fp2.data.peeps.figure import EXPRESSIONS, GLASSES, Cues
from fp2.data.peeps.geometry import Geometry, geometry, hide_behind
from fp2.data.peeps.style import CLOTHING, HAIR, INK, PAIR_WIDTH, SKIN_RGB, Placement, backdrop, figure_markup, place

_TONE_STEP = 3  # grey levels that the lightness jitter may add or take


@dataclass(frozen=True)
class Drawing:
    """An image of one person: RGB pixels, and the geometry in pixels."""

    image: Image.Image
    geometry: Geometry


@dataclass(frozen=True)
class PairDrawing:
    """An image of two people on one backdrop; the right one is in front where they overlap."""

    image: Image.Image
    left: Geometry
    right: Geometry


def skin_colour(cues: Cues) -> tuple[int, int, int]:
    """Return the RGB colour of a person's skin in one image: FHIBE's tone with the lightness jitter."""
    shift = round(cues.tone * _TONE_STEP)
    red, green, blue = SKIN_RGB[cues.skin]
    return red + shift, green + shift, blue + shift


def figure(cues: Cues, placement: Placement, name: str) -> str:
    """Return the SVG elements of one figure, placed in an image."""
    skin = "#{:02x}{:02x}{:02x}".format(*skin_colour(cues))
    parts = {
        "skull": cues.head,
        "lines": f"lines{cues.age}" if cues.age else "",
        "head": cues.head,
        "expression": EXPRESSIONS[cues.expression],
        "facialHair": cues.beard,
        "accessories": GLASSES[cues.glasses],
    }
    colours = {
        "skin": skin,
        "neck": skin,
        "hair": HAIR[cues.age],
        "clothing": CLOTHING[cues.clothing],
        "tie": CLOTHING[cues.clothing],
        "ink": INK,
        "outline": INK,
        "frames": INK,
        "teeth": "#ffffff",
    }
    return f'<g transform="{placement.transform}">{figure_markup(parts, colours, name)}</g>'


def rasterise(elements: str, size: int, *, crisp: bool = False) -> Image.Image:
    """Return SVG elements (pixel units) as an RGB image of `size` by `size`; `crisp` turns anti-aliasing off."""
    edges = ' shape-rendering="crispEdges"' if crisp else ""
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" fill="none"{edges}>{elements}</svg>'
    png = resvg_py.svg_to_bytes(svg_string=svg, skip_system_fonts=True)
    return Image.open(io.BytesIO(png)).convert("RGB")


def _ground(region: int, phase: float, size: int) -> str:
    return f'<g transform="scale({size})">{backdrop(region, phase)}</g>'


def render_backdrop(region: int, phase: float, size: int) -> Image.Image:
    """Return the backdrop of a region without people."""
    return rasterise(_ground(region, phase, size), size)


def render_image(cues: Cues, size: int = 384) -> Image.Image:
    """Return the image of one person, without geometry."""
    return rasterise(_ground(cues.region, cues.phase, size) + figure(cues, place(cues, size), "one"), size)


def render(cues: Cues, size: int = 384) -> Drawing:
    """Return the image of one person and its geometry."""
    return Drawing(render_image(cues, size), geometry(cues, place(cues, size), size))


def _pair_places(left: Cues, right: Cues, size: int) -> tuple[Placement, Placement]:
    return (
        place(left, size, left=0.0, width=PAIR_WIDTH),
        place(right, size, left=1.0 - PAIR_WIDTH, width=PAIR_WIDTH),
    )


def render_pair_image(left: Cues, right: Cues, region: int, size: int = 384) -> Image.Image:
    """Return two people side by side on the backdrop of `region` (phase from the left one), without geometry."""
    first, second = _pair_places(left, right, size)
    people = figure(left, first, "left") + figure(right, second, "right")
    return rasterise(_ground(region, left.phase, size) + people, size)


def render_pair(left: Cues, right: Cues, region: int, size: int = 384) -> PairDrawing:
    """Return two people side by side and the geometry of each, the left one's without what the right one occludes."""
    first, second = _pair_places(left, right, size)
    front = geometry(right, second, size)
    back = hide_behind(geometry(left, first, size), front, size)
    return PairDrawing(render_pair_image(left, right, region, size), back, front)
