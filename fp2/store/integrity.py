"""Checking a whole response store: the database itself, and the checksum of every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from fp2.errors import Fp2Error
from fp2.store import checksums, dense, origins, rows
from fp2.store.database import as_user_error
from fp2.store.dense import COLUMNS, DenseStore
from fp2.store.rows import ResponseStore


def damaged_rows(path: Path, tick: Callable[[int], None] = lambda rows: None) -> Iterator[str]:
    """Yield one line for everything in a store that is damaged; it is only read.

    Parameters
    ----------
    tick : callable
        Called with the number of rows read since the last call (`fp2.store.merge.count_rows`).

    Raises
    ------
    Fp2Error
        If the file is not a store, or so damaged that it cannot be read to its end.
    """
    with ResponseStore(path, read_only=True) as store, as_user_error(path):
        yield from (row[0] for row in store.connection.execute("PRAGMA quick_check(5)") if row[0] != "ok")
        for check in (_answers, _blocks, _failures, _dense_failures, _origins):
            for found in check(store):
                tick(1)
                if found is not None:
                    yield found


def _answers(store: ResponseStore) -> Iterator[str | None]:
    columns = "key, text, seconds, tokens, attempts, runtime, created, numbers, checksum"
    for fields in store.connection.execute(f"SELECT {columns} FROM answers"):
        yield _line(rows.checked, fields, store.path)


def _blocks(store: ResponseStore) -> Iterator[str | None]:
    read = DenseStore(store.connection, store.path)
    for fields in store.connection.execute(f"SELECT {COLUMNS} FROM blocks"):
        yield _line(lambda row: read.question_set(read.checked(row).question_set), fields)


def _line(check: Callable[..., object], *given: object) -> str | None:
    try:
        check(*given)
    except Fp2Error as error:
        return error.what
    return None


def _failures(store: ResponseStore) -> Iterator[str | None]:
    columns = "key, error, attempts, runtime, updated"
    for key, *rest in store.connection.execute(f"SELECT {columns} FROM failures"):
        kept = checksums.intact(store.connection, rows.FAILURES, {key: rest})
        yield None if kept else f"the failure {key} does not match its checksum: it will be asked again"


def _dense_failures(store: ResponseStore) -> Iterator[str | None]:
    columns = "context, question, error, attempts, runtime, updated"
    for context, question, *rest in store.connection.execute(f"SELECT {columns} FROM block_failures"):
        kept = checksums.intact(store.connection, dense.FAILURES, {context + question: rest})
        yield None if kept else f"a failure of {context.hex()} does not match its checksum: it will be asked again"


def _origins(store: ResponseStore) -> Iterator[str | None]:
    for image in origins.recorded_images(store.connection, store.path):
        yield _line(origins.check, store.connection, store.path, image)
