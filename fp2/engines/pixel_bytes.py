"""A picture among a processor's tensors as it is, for models that prepare pictures themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "pixel_bytes"


def as_bytes(picture: Image.Image) -> dict[str, torch.Tensor]:
    """Return an RGB picture as a tensor [1, height, width, 3] of bytes under its name."""
    return {NAME: torch.from_numpy(np.array(picture))[None]}


def as_picture(pixels: torch.Tensor) -> Image.Image:
    """Return the picture of a tensor [height, width, 3] of bytes."""
    return Image.fromarray(pixels.cpu().numpy())


def picture_of(inputs: Mapping[str, Any]) -> Image.Image | None:
    """Return the picture that is among a processor's tensors, or None."""
    return as_picture(inputs[NAME][0]) if NAME in inputs else None
