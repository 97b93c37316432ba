"""Pictures on their way to a server: as they are shown, written so that every pixel arrives."""

from __future__ import annotations

import base64
import functools
import io
from typing import TYPE_CHECKING

from fp2.tables import ImageTask

if TYPE_CHECKING:
    from PIL import Image

_PROBE_SIDE = 64  # pixels


def picture(task: ImageTask) -> Image.Image:
    """Return the picture as it is shown; one that is not what was digested is refused."""
    from fp2.data.pixels import open_rgb, pixel_sha256

    seen = open_rgb(task.path)
    if pixel_sha256(seen) != task.pixel_sha256:
        raise ValueError("its pixels are not those that were digested; the file changed")
    return seen if task.change is None else task.change(seen)


def png(image: Image.Image) -> str:
    """Return the base64 of the picture as PNG, which keeps every pixel."""
    held = io.BytesIO()
    image.save(held, format="PNG")
    return base64.b64encode(held.getvalue()).decode("ascii")


@functools.cache
def probe_pictures() -> dict[str, str]:
    """Return a black and a white picture, as `png` writes them."""
    from PIL import Image

    return {name: png(Image.new("RGB", (_PROBE_SIDE, _PROBE_SIDE), name)) for name in ("black", "white")}
