"""The parts of a drawn figure, traced once each: outlines by segment class, masks and keypoints, in canvas units.

Each part (a head on its body, an expression, facial hair, glasses) is drawn in flat key colours without anti-aliasing,
so that the renderer determines the part of each pixel.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import contourpy
import numpy as np
import numpy.typing as npt
import resvg_py
from PIL import Image
from scipy import ndimage

from fp2.methods.peeps.data.style import figure_markup

Mask = npt.NDArray[np.bool_]
Ring = npt.NDArray[np.float64]  # (n, 2) x, y; closed without repeating the first point


def signed_area(ring: Ring) -> float:
    """Return the shoelace area of a ring; its sign is the direction."""
    x, y = ring[:, 0], ring[:, 1]
    return float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y) / 2)


def simplify(ring: Ring, tolerance: float) -> Ring:
    """Return the ring without points that lie within `tolerance` of the outline kept (Douglas and Peucker, 1973)."""
    if len(ring) < 4:
        return ring
    far = int(np.argmax(np.hypot(*(ring - ring[0]).T)))
    closed = np.vstack([ring, ring[:1]])
    keep = np.zeros(len(closed), dtype=bool)
    keep[[0, far, len(ring)]] = True
    spans = [(0, far), (far, len(ring))]
    while spans:
        first, last = spans.pop()
        if last - first < 2:
            continue
        start, chord = closed[first], closed[last] - closed[first]
        offset = closed[first + 1 : last] - start
        length = float(np.hypot(*chord))
        if length == 0:
            distance = np.hypot(offset[:, 0], offset[:, 1])
        else:
            distance = np.abs(chord[0] * offset[:, 1] - chord[1] * offset[:, 0]) / length
        worst = int(np.argmax(distance))
        if distance[worst] > tolerance:
            middle = first + 1 + worst
            keep[middle] = True
            spans += [(first, middle), (middle, last)]
    return closed[:-1][keep[:-1]]


def _bridge(outer: Ring, hole: Ring) -> Ring:
    """Return `outer` and `hole` as one ring, joined by a bridge of zero width; the hole has the opposite direction."""
    gaps: npt.NDArray[Any] = np.hypot(outer[:, None, 0] - hole[None, :, 0], outer[:, None, 1] - hole[None, :, 1])
    at, on = np.unravel_index(int(np.argmin(gaps)), gaps.shape)
    loop = np.roll(hole, -int(on), axis=0)
    if signed_area(loop) * signed_area(outer) > 0:
        loop = np.roll(loop[::-1], 1, axis=0)
    return np.vstack([outer[: at + 1], loop, loop[:1], outer[at:]])


def _inside(point: npt.NDArray[np.float64], ring: Ring) -> bool:
    """Return whether a point lies inside a ring (ray casting)."""
    x, y = ring[:, 0], ring[:, 1]
    next_x, next_y = np.roll(x, -1), np.roll(y, -1)
    crosses = (y > point[1]) != (next_y > point[1])
    rise = np.where(crosses, next_y - y, 1.0)
    return bool(np.count_nonzero(crosses & (point[0] < x + (point[1] - y) / rise * (next_x - x))) % 2)


def trace(mask: Mask, *, tolerance: float, smallest: float) -> list[Ring]:
    """Return the outlines of a mask as rings in pixel units (pixel centres at .5), largest first.

    Holes of at least `smallest` pixels are joined to the outline around them; smaller ones are closed, and smaller
    islands dropped.
    """
    padded = np.pad(mask.astype(np.float64), 1)
    lines = contourpy.contour_generator(z=padded).lines(0.5)
    rings = [np.asarray(line, dtype=np.float64)[:-1] - 0.5 for line in lines if len(line) > 3]
    rings = [ring for ring in rings if abs(signed_area(ring)) >= smallest]
    rings.sort(key=lambda ring: -abs(signed_area(ring)))
    if not rings:
        return []
    # contourpy gives holes the opposite direction; the largest ring is always an outline.
    direction = np.sign(signed_area(rings[0]))
    outlines = [simplify(ring, tolerance) for ring in rings if np.sign(signed_area(ring)) == direction]
    for hole in (ring for ring in rings if np.sign(signed_area(ring)) != direction):
        around = [n for n, ring in enumerate(outlines) if _inside(hole[0], ring)]
        if around:
            outlines[around[-1]] = _bridge(outlines[around[-1]], simplify(hole, tolerance))
    return outlines


def clip(ring: Ring, width: float, height: float) -> Ring:
    """Return the part of a ring inside the image (Sutherland and Hodgman, 1974); it may have no points."""
    points = ring
    for axis, limit, sign in ((0, 0.0, 1.0), (0, width, -1.0), (1, 0.0, 1.0), (1, height, -1.0)):
        if not len(points):
            break
        inside = sign * (points[:, axis] - limit) >= 0
        if inside.all():
            continue
        kept: list[npt.NDArray[np.float64]] = []
        for index in range(len(points)):
            before, here = points[index - 1], points[index]
            if inside[index] != inside[index - 1]:
                share = (limit - before[axis]) / (here[axis] - before[axis])
                kept.append(before + share * (here - before))
            if inside[index]:
                kept.append(here)
        points = np.array(kept).reshape(-1, 2)
    return points


# The part of the canvas that can be visible in an image, and the resolution of its masks.
_LEFT, _TOP, _RIGHT, _BOTTOM = -80, -90, 784, 774
_ZOOM = 0.75
_KEYS = {
    "neck": (255, 0, 0),
    "clothing": (0, 255, 0),
    "outline": (0, 0, 255),
    "skin": (255, 255, 0),
    "hair": (255, 0, 255),
    "ink": (0, 255, 255),
    "teeth": (128, 255, 0),
    "frames": (255, 128, 0),
}
_STROKE = 13  # half a canvas unit more than the radius of the widest outline
_NEAR_SKIN = 26  # an outline at most this far from the face's skin belongs to the face
_STRANDS = ("twists", "bantuKnots", "dreads1", "dreads2", "cornrows2", "mediumBangs3", "bun2", "buns", "short4")
_HAIRLINE = 262  # canvas row above which a head of strands shows no outline of its own
_SCRAP = 0.03  # share of the largest piece of face below which a piece is a scrap between strands
_RIGHT_EAR = (195, 345, 272, 445)  # canvas box around the visible ear of a head turned to its left
_EAR_SKIN = 1900.0  # area of skin in that box, in square canvas units, from which the ear is visible
# Where an eyebrow that touches its eye ends, in canvas units: (of the right eye, of the left eye).
_BROW_ENDS = {"serious": (351, 351), "solemn": (0, 352)}
_MIDDLE, _NOSE_TOP, _MOUTH_TOP = 482, 379, 434


def _masks(parts: dict[str, str]) -> dict[str, Mask]:
    """Return one mask per key colour of a figure drawn from `parts`."""
    colours = {name: "#{:02x}{:02x}{:02x}".format(*rgb) for name, rgb in _KEYS.items()}
    body = figure_markup(parts, colours | {"tie": colours["hair"]})
    width, height = round((_RIGHT - _LEFT) * _ZOOM), round((_BOTTOM - _TOP) * _ZOOM)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" fill="none" '
        f'shape-rendering="crispEdges"><g transform="scale({_ZOOM}) translate({-_LEFT} {-_TOP})">{body}</g></svg>'
    )
    png = resvg_py.svg_to_bytes(svg_string=svg, skip_system_fonts=True, background="#ffffff")
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(np.uint32)
    codes = pixels[:, :, 0] << 16 | pixels[:, :, 1] << 8 | pixels[:, :, 2]
    return {name: codes == (red << 16 | green << 8 | blue) for name, (red, green, blue) in _KEYS.items()}


def _window(box: tuple[float, float, float, float]) -> tuple[slice, slice]:
    """Return the rows and columns of a mask that a canvas box (x0, y0, x1, y1) covers."""
    x0, y0, x1, y1 = ((value - start) * _ZOOM for value, start in zip(box, (_LEFT, _TOP, _LEFT, _TOP), strict=True))
    return slice(max(0, round(y0)), round(y1)), slice(max(0, round(x0)), round(x1))


def _outlines(mask: Mask, smallest: float = 90.0) -> list[Ring]:
    """Return a mask's outlines in canvas units."""
    rings = trace(mask, tolerance=0.7, smallest=smallest)
    return [ring / _ZOOM + (_LEFT, _TOP) for ring in rings]


