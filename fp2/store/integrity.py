"""Checking a whole response store: the database itself, and the checksum of every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from fp2.errors import Fp2Error
from fp2.store import origins, rows
from fp2.store.database import as_user_error, checksummed_tables, damaged_keys, has_table, is_intact_runtime
from fp2.store.kinds import stored_kinds
from fp2.store.rows import ResponseStore


def damaged_rows(path: Path, tick: Callable[[int], None] = lambda rows: None) -> Iterator[str]:
    """Yield one line for everything in a store that is damaged; it is only read.

    Parameters
    ----------
    tick : callable
        Called with the number of rows read since the last call (`count_checked`).
    """
    with ResponseStore(path, read_only=True) as store, as_user_error(path):
        yield from (row[0] for row in store.connection.execute("PRAGMA quick_check(5)") if row[0] != "ok")
        for check in (*_checks(store).values(), _others):
            for problem in check(store):
                tick(1)
                if problem is not None:
                    yield problem


def count_checked(path: Path) -> int:
    """Return how many rows of a store `damaged_rows` reads."""
    with ResponseStore(path, read_only=True) as store, as_user_error(path):
        tables = {*_checks(store), *_other_tables(store)}
        counts = (store.connection.execute(f'SELECT count(*) FROM "{table}"').fetchone() for table in tables)
        return sum(int(count) for (count,) in counts)


def _checks(store: ResponseStore) -> dict[str, Callable[[ResponseStore], Iterator[str | None]]]:
    """Return what checks the rows of each table that is there."""
    kinds = {table: check for kind in stored_kinds() for table, check in kind.checks.items()}
    checks = {"answers": _answers, **kinds, "runtimes": _runtimes, "pictures": _origins}
    return {table: check for table, check in checks.items() if has_table(store.connection, table)}


def _answers(store: ResponseStore) -> Iterator[str | None]:
    for fields in store.connection.execute(f"SELECT {rows.COLUMNS} FROM answers"):
        yield problem_of(rows.checked, fields, store.path)


def problem_of(check: Callable[..., object], *arguments: object) -> str | None:
    """Return what is wrong with a row as `check` says it with an `Fp2Error`; None where nothing is."""
    try:
        check(*arguments)
    except Fp2Error as error:
        return error.what
    return None


def _runtimes(store: ResponseStore) -> Iterator[str | None]:
    for mark, body in store.connection.execute("SELECT digest, json FROM runtimes"):
        is_intact = is_intact_runtime(mark, body)
        yield (
            None if is_intact else f"the runtime {mark} does not match its digest: it is recorded again by the next run"
        )


def _others(store: ResponseStore) -> Iterator[str | None]:
    """Check what is made again where it is damaged: failures, and what engines and models keep."""
    for table in _other_tables(store):
        for key in damaged_keys(store.connection, table):
            yield None if key is None else f"{table} {key}: it does not match its checksum, and will be made again"


def _other_tables(store: ResponseStore) -> list[str]:
    return [table for table in checksummed_tables(store.connection) if table != origins.PLACE]


def _origins(store: ResponseStore) -> Iterator[str | None]:
    for image in origins.recorded_images(store.connection, store.path):
        yield problem_of(origins.check, store.connection, store.path, image)
