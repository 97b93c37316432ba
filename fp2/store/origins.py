"""Which image and subject each stored answer came from, so that everything derived from a subject can be removed.

The tables `pictures` and `origins` are in the response store's file; a key there is a response key, or the context of
dense answers (`fp2.store.dense`). Ids are stored as salted keys only; an image's path is stored because its pixel
digest is kept under it. An answer about no image, or about a grey one, has no origin.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fp2.config import Config
from fp2.store.database import as_user_error, transaction
from fp2.store.salted_keys import local_salt, salted

if TYPE_CHECKING:
    import pandas as pd

    from fp2.store.rows import ResponseStore

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
_ADD_IMAGE = "INSERT OR IGNORE INTO pictures (data, release, image, subject, path) VALUES (?, ?, ?, ?, ?)"
_FIND_IMAGE = "SELECT id FROM pictures WHERE data = ? AND release = ? AND image = ? AND subject = ? AND path = ?"


@dataclass(frozen=True)
class RecordedImage:
    """A row of `pictures`: the kind and release of the data set, salted keys of image and subject, the image's path."""

    id: int
    data: str
    release: str
    image: str
    subject: str
    path: str


class Loaded(Protocol):
    """What is needed of a data set (`fp2.data.base.Dataset`)."""

    @property
    def people(self) -> pd.DataFrame:
        """The people table."""
        ...

    @property
    def release(self) -> str | None:
        """The data set's own version."""
        ...


def register_origins(config: Config, dataset: Loaded, keys: Mapping[str, Sequence[str]], store: ResponseStore) -> None:
    """Record the origins of planned answers before the model is asked, so that an interrupted run leaves them too.

    Parameters
    ----------
    keys : mapping
        Image id -> the response keys (or contexts of dense answers) of what shows the image.

    Raises
    ------
    Fp2Error
        If the store cannot be written.
    """
    people, salt = dataset.people, local_salt(Path(config.paths.state))
    images, subjects = salted(people["image_id"], salt, "image"), salted(people["subject_id"], salt)
    rows = zip(people["image_id"], people["image_path"], images, subjects, strict=True)
    with transaction(store.connection, store.path):
        for statement in filter(str.strip, _TABLES.split(";")):
            store.connection.execute(statement)
        for image_id, path, image, subject in rows:
            if image_id in keys:
                row = (config.data.source, dataset.release or "", image, subject, str(Path(path).absolute()))
                store.connection.execute(_ADD_IMAGE, row)
                (number,) = store.connection.execute(_FIND_IMAGE, row).fetchone()
                found = [(bytes.fromhex(key), number) for key in keys[image_id]]
                store.connection.executemany("INSERT OR IGNORE INTO origins VALUES (?, ?)", found)


def recorded_images(connection: sqlite3.Connection, path: Path) -> list[RecordedImage]:
    """Return every image that an answer was planned for; none from a store that has no origins."""
    with as_user_error(path):
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'pictures'").fetchone() is None:
            return []
        rows = connection.execute("SELECT id, data, release, image, subject, path FROM pictures")
        return [RecordedImage(*row) for row in rows]


def keys_of(connection: sqlite3.Connection, path: Path, chosen: Iterable[RecordedImage]) -> set[str]:
    """Return the response keys of the answers that came from the images `chosen`."""
    with as_user_error(path):
        query = "SELECT key FROM origins WHERE picture = ?"
        return {key.hex() for image in chosen for (key,) in connection.execute(query, (image.id,))}


def all_keys(connection: sqlite3.Connection, path: Path) -> set[str]:
    """Return every response key and context that the store knows: answered, failed or only planned."""
    with as_user_error(path):
        known = {
            str(key) for table in ("answers", "failures") for (key,) in connection.execute(f"SELECT key FROM {table}")
        }
        for table in ("blocks", "block_failures"):
            known |= {key.hex() for (key,) in connection.execute(f"SELECT DISTINCT context FROM {table}")}
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'origins'").fetchone() is not None:
            known |= {key.hex() for (key,) in connection.execute("SELECT DISTINCT key FROM origins")}
        return known


def delete(
    connection: sqlite3.Connection,
    path: Path,
    keys: Collection[str],
    chosen: Sequence[RecordedImage],
    paths: Collection[str],
) -> dict[str, int]:
    """Delete answers, failures, origins, images and what was computed from images, and overwrite them on disk.

    What was computed from an image (pixel digests, measurements, predictions) is in tables with a column `path`, the
    absolute path of the image file. Every such table of the store is included, whichever package created it.

    Parameters
    ----------
    keys : collection of str
        Response keys and contexts.
    chosen : sequence of RecordedImage
        Rows of `pictures`.
    paths : collection of str
        Absolute paths of images; rows of these paths are deleted from every table with a column `path`.

    Returns
    -------
    dict
        The number of deleted rows, by table.

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
        "pictures": ("id = ?", [(image.id,) for image in chosen]),
    }
    with as_user_error(path):
        connection.execute("PRAGMA secure_delete = ON")
    gone: dict[str, int] = {}
    with transaction(connection, path):
        columns = _columns(connection)
        by_path: dict[str, tuple[str, list[tuple[str | bytes | int]]]] = {
            table: ("path = ?", [(name,) for name in paths]) for table in columns if "path" in columns[table]
        }
        for table, (condition, rows) in {**by_path, **jobs}.items():
            if table in columns:
                gone[table] = connection.executemany(f'DELETE FROM "{table}" WHERE {condition}', rows).rowcount
    with as_user_error(path):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return {table: max(0, count) for table, count in gone.items()}


def _columns(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """Return the columns of every table."""
    query = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
    found: dict[str, set[str]] = {}
    for table, column in connection.execute(query):
        found.setdefault(table, set()).add(column)
    return found


def digested_paths(connection: sqlite3.Connection, path: Path) -> list[str]:
    """Return the image paths that the store has pixel digests of."""
    with as_user_error(path):
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'pixel_digests'").fetchone() is None:
            return []
        return [str(row[0]) for row in connection.execute("SELECT path FROM pixel_digests")]
