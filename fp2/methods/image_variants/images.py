"""Image variants as functions of images: person black, person blurred, background black, crop to a box.

A region is given as polygons (lists of `(x, y)` vertices in pixels, as FHIBE's `segments`), as a mask (an image of the
same size that is not black inside) or as a box `(x, y, width, height)`. The first three variants are those of FHIBE's
zero-shot evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from fp2.extension import Fp2Error
from fp2.methods.fhibe_release.masks import Polygon, region_mask

Box = tuple[float, float, float, float]

BLUR_RADIUS = 100.0
_NO_BOX: Box = (0, 0, 0, 0)


def box_mask(size: tuple[int, int], box: Box) -> Image.Image:
    """Return a box (x, y, width, height) as a mask, with every pixel that the box touches."""
    x, y, width, height = box
    mask = Image.new("L", size, 0)
    if width > 0 and height > 0:
        corners = (int(np.floor(x)), int(np.floor(y)), int(np.ceil(x + width)) - 1, int(np.ceil(y + height)) - 1)
        ImageDraw.Draw(mask).rectangle(corners, fill=255)
    return mask


def _region(
    image: Image.Image, polygons: Sequence[Polygon] | None, box: Box | None, mask: Image.Image | None
) -> Image.Image:
    if sum(option is not None for option in (polygons, box, mask)) != 1:
        raise Fp2Error("a variant needs exactly one of polygons, a box or a mask")
    if mask is not None:
        if mask.size != image.size:
            raise Fp2Error(f"the mask has {mask.size} pixels, the image {image.size}", fix="Check the mask")
        region = mask.convert("L").point(lambda level: 255 if level else 0)
    else:
        region = region_mask(image.size, polygons) if polygons is not None else box_mask(image.size, box or _NO_BOX)
    if region.getbbox() is None:
        raise Fp2Error("the person's region is empty or outside the image", fix="Check the annotation")
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
    """Return `image` (RGB) with the person painted black."""
    original = image.convert("RGB")
    return Image.composite(_black(original), original, _region(original, polygons, box, mask))


def blurred(
    image: Image.Image,
    polygons: Sequence[Polygon] | None = None,
    *,
    box: Box | None = None,
    mask: Image.Image | None = None,
    radius: float = BLUR_RADIUS,
) -> Image.Image:
    """Return `image` (RGB) with the person replaced by a Gaussian blur of the whole image (radius in pixels)."""
    if not radius > 0:
        raise Fp2Error(f"the blur radius is {radius}", fix="It must be above 0 (pixels)")
    original = image.convert("RGB")
    region = _region(original, polygons, box, mask)
    return Image.composite(original.filter(ImageFilter.GaussianBlur(radius)), original, region)


def background_removed(
    image: Image.Image,
    polygons: Sequence[Polygon] | None = None,
    *,
    box: Box | None = None,
    mask: Image.Image | None = None,
) -> Image.Image:
    """Return `image` (RGB) with everything but the person painted black."""
    original = image.convert("RGB")
    return Image.composite(_black(original), original, ImageChops.invert(_region(original, polygons, box, mask)))


def crop_corners(size: tuple[int, int], box: Box, margin: float) -> tuple[int, int, int, int]:
    """Return the crop of an image of `size` around `box`: left, top, right and bottom edge in pixels.

    Each edge is moved outwards by `margin` times the box's width (left, right) or height (top, bottom), rounded
    outwards, and limited to the image.
    """
    if not margin >= 0:
        raise Fp2Error(f"the crop margin is {margin}", fix="It must be at least 0 (share of the box's sides)")
    x, y, width, height = box
    inside = x < size[0] and y < size[1] and x + width > 0 and y + height > 0
    if not (width > 0 and height > 0 and inside):
        raise Fp2Error("the box is empty or outside the image", fix="Check the annotation")
    x_min, top = int(np.floor(x - margin * width)), int(np.floor(y - margin * height))
    right, bottom = int(np.ceil(x + (1 + margin) * width)), int(np.ceil(y + (1 + margin) * height))
    return max(x_min, 0), max(top, 0), min(right, size[0]), min(bottom, size[1])


def cropped(image: Image.Image, corners: tuple[int, int, int, int]) -> Image.Image:
    """Return the part of `image` (RGB) inside `corners` (see `crop_corners`)."""
    return image.convert("RGB").crop(corners)
