"""Drawing of people: from visible cues to pixels, with or without the geometry of what was drawn.

`render_image` draws pixels only (for training); `render` and `render_pair` add person and face boxes, segment polygons
and face keypoints. An image is one SVG document, which resvg rasterises once.

For the geometry, each part (a head on its body, an expression, facial hair, glasses) is drawn once in flat key colours
without anti-aliasing; the masks are traced, and the polygons of an image are these outlines transformed by the figure's
placement. Later parts are painted over earlier ones, so that polygons may overlap as in FHIBE, where eyes are inside
face skin. How a drawing's parts map to FHIBE's classes:

* an outline belongs to the part that it surrounds; the outline of the head belongs to the face;
* facial hair is `Face skin`: the release has no class for it;
* the mouth is one shape (`Inner mouth`): no lips are drawn; sleeves and bare arms are outside the image;
* a feature that is mostly covered by hair or facial hair is not visible: no polygon, no keypoint.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import resvg_py
from PIL import Image

from fp2.methods.fhibe_release.masks import mask_array, region_mask
from fp2.methods.peeps.data.figure import EXPRESSIONS, GLASSES, Cues
from fp2.methods.peeps.data.parts import Ring, clip, expression_part, head_part, overlay_part, trace
from fp2.methods.peeps.data.style import (
    CLOTHING,
    HAIR,
    INK,
    PAIR_WIDTH,
    SKIN_RGB,
    BodyPlacement,
    backdrop,
    figure_markup,
    place,
)


@dataclass(frozen=True)
class Segment:
    """One polygon of a segment class (FHIBE's class name); vertices in pixels."""

    class_name: str
    polygon: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class DrawnGeometry:
    """One person in one image. Boxes are (x, y, width, height); all units are pixels of the image.

    `keypoints` holds the visible face keypoints only, under FHIBE's names ("Right" is the person's right).
    """

    person_box: tuple[float, float, float, float]
    face_box: tuple[float, float, float, float]
    segments: tuple[Segment, ...]
    keypoints: dict[str, tuple[float, float]]

    @property
    def polygons(self) -> list[tuple[tuple[float, float], ...]]:
        """All polygons: their union is the person."""
        return [segment.polygon for segment in self.segments]

    def of(self, class_name: str) -> list[tuple[tuple[float, float], ...]]:
        """Polygons of one class."""
        return [segment.polygon for segment in self.segments if segment.class_name == class_name]


def _box(polygons: list[tuple[tuple[float, float], ...]]) -> tuple[float, float, float, float]:
    """Return the bounding box (x, y, width, height) of polygons; zeros if there are none."""
    if not polygons:
        return 0.0, 0.0, 0.0, 0.0
    points: npt.NDArray[np.float64] = np.concatenate([np.asarray(polygon) for polygon in polygons])
    (x0, y0), (x1, y1) = points.min(axis=0), points.max(axis=0)
    return float(x0), float(y0), float(x1 - x0), float(y1 - y0)


def _assemble(pieces: list[tuple[str, Ring]], keypoints: dict[str, tuple[float, float]]) -> DrawnGeometry:
    segments = tuple(
        Segment(name, tuple((round(float(x), 1), round(float(y), 1)) for x, y in ring))
        for name, ring in pieces
        if len(ring) >= 3
    )
    face = [segment.polygon for segment in segments if segment.class_name == "Face skin"]
    return DrawnGeometry(_box([segment.polygon for segment in segments]), _box(face), segments, keypoints)


def geometry(cues: Cues, placement: BodyPlacement, size: int) -> DrawnGeometry:
    """Return the geometry of one figure in an image of `size` by `size` pixels."""
    head, expression = head_part(cues.head), expression_part(EXPRESSIONS[cues.expression])
    cover = head.masks["hair"]
    parts = [head]
    if cues.beard:
        beard = overlay_part("facialHair", cues.beard)
        parts.append(beard)
        cover = cover | beard.masks["hair"]
    hidden = {name for name, mask in expression.masks.items() if cover[mask].mean() > 0.5}
    if cues.glasses:
        parts.append(overlay_part("accessories", GLASSES[cues.glasses]))
    outlines = [(name, ring) for part in parts for name, rings in part.outlines for ring in rings]
    outlines += [(name, ring) for name, rings in expression.outlines if name not in hidden for ring in rings]
    keypoints = {**head.keypoints, **expression.keypoints}
    points = {name: point for name, (point, needs) in keypoints.items() if needs not in hidden}
    move = np.array([placement.x, placement.y])
    pieces = [(name, clip(ring * placement.scale + move, size, size)) for name, ring in outlines]
    placed = {name: tuple(placement.scale * np.asarray(point) + move) for name, point in points.items()}
    inside = {
        name: (round(float(x), 2), round(float(y), 2))
        for name, (x, y) in placed.items()
        if 0 <= x < size and 0 <= y < size
    }
    return _assemble(pieces, inside)


def hide_behind(back: DrawnGeometry, front: DrawnGeometry, size: int) -> DrawnGeometry:
    """Return `back` without what `front` occludes: polygons are clipped, occluded keypoints are left out."""
    cover = mask_array(region_mask((size, size), front.polygons))
    pieces: list[tuple[str, Ring]] = []
    for segment in back.segments:
        mask = mask_array(region_mask((size, size), [segment.polygon]))
        if (mask & cover).any():
            pieces += [(segment.class_name, ring) for ring in trace(mask & ~cover, tolerance=0.4, smallest=6.0)]
        else:
            pieces.append((segment.class_name, np.asarray(segment.polygon)))
    shown = {name: (x, y) for name, (x, y) in back.keypoints.items() if not cover[int(y), int(x)]}
    return _assemble(pieces, shown)


def transformed(
    source: DrawnGeometry, scale: float, shift: tuple[float, float], size: tuple[int, int]
) -> DrawnGeometry:
    """Return `source` in a crop: shifted, then scaled, and cut at the crop's `size` (width, height) in pixels."""
    move = np.asarray(shift)
    pieces = [
        (segment.class_name, clip((np.asarray(segment.polygon) + move) * scale, *size)) for segment in source.segments
    ]
    points = {name: ((x + shift[0]) * scale, (y + shift[1]) * scale) for name, (x, y) in source.keypoints.items()}
    inside = {
        name: (round(x, 2), round(y, 2)) for name, (x, y) in points.items() if 0 <= x < size[0] and 0 <= y < size[1]
    }
    return _assemble(pieces, inside)


_TONE_STEP = 3  # grey levels that the lightness jitter may add or take


@dataclass(frozen=True)
class Drawing:
    """An image of one person: RGB pixels, and the geometry in pixels."""

    image: Image.Image
    geometry: DrawnGeometry


@dataclass(frozen=True)
class PairDrawing:
    """An image of two people on one backdrop; the right one is in front where they overlap."""

    image: Image.Image
    left: DrawnGeometry
    right: DrawnGeometry


def skin_colour(cues: Cues) -> tuple[int, int, int]:
    """Return the RGB colour of a person's skin in one image: FHIBE's tone with the lightness jitter."""
    shift = round(cues.tone * _TONE_STEP)
    red, green, blue = SKIN_RGB[cues.skin]
    return red + shift, green + shift, blue + shift


def figure(cues: Cues, placement: BodyPlacement, name: str) -> str:
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


def rasterise(elements: str, size: int) -> Image.Image:
    """Return SVG elements (pixel units) as an RGB image of `size` by `size`."""
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" fill="none">{elements}</svg>'
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


def _pair_places(left: Cues, right: Cues, size: int) -> tuple[BodyPlacement, BodyPlacement]:
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
