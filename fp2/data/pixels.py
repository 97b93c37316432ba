"""What a picture's pixels are, as a digest, so that the same picture is the same picture wherever it lies.

`open_rgb` is the one way a picture is decoded here and for a model: turned as its EXIF orientation says, transparency
laid on white, RGB with 8 bits. Digests are remembered by (path, size, mtime in ns): a second run decodes nothing.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageOps

from fp2.errors import Fp2Error

_CREATE = """
CREATE TABLE IF NOT EXISTS pixel_digests (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    sha256 TEXT NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL
) WITHOUT ROWID
"""
_BATCH = 64
_QUERY = 500


@dataclass(frozen=True, slots=True)
class PixelDigest:
    """SHA-256 of the decoded pixels and the picture's size, or the reason why there is none."""

    sha256: str | None
    width: int
    height: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class _Stamp:
    """What says that a file is still the one that was read."""

    size: int
    mtime_ns: int


def open_rgb(path: Path) -> Image.Image:
    """Return the picture as 8-bit RGB, turned upright by its EXIF orientation, transparency laid on white.

    Raises
    ------
    OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError
        If the file is missing, no picture, damaged, unreasonably large, or holds more than 8 bits per channel.
    """
    with Image.open(path) as opened:
        image = ImageOps.exif_transpose(opened)
        if image.mode.startswith(("I", "F")):
            raise ValueError(f"pixels of mode {image.mode} are not supported; save the picture with 8 bits per channel")
        if image.has_transparency_data:
            layer = image.convert("RGBA")
            image = Image.new("RGBA", layer.size, "white")
            image.alpha_composite(layer)
        return image.convert("RGB")


def pixel_sha256(image: Image.Image) -> str:
    """Return the hex SHA-256 of an RGB picture's size and pixels."""
    hasher = hashlib.sha256(f"RGB {image.width} {image.height}\n".encode())
    hasher.update(image.tobytes())
    return hasher.hexdigest()


def digest_picture(path: Path) -> PixelDigest:
    """Decode and hash one picture; whatever is wrong with it comes back as `error`."""
    try:
        image = open_rgb(path)
        return PixelDigest(pixel_sha256(image), image.width, image.height)
    except FileNotFoundError:
        return PixelDigest(None, 0, 0, "the picture file is missing")
    except Exception as error:  # decoders raise many kinds; each is this picture's problem and not the run's
        return PixelDigest(None, 0, 0, f"the picture cannot be read: {type(error).__name__}: {error}")


class PixelIndex:
    """Pixel digests, remembered in the table `pixel_digests` of an open SQLite database.

    The connection is used only in the caller's thread. Errors are not remembered: they are tried again next time.
    """

    def __init__(self, connection: sqlite3.Connection, workers: int = 0) -> None:
        """Create the table if needed; `workers` = 0 decodes in as many threads as there are cores, at most 4."""
        self._connection = connection
        self._workers = workers or min(4, os.cpu_count() or 1)
        self.decoded = 0
        """Pictures decoded so far (the others were remembered)."""
        with connection:
            connection.execute(_CREATE)

    def digest_many(
        self, paths: Iterable[Path], progress: Callable[[int], None] | None = None, *, verify: bool = False
    ) -> dict[Path, PixelDigest]:
        """Return the digest of every path; `progress` is told how many more are done; `verify` decodes all again.

        What was computed is kept batch by batch, so an interrupted call loses at most one batch.

        Raises
        ------
        Fp2Error
            If the database cannot be written (a full disk, a read-only folder).
        """
        report = progress or (lambda done: None)
        wanted = list(dict.fromkeys(paths))
        stamps = {path: _stamp(path) for path in wanted}
        found = {} if verify else self._remembered(wanted, stamps)
        report(len(found))
        todo = [path for path in wanted if path not in found]
        with ThreadPoolExecutor(self._workers) as pool:
            for start in range(0, len(todo), _BATCH):
                batch = todo[start : start + _BATCH]
                digests = dict(zip(batch, pool.map(digest_picture, batch), strict=True))
                self.decoded += len(batch)
                self._remember(digests, stamps)
                found |= digests
                report(len(batch))
        return {path: found[path] for path in wanted}

    def _remembered(self, paths: Sequence[Path], stamps: dict[Path, _Stamp | None]) -> dict[Path, PixelDigest]:
        """Return the digests of the files that have not changed since they were read."""
        found: dict[Path, PixelDigest] = {}
        for start in range(0, len(paths), _QUERY):
            keys = {_key(path): path for path in paths[start : start + _QUERY]}
            query = f"SELECT * FROM pixel_digests WHERE path IN ({','.join('?' * len(keys))})"
            for key, size, mtime_ns, sha256, width, height in self._connection.execute(query, list(keys)):
                if stamps[keys[key]] == _Stamp(size, mtime_ns):
                    found[keys[key]] = PixelDigest(sha256, width, height)
        return found

    def _remember(self, digests: dict[Path, PixelDigest], stamps: dict[Path, _Stamp | None]) -> None:
        """Keep digests under the stamps taken before decoding, so that a file changed meanwhile counts as changed."""
        rows = [
            (_key(path), stamp.size, stamp.mtime_ns, digest.sha256, digest.width, digest.height)
            for path, digest in digests.items()
            if digest.sha256 and (stamp := stamps[path])
        ]
        try:
            with self._connection:
                self._connection.executemany("INSERT OR REPLACE INTO pixel_digests VALUES (?, ?, ?, ?, ?, ?)", rows)
        except sqlite3.OperationalError as error:
            raise Fp2Error(f"picture digests cannot be kept: {error}", fix="Is the disk full or read-only?") from None


def _key(path: Path) -> str:
    """Return the path as it is remembered: absolute, links not followed."""
    return os.path.abspath(path)


def _stamp(path: Path) -> _Stamp | None:
    """Return a file's size and modification time, or None if it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return _Stamp(status.st_size, status.st_mtime_ns)
