"""Merging response stores: answers, failures and origins of several files in a new one.

What two stores have under one key must be equal: an answer with another text or other numbers is a conflict, and
nothing is merged. Of equal answers the first is kept. Failures stay where no store has an answer, with the larger
number of attempts. Caches (digests of files, embeddings) are not merged: they are computed again.

What a run's own store lacks is looked up in further stores (`paths.seed_stores`) and copied (`take_answers`). These
are only read. A copied answer is like one of the run's own: it is purged, merged and checked with them. A purge does
not change a seed store.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from fp2.errors import Fp2Error
from fp2.store import origins, rows
from fp2.store.database import as_user_error, has_table, intact, is_intact_runtime, tables_with, transaction
from fp2.store.kinds import stored_kinds
from fp2.store.rows import SCORED_BY, ResponseStore, StoredAnswer, answered_keys
from fp2.store.withdrawn import NOBODY, Withdrawn
from fp2.text import first_few, plural

_AT_ONCE = 5000  # rows in one transaction


def merge_stores(
    sources: Sequence[Path],
    target: Path,
    tick: Callable[[int], None] = lambda rows: None,
    withdrawn: Withdrawn = NOBODY,
) -> dict[str, int]:
    """Merge stores in a new file, which appears once it is complete, and return its rows by table.

    The sources are only read. What they have of withdrawn people stays out.

    Parameters
    ----------
    sources : sequence of Path
        Two stores or more.
    target : Path
        A file that does not exist.
    tick : callable
        Called with the number of rows read since the last call (see `count_rows`).
    withdrawn : Withdrawn
        Who is withdrawn; the caller holds the lock (`fp2.store.withdrawn.writing`).
    """
    if target.exists():
        raise Fp2Error("the file exists", where=str(target), fix="Give a new file; merge this one as a source")
    with ExitStack() as stack:
        opened = [stack.enter_context(ResponseStore(path, read_only=True)) for path in sources]
        salts: dict[str, Path] = {}
        for store in opened:
            if has_table(store.connection, "salts"):
                salts |= {name: store.path for (name,) in store.connection.execute("SELECT id FROM salts")}
        if len(salts) > 1:
            fix = "Give all shards one paths.state, or copy its file `salt` first; or use paths.seed_stores"
            problem = "the stores were written with different salts, so that a purge would miss subjects"
            raise Fp2Error(problem, where=", ".join(str(path) for path in salts.values()), fix=fix)
        # Drafts of merges that were killed: a purge would not find them
        for left in target.parent.glob(f".{target.name}-*.draft*"):
            try:
                os.kill(int(left.name.removeprefix(f".{target.name}-").partition("-")[0]), 0)
            except ProcessLookupError:
                left.unlink(missing_ok=True)
            except (OSError, ValueError):
                continue
        draft = target.with_name(f".{target.name}-{os.getpid()}-{uuid.uuid4().hex}.draft")
        try:
            counts = _into(opened, draft, tick, withdrawn)
            os.replace(draft, target)
        finally:
            for suffix in ("", "-wal", "-shm"):
                with suppress(OSError):
                    draft.with_name(draft.name + suffix).unlink(missing_ok=True)
    return counts


def count_rows(path: Path) -> dict[str, int]:
    """Return how many rows of a store a merge or a check reads, by table."""
    with ResponseStore(path, read_only=True) as store, as_user_error(path):
        return _counts(store.connection)


def _counts(connection: sqlite3.Connection) -> dict[str, int]:
    kinds = (table for kind in stored_kinds() for table in kind.tables)
    tables = [table for table in ("answers", "failures", *kinds, "pictures") if has_table(connection, table)]
    return {table: int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in tables}


def _into(
    sources: Sequence[ResponseStore], draft: Path, tick: Callable[[int], None], withdrawn: Withdrawn
) -> dict[str, int]:
    differ: list[str] = []
    known = {table for kind in stored_kinds() for table in kind.tables}
    for source in sources:
        for table in set(tables_with(source.connection, "context")) - known:
            if source.connection.execute(f'SELECT 1 FROM "{table}"').fetchone():
                fix = "Install the package that wrote them: they would be lost"
                raise Fp2Error(f"no installed package merges the rows of {table}", where=str(source.path), fix=fix)
    with ResponseStore(draft) as store:
        store.connection.execute("PRAGMA synchronous=OFF")  # a draft: after a crash it is thrown away
        steps = (_add_answers, _add_failures, *(step for kind in stored_kinds() for step in kind.merges), _add_origins)
        for step in steps:
            for source in sources:
                with as_user_error(source.path):
                    differ += step(source, store, tick) or ()
        if differ:
            n = plural(len(differ), "answer differs", "answers differ")
            problem = f"{n} between the stores: {first_few(differ)}"
            fix = (
                "The model was asked the same question twice and answered differently: merge without one of the stores"
            )
            raise Fp2Error(problem, where=", ".join(str(source.path) for source in sources), fix=fix)
        if withdrawn:
            images_stored = origins.recorded_images(store.connection, store.path)
            images = withdrawn.images | {image.image for image in images_stored if image.subject in withdrawn.subjects}
            chosen = [image for image in images_stored if image.image in images]
            theirs = origins.keys_of(store.connection, store.path, chosen)
            origins.delete(store.connection, store.path, theirs, chosen, {image.path for image in chosen})
        counts = _counts(store.connection)
        store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with draft.open("rb") as handle:
        os.fsync(handle.fileno())
    return counts


def batches(source: ResponseStore, target: ResponseStore, query: str) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a query in lists, each in a transaction of the target."""
    cursor = source.connection.execute(query)
    while chunk := list(islice(cursor, _AT_ONCE)):
        with transaction(target.connection, target.path):
            yield chunk


