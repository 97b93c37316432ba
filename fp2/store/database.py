"""Opening the SQLite file of the response store, which several processes share; SQLite's errors as one line."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fp2.errors import Fp2Error
from fp2.hashing import canonical_json, sha256_bytes

SCHEMA_VERSION = 4
# Version 1 has no `numbers`, version 2 no dense answers, version 3 no checksums of failures and origins; opening such a
# file for writing adds the tables. A version that does not know the checksums must not write: they would be wrong.
_READABLE = (1, 2, 3, SCHEMA_VERSION)
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

_DENSE_TABLES = """
CREATE TABLE IF NOT EXISTS question_sets (
    digest BLOB PRIMARY KEY, questions BLOB NOT NULL, checksum BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS blocks (
    context BLOB NOT NULL, question_set BLOB NOT NULL, answered INTEGER NOT NULL, numbers BLOB NOT NULL,
    seconds REAL NOT NULL, runtime TEXT NOT NULL, updated REAL NOT NULL, checksum BLOB NOT NULL,
    PRIMARY KEY (context, question_set)
);
CREATE TABLE IF NOT EXISTS block_failures (
    context BLOB NOT NULL, question BLOB NOT NULL, error TEXT NOT NULL, attempts INTEGER NOT NULL,
    runtime TEXT NOT NULL, updated REAL NOT NULL, PRIMARY KEY (context, question)
) WITHOUT ROWID;
"""

CHECKSUMS = """
CREATE TABLE IF NOT EXISTS checksums (
    place TEXT NOT NULL, key NOT NULL, checksum BLOB NOT NULL, PRIMARY KEY (place, key)
) WITHOUT ROWID;
"""

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
            for prefix, (what, fix) in _FAULTS.items():
                if name.startswith(prefix):
                    raise Fp2Error(what, where=str(self.path), fix=fix) from error
            raise Fp2Error(f"the response store failed: {error}", where=str(self.path)) from error


def file_of(connection: sqlite3.Connection) -> Path:
    """Return the file that an open connection reads and writes."""
    return Path(connection.execute("PRAGMA database_list").fetchone()[2] or ":memory:")


def put_runtime(connection: sqlite3.Connection, runtime: Mapping[str, Any]) -> str:
    """Store what is recorded of devices and versions under its digest, in the caller's transaction; return the digest.

    A row that does not match its digest any more is replaced.
    """
    body = canonical_json(dict(runtime))
    mark = sha256_bytes(body)
    connection.execute(_PUT_RUNTIME, (mark, body.decode()))
    return mark


_PUT_RUNTIME = """
INSERT INTO runtimes VALUES (?, ?) ON CONFLICT (digest) DO UPDATE SET json = excluded.json WHERE json <> excluded.json
"""


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
            if (found := _version(connection)) is None or found < 3:
                fix = f"Open it for writing once: fp2 doctor paths.store={path}"
                raise Fp2Error(f"the response store has schema version {found}", where=str(path), fix=fix)
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
            raise Fp2Error(
                f"the folder of the response store cannot be used: {error.strerror}", where=str(path.parent)
            ) from error
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            _prepare(connection, path)
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


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    _wal(connection)
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(f"PRAGMA cache_size=-{CACHE_KB}")
    if not has_table(connection, "answers"):
        with transaction(connection, path):
            for statement in filter(str.strip, (_TABLES + _DENSE_TABLES + CHECKSUMS).split(";")):
                connection.execute(statement)
            if connection.execute("SELECT version FROM schema").fetchone() is None:
                connection.execute("INSERT INTO schema VALUES (?)", (SCHEMA_VERSION,))
    _check_version(connection, path)
    _migrate(connection, path)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Migrate the tables to the current version; of several processes that open the file at once, one does it."""
    if _version(connection) == SCHEMA_VERSION:
        return
    with transaction(connection, path):
        version = _version(connection)
        if version == 1:
            connection.execute("ALTER TABLE answers ADD COLUMN numbers TEXT")
        for statement in filter(str.strip, (_DENSE_TABLES + CHECKSUMS).split(";")):
            connection.execute(statement)
        connection.execute("UPDATE schema SET version = ?", (SCHEMA_VERSION,))


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
    found = _version(connection)
    if found not in _READABLE:
        raise Fp2Error(
            f"the response store has schema version {found or 'none'}, which is not one of {_READABLE}",
            where=str(path),
            fix="Use the version of fp2 that wrote it, or give another paths.store",
        )


def _version(connection: sqlite3.Connection) -> int | None:
    row = connection.execute("SELECT version FROM schema").fetchone()
    return None if row is None else int(row[0])
