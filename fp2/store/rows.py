"""Row storage: one database row per answer, under its response key (`fp2.store.response_keys`).

An answer is written once and never changed. A failure is stored separately, is never returned as an answer, and is
retried by the next run; an answer replaces it. Answers and failures have checksums: a damaged answer is refused, a
damaged failure is forgotten.

Which of millions of planned answers are stored is looked up without reading any (`stored_keys`): keys are compared as
integers, those of the store in 256 ranges, one at a time, so that memory grows with the plan and not with the store. A
plan that is small beside the store is looked up key by key.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fp2.errors import Fp2Error
from fp2.hashing import canonical_json
from fp2.store.database import (
    as_user_error,
    checksum,
    connect,
    connect_read_only,
    delete_checksums,
    intact,
    put_checksums,
    put_runtime,
    select_in,
    transaction,
)

SCORED_BY = "scored_by"
"""The key in `numbers` of what a model returned about the text of an answer (`fp2.scorers.base.AsksModel`)."""
ASKED = ("model", "probe", "question")
"""What is recorded with the runtime of an answer to be read by people; no code reads it."""
COLUMNS = "key, text, seconds, tokens, attempts, runtime, created, numbers, checksum"


FailureRow = tuple[str, str, int, str, float]
"""Key, error, attempts, runtime, time."""


class AnswerLike(Protocol):
    """The fields of an answer that are stored (see `fp2.tables.Answer`)."""

    text: str | None
    error: str | None
    seconds: float
    tokens: int
    numbers: Mapping[str, object] | None


class StoredAnswer(NamedTuple):
    """A stored answer: its text, the time that it took (seconds), and the digest of the runtime.

    `numbers` is the JSON of `fp2.tables.Answer.numbers`, None for generated text.
    """

    key: str
    text: str
    seconds: float
    tokens: int
    attempts: int
    runtime: str
    created: float
    numbers: str | None = None

    def checksum(self) -> bytes:
        """Return a digest of all fields in 16 bytes; without numbers, that of schema version 1."""
        key, text, seconds, tokens, attempts, runtime, created, numbers = self
        head = f"{key}\0{seconds!r}\0{tokens}\0{attempts}\0{runtime}\0{created!r}\0"
        if numbers is None:
            return blake2b(f"{head}{text}".encode(), digest_size=16).digest()
        return blake2b(f"{head}{numbers}\0{text}".encode(), digest_size=16, person=b"numbers").digest()


@dataclass(frozen=True, slots=True)
class StoredFailure:
    """A failed answer: the last reason, and the number of attempts."""

    key: str
    error: str
    attempts: int


class ResponseStore:
    """One SQLite file of answers. Several processes may use it at once; one instance belongs to one thread.

    Parameters
    ----------
    path : Path
        The database file; it is created with its folder if it does not exist.
    read_only : bool
        Open an existing file to look in.
    seeds : sequence of Path
        Further stores to look in for answers; they are opened read-only (`fp2.store.merge`).
    """

    def __init__(self, path: Path, *, read_only: bool = False, seeds: Sequence[str | Path] = ()) -> None:
        self.path = Path(path)
        self.seeds = [ResponseStore(Path(seed), read_only=True) for seed in seeds]
        self.connection: sqlite3.Connection = connect_read_only(self.path) if read_only else connect(self.path)
        """The open connection (autocommit); the caches of pixel and file digests are in the same file."""

    def __enter__(self) -> ResponseStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and the seeds; everything that was stored is committed already."""
        for store in (*self.seeds, self):
            store.connection.close()

    def get_many(self, keys: Iterable[str]) -> dict[str, StoredAnswer]:
        """Return the stored answers of `keys`; keys without an answer are not in the result."""
        with as_user_error(self.path):
            rows = select_in(self.connection, f"SELECT {COLUMNS} FROM answers WHERE key", keys)
            return {row[0]: checked(row, self.path) for row in rows}

    def get_failures(self, keys: Iterable[str]) -> dict[str, StoredFailure]:
        """Return the failures of `keys` that match their checksums; one is deleted once the question is answered."""
        query = "SELECT key, error, attempts, runtime, updated FROM failures WHERE key"
        with as_user_error(self.path):
            rows = {row[0]: row[1:] for row in select_in(self.connection, query, keys)}
            undamaged = intact(self.connection, FAILURES, rows)
        return {key: StoredFailure(key, *rows[key][:2]) for key in rows if key in undamaged}

    def put_many(
        self,
        rows: Iterable[tuple[str, AnswerLike]],
        runtime: Mapping[str, object] | None = None,
        asked: Sequence[tuple[str, str, str]] = (),
    ) -> None:
        """Store a batch of (response key, answer) in one transaction.

        An answer replaces a failure of its key; a second answer to a key is ignored. A failure raises the number of
        attempts of its key, and is ignored if another process has stored an answer.

        Parameters
        ----------
        rows : iterable of (str, AnswerLike)
            A row with an `error` is a failure, a row with a `text` an answer.
        runtime : Mapping, optional
            What is recorded but not part of the key: device, batch size, versions (JSON values).
        asked : sequence of (str, str, str)
            Model, probe and question of each row. They are recorded with the runtime, once for each question, for the
            view `answers_readable` (`fp2.store.origins`).

        Raises
        ------
        Fp2Error
            If the disk is full or the store cannot be written; earlier batches are kept.
        ValueError
            If a row has neither a text nor an error, or numbers that are not finite.
        TypeError
            If its numbers are not JSON values.
        """
        batch = list(rows)
        now = time.time()
        with transaction(self.connection, self.path):
            failed = _keys_in(self.connection, FAILURES, [key for key, _ in batch])
            tries = {key: failure.attempts for key, failure in self.get_failures(failed).items()}
            about_rows: Sequence[tuple[str, ...]] = asked or [()] * len(batch)
            marks = {
                about: put_runtime(self.connection, {**(runtime or {}), **dict(zip(ASKED, about, strict=False))})
                for about in set(about_rows)
            }
            answers: list[StoredAnswer] = []
            failures: list[FailureRow] = []
            for (key, row), about in zip(batch, about_rows, strict=True):
                mark = marks[about]
                tries[key] = tries.get(key, 0) + 1
                if row.error is not None:
                    failures.append((key, _storable(row.error), tries[key], mark, now))
                elif row.text is None:
                    raise ValueError(f"the row of key {key} has neither a text nor an error")
                else:
                    text, numbers = _storable(row.text), row.numbers
                    json = None if numbers is None else canonical_json(dict(numbers)).decode()
                    seconds, tokens = float(row.seconds), int(row.tokens)
                    answers.append(StoredAnswer(key, text, seconds, tokens, tries[key], mark, now, json))
            put_answers(self.connection, answers)
            delete_failures(self.connection, [answer.key for answer in answers if answer.key in failed])
            done = answered_keys(self.connection, [row[0] for row in failures])
            put_failures(self.connection, [row for row in failures if row[0] not in done])


