"""The database of the MLflow store: SQLite's is created as a whole or not at all, and repaired where it is half made.

MLflow creates its tables in some eighty committed steps. A process that is killed between two of them, or a second one
that starts at the same moment, leaves a database that MLflow never opens again. So the database is created in a
temporary file, under a lock, and renamed once it is complete. PostgreSQL locks itself (`server_lock`).
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

LOCK_SECONDS = 120.0
"""Longest wait for another process that creates the database."""
_ADVISORY = 0x667032  # any number that every process here knows
_SIDECARS = ("", "-journal", "-wal", "-shm")  # a journal that stayed behind would be replayed into the new file


def prepare_database(path: Path) -> Path | None:
    """Create the database of an MLflow store at `path` unless there is one; replace one that was left half made.

    Only the process that holds the store's lock may call this (`init_lock`).

    Returns
    -------
    Path or None
        Where the half-made database was moved, if there was one.

    Raises
    ------
    OSError, sqlite3.Error, MlflowException, SQLAlchemyError
        If the database cannot be read or created; `path` is then as it was.
    """
    aside = None
    exists = path.exists()
    if not exists or is_half_made(path):
        draft = _draft(path)
        if exists:
            aside = path.with_name(f"{path.name}.half-made-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
            for name in reversed(_SIDECARS):
                old = path.with_name(path.name + name)
                if old.exists():
                    os.replace(old, aside.with_name(aside.name + name))
        os.replace(draft, path)
    _use_wal(path)
    return aside


def is_half_made(path: Path) -> bool:
    """Whether the creation of this database did not end: it has no experiment, not even MLflow's default one.

    A database with an experiment holds somebody's runs; it is never replaced, whatever else is wrong with it.
    """
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=30)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "experiments" not in tables:
            return not tables or bool(tables & {"alembic_version", "runs", "_alembic_tmp_experiments"})
        return connection.execute("SELECT 1 FROM experiments LIMIT 1").fetchone() is None


def init_lock(path: Path) -> AbstractContextManager[object]:
    """Return the lock under which the database at `path` is created; it ends with the process that holds it."""
    from filelock import FileLock

    return FileLock(path.parent / ".init.lock", timeout=LOCK_SECONDS)


@contextmanager
def server_lock(uri: str) -> Iterator[None]:
    """Hold the lock under which tables, experiments and models are created in PostgreSQL; other stores have none.

    It is the server's (`pg_advisory_lock`), so that it holds between machines and ends with the connection. A second
    process that creates the tables at the same moment would fail.

    Raises
    ------
    SQLAlchemyError, ModuleNotFoundError
        If there is no connection, or no driver.
    """
    if not uri.startswith("postgresql"):
        yield
        return
    import sqlalchemy

    engine = sqlalchemy.create_engine(uri, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"SET lock_timeout = '{LOCK_SECONDS:.0f}s'"))
        connection.execute(sqlalchemy.text("SELECT pg_advisory_lock(:key)"), {"key": _ADVISORY})
        yield


def _draft(path: Path) -> Path:
    """Create a complete database beside `path` and return it."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    draft = path.with_name(f".{path.name}.new")
    _remove(draft)  # of a process that was killed
    uri = f"sqlite:///{draft}"
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        try:
            SqlAlchemyStore(uri, (path.parent / "artifacts").as_uri())  # type: ignore[no-untyped-call]
        finally:
            if (engine := SqlAlchemyStore._engine_map.pop(uri, None)) is not None:
                engine.dispose()
        _use_wal(draft)
        with closing(sqlite3.connect(draft)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for name in _SIDECARS[1:]:
            draft.with_name(draft.name + name).unlink(missing_ok=True)
        with draft.open("rb+") as stream:
            os.fsync(stream.fileno())
    except BaseException:
        _remove(draft)
        raise
    return draft


def _use_wal(path: Path) -> None:
    """Switch to write-ahead logging, so that readers and writers do not block; the mode is stored in the file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")


def _remove(path: Path) -> None:
    for name in _SIDECARS:
        path.with_name(path.name + name).unlink(missing_ok=True)
