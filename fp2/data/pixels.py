"""Opening image files of others, and the digests of their pixels, which identify images and data sets anywhere.

Pillow reads some forty formats by their content, whatever the name says: PostScript is given to Ghostscript, a FIFO
blocks for ever, and a PNG of half a megabyte may hold 169 megapixels. `image_file` refuses all of that from the header
alone. `open_rgb` is the one way in which an image is decoded, here and for a model: upright by its EXIF orientation,
transparency on white, RGB with 8 bits. Digests are kept by path with the file's stamp (`fp2.hashing.file_stamp`, in the
columns `size` and `mtime_ns`), so that a second run decodes nothing.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageOps, UnidentifiedImageError

from fp2.errors import Fp2Error
from fp2.hashing import canonical_json, file_stamp
from fp2.tables import ATTRIBUTE_PREFIX, FIELD_PREFIX, NOT_DIGESTED, attribute_columns, field_columns
from fp2.text import printable

if TYPE_CHECKING:
    import pandas as pd

_CREATE = """
CREATE TABLE IF NOT EXISTS pixel_digests (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    sha256 TEXT NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL
) WITHOUT ROWID
"""
_BATCH = 64
_QUERY = 500
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
            Image.init()
            opened = Image.open(stream, formats=[name for name in FORMATS if name in Image.OPEN])
        except UnidentifiedImageError:  # Pillow names the stream; the path is named as for a file opened by name
            raise UnidentifiedImageError(f"cannot identify image file {str(path)!r}") from None
        with opened as image:
            pixels, max_pixels = image.width * image.height, min(MAX_PIXELS, budget() // BYTES_PER_PIXEL)
            if pixels > max_pixels:
                raise ImageFileError(f"it has {pixels / 1e6:.0f} megapixels, more than {max_pixels / 1e6:.0f}")
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


@dataclass(frozen=True, slots=True)
class PixelDigest:
    """SHA-256 of the decoded pixels and the image's size in pixels, or the reason why there is none."""

    sha256: str | None
    width: int
    height: int
    error: str | None = None


def open_rgb(path: Path) -> Image.Image:
    """Return the image as 8-bit RGB, upright by its EXIF orientation, transparency on white.

    Raises
    ------
    OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError
        If the file is missing, not an image, damaged, unreasonably large, or holds more than 8 bits per channel.
    """
    with image_file(path) as opened, decoding(opened):
        image = ImageOps.exif_transpose(opened)
        if image.mode.startswith(("I", "F")):
            raise ValueError(f"pixels of mode {image.mode} are not supported; save the image with 8 bits per channel")
        if image.has_transparency_data:
            layer = image.convert("RGBA")
            image = Image.new("RGBA", layer.size, "white")
            image.alpha_composite(layer)
        return image.convert("RGB")


def pixel_sha256(image: Image.Image) -> str:
    """Return the hex SHA-256 of an RGB image's size and pixels."""
    hasher = hashlib.sha256(f"RGB {image.width} {image.height}\n".encode())
    hasher.update(image.tobytes())
    return hasher.hexdigest()


def paths_of(files: Iterable[str]) -> list[Path]:
    """Return the path of each file; a file that stands in many rows has one object, which is hashed once."""
    names = list(files)
    path_of = {name: Path(name) for name in dict.fromkeys(names)}
    return [path_of[name] for name in names]


def digest_image(path: Path) -> PixelDigest:
    """Decode and hash one image; whatever is wrong with it is returned as `error`."""
    try:
        image = open_rgb(path)
        return PixelDigest(pixel_sha256(image), image.width, image.height)
    except FileNotFoundError:
        return PixelDigest(None, 0, 0, "the image file is missing")
    except Exception as error:  # decoders raise many kinds; each concerns this image only, not the run
        return PixelDigest(None, 0, 0, f"the image cannot be read: {type(error).__name__}: {printable(error, 300)}")


