"""Changed pictures: person black, person blurred, background black, cut to a box; Pillow and numpy only.

A region is given as polygons (lists of `(x, y)` vertices in pixels of the image, as FHIBE's `segments` have them), as
a mask (a picture of the same size that is not black inside) or as one box `(x, y, width, height)`. The first three are
the image variants that FHIBE's own zero-shot evaluation uses.
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
_NO_BOX: Box = (0, 0, 0, 0)


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


def _region(
    image: Image.Image, polygons: Sequence[Polygon] | None, box: Box | None, mask: Image.Image | None
) -> Image.Image:
    """Return the mask of the person, 0 or 255.

    Raises
    ------
    Fp2Error
        When the annotation holds no region inside the picture: an unchanged picture must never pass for a variant.
    """
    if sum(given is not None for given in (polygons, box, mask)) != 1:
        raise Fp2Error("a variant needs polygons, a box or a mask, and not more than one of them")
    if mask is not None:
        if mask.size != image.size:
            raise Fp2Error(f"the mask has {mask.size} pixels, the picture {image.size}", fix="Check the mask.")
        region = mask.convert("L").point(lambda level: 255 if level else 0)
    else:
        region = region_mask(image.size, polygons) if polygons is not None else box_mask(image.size, box or _NO_BOX)
    if region.getbbox() is None:
        raise Fp2Error("the person's region is empty or lies outside the picture", fix="Check the annotation.")
    return region


def _black(image: Image.Image) -> Image.Image:
    return Image.new("RGB", image.size, (0, 0, 0))


def masked(
    image: Image.Image,
    polygons: Sequence[Polygon] | None = None,
    *,
    box: Box | None = None,
    mask: Image.Image | None = None,
) -> Image.Image:
    """Return `image` (RGB) with the person painted black.

    Raises
    ------
    Fp2Error
        If no region or more than one is given, the region is empty, or a mask has another size than the picture.
    """
    picture = image.convert("RGB")
    return Image.composite(_black(picture), picture, _region(picture, polygons, box, mask))


def blurred(
    image: Image.Image,
    polygons: Sequence[Polygon] | None = None,
    *,
    box: Box | None = None,
    mask: Image.Image | None = None,
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
    region = _region(picture, polygons, box, mask)
    return Image.composite(picture.filter(ImageFilter.GaussianBlur(radius)), picture, region)


def background_removed(
    image: Image.Image,
    polygons: Sequence[Polygon] | None = None,
    *,
    box: Box | None = None,
    mask: Image.Image | None = None,
) -> Image.Image:
    """Return `image` (RGB) with everything but the person painted black.

    Raises
    ------
    Fp2Error
        As `masked`.
    """
    picture = image.convert("RGB")
    return Image.composite(_black(picture), picture, ImageChops.invert(_region(picture, polygons, box, mask)))


def crop_corners(size: tuple[int, int], box: Box, margin: float) -> tuple[int, int, int, int]:
    """Return the crop of a picture of `size` round `box`: left, top, right and bottom edge in whole pixels.

    Each side is moved outwards by `margin` times the box's width (left, right) or height (top, bottom), outwards again
    to whole pixels, and kept inside the picture.

    Raises
    ------
    Fp2Error
        If the margin is negative, or the box is empty or lies outside the picture.
    """
    if not margin >= 0:
        raise Fp2Error(f"crop margin is {margin}", fix="It must not be negative (share of the box's sides).")
    x, y, width, height = box
    inside = x < size[0] and y < size[1] and x + width > 0 and y + height > 0
    if not (width > 0 and height > 0 and inside):
        raise Fp2Error("the box is empty or lies outside the picture", fix="Check the annotation.")
    left, top = int(np.floor(x - margin * width)), int(np.floor(y - margin * height))
    right, bottom = int(np.ceil(x + (1 + margin) * width)), int(np.ceil(y + (1 + margin) * height))
    return max(left, 0), max(top, 0), min(right, size[0]), min(bottom, size[1])


def cropped(image: Image.Image, corners: tuple[int, int, int, int]) -> Image.Image:
    """Return the part of `image` (RGB) between `corners` (of `crop_corners`)."""
    return image.convert("RGB").crop(corners)


def mask_array(mask: Image.Image) -> npt.NDArray[np.bool_]:
    """Return a mask as booleans, shape (height, width)."""
    return np.asarray(mask) > 0