FAILURES = "failures"


def put_answers(connection: sqlite3.Connection, answers: Iterable[StoredAnswer]) -> None:
    """Store answers with their checksums, in the caller's transaction; those whose key has an answer are ignored."""
    query = f"INSERT OR IGNORE INTO answers ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    connection.executemany(query, [(*answer, answer.checksum()) for answer in answers])


def put_failures(connection: sqlite3.Connection, rows: Sequence[FailureRow]) -> None:
    """Store failures (key, error, attempts, runtime, updated) with their checksums, in the caller's transaction."""
    connection.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)", rows)
    put_checksums(connection, FAILURES, {row[0]: checksum(*row) for row in rows})


def delete_failures(connection: sqlite3.Connection, keys: Sequence[str]) -> None:
    """Delete failures with their checksums, in the caller's transaction."""
    connection.executemany("DELETE FROM failures WHERE key = ?", [(key,) for key in keys])
    delete_checksums(connection, FAILURES, keys)


def checked(fields: Sequence[Any], path: Path) -> StoredAnswer:
    """Return an answer from its columns and checksum; one that does not match is damaged, and never returned."""
    answer = StoredAnswer._make(fields[:-1])
    if answer.checksum() != fields[-1]:  # also where one bit has turned a column of text into bytes
        fix = "Restore the file from a copy, or move it away and run again to ask the model again"
        problem = f"the stored answer {answer.key} does not match its checksum: it was changed or the disk is failing"
        raise Fp2Error(problem, where=str(path), fix=fix)
    return answer


