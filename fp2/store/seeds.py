"""Answers of further stores: what the run's own store lacks is looked up in them, and copied.

The further stores (`paths.seed_stores`) are only read. A copied answer is like one of the run's own: it is purged,
merged and checked with them. A purge does not change a seed store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fp2.store.database import transaction
from fp2.store.dense import COLUMNS, DenseStore
from fp2.store.merge import add_answers, add_block, copy_runtimes
from fp2.store.rows import ResponseStore, answered_keys

_AT_ONCE = 5000


def take_answers(store: ResponseStore, keys: Iterable[str]) -> None:
    """Copy the answers under `keys` that `store` lacks from its seeds, the first that has one.

    Raises
    ------
    Fp2Error
        If a store cannot be read or written, or an answer is damaged.
    """
    left = list(keys) if store.seeds else []
    for seed in store.seeds:
        for start in range(0, len(left), _AT_ONCE):
            some = left[start : start + _AT_ONCE]
            there = answered_keys(store.connection, some)
            if found := seed.get_many(key for key in some if key not in there):
                with transaction(store.connection, store.path):
                    copy_runtimes(seed.connection, store.connection)
                    add_answers(store, list(found.values()))


def take_blocks(store: ResponseStore, contexts: Sequence[str]) -> None:
    """Copy the arrays of `contexts` from the seeds of `store`; answers that it has stay as they are.

    Raises
    ------
    Fp2Error
        If a store cannot be read or written, or an array is damaged.
    """
    ours = DenseStore(store.connection, store.path)
    for seed in store.seeds:
        theirs = DenseStore(seed.connection, seed.path)
        for start in range(0, len(contexts), _AT_ONCE):
            with transaction(store.connection, store.path):
                copy_runtimes(seed.connection, store.connection)
                for context in contexts[start : start + _AT_ONCE]:
                    for row in _blocks(theirs, context):
                        add_block(ours, theirs, row)


def _blocks(store: DenseStore, context: str) -> list[Any]:
    query = f"SELECT {COLUMNS} FROM blocks WHERE context = ?"
    return [store.checked(fields) for fields in store.connection.execute(query, (bytes.fromhex(context),))]
