"""Row storage: one database row per answer, under its response key (`fp2.store.response_keys`).

An answer is written once and never changed. A failure is stored separately, is never returned as an answer, and is
retried by the next run; an answer replaces it. Answers and failures have checksums: a damaged answer is refused, a
damaged failure is forgotten.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from fp2.errors import Fp2Error
from fp2.hashing import canonical_json
from fp2.store import checksums
from fp2.store.database import as_user_error, connect, connect_read_only, put_runtime, transaction

SCORED_BY = "scored_by"
"""The key in `numbers` of what a model returned about the text of an answer (`fp2.scorers.by_model`)."""
_CHUNK = 900  # keys in one SELECT: SQLite's oldest default limit on variables is 999


class AnswerLike(Protocol):
    """The fields of an answer that are stored (see `fp2.tables.Answer`)."""

    text: str | None
    error: str | None
    seconds: float
    tokens: int
    numbers: Mapping[str, Any] | None


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
        columns = "key, text, seconds, tokens, attempts, runtime, created, numbers, checksum"
        found: dict[str, StoredAnswer] = {}
        with as_user_error(self.path):
            for fields in _select(self.connection, f"SELECT {columns} FROM answers", keys):
                answer = checked(fields, self.path)
                found[answer.key] = answer
        return found

    def get_failures(self, keys: Iterable[str]) -> dict[str, StoredFailure]:
        """Return the failures of `keys` that match their checksums; one is deleted once the question is answered."""
        with as_user_error(self.path):
            columns = "key, error, attempts, runtime, updated"
            rows = {row[0]: row[1:] for row in _select(self.connection, f"SELECT {columns} FROM failures", keys)}
            kept = checksums.intact(self.connection, FAILURES, rows)
            return {key: StoredFailure(key, *rows[key][:2]) for key in rows if key in kept}

    def put_many(self, rows: Iterable[tuple[str, AnswerLike]], runtime: Mapping[str, Any] | None = None) -> None:
        """Store a batch of (response key, answer) in one transaction.

        An answer replaces a failure of its key; a second answer to a key is ignored. A failure raises the number of
        attempts of its key, and is ignored if another process has stored an answer.

        Parameters
        ----------
        rows : iterable of (str, AnswerLike)
            A row with an `error` is a failure, a row with a `text` an answer.
        runtime : Mapping, optional
            What is recorded but not part of the key: device, batch size, versions (JSON values).

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
            mark = put_runtime(self.connection, runtime or {})
            answers, failures = _split(batch, tries, mark, now)
            self.connection.executemany(PUT_ANSWER, answers)
            delete_failures(self.connection, [row[0] for row in answers if row[0] in failed])
            done = answered_keys(self.connection, [row[0] for row in failures])
            put_failures(self.connection, [row for row in failures if row[0] not in done])


PUT_ANSWER = """
INSERT OR IGNORE INTO answers (key, text, seconds, tokens, attempts, runtime, created, numbers, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
FAILURES = "failures"


def put_failures(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Store failures (key, error, attempts, runtime, updated) with their checksums, in the caller's transaction."""
    connection.executemany("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)", rows)
    checksums.put(connection, FAILURES, {row[0]: checksums.checksum(*row) for row in rows})


def delete_failures(connection: sqlite3.Connection, keys: Sequence[str]) -> None:
    """Delete failures with their checksums, in the caller's transaction."""
    connection.executemany("DELETE FROM failures WHERE key = ?", [(key,) for key in keys])
    checksums.delete(connection, FAILURES, keys)


def checked(fields: Sequence[Any], path: Path) -> StoredAnswer:
    """Return an answer from its columns and checksum."""
    answer = StoredAnswer._make(fields[:-1])
    if answer.checksum() != fields[-1]:  # also where one bit has turned a column of text into bytes
        raise _damaged(answer.key, path)
    return answer


def _split(
    batch: Sequence[tuple[str, AnswerLike]], tries: dict[str, int], runtime: str, now: float
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return the rows for the answers table and for the failures table."""
    answers: list[tuple[Any, ...]] = []
    failures: list[tuple[Any, ...]] = []
    for key, row in batch:
        tries[key] = tries.get(key, 0) + 1
        if row.error is not None:
            failures.append((key, _storable(row.error), tries[key], runtime, now))
        elif row.text is None:
            raise ValueError(f"the row of key {key} has neither a text nor an error")
        else:
            numbers = None if row.numbers is None else canonical_json(dict(row.numbers)).decode()
            kept = StoredAnswer(
                key, _storable(row.text), float(row.seconds), int(row.tokens), tries[key], runtime, now, numbers
            )
            answers.append((*kept, kept.checksum()))
    return answers, failures


def _storable(text: str) -> str:
    """Return `text` with lone surrogates, which UTF-8 cannot encode, replaced by the replacement character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _select(connection: sqlite3.Connection, head: str, keys: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `head ... WHERE key IN keys`, a chunk of keys at a time."""
    wanted = list(dict.fromkeys(keys))
    for start in range(0, len(wanted), _CHUNK):
        chunk = wanted[start : start + _CHUNK]
        marks = ",".join("?" * len(chunk))
        yield from connection.execute(f"{head} WHERE key IN ({marks})", chunk)


def answered_keys(connection: sqlite3.Connection, keys: Sequence[str]) -> set[str]:
    """Return which of `keys` have an answer."""
    return _keys_in(connection, "answers", keys)


def _keys_in(connection: sqlite3.Connection, table: str, keys: Sequence[str]) -> set[str]:
    return {str(key) for (key,) in _select(connection, f"SELECT key FROM {table}", keys)}


def _damaged(key: str, path: Path) -> Fp2Error:
    return Fp2Error(
        f"the stored answer {key} does not match its checksum: it was changed or the disk is failing",
        where=str(path),
        fix="Restore the file from a copy, or move it away and run again to ask the model again",
    )
