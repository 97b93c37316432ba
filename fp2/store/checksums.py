"""Checksums of rows whose tables have no column for one, in the table `checksums` (place, key, checksum).

A place is the name of a table, a key that of its row. Rows that a version before 0.4 wrote have no checksum, and are
read as they are. Checksums find damage (a failing disk, a changed file); they are no protection against forgery.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add

from fp2.hashing import sha256_bytes
from fp2.store.database import has_table

_PUT = "INSERT OR REPLACE INTO checksums VALUES (?, ?, ?)"
_CHUNK = 500
Key = str | bytes | int


def checksum(*values: object) -> bytes:
    """Return a digest of 16 bytes of values in their order (text, bytes, numbers, None)."""
    hasher = hashlib.blake2b(digest_size=16)
    for value in values:
        part = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
        hasher.update(len(part).to_bytes(8, "little") + part)
    return hasher.digest()


def put(connection: sqlite3.Connection, place: str, rows: Mapping[Key, bytes]) -> None:
    """Store the checksums of rows by key, in the caller's transaction."""
    connection.executemany(_PUT, [(place, key, value) for key, value in rows.items()])


def get(connection: sqlite3.Connection, place: str, keys: Sequence[Key]) -> dict[Key, bytes]:
    """Return the stored checksums of rows by key; a store that was opened read-only may have none."""
    found: dict[Key, bytes] = {}
    if not has_table(connection, "checksums"):
        return found
    for start in range(0, len(keys), _CHUNK):
        some = keys[start : start + _CHUNK]
        query = f"SELECT key, checksum FROM checksums WHERE place = ? AND key IN ({','.join('?' * len(some))})"
        found |= dict(connection.execute(query, (place, *some)))
    return found


def intact(connection: sqlite3.Connection, place: str, rows: Mapping[Key, Sequence[object]]) -> set[Key]:
    """Return the keys of the rows (key -> values) that match their checksum, or have none."""
    stored = get(connection, place, list(rows)) if rows else {}
    return {key for key, values in rows.items() if stored.get(key) in (None, checksum(key, *values))}


def tables(connection: sqlite3.Connection) -> list[str]:
    """Return the tables whose rows have their checksums here, whichever package created them."""
    if not has_table(connection, "checksums"):  # of an earlier version, opened read-only
        return []
    places = [str(place) for (place,) in connection.execute("SELECT DISTINCT place FROM checksums")]
    return [place for place in places if has_table(connection, place)]


def changed_rows(connection: sqlite3.Connection, table: str) -> Iterator[str | None]:
    """Yield for every row of a table its key if it does not match its checksum, else None.

    The key of a row is its primary key, the columns joined; its values are the other columns, in their order.
    """
    columns = connection.execute(
        "SELECT name, pk FROM pragma_table_info(?) ORDER BY pk = 0, pk, cid", (table,)
    ).fetchall()
    n_key = sum(place > 0 for _, place in columns)
    names = ", ".join(f'"{name}"' for name, _ in columns)
    for row in connection.execute(f'SELECT {names} FROM "{table}"'):
        try:
            key = reduce(add, row[:n_key])
            kept = bool(intact(connection, table, {key: row[n_key:]}))
        except (TypeError, sqlite3.Error):  # one bit can turn a column of text into bytes
            key, kept = row[0], False
        yield None if kept else key.hex() if isinstance(key, bytes) else str(key)


def is_own_digest(digest: object, body: object) -> bool:
    """Whether `digest` is the SHA-256 of a text: a row that is stored under the digest of its content."""
    return isinstance(body, str) and sha256_bytes(body.encode("utf-8", "surrogatepass")) == digest


def delete(connection: sqlite3.Connection, place: str, keys: Iterable[Key]) -> None:
    """Delete the checksums of rows, in the caller's transaction."""
    connection.executemany("DELETE FROM checksums WHERE place = ? AND key = ?", [(place, key) for key in keys])