@dataclass(frozen=True)
class Part:
    """Outlines by class in canvas units, with the masks that hide other parts or are hidden by them."""

    outlines: tuple[tuple[str, tuple[Ring, ...]], ...]
    masks: dict[str, Mask]
    keypoints: dict[str, tuple[tuple[float, float], str]]  # name -> (point, mask that must show)


def _split_hair(skin: Mask, dark: Mask, strands: bool) -> tuple[Mask, Mask]:
    """Return (face, hair): the head's thin outlines go to the face, everything thick or far from skin is hair.

    With `strands`, what is thin above the hairline is hair as well. Scraps of skin between strands count as hair.
    """
    rows, columns = np.nonzero(skin | dark)
    box = slice(rows.min(), rows.max() + 1), slice(columns.min(), columns.max() + 1)
    core_skin, core_dark = np.pad(skin[box], 2), np.pad(dark[box], 2)
    radius = _STROKE * _ZOOM
    thick = ndimage.distance_transform_edt(core_dark) > radius
    near = ndimage.distance_transform_edt(~thick) <= radius + 1.5 if thick.any() else thick
    thin = core_dark & ~near
    outline = thin & (ndimage.distance_transform_edt(~core_skin) <= _NEAR_SKIN * _ZOOM)
    if strands:
        outline[: max(0, _window((0, 0, 1, _HAIRLINE))[0].stop - rows.min() + 2)] = False
    pieces, _ = ndimage.label(core_skin | outline)
    sizes = np.bincount(pieces.ravel())
    sizes[0] = 0
    main = np.isin(pieces, np.nonzero(sizes > _SCRAP * sizes.max())[0])
    face, hair = np.zeros_like(skin), np.zeros_like(skin)
    face[box] = main[2:-2, 2:-2]
    hair[box] = ((core_skin | core_dark) & ~main)[2:-2, 2:-2]
    return face, hair


