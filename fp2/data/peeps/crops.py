"""Face crops of a drawn image, as in FHIBE's face data: resampled pixels and transformed geometry.

Drawn heads are upright, so that alignment needs no rotation: the crop is the square around the face box, resized to
512 pixels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from fp2.data.peeps.geometry import Geometry, transformed

ALIGNED = 512
_MARGIN = 1.35
_NEEDED = ("Right eye", "Left eye", "Mouth right", "Mouth left")


@dataclass(frozen=True)
class Crop:
    """A crop and the person's geometry in pixels of the crop."""

    image: Image.Image
    geometry: Geometry


def can_align(geometry: Geometry) -> bool:
    """Return whether both eyes and both mouth corners are visible, which FHIBE requires of an aligned face."""
    return all(name in geometry.keypoints for name in _NEEDED)


def aligned(image: Image.Image, geometry: Geometry) -> Crop:
    """Return the face in 512 by 512 pixels: a square of 1.35 times the face box, moved inside the image."""
    x, y, width, height = geometry.face_box
    side = min(_MARGIN * max(width, height), *image.size)
    left = float(np.clip(x + width / 2 - side / 2, 0, image.width - side))
    top = float(np.clip(y + height / 2 - side / 2, 0, image.height - side))
    box = (left, top, left + side, top + side)
    crop = image.resize((ALIGNED, ALIGNED), Image.Resampling.BICUBIC, box=box)
    return Crop(crop, transformed(geometry, ALIGNED / side, (-left, -top), (ALIGNED, ALIGNED)))


def face_only(image: Image.Image, geometry: Geometry) -> Crop:
    """Return the pixels that the face box touches, without resampling."""
    x, y, width, height = geometry.face_box
    left, top = int(np.floor(x)), int(np.floor(y))
    right, bottom = min(image.width, int(np.ceil(x + width))), min(image.height, int(np.ceil(y + height)))
    size = (right - left, bottom - top)
    return Crop(image.crop((left, top, right, bottom)), transformed(geometry, 1.0, (-left, -top), size))
