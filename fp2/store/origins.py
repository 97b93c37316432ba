"""Whose picture each stored answer came from, so that everything derived from a person can be found and removed.

The tables `pictures` and `origins` lie in the response store's file; a key there is a response key, or the context of
blocks (`fp2.store.blocks`). Ids are there as salted keys only; the path of a
picture is there because its remembered pixel digest is kept under it. What shows nobody (no picture, a grey one) has
no origin.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fp2.store.database import told_plainly, transaction

_TABLES = """
CREATE TABLE IF NOT EXISTS pictures (
    id INTEGER PRIMARY KEY, data TEXT NOT NULL, release TEXT NOT NULL, image TEXT NOT NULL, subject TEXT NOT NULL,
    path TEXT NOT NULL, UNIQUE (data, release, image, subject, path)
);
CREATE TABLE IF NOT EXISTS origins (
    key BLOB NOT NULL, picture INTEGER NOT NULL, PRIMARY KEY (key, picture)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS origins_of_picture ON origins (picture);
"""
_ADD_PICTURE = "INSERT OR IGNORE INTO pictures (data, release, image, subject, path) VALUES (?, ?, ?, ?, ?)"
_FIND_PICTURE = "SELECT id FROM pictures WHERE data = ? AND release = ? AND image = ? AND subject = ? AND path = ?"


@dataclass(frozen=True)
class Origin:
    """One person in one picture: salted keys of both, the picture's path, and the answers that came from it."""

    image: str
    subject: str
    path: str
    response_keys: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """A row of `pictures`."""

    id: int
    data: str
    release: str
    image: str
    subject: str
    path: str


def register(connection: sqlite3.Connection, path: Path, data: str, release: str | None, found: list[Origin]) -> None:
    """Remember the origins of planned answers, before any is asked for: a killed run leaves nothing untraceable.

    `data` is the kind of data set (`data.kind`).

    Raises
    ------
    Fp2Error
        If the store cannot be written.
    """
    with transaction(connection, path):
        for statement in filter(str.strip, _TABLES.split(";")):
            connection.execute(statement)
        for origin in found:
            row = (data, release or "", origin.image, origin.subject, origin.path)
            connection.execute(_ADD_PICTURE, row)
            (picture,) = connection.execute(_FIND_PICTURE, row).fetchone()
            keys = [(bytes.fromhex(key), picture) for key in origin.response_keys]
            connection.executemany("INSERT OR IGNORE INTO origins VALUES (?, ?)", keys)


def pictures(connection: sqlite3.Connection, path: Path) -> list[Picture]:
    """Return every picture that an answer was planned for (none in a store from before there were origins)."""
    with told_plainly(path):
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'pictures'").fetchone() is None:
            return []
        rows = connection.execute("SELECT id, data, release, image, subject, path FROM pictures")
        return [Picture(*row) for row in rows]


def keys_of(connection: sqlite3.Connection, path: Path, chosen: Iterable[Picture]) -> set[str]:
    """Return the response keys of the answers that came from the pictures `chosen`."""
    with told_plainly(path):
        query = "SELECT key FROM origins WHERE picture = ?"
        return {key.hex() for picture in chosen for (key,) in connection.execute(query, (picture.id,))}


def all_keys(connection: sqlite3.Connection, path: Path) -> set[str]:
    """Return every response key and context that the store knows: answered, failed or only planned."""
    with told_plainly(path):
        known = {
            str(key) for table in ("answers", "failures") for (key,) in connection.execute(f"SELECT key FROM {table}")
        }
        for table in ("blocks", "block_failures"):
            known |= {key.hex() for (key,) in connection.execute(f"SELECT DISTINCT context FROM {table}")}
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'origins'").fetchone() is not None:
            known |= {key.hex() for (key,) in connection.execute("SELECT DISTINCT key FROM origins")}
        return known


def forget(
    connection: sqlite3.Connection, path: Path, keys: Collection[str], chosen: Sequence[Picture], paths: Collection[str]
) -> dict[str, int]:
    """Delete answers, failures, origins, pictures, pixel digests, measurements; what was there is overwritten on disk.

    Parameters
    ----------
    keys : collection of str
        Response keys and contexts.
    chosen : sequence of Picture
        Rows of `pictures`.
    paths : collection of str
        Paths whose remembered pixel digests and measurements go.

    Returns
    -------
    dict
        How many rows went, by table.

    Raises
    ------
    Fp2Error
        If the store cannot be written.
    """
    jobs: dict[str, tuple[str, list[tuple[str | bytes | int]]]] = {
        "answers": ("key = ?", [(key,) for key in keys]),
        "failures": ("key = ?", [(key,) for key in keys]),
        "blocks": ("context = ?", [(bytes.fromhex(key),) for key in keys]),
        "block_failures": ("context = ?", [(bytes.fromhex(key),) for key in keys]),
        "origins": ("key = ?", [(bytes.fromhex(key),) for key in keys]),
        "pictures": ("id = ?", [(picture.id,) for picture in chosen]),
        "pixel_digests": ("path = ?", [(name,) for name in paths]),
        "picture_numbers": ("path = ?", [(name,) for name in paths]),
        "narrow_predictions": ("path = ?", [(name,) for name in paths]),
    }
    with told_plainly(path):
        connection.execute("PRAGMA secure_delete = ON")
    gone: dict[str, int] = {}
    with transaction(connection, path):
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table, (condition, rows) in jobs.items():
            if table in there:
                gone[table] = connection.executemany(f"DELETE FROM {table} WHERE {condition}", rows).rowcount
    with told_plainly(path):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return {table: max(0, count) for table, count in gone.items()}


def remembered_paths(connection: sqlite3.Connection, path: Path) -> list[str]:
    """Return the paths whose pixel digests are remembered."""
    with told_plainly(path):
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'pixel_digests'").fetchone() is None:
            return []
        return [str(row[0]) for row in connection.execute("SELECT path FROM pixel_digests")]