def dataset_digest(people: pd.DataFrame, pixel_sha256: Mapping[str, str | None]) -> str:
    """Return the hex SHA-256 of a data set: image and subject ids, pixels, attributes, fields, in no particular order.

    Attributes of the camera are left out (`NOT_DIGESTED`).

    `pixel_sha256` maps image_id to the digest of the decoded pixels (None where an image cannot be read). File paths
    and the order of rows do not enter, so that a copy elsewhere has the same digest.

    Raises
    ------
    KeyError
        If an image of `people` has no entry.
    """
    names = sorted(set(attribute_columns(people)) - NOT_DIGESTED)
    attributes = zip(*(people[ATTRIBUTE_PREFIX + name] for name in names), strict=True) if names else iter(())
    fields = [FIELD_PREFIX + name for name in field_columns(people)]
    texts = people[fields].to_dict("records") if fields else [None] * len(people)
    rows = []
    for image_id, subject_id, text_of in zip(people["image_id"], people["subject_id"], texts, strict=True):
        values = {name: sorted(cell) for name, cell in zip(names, next(attributes, ()), strict=True)}
        item = [text_of] if fields else []
        rows.append(canonical_json([image_id, subject_id, pixel_sha256[image_id], values, *item]))
    return hashlib.sha256(b"\n".join(sorted(rows))).hexdigest()


class PixelIndex:
    """Pixel digests, cached in the table `pixel_digests` of an open SQLite database.

    The connection is used in the caller's thread only. Errors are not cached: such files are decoded again next time.
    """

    def __init__(self, connection: sqlite3.Connection, workers: int = 0) -> None:
        """Create the table if needed; `workers` = 0 decodes in as many threads as there are cores, at most 4."""
        self._connection = connection
        self._workers = workers or min(4, os.cpu_count() or 1)
        self.decoded = 0
        """Number of images decoded so far (the others were in the cache)."""
        with _as_user_error(), connection:
            connection.execute(_CREATE)

    def digest_many(
        self, paths: Iterable[Path], progress: Callable[[int], None] | None = None, *, verify: bool = False
    ) -> dict[Path, PixelDigest]:
        """Return the digest of every path.

        Digests are stored batch by batch, so that an interrupted call loses at most one batch.

        Parameters
        ----------
        progress : callable, optional
            Called with the number of paths that were done since the last call.
        verify : bool
            Decode every image again.
        """
        report = progress or (lambda done: None)
        wanted = list(dict.fromkeys(paths))
        digest_of = {} if verify else self._cached(wanted)
        report(len(digest_of))
        todo = [path for path in wanted if path not in digest_of]
        with ThreadPoolExecutor(self._workers) as pool:
            for start in range(0, len(todo), _BATCH):
                batch = todo[start : start + _BATCH]
                before = {path: file_stamp(path) for path in batch}
                digests = dict(zip(batch, pool.map(digest_image, batch), strict=True))
                self.decoded += len(batch)
                self._cache(digests, before)
                digest_of |= digests
                report(len(batch))
        return {path: digest_of[path] for path in wanted}

    def _cached(self, paths: Sequence[Path]) -> dict[Path, PixelDigest]:
        """Return the cached digests of the files that have not changed since."""
        digest_of: dict[Path, PixelDigest] = {}
        for start in range(0, len(paths), _QUERY):
            keys = {os.path.abspath(path): path for path in paths[start : start + _QUERY]}  # links are not followed
            query = f"SELECT * FROM pixel_digests WHERE path IN ({','.join('?' * len(keys))})"
            with _as_user_error():
                rows = self._connection.execute(query, list(keys)).fetchall()
            for key, size, mark, sha256, width, height in rows:
                if file_stamp(keys[key], sha256, width, height) == (size, mark):
                    digest_of[keys[key]] = PixelDigest(sha256, width, height)
        return digest_of

    def _cache(self, digests: dict[Path, PixelDigest], before: dict[Path, tuple[int, int] | None]) -> None:
        """Store the digests of the files that did not change while they were decoded."""
        rows = [
            (os.path.abspath(path), *stamp, digest.sha256, digest.width, digest.height)
            for path, digest in digests.items()
            if digest.sha256
            and file_stamp(path) == before[path]
            and (stamp := file_stamp(path, digest.sha256, digest.width, digest.height))
        ]
        with _as_user_error(), self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO pixel_digests VALUES (?, ?, ?, ?, ?, ?)", rows)


@contextmanager
def _as_user_error() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        fix = "Is the disk full or read-only? fp2 store check finds damage"
        raise Fp2Error(f"the digests of images cannot be read or stored: {error}", fix=fix) from error
