"""Merging dense answers of several response stores, and taking them from further stores (`paths.seed_stores`).

What two stores have of one question in one context must be equal. A failure stays where no store has an answer, with
the larger number of attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fp2.extension import ResponseStore, batches, copy_runtimes, has_table, intact, transaction
from fp2.methods.dense.store import (
    COLUMNS,
    FAILURES,
    PUT_BLOCK,
    DenseStore,
    FailureRow,
    QuestionSet,
    Row,
    answered,
    packed,
    put_failures,
)

_AT_ONCE = 5000  # contexts in one transaction


def add_blocks(source: ResponseStore, target: ResponseStore, tick: Callable[[int], None]) -> list[str]:
    """Copy the arrays of a store; return the keys of those with an answer that differs."""
    differ: list[str] = []
    ours, theirs = DenseStore(target.connection, target.path), DenseStore(source.connection, source.path)
    if not has_table(source.connection, "blocks"):
        return differ
    with transaction(target.connection, target.path):
        ours.create()
    for chunk in batches(source, target, f"SELECT {COLUMNS} FROM blocks ORDER BY context, question_set"):
        for fields in chunk:
            differ += add_block(ours, theirs, theirs.checked(fields))
        tick(len(chunk))
    return differ


def add_block(ours: DenseStore, theirs: DenseStore, row: Row) -> list[str]:
    """Store an array of another store, in the caller's transaction; return its key if an answer in it differs.

    It is compared with every array of the context: question sets may share questions.
    """
    questions = theirs.question_set(row.question_set)
    numbers = theirs.unpacked(row, len(questions.questions))
    own_row: Row | None = None
    for fields in ours.connection.execute(f"SELECT {COLUMNS} FROM blocks WHERE context = ?", (row.context,)).fetchall():
        other = ours.checked(fields)
        here_columns, there_columns = ours.shared(other.question_set, questions)
        values = ours.unpacked(other, len(ours.question_set(other.question_set).questions))
        both = answered(numbers[:, here_columns]) & answered(values[:, there_columns])
        if not np.array_equal(numbers[:, here_columns][:, both], values[:, there_columns][:, both], equal_nan=True):
            return [f"{row.context.hex()} (an array)"]
        if other.question_set == row.question_set:
            own_row = other
    if own_row is None:
        ours.add_question_set(questions)
        ours.connection.execute(PUT_BLOCK, (*row.fields, row.checksum()))
    elif own_row.numbers != row.numbers:
        # the answers that the own array lacks; the time is the sum where each has some that the other lacks
        merged = ours.unpacked(own_row, len(questions.questions)).copy()
        mine, new = answered(merged), answered(numbers)
        merged[:, new & ~mine] = numbers[:, new & ~mine]
        seconds = own_row.seconds + row.seconds if not (mine & new).any() else max(own_row.seconds, row.seconds)
        completed = replace(own_row, answered=int((mine | new).sum()), numbers=packed(merged), seconds=seconds)
        completed = replace(completed, updated=max(own_row.updated, row.updated))
        ours.connection.execute(PUT_BLOCK, (*completed.fields, completed.checksum()))
    return []


def add_block_failures(source: ResponseStore, target: ResponseStore, tick: Callable[[int], None]) -> None:
    """Copy the failures of a store to whose questions there is no answer."""
    if not has_table(source.connection, FAILURES):
        return
    ours = DenseStore(target.connection, target.path)
    columns = "context, question, error, attempts, runtime, updated"
    for chunk in batches(source, target, f"SELECT {columns} FROM block_failures ORDER BY context, question"):
        by_key = {row[0] + row[1]: row for row in chunk}
        intact_keys = intact(source.connection, FAILURES, {key: row[2:] for key, row in by_key.items()})
        new = [row for key, row in by_key.items() if key in intact_keys and _is_open(ours, row)]
        put_failures(target.connection, new)
        tick(len(chunk))


def _is_open(ours: DenseStore, row: FailureRow) -> bool:
    """Whether the store has no answer to the question of a failure, and no failure with as many attempts."""
    context, wanted = row[0].hex(), QuestionSet((row[1].hex(),))
    failure = ours.failures([context], wanted).get((context, 0))
    return not any(ours.read([context], wanted)) and (failure is None or row[3] > failure[1])


def take_blocks(store: ResponseStore, contexts: Sequence[str]) -> None:
    """Copy the arrays of `contexts` from the seeds of `store`; answers that it has stay as they are."""
    ours = DenseStore(store.connection, store.path)
    for seed in store.seeds:
        theirs = DenseStore(seed.connection, seed.path)
        for start in range(0, len(contexts) if has_table(seed.connection, "blocks") else 0, _AT_ONCE):
            with transaction(store.connection, store.path):
                ours.create()
                copy_runtimes(seed.connection, store.connection)
                for context in contexts[start : start + _AT_ONCE]:
                    query = f"SELECT {COLUMNS} FROM blocks WHERE context = ?"
                    for fields in theirs.connection.execute(query, (bytes.fromhex(context),)).fetchall():
                        add_block(ours, theirs, theirs.checked(fields))