def _with_outline(neck: Mask, clothes: Mask, outline: Mask) -> tuple[Mask, Mask]:
    """Return neck and clothes, each with the outline that is nearer to it than to the other."""
    rows = slice(int(np.nonzero(outline)[0].min()), None)
    nearer = ndimage.distance_transform_edt(~neck[rows]) < ndimage.distance_transform_edt(~clothes[rows])
    neck, clothes = neck.copy(), clothes.copy()
    neck[rows] |= outline[rows] & nearer
    clothes[rows] |= outline[rows] & ~nearer
    return neck, clothes


def _centroid(mask: Mask) -> tuple[float, float]:
    """Return the mean position of a mask in canvas units."""
    rows, columns = np.nonzero(mask)
    return float(columns.mean() + 0.5) / _ZOOM + _LEFT, float(rows.mean() + 0.5) / _ZOOM + _TOP


@lru_cache(maxsize=64)
def head_part(name: str) -> Part:
    """Return a head on its body: the visible face, hair, neck and clothes."""
    masks = _masks({"skull": name, "head": name})
    face, hair = _split_hair(masks["skin"], masks["hair"], name in _STRANDS)
    neck, clothes = _with_outline(masks["neck"], masks["clothing"], masks["outline"])
    ear = np.zeros_like(face)
    ear[_window(_RIGHT_EAR)] = masks["skin"][_window(_RIGHT_EAR)]
    keypoints = {"Right ear": (_centroid(ear), "")} if ear.sum() / _ZOOM**2 >= _EAR_SKIN else {}
    classes = {"Face skin": face, "Upper body skin": neck, "Head hair": hair, "Upper body clothes": clothes}
    whole = face | hair | neck | clothes
    # Adjacent parts overlap by a pixel, so that there is no gap between their polygons.
    outlines = tuple(
        (name, tuple(_outlines(ndimage.binary_dilation(mask) & whole))) for name, mask in classes.items() if mask.any()
    )
    return Part(outlines, {"hair": hair}, keypoints)


def _feature(box: tuple[float, float, float, float]) -> str:
    """Return the class of a connected shape of an expression from its canvas box (x0, y0, x1, y1)."""
    x0, y0, x1, _ = box
    if y0 >= _MOUTH_TOP:
        return "Inner mouth"
    if y0 >= _NOSE_TOP and x0 < _MIDDLE < x1:
        return "Nose"
    side = "Right" if (x0 + x1) / 2 < _MIDDLE else "Left"
    return side


