"""Which image and subject each stored answer came from, so that everything derived from a subject can be removed.

The tables `pictures` and `origins` are in the response store's file; a key there is a response key, or what the tables
of another storage have in their column `context` (`fp2.store.kinds`). Ids are stored as salted keys only; an image's
path is stored because its pixel digest is kept under it. An answer about no image, or about a grey one, has no origin.

The view `answers_readable` joins what people read: model, probe, question, image, status and answer. Model, probe and
question are recorded with the runtime (`fp2.store.rows`), since 0.4.0.

Each image has a checksum over its row and the set of its keys: a purge must not miss an answer because a row was lost.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.store.database import (
    as_user_error,
    checksum,
    delete_checksums,
    has_table,
    put_checksums,
    stored_checksums,
    tables_with,
    transaction,
)
from fp2.store.salted_keys import local_salt, salted
from fp2.tables import everyone_shown

if TYPE_CHECKING:
    import pandas as pd

    from fp2.store.rows import ResponseStore
    from fp2.store.withdrawn import WithdrawnImages

_TABLES = """
CREATE TABLE IF NOT EXISTS pictures (
    id INTEGER PRIMARY KEY, data TEXT NOT NULL, release TEXT NOT NULL, image TEXT NOT NULL, subject TEXT NOT NULL,
    path TEXT NOT NULL, UNIQUE (data, release, image, subject, path)
);
CREATE TABLE IF NOT EXISTS origins (
    key BLOB NOT NULL, picture INTEGER NOT NULL, PRIMARY KEY (key, picture)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS origins_of_picture ON origins (picture);
CREATE TABLE IF NOT EXISTS salts (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE VIEW IF NOT EXISTS answers_readable AS
WITH stored AS (
    SELECT key, 'answered' AS status, text AS answer, NULL AS error, runtime FROM answers
    UNION ALL SELECT key, 'error', NULL, error, runtime FROM failures
), shown AS (
    SELECT lower(hex(key)) AS key, min(path) AS image FROM origins JOIN pictures ON id = picture GROUP BY origins.key
)
SELECT
    json_extract(json, '$.model') AS model, json_extract(json, '$.probe') AS probe,
    json_extract(json, '$.question') AS question, image, status, answer, error, stored.key AS key
FROM stored LEFT JOIN runtimes ON digest = runtime LEFT JOIN shown ON shown.key = stored.key;
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

    @property
    def row(self) -> tuple[str, ...]:
        """The columns without the id."""
        return self.data, self.release, self.image, self.subject, self.path


class LoadedData(Protocol):
    """What is needed of a data set (`fp2.data.base.Dataset`)."""

    @property
    def people(self) -> pd.DataFrame:
        """The people table."""
        ...

    @property
    def release(self) -> str | None:
        """The data set's own version."""
        ...


def register_origins(
    config: Config,
    dataset: LoadedData,
    keys: Mapping[str, Sequence[str]],
    store: ResponseStore,
    without: Collection[str] = (),
) -> None:
    """Record the origins of planned answers before the model is asked, so that an interrupted run leaves them too.

    Parameters
    ----------
    keys : mapping
        Image id -> the keys under which what shows the image is stored.
    without : collection of str
        Images that were withdrawn meanwhile.
    """
    people, salt = everyone_shown(dataset.people), local_salt(Path(config.paths.state))
    images, subjects = salted(people["image_id"], salt, "image"), salted(people["subject_id"], salt)
    rows = zip(people["image_id"], people["image_path"], images, subjects, strict=True)
    with transaction(store.connection, store.path):
        create_tables(store.connection)
        store.connection.execute("INSERT OR IGNORE INTO salts VALUES (?)", (salt_id(salt),))
        for image_id, path, image, subject in rows:
            if image_id in keys and image_id not in without:
                row = (config.data.source, dataset.release or "", image, subject, str(Path(path).absolute()))
                add(store.connection, store.path, row, [bytes.fromhex(key) for key in keys[image_id]])


def add_derived(connection: sqlite3.Connection, path: Path, keys: Mapping[str, Sequence[str]]) -> None:
    """Record that what is stored under `keys` (by the salted key of an image) was derived from answers about images.

    Images that this store does not know are passed over: their answers are of another store.
    """
    images = [image for image in recorded_images(connection, path) if image.image in keys]
    with transaction(connection, path):
        for image in images:
            add(connection, path, image.row, [bytes.fromhex(key) for key in keys[image.image]])


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of origins that are not there, in the caller's transaction."""
    for statement in filter(str.strip, _TABLES.split(";")):
        connection.execute(statement)


def salt_id(salt: bytes) -> str:
    """Return what a store records of the salt of its keys: a digest that does not reveal it."""
    return hashlib.blake2b(salt, digest_size=16, person=b"fp2 salt id").hexdigest()


def add(connection: sqlite3.Connection, path: Path, row: tuple[str, ...], keys: Sequence[bytes]) -> None:
    """Record that what is stored under `keys` came from an image, in the caller's transaction.

    `row` has `data, release, image, subject, path` of `RecordedImage`.
    """
    is_new = connection.execute(_ADD_IMAGE, row).rowcount > 0
    (number,) = connection.execute(_FIND_IMAGE, row).fetchone()
    if is_new:
        connection.executemany(_ADD_ORIGIN, [(key, number) for key in keys])
        _seal(connection, number, row, _sum(set(keys)))
        return
    before = _stored_sum(connection, path, number, row)
    new = [key for key in dict.fromkeys(keys) if connection.execute(_ADD_ORIGIN, (key, number)).rowcount > 0]
    if new or before is None:
        total = _sum(_keys(connection, number)) if before is None else (before + _sum(new)) % _MODULUS
        _seal(connection, number, row, total)


_ADD_ORIGIN = "INSERT OR IGNORE INTO origins VALUES (?, ?)"
_MODULUS = 1 << 128
PLACE = "pictures"


def _sum(keys: Iterable[bytes]) -> int:
    """Return the sum of the digests of distinct keys, to which that of further keys can be added."""
    total = 0
    for key in keys:
        total += int.from_bytes(hashlib.blake2b(key, digest_size=16).digest(), "big")
    return total % _MODULUS


def _keys(connection: sqlite3.Connection, number: int) -> Iterable[bytes]:
    return (key for (key,) in connection.execute("SELECT key FROM origins WHERE picture = ?", (number,)))


def _seal(connection: sqlite3.Connection, number: int, row: tuple[str, ...], total: int) -> None:
    """Store the checksum of an image: the sum of its keys, and a digest of that and of its row."""
    body = total.to_bytes(16, "big")
    put_checksums(connection, PLACE, {number: body + checksum(number, *row, body)})


def _stored_sum(connection: sqlite3.Connection, path: Path, number: int, row: tuple[str, ...]) -> int | None:
    """Return the stored sum of an image's keys, None where a version without checksums recorded it."""
    stored = stored_checksums(connection, PLACE, [number]).get(number)
    if stored is None:
        return None
    if checksum(number, *row, stored[:16]) != stored[16:]:
        raise _damaged(number, path)
    return int.from_bytes(stored[:16], "big")


def check(connection: sqlite3.Connection, path: Path, image: RecordedImage) -> None:
    """Raise unless what is recorded of an image matches its checksum."""
    stored = _stored_sum(connection, path, image.id, image.row)
    if stored is not None and stored != _sum(_keys(connection, image.id)):
        raise _damaged(image.id, path)


def _damaged(number: int, path: Path) -> Fp2Error:
    fix = "Restore the file from a copy, or move it away and run again to ask the model again"
    problem = f"the origins of image {number} do not match their checksum: they were changed or the disk is failing"
    return Fp2Error(problem, where=str(path), fix=fix)


def recorded_images(connection: sqlite3.Connection, path: Path) -> list[RecordedImage]:
    """Return every image that an answer was planned for; none from a store that has no origins."""
    with as_user_error(path):
        if not has_table(connection, "pictures"):
            return []
        rows = connection.execute("SELECT id, data, release, image, subject, path FROM pictures")
        return [RecordedImage(*row) for row in rows]


def keys_of(connection: sqlite3.Connection, path: Path, chosen: Iterable[RecordedImage]) -> set[str]:
    """Return the response keys of the answers that came from the images `chosen`."""
    chosen = list(chosen)
    with as_user_error(path):
        for image in chosen:
            check(connection, path, image)
        query = "SELECT key FROM origins WHERE picture = ?"
        return {key.hex() for image in chosen for (key,) in connection.execute(query, (image.id,))}


def all_keys(connection: sqlite3.Connection, path: Path) -> set[str]:
    """Return every response key and context that the store knows: answered, failed or only planned."""
    return set(iterate_keys(connection, path))


def iterate_keys(connection: sqlite3.Connection, path: Path) -> Iterator[str]:
    """Yield every response key and context that the store knows, some more than once."""
    with as_user_error(path):
        for table in ("answers", "failures"):
            yield from (str(key) for (key,) in connection.execute(f"SELECT key FROM {table}"))
        for table in tables_with(connection, "context"):
            yield from (key.hex() for (key,) in connection.execute(f'SELECT DISTINCT context FROM "{table}"'))
        if has_table(connection, "origins"):
            yield from (key.hex() for (key,) in connection.execute("SELECT DISTINCT key FROM origins"))


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
    """
    texts, digests = [(key,) for key in keys], [(bytes.fromhex(key),) for key in keys]
    with as_user_error(path):
        connection.execute("PRAGMA secure_delete = ON")
    gone: dict[str, int] = {}
    with transaction(connection, path):
        of_contexts = tables_with(connection, "context")
        touched = _sharing(connection, keys, chosen) if has_table(connection, "origins") else []
        jobs: dict[str, tuple[str, Sequence[tuple[str | bytes | int]]]] = {
            **{table: ("path", [(name,) for name in paths]) for table in tables_with(connection, "path")},
            "answers": ("key", texts),
            "failures": ("key", texts),
            **{table: ("context", digests) for table in of_contexts},
            "origins": ("key", digests),
            "pictures": ("id", [(image.id,) for image in chosen]),
        }
        for table, (column, rows) in jobs.items():
            if has_table(connection, table):
                gone[table] = connection.executemany(f'DELETE FROM "{table}" WHERE {column} = ?', rows).rowcount
        # the keys of checksums would tell that a failure or an image was there
        delete_checksums(connection, "failures", keys)
        delete_checksums(connection, PLACE, [image.id for image in chosen])
        query = "DELETE FROM checksums WHERE place = ? AND substr(key, 1, 32) = ?"
        connection.executemany(query, [(table, key) for table in of_contexts for (key,) in digests])
        for image in touched:
            _seal(connection, image.id, image.row, _sum(_keys(connection, image.id)))
    with as_user_error(path):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return {table: max(0, count) for table, count in gone.items()}


def delete_computed(store: ResponseStore, people: pd.DataFrame, withdrawn: WithdrawnImages) -> None:
    """Delete what was computed from images of `people` that are withdrawn: a run may have begun before the purge."""
    with withdrawn.writing() as images:
        if images:
            shown = everyone_shown(people)
            paths = shown.loc[shown["image_id"].isin(images), "image_path"]
            delete(store.connection, store.path, (), (), {str(Path(path).absolute()) for path in paths})


def _sharing(
    connection: sqlite3.Connection, keys: Collection[str], chosen: Sequence[RecordedImage]
) -> list[RecordedImage]:
    """Return the images that stay and lose a key: they have the pixels of one that goes."""
    query = "SELECT picture FROM origins WHERE key = ?"
    numbers = {number for key in keys for (number,) in connection.execute(query, (bytes.fromhex(key),))}
    numbers -= {image.id for image in chosen}
    rows = connection.execute("SELECT id, data, release, image, subject, path FROM pictures")
    return [image for image in (RecordedImage(*row) for row in rows) if image.id in numbers] if numbers else []


def digested_paths(connection: sqlite3.Connection, path: Path) -> list[str]:
    """Return the image paths that the store has pixel digests of."""
    with as_user_error(path):
        if not has_table(connection, "pixel_digests"):
            return []
        return [str(row[0]) for row in connection.execute("SELECT path FROM pixel_digests")]