def _storable(text: str) -> str:
    """Return `text` with lone surrogates, which UTF-8 cannot encode, replaced by the replacement character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def answered_keys(connection: sqlite3.Connection, keys: Sequence[str]) -> set[str]:
    """Return which of `keys` have an answer."""
    return _keys_in(connection, "answers", keys)


def _keys_in(connection: sqlite3.Connection, table: str, keys: Sequence[str]) -> set[str]:
    return {str(key) for (key,) in select_in(connection, f"SELECT key FROM {table} WHERE key", keys)}


_ROW_BYTES = 400
"""Of a stored answer, at least about: to guess how many a file holds."""
_POINT_COST = 8
"""How many rows are scanned in the time that one key is looked up."""


def stored_keys(store: ResponseStore, wanted: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return which of `wanted` have an answer; no answer is read.

    Parameters
    ----------
    wanted : array (n,), 32 bytes each
        Distinct response keys in ascending order.
    """
    with as_user_error(store.path):
        if len(wanted) * _POINT_COST < store.path.stat().st_size / _ROW_BYTES:
            keys = [key.hex() for key in wanted.tolist()]
            answered = answered_keys(store.connection, keys)
            return np.fromiter((key in answered for key in keys), dtype=bool, count=len(keys))
        has_answer = np.zeros(len(wanted), dtype=bool)
        key_words = ordered_words(wanted)
        bounds = np.searchsorted((key_words[0] >> np.uint64(56)).astype(np.int64), np.arange(257)).tolist()
        for first, (low, high) in enumerate(pairwise(bounds)):
            if low < high:
                _mark(store.connection, first, [word[low:high] for word in key_words], has_answer[low:high])
        return has_answer


def distinct(keys: NDArray[np.uint8]) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return the distinct keys in ascending order (as `stored_keys` takes them), and the place of each key among them.

    Parameters
    ----------
    keys : array (n, 32)
        Response keys.
    """
    flat = np.ascontiguousarray(keys).view("V32").reshape(-1)
    key_words = ordered_words(flat)
    order = np.lexsort(key_words[::-1])
    new = np.ones(len(flat), dtype=bool)
    new[1:] = np.logical_or.reduce([np.diff(word[order]) != 0 for word in key_words])
    index = np.empty(len(flat), dtype=np.int64)
    index[order] = np.cumsum(new) - 1
    return flat[order[new]], index


def ordered_words(keys: NDArray[np.void]) -> list[NDArray[np.uint64]]:
    """Return keys of 32 bytes as four integers each, the most significant first: (n,) arrays."""
    key_words = np.frombuffer(keys.tobytes(), dtype=">u8").reshape(-1, 4).astype(np.uint64)
    return [np.ascontiguousarray(key_words[:, column]) for column in range(4)]


def _mark(
    connection: sqlite3.Connection, first: int, wanted: Sequence[NDArray[np.uint64]], has_answer: NDArray[np.bool_]
) -> None:
    """Set `has_answer` where the store has the key; all keys begin with the byte `first`."""
    low, high = f"{first:02x}", f"{first + 1:02x}" if first < 255 else "g"
    query = "SELECT group_concat(key, '') FROM answers WHERE key >= ? AND key < ? AND length(key) = 64"
    (text,) = connection.execute(query, (low, high)).fetchone()
    if text is None:
        return
    stored = ordered_words(np.frombuffer(bytes.fromhex(text), dtype="V32"))
    order = np.argsort(stored[0], kind="stable")
    at = np.searchsorted(stored[0][order], wanted[0])
    inside = at < len(order)
    position = order[np.minimum(at, len(order) - 1)]
    same = np.logical_and.reduce([mine == theirs[position] for mine, theirs in zip(wanted, stored, strict=True)])
    has_answer |= inside & same
    # Two keys may share their first 64 bits, of which the search finds one.
    for row in np.flatnonzero(inside & (stored[0][position] == wanted[0]) & ~same).tolist():
        key = b"".join(int(word[row]).to_bytes(8, "big") for word in wanted).hex()
        has_answer[row] = bool(answered_keys(connection, [key]))