def _features(name: str) -> dict[str, Mask]:
    """Return one mask per class of an expression."""
    masks = _masks({"expression": name})
    shapes = masks["ink"] | masks["teeth"]
    found: dict[str, Mask] = {}
    if name in _BROW_ENDS:
        ends = _BROW_ENDS[name]
        middle = _window((_MIDDLE, 0, _RIGHT, _BOTTOM))[1].start
        for end, columns in ((ends[0], slice(0, middle)), (ends[1], slice(middle, None))):
            if end:
                shapes[_window((0, end - 2, 1, end))[0], columns] = False
    labels, _ = ndimage.label(shapes, np.ones((3, 3)))
    sided: dict[str, list[tuple[float, Mask]]] = {"Right": [], "Left": []}
    for index, (rows, columns) in enumerate(ndimage.find_objects(labels), start=1):
        mask = labels == index
        if mask.sum() < 40:
            continue
        x0, x1 = columns.start / _ZOOM + _LEFT, columns.stop / _ZOOM + _LEFT
        y0, y1 = rows.start / _ZOOM + _TOP, rows.stop / _ZOOM + _TOP
        kind = _feature((x0, y0, x1, y1))
        if kind in sided:
            sided[kind].append((y0, mask))
        else:
            found[kind] = found.get(kind, np.zeros_like(mask)) | mask
    if name == "serious":  # one brow over both eyes
        sided = _one_brow(sided)
    for side, pieces in sided.items():
        pieces.sort(key=lambda piece: piece[0])
        found[f"{side} eyebrow"], found[f"{side} eye"] = pieces[0][1], pieces[1][1]
    return found


def _one_brow(sided: dict[str, list[tuple[float, Mask]]]) -> dict[str, list[tuple[float, Mask]]]:
    """Return the pieces with a single brow divided into two at the middle of the face."""
    pieces = sorted(sided["Right"] + sided["Left"], key=lambda piece: piece[0])
    top, brow = pieces[0]
    middle = _window((_MIDDLE, 0, _RIGHT, _BOTTOM))[1].start
    right, left = brow.copy(), brow.copy()
    right[:, middle:], left[:, :middle] = False, False
    eyes = sorted(pieces[1:], key=lambda piece: float(np.nonzero(piece[1])[1].mean()))
    return {"Right": [(top, right), eyes[0]], "Left": [(top, left), eyes[-1]]}


def _ends(mask: Mask) -> tuple[tuple[float, float], tuple[float, float], tuple[float, float]]:
    """Return the leftmost point, the centre of the box, and the rightmost point of a mask, in canvas units."""
    rows, columns = np.nonzero(mask)
    first, last = columns.min(), columns.max()

    def at(column: float, row: float) -> tuple[float, float]:
        return (column + 0.5) / _ZOOM + _LEFT, (row + 0.5) / _ZOOM + _TOP

    centre = at((first + last) / 2, (rows.min() + rows.max()) / 2)
    return at(first, float(rows[columns == first].mean())), centre, at(last, float(rows[columns == last].mean()))


@lru_cache(maxsize=16)
def expression_part(name: str) -> Part:
    """Return an expression's features and their keypoints."""
    features = _features(name)
    keypoints: dict[str, tuple[tuple[float, float], str]] = {}
    for side, (first, last) in {"Right": ("outer", "inner"), "Left": ("inner", "outer")}.items():
        low, centre, high = _ends(features[f"{side} eye"])
        eye = f"{side} eye"
        keypoints |= {f"{eye} {first}": (low, eye), eye: (centre, eye), f"{eye} {last}": (high, eye)}
    keypoints["Nose"] = (_ends(features["Nose"])[2], "Nose")
    low, _, high = _ends(features["Inner mouth"])
    keypoints |= {"Mouth right": (low, "Inner mouth"), "Mouth left": (high, "Inner mouth")}
    outlines = tuple((name, tuple(_outlines(mask, 25.0))) for name, mask in features.items())
    return Part(outlines, features, keypoints)


@lru_cache(maxsize=16)
def overlay_part(component: str, variant: str) -> Part:
    """Return facial hair (as part of the face) or glasses (frame and lenses)."""
    masks = _masks({component: variant})
    if component == "facialHair":
        return Part((("Face skin", tuple(_outlines(masks["hair"]))),), {"hair": masks["hair"]}, {})
    filled = ndimage.binary_fill_holes(masks["frames"])
    return Part((("Eyewear", tuple(_outlines(filled))),), {}, {})
