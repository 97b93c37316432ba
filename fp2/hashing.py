"""Canonical bytes and digests: the one way anything in this project is hashed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def canonical_json(value: object) -> bytes:
    """Return `value` as JSON bytes that do not depend on key order or white space.

    Raises
    ------
    ValueError
        If a float is NaN or infinite.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(value: object) -> str:
    """Return the hex SHA-256 of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def sha256_bytes(data: bytes) -> str:
    """Return the hex SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the hex SHA-256 of a file's bytes, read in blocks."""
    hasher = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            hasher.update(block)
    return hasher.hexdigest()


def file_stamp(path: Path, *values: object) -> tuple[int, int] | None:
    """Return the size of a file in bytes, and a digest of 63 bits; None where there is no such file.

    The digest is of its modification time, its change time, its inode and `values`, what is remembered of the file:
    it differs if the file was changed within the same size and modification time, and if a value was changed where it
    is stored.
    """
    try:
        status = path.stat()
    except (OSError, ValueError):  # a NUL in its name
        return None
    body = repr((status.st_mtime_ns, status.st_ctime_ns, status.st_ino, values)).encode()
    return status.st_size, int.from_bytes(hashlib.blake2b(body, digest_size=8).digest(), "big") >> 1
