"""The SQLite file of the response store, which several processes share: opening it, its errors, checksums of rows.

Rows whose tables have no column for a checksum have it in the table `checksums` (place, key, checksum): a place is the
name of a table, a key that of its row. Rows that a version before 0.4 wrote have none, and are read as they are.
Checksums find damage (a failing disk, a changed file); they are no protection against forgery.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, TypeVar

from fp2.errors import Fp2Error
from fp2.hashing import canonical_json, sha256_bytes

SCHEMA_VERSION = 4
# Version 3 (0.3.0) has no checksums of failures and origins; opening such a file for writing adds the table. A version
# that does not know the checksums must not write: they would be wrong.
_READABLE = (3, SCHEMA_VERSION)
BUSY_SECONDS = 30.0
CACHE_KB = 65_536
"""Memory for pages at most: the inner pages of the tree of 5 million answers, each on the way to some answer."""

_TABLES = """
CREATE TABLE IF NOT EXISTS schema (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS runtimes (digest TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, text TEXT NOT NULL, seconds REAL NOT NULL, tokens INTEGER NOT NULL,
    attempts INTEGER NOT NULL, runtime TEXT NOT NULL, created REAL NOT NULL, checksum BLOB NOT NULL,
    numbers TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failures (
    key TEXT PRIMARY KEY, error TEXT NOT NULL, attempts INTEGER NOT NULL, runtime TEXT NOT NULL, updated REAL NOT NULL
) WITHOUT ROWID;
"""

CHECKSUMS = """
CREATE TABLE IF NOT EXISTS checksums (
    place TEXT NOT NULL, key NOT NULL, checksum BLOB NOT NULL, PRIMARY KEY (place, key)
) WITHOUT ROWID;
"""

_CHUNK = 900  # keys in one SELECT: SQLite's oldest default limit on variables is 999
RowKey = str | bytes | int
Key = TypeVar("Key", str, bytes, int)

_FAULTS = {
    "SQLITE_FULL": ("the disk is full", "Free some space and run again: all answers so far are kept"),
    "SQLITE_READONLY": ("the response store cannot be written", "Make the file and its folder writable"),
    "SQLITE_PERM": ("the response store cannot be written", "Make the file and its folder writable"),
    "SQLITE_CANTOPEN": ("the response store cannot be opened", "Check that its folder exists and is writable"),
    "SQLITE_NOTADB": ("this file is not a response store", "Give another paths.store, or move the file away"),
    "SQLITE_CORRUPT": ("the response store is damaged", "Move the file away: the next run asks the model again"),
    "SQLITE_IOERR": ("the disk reported an error", "Check the disk (space, quota, permissions) and run again"),
    "SQLITE_BUSY": ("the response store is locked", "Another run writes to it: wait until that run ends, or stop it"),
}


class as_user_error:  # noqa: N801  (used like a function; a generator would cost a look-up a tenth of its time)
    """Context manager that raises `Fp2Error` about `path` for any error of SQLite inside the block."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, sqlite3.Error):
            name = getattr(error, "sqlite_errorname", None) or ""
            for prefix, (message, fix) in _FAULTS.items():
                if name.startswith(prefix):
                    raise Fp2Error(message, where=str(self.path), fix=fix) from error
            raise Fp2Error(f"the response store failed: {error}", where=str(self.path)) from error


def file_of(connection: sqlite3.Connection) -> Path:
    """Return the file that an open connection reads and writes."""
    return Path(connection.execute("PRAGMA database_list").fetchone()[2] or ":memory:")


def put_runtime(connection: sqlite3.Connection, runtime: Mapping[str, object]) -> str:
    """Store what is recorded of devices and versions under its digest, in the caller's transaction; return the digest.

    A row that does not match its digest any more is replaced.
    """
    body = canonical_json(dict(runtime))
    mark = sha256_bytes(body)
    query = "INSERT INTO runtimes VALUES (?, ?) ON CONFLICT (digest) DO UPDATE SET json = excluded.json"
    connection.execute(f"{query} WHERE json <> excluded.json", (mark, body.decode()))
    return mark


def is_intact_runtime(mark: object, body: object) -> bool:
    """Whether a row of `runtimes` is stored under the digest of its content."""
    return isinstance(body, str) and sha256_bytes(body.encode("utf-8", "surrogatepass")) == mark


def select_in(
    connection: sqlite3.Connection, query: str, keys: Iterable[RowKey], *values: object
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `{query} IN (keys)`, some keys at a time; `values` are those of the query before the keys."""
    wanted = list(dict.fromkeys(keys))
    for start in range(0, len(wanted), _CHUNK):
        chunk = wanted[start : start + _CHUNK]
        yield from connection.execute(f"{query} IN ({','.join('?' * len(chunk))})", (*values, *chunk)).fetchall()


def add_table(connection: sqlite3.Connection, name: str, statement: str) -> None:
    """Create the table `name` unless it exists, in which case no write lock is needed."""
    if not has_table(connection, name):
        connection.execute(statement)


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open an existing store of this or the last version for reading; SQLite may leave an empty log beside it."""
    if not path.is_file():
        raise Fp2Error("there is no response store", where=str(path))
    with as_user_error(path):
        uri = f"{path.absolute().as_uri()}?mode=ro"
        try:
            connection = _opened(uri)
        except sqlite3.OperationalError:
            # On read-only media the files of the write-ahead log cannot be made; without one there is nothing in it.
            log = path.with_name(f"{path.name}-wal")
            if log.exists() and log.stat().st_size:
                raise
            connection = _opened(f"{uri}&immutable=1")
        try:
            _check_version(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def _opened(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        connection.execute(f"PRAGMA cache_size=-{CACHE_KB}")
    except BaseException:
        connection.close()
        raise
    return connection


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Whether the store has the table `name`."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None


def tables_with(connection: sqlite3.Connection, column: str) -> list[str]:
    """Return the tables of the store that have the column, whichever package created them."""
    query = "SELECT m.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = ?"
    return [str(table) for (table,) in connection.execute(query, (column,))]


def connect(path: Path) -> sqlite3.Connection:
    """Open the store at `path` for writing; the file, its folder and its tables are created if they do not exist.

    A new file is readable by its owner only.

    A store of an earlier version is migrated in place; its answers do not change. The write-ahead log lets readers and
    one writer work at the same time; with `synchronous=NORMAL` a killed process loses at most the current batch.
    Outside `transaction`, statements are committed one by one.
    """
    with as_user_error(path):
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):  # a new file only: the owner may open an existing one to others
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError as error:
            problem = f"the folder of the response store cannot be used: {error.strerror}"
            raise Fp2Error(problem, where=str(path.parent)) from error
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            _wal(connection)
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(f"PRAGMA cache_size=-{CACHE_KB}")
            is_new = not has_table(connection, "answers")
            if not is_new:
                _check_version(connection, path)
            if is_new or _version(connection) != SCHEMA_VERSION:
                with transaction(connection, path):
                    for statement in filter(str.strip, (_TABLES + CHECKSUMS).split(";")):
                        connection.execute(statement)
                    connection.execute("DELETE FROM schema")
                    connection.execute("INSERT INTO schema VALUES (?)", (SCHEMA_VERSION,))
        except BaseException:
            connection.close()
            raise
        return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Run the block in one transaction; it takes the write lock at its start, so that no read lock is upgraded."""
    with as_user_error(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log, waiting while another process does: the busy timeout does not cover this."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            busy = (getattr(error, "sqlite_errorname", "") or "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    if not has_table(connection, "schema"):
        raise Fp2Error("this database is not a response store", where=str(path), fix="Give another paths.store")
    version = _version(connection)
    if version not in _READABLE:
        fix = "Use the version of fp2 that wrote it, or give another paths.store"
        problem = f"the response store has schema version {version or 'none'}, which is not one of {_READABLE}"
        raise Fp2Error(problem, where=str(path), fix=fix)


def _version(connection: sqlite3.Connection) -> int | None:
    row = connection.execute("SELECT version FROM schema").fetchone()
    return None if row is None else int(row[0])


def checksum(*values: object) -> bytes:
    """Return a digest of 16 bytes of values in their order (text, bytes, numbers, None)."""
    hasher = hashlib.blake2b(digest_size=16)
    for value in values:
        content = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
        hasher.update(len(content).to_bytes(8, "little") + content)
    return hasher.digest()


def put_checksums(connection: sqlite3.Connection, table: str, rows: Mapping[Key, bytes]) -> None:
    """Store the checksums of rows by key, in the caller's transaction."""
    connection.executemany(
        "INSERT OR REPLACE INTO checksums VALUES (?, ?, ?)", [(table, key, value) for key, value in rows.items()]
    )


def delete_checksums(connection: sqlite3.Connection, table: str, keys: Iterable[RowKey]) -> None:
    """Delete the checksums of rows, in the caller's transaction."""
    connection.executemany("DELETE FROM checksums WHERE place = ? AND key = ?", [(table, key) for key in keys])


def stored_checksums(connection: sqlite3.Connection, table: str, keys: Iterable[RowKey]) -> dict[RowKey, bytes]:
    """Return the stored checksums of rows by key; a store that was opened read-only may have none."""
    query = "SELECT key, checksum FROM checksums WHERE place = ? AND key"
    return dict(select_in(connection, query, keys, table)) if has_table(connection, "checksums") else {}


def intact(connection: sqlite3.Connection, table: str, rows: Mapping[Key, Sequence[object]]) -> set[Key]:
    """Return the keys of the rows (key -> values) that match their checksum, or have none."""
    stored = stored_checksums(connection, table, rows) if rows else {}
    return {key for key, values in rows.items() if stored.get(key) in (None, checksum(key, *values))}


def checksummed_tables(connection: sqlite3.Connection) -> list[str]:
    """Return the tables whose rows have their checksums in `checksums`, whichever package created them."""
    if not has_table(connection, "checksums"):  # of an earlier version, opened read-only
        return []
    tables = [str(table) for (table,) in connection.execute("SELECT DISTINCT place FROM checksums")]
    return [table for table in tables if has_table(connection, table)]


def damaged_keys(connection: sqlite3.Connection, table: str) -> Iterator[str | None]:
    """Yield for every row of a table its key if it does not match its checksum, else None.

    The key of a row is its primary key, the columns joined; its values are the other columns, in their order.
    """
    columns = connection.execute(
        "SELECT name, pk FROM pragma_table_info(?) ORDER BY pk = 0, pk, cid", (table,)
    ).fetchall()
    n_key = sum(position > 0 for _, position in columns)
    names = ", ".join(f'"{name}"' for name, _ in columns)
    for row in connection.execute(f'SELECT {names} FROM "{table}"'):
        try:
            key = reduce(add, row[:n_key])
            is_intact = bool(intact(connection, table, {key: row[n_key:]}))
        except (TypeError, sqlite3.Error):  # one bit can turn a column of text into bytes
            key, is_intact = row[0], False
        yield None if is_intact else key.hex() if isinstance(key, bytes) else str(key)


class CachedTable:
    """A table of what is computed again where it is missing or damaged; without a connection nothing is kept.

    Parameters
    ----------
    connection : sqlite3.Connection, optional
        Used in the caller's thread only.
    name : str
        Of the table.
    keys : sequence of str
        The columns of its primary key, which are text.
    columns : str
        Its other columns, as `CREATE TABLE` takes them.
    """

    def __init__(self, connection: sqlite3.Connection | None, name: str, keys: Sequence[str], columns: str) -> None:
        self._connection, self._name, self._n_keys = connection, name, len(keys)
        self._condition = " AND ".join(f"{key} = ?" for key in keys)
        if connection is not None:
            declared = f"{''.join(f'{key} TEXT NOT NULL, ' for key in keys)}{columns}, PRIMARY KEY ({', '.join(keys)})"
            with as_user_error(file_of(connection)):
                add_table(connection, name, f"CREATE TABLE IF NOT EXISTS {name} ({declared}) WITHOUT ROWID")
                add_table(connection, "checksums", CHECKSUMS)

    def get(self, keys: Iterable[tuple[str, ...]]) -> dict[str, tuple[Any, ...]]:
        """Return the other columns of the rows with these keys that match their checksums, by key (joined)."""
        if self._connection is None:
            return {}
        query = f"SELECT * FROM {self._name} WHERE {self._condition}"
        with as_user_error(file_of(self._connection)):
            rows_of = {"".join(key): self._connection.execute(query, key).fetchone() for key in keys}
            rows = {key: row[self._n_keys :] for key, row in rows_of.items() if row is not None}
            undamaged = intact(self._connection, self._name, rows)
        return {key: row for key, row in rows.items() if key in undamaged}

    def put(self, rows: Sequence[tuple[object, ...]]) -> None:
        """Store rows in place of those with the same keys."""
        if self._connection is None or not rows:
            return
        marks = ", ".join("?" * len(rows[0]))
        sums = {"".join(map(str, row[: self._n_keys])): row[self._n_keys :] for row in rows}
        with transaction(self._connection, file_of(self._connection)):
            self._connection.executemany(f"INSERT OR REPLACE INTO {self._name} VALUES ({marks})", rows)
            put_checksums(self._connection, self._name, {key: checksum(key, *rest) for key, rest in sums.items()})
