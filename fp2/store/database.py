"""Opening one SQLite file that several processes share, and saying in one line what is wrong with it."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from fp2.errors import Fp2Error

SCHEMA_VERSION = 3
# Version 1 has no `numbers`, version 2 no blocks; opening such a file for writing adds them.
_READABLE = (1, 2, SCHEMA_VERSION)
BUSY_SECONDS = 30.0

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

_BLOCK_TABLES = """
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

_FAULTS = {
    "SQLITE_FULL": ("the disk is full", "Free some space and run again: what was answered so far is kept"),
    "SQLITE_READONLY": ("the response store cannot be written", "Make the file and its folder writable"),
    "SQLITE_PERM": ("the response store cannot be written", "Make the file and its folder writable"),
    "SQLITE_CANTOPEN": ("the response store cannot be opened", "Check that its folder exists and is writable"),
    "SQLITE_NOTADB": ("this file is not a response store", "Point `paths.store` elsewhere, or move the file away"),
    "SQLITE_CORRUPT": ("the response store is damaged", "Move the file away: the next run asks again"),
    "SQLITE_IOERR": ("the disk reports an error", "Check the disk (space, quota, permissions) and run again"),
    "SQLITE_BUSY": ("the response store is locked", "Another run holds it: wait until that run ends, or stop it"),
}


@contextlib.contextmanager
def as_user_error(path: Path) -> Iterator[None]:
    """Turn what SQLite raises inside the block into one `Fp2Error` line about `path`."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", None) or ""
        for prefix, (what, fix) in _FAULTS.items():
            if name.startswith(prefix):
                raise Fp2Error(what, where=str(path), fix=fix) from error
        raise Fp2Error(f"the response store failed: {error}", where=str(path)) from error


def file_of(connection: sqlite3.Connection) -> Path:
    """Return the file that an open connection reads and writes."""
    return Path(connection.execute("PRAGMA database_list").fetchone()[2] or ":memory:")


def add_table(connection: sqlite3.Connection, name: str, statement: str) -> None:
    """Create a table if there is none of that `name`; no lock is waited for where there is one."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is None:
        connection.execute(statement)


def connect(path: Path) -> sqlite3.Connection:
    """Open the store at `path` for writing, creating the file, its folder and its tables when they are not there.

    A store of an earlier version is brought up to date in place: its answers stay as they are.

    Write-ahead log, so that readers and one writer do not wait for each other; `synchronous=NORMAL`, so that a killed
    process loses at most the batch under way. Statements commit by themselves outside `transaction`.

    Raises
    ------
    Fp2Error
        If the file cannot be opened or written, is no store, or was made by a newer version.
    """
    with as_user_error(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Fp2Error(
                f"the folder of the response store cannot be made: {error.strerror}", where=str(path.parent)
            ) from error
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open an existing store without ever writing to it (works in a folder that cannot be written).

    Raises
    ------
    Fp2Error
        If it cannot be opened or is no store.
    """
    plain = f"{path.absolute().as_uri()}?mode=ro"
    with as_user_error(path):
        try:
            return _open_checked(plain, path)
        except sqlite3.OperationalError:
            if path.with_name(path.name + "-wal").exists():
                raise
            # a log-less file in a folder that cannot be written: SQLite cannot make its index there
            return _open_checked(f"{plain}&immutable=1", path)


def _open_checked(address: str, path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        _check_version(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """All of the block or nothing of it; the write lock is taken at once, so that a reader never has to upgrade."""
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
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'answers'").fetchone() is None:
        with transaction(connection, path):
            for statement in filter(str.strip, (_TABLES + _BLOCK_TABLES).split(";")):
                connection.execute(statement)
            if connection.execute("SELECT version FROM schema").fetchone() is None:
                connection.execute("INSERT INTO schema VALUES (?)", (SCHEMA_VERSION,))
    _check_version(connection, path)
    _migrate(connection, path)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the tables up to date; of several processes that open the file at once, one does it."""
    if _version(connection) == SCHEMA_VERSION:
        return
    with transaction(connection, path):
        version = _version(connection)
        if version == 1:
            connection.execute("ALTER TABLE answers ADD COLUMN numbers TEXT")
        for statement in filter(str.strip, _BLOCK_TABLES.split(";")):
            connection.execute(statement)
        connection.execute("UPDATE schema SET version = ?", (SCHEMA_VERSION,))


def _wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log. The busy timeout does not cover this switch, so wait here while others do it."""
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
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema'").fetchone() is None:
        raise Fp2Error("this database is not a response store", where=str(path), fix="Point `paths.store` elsewhere")
    found = _version(connection)
    if found not in _READABLE:
        raise Fp2Error(
            f"the response store has schema version {found or 'none'}, this program reads up to {SCHEMA_VERSION}",
            where=str(path),
            fix="Use the version of fp2 that wrote it, or another store file",
        )


def _version(connection: sqlite3.Connection) -> int | None:
    row = connection.execute("SELECT version FROM schema").fetchone()
    return None if row is None else int(row[0])