def _add_answers(source: ResponseStore, target: ResponseStore, tick: Callable[[int], None]) -> list[str]:
    differ: list[str] = []
    copy_runtimes(source.connection, target.connection)
    for chunk in batches(source, target, f"SELECT {rows.COLUMNS} FROM answers ORDER BY key"):
        answers = [rows.checked(fields, source.path) for fields in chunk]
        differ += add_answers(target, answers)
        tick(len(chunk))
    return differ


def copy_runtimes(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Copy what is recorded of devices, batch sizes and versions, without rows that do not match their digests."""
    intact_rows = [row for row in source.execute("SELECT digest, json FROM runtimes") if is_intact_runtime(*row)]
    target.executemany("INSERT OR IGNORE INTO runtimes VALUES (?, ?)", intact_rows)


def add_answers(target: ResponseStore, answers: Sequence[StoredAnswer]) -> list[str]:
    """Store answers of another store as they are, in the caller's transaction; return the keys of those that differ.

    What a model returned about a text (`SCORED_BY`) may differ in its last digit between machines: the first is kept.
    """
    stored = target.get_many(answer.key for answer in answers)
    new = [answer for answer in answers if answer.key not in stored]
    rows.put_answers(target.connection, new)
    rows.delete_failures(target.connection, [answer.key for answer in new])
    shared = [answer for answer in answers if answer.key in stored and f'"{SCORED_BY}"' not in (answer.numbers or "")]
    return [row.key for row in shared if (row.text, row.numbers) != (stored[row.key].text, stored[row.key].numbers)]


def _add_failures(source: ResponseStore, target: ResponseStore, tick: Callable[[int], None]) -> None:
    columns = "key, error, attempts, runtime, updated"
    for chunk in batches(source, target, f"SELECT {columns} FROM failures ORDER BY key"):
        by_key = {row[0]: row for row in chunk}
        intact_keys = intact(source.connection, rows.FAILURES, {key: row[1:] for key, row in by_key.items()})
        open_ones = intact_keys - rows.answered_keys(target.connection, list(by_key))
        stored = target.get_failures(list(by_key))
        new = [
            row
            for key, row in by_key.items()
            if key in open_ones and (key not in stored or row[2] > stored[key].attempts)
        ]
        rows.put_failures(target.connection, new)
        tick(len(chunk))


def _add_origins(source: ResponseStore, target: ResponseStore, tick: Callable[[int], None]) -> None:
    images = origins.recorded_images(source.connection, source.path)
    with transaction(target.connection, target.path):
        origins.create_tables(target.connection)
        if has_table(source.connection, "salts"):
            salts = source.connection.execute("SELECT id FROM salts")
            target.connection.executemany("INSERT OR IGNORE INTO salts VALUES (?)", salts)
        for image in images:
            keys = [bytes.fromhex(key) for key in origins.keys_of(source.connection, source.path, [image])]
            origins.add(target.connection, target.path, image.row, keys)
            tick(1)


def take_answers(store: ResponseStore, keys: Iterable[str]) -> None:
    """Copy the answers under `keys` that `store` lacks from its seeds, the first that has one."""
    wanted = list(keys) if store.seeds else []
    for seed in store.seeds:
        for start in range(0, len(wanted), _AT_ONCE):
            chunk = wanted[start : start + _AT_ONCE]
            answered = answered_keys(store.connection, chunk)
            if answers := seed.get_many(key for key in chunk if key not in answered):
                with transaction(store.connection, store.path):
                    copy_runtimes(seed.connection, store.connection)
                    add_answers(store, list(answers.values()))
