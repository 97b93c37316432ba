"""Opening the image files of others: known formats, regular files, and no more pixels than memory holds.

Pillow reads some forty formats by their content, whatever the name says: PostScript is given to Ghostscript, a FIFO
blocks for ever, and a PNG of half a megabyte may hold 169 megapixels. All of that is refused from the header alone.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from PIL import Image, UnidentifiedImageError

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "DIB", "TIFF", "GIF", "PPM", "AVIF", "JPEG2000")
"""Formats that Pillow decodes itself, without another program."""
MAX_PIXELS = 120_000_000
"""Pixels of one image: above a phone's 108 megapixels."""
BYTES_PER_PIXEL = 24
"""Peak memory of decoding, with the copies for orientation, transparency and RGB, at 4 bytes each."""
_SHARE = 4  # of the memory: the part that decoding may take


class ImageFileError(ValueError):
    """The file is not one that is opened."""


@contextmanager
def image_file(path: Path) -> Iterator[Image.Image]:
    """Yield the image of a file with its header read, its pixels not yet.

    Raises
    ------
    ImageFileError
        If it is no regular file, or has too many pixels.
    OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError
        If the file is missing, not an image of a known format, or damaged.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ImageFileError("it is not a regular file")
    with os.fdopen(handle, "rb") as stream:
        try:
            opened = Image.open(stream, formats=_formats())
        except UnidentifiedImageError:  # Pillow names the stream; the path is named as for a file opened by name
            raise UnidentifiedImageError(f"cannot identify image file {str(path)!r}") from None
        with opened as image:
            _check_size(image.width * image.height)
            yield image


@contextmanager
def decoding(image: Image.Image) -> Iterator[None]:
    """Wait until there is memory to decode this image beside those that other threads decode."""
    need = min(image.width * image.height * BYTES_PER_PIXEL, budget())
    with _waiting:
        _waiting.wait_for(lambda: _used[0] + need <= budget())
        _used[0] += need
    try:
        yield
    finally:
        with _waiting:
            _used[0] -= need
            _waiting.notify_all()


_waiting = threading.Condition()
_used = [0]  # bytes that images being decoded take


@cache
def budget() -> int:
    """Return the bytes that all images being decoded may take: a quarter of the memory of this machine or container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 8 << 30
    with suppress(OSError, ValueError):  # no such file, or "max"
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return total // _SHARE


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _check_size(pixels: int) -> None:
    most = min(MAX_PIXELS, budget() // BYTES_PER_PIXEL)
    if pixels > most:
        raise ImageFileError(f"it has {pixels / 1e6:.0f} megapixels, more than {most / 1e6:.0f}")
