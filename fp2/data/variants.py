"""Changed pictures: person black, person blurred, background black; Pillow and numpy only.

A region is given as polygons (lists of `(x, y)` vertices in pixels of the image, as FHIBE's `segments` have them) or
as one box `(x, y, width, height)`. These are the image variants that FHIBE's own zero-shot evaluation uses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from fp2.errors import Fp2Error

Point = tuple[float, float]
Polygon = Sequence[Point]
Box = tuple[float, float, float, float]

BLUR_RADIUS = 100.0


def region_mask(size: tuple[int, int], polygons: Sequence[Polygon]) -> Image.Image:
    """Return the union of filled polygons as an 8-bit mask (255 inside) of `size` = (width, height).

    A pixel belongs to a polygon when its centre does (even-odd rule, so a polygon may run round a hole over a bridge
    of no width). Parts outside the picture are cut; polygons with fewer than three vertices are ignored.
    """
    width, height = size
    inside = np.zeros((height, width), dtype=bool)
    for polygon in polygons:
        if len(polygon) >= 3:
            _fill(inside, np.asarray(polygon, dtype=np.float64))
    return Image.fromarray(inside.astype(np.uint8) * 255)


def _fill(inside: npt.NDArray[np.bool_], points: npt.NDArray[np.float64]) -> None:
    """Set the pixels of one polygon, row by row: between an odd and the next even crossing of the row's middle line."""
    height, width = inside.shape
    after = np.roll(points, -1, axis=0)
    low, high = np.minimum(points[:, 1], after[:, 1]), np.maximum(points[:, 1], after[:, 1])
    # Rows whose middle lies in [low, high), which counts a vertex on a middle line once.
    first = np.clip(np.ceil(low - 0.5), 0, height).astype(int)
    last = np.clip(np.ceil(high - 0.5), 0, height).astype(int)
    if not (last > first).any():
        return
    edge = np.repeat(np.arange(len(points)), last - first)
    row = np.arange(len(edge)) - np.repeat(np.cumsum(last - first) - (last - first), last - first) + first[edge]
    start, end = points[edge], after[edge]
    x = start[:, 0] + (row + 0.5 - start[:, 1]) / (end[:, 1] - start[:, 1]) * (end[:, 0] - start[:, 0])
    column = np.clip(np.ceil(x - 0.5), 0, width).astype(int)
    top, bottom = int(row.min()), int(row.max()) + 1
    crossings = np.zeros((bottom - top, width + 1), dtype=np.int32)
    np.add.at(crossings, (row - top, column), 1)
    inside[top:bottom] |= np.cumsum(crossings, axis=1)[:, :-1] % 2 == 1


def box_mask(size: tuple[int, int], box: Box) -> Image.Image:
    """Return a box (x, y, width, height) as a mask; every pixel that the box touches is inside."""
    x, y, width, height = box
    mask = Image.new("L", size, 0)
    if width > 0 and height > 0:
        corners = (int(np.floor(x)), int(np.floor(y)), int(np.ceil(x + width)) - 1, int(np.ceil(y + height)) - 1)
        ImageDraw.Draw(mask).rectangle(corners, fill=255)
    return mask


def _region(image: Image.Image, polygons: Sequence[Polygon] | None, box: Box | None) -> Image.Image:
    """Return the mask of the person.

    Raises
    ------
    Fp2Error
        When the annotation holds no region inside the picture: an unchanged picture must never pass for a variant.
    """
    if (polygons is None) == (box is None):
        raise Fp2Error("a variant needs polygons or a box, and not both")
    mask = region_mask(image.size, polygons) if polygons is not None else box_mask(image.size, box or (0, 0, 0, 0))
    if mask.getbbox() is None:
        raise Fp2Error("the person's region is empty or lies outside the picture", fix="Check the annotation.")
    return mask


def _black(image: Image.Image) -> Image.Image:
    return Image.new("RGB", image.size, (0, 0, 0))


def masked(image: Image.Image, polygons: Sequence[Polygon] | None = None, *, box: Box | None = None) -> Image.Image:
    """Return `image` (RGB) with the person painted black.

    Raises
    ------
    Fp2Error
        If neither or both regions are given, or the region is empty.
    """
    picture = image.convert("RGB")
    return Image.composite(_black(picture), picture, _region(picture, polygons, box))


def blurred(
    image: Image.Image,
    polygons: Sequence[Polygon] | None = None,
    *,
    box: Box | None = None,
    radius: float = BLUR_RADIUS,
) -> Image.Image:
    """Return `image` (RGB) with the person replaced by a Gaussian blur of the whole picture (radius in pixels).

    Raises
    ------
    Fp2Error
        As `masked`, or for a radius that is not positive.
    """
    if not radius > 0:
        raise Fp2Error(f"blur radius is {radius}", fix="It must be positive (pixels).")
    picture = image.convert("RGB")
    return Image.composite(picture.filter(ImageFilter.GaussianBlur(radius)), picture, _region(picture, polygons, box))


def background_removed(
    image: Image.Image, polygons: Sequence[Polygon] | None = None, *, box: Box | None = None
) -> Image.Image:
    """Return `image` (RGB) with everything but the person painted black.

    Raises
    ------
    Fp2Error
        As `masked`.
    """
    picture = image.convert("RGB")
    return Image.composite(_black(picture), picture, ImageChops.invert(_region(picture, polygons, box)))


def mask_array(mask: Image.Image) -> npt.NDArray[np.bool_]:
    """Return a mask as booleans, shape (height, width)."""
    return np.asarray(mask) > 0
