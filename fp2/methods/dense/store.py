"""Dense storage of answers to yes/no questions: one array per context and question set in place of a row per answer.

A *context* is everything except the question that an answer depends on: the model and the stimulus (`context_key`). A
*question* is identified by its text, its kind and the method by which it is asked (`question_key`). A *question set*
is a list of questions, stored once. An array holds the answers of one context to one set: the float32 numbers of
`YES_NO_NUMBERS`, compressed without loss, NaN where a question has no answer or an answer lacks a number (some servers
return no mass). Questions that two sets share are found in the arrays of both.

A number is written once and never changed. A failure is stored separately with its reason, and is never returned as an
answer. Arrays and failures have checksums: a damaged array is refused, a damaged failure is forgotten. The tables
(`blocks` holds the arrays) are in the response store's file, from the first run on whose answers are dense.
"""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fp2.extension import (
    YES_NO_NUMBERS,
    Fp2Error,
    as_user_error,
    checksum,
    delete_checksums,
    digest,
    has_table,
    intact,
    put_checksums,
    put_runtime,
    transaction,
)

if TYPE_CHECKING:
    from fp2.extension import Question

KEY_SCHEMA = 1
_CHUNK = 400  # contexts in one SELECT
_LONGEST_WRITE = 60.0  # seconds; a transaction waits for others before it begins
_LEVEL = 6
_WIDTH = len(YES_NO_NUMBERS)

_TABLES = """
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
) WITHOUT ROWID
"""

FailureRow = tuple[bytes, bytes, str, int, str, float]
Numbers = NDArray[np.float32]
Places = NDArray[np.int64]


def context_key(
    engine: Mapping[str, object],
    pixel_sha256: str,
    variant: str,
    params: Mapping[str, object],
    task: Mapping[str, object],
) -> str:
    """Return the hex SHA-256 of the engine (`Engine.identity()`) and the stimulus.

    `task` is `Engine.task_identity(task)`, empty for a real model. Together with `question_key` it covers what a
    response key (`fp2.store.response_keys.ResponseKeys`) covers.

    Raises
    ------
    ValueError
        If a float among the parameters is NaN or infinite.
    """
    stimulus = {"pixels": pixel_sha256, "variant": variant, "params": dict(params)}
    return digest({"schema": KEY_SCHEMA, "engine": dict(engine), "picture": stimulus, "task": dict(task)})


def question_key(question: Question, method: Mapping[str, object]) -> str:
    """Return the hex SHA-256 of a yes/no question's text and of `Engine.method(question)`."""
    return digest({"schema": KEY_SCHEMA, "text": question.text, "kind": question.kind, "method": dict(method)})


def response_set_of(contexts: Iterable[str], questions: Iterable[str]) -> str:
    """Return the digest of contexts x questions (their keys, in any order)."""
    requested = {"contexts": sorted(set(contexts)), "questions": sorted(set(questions))}
    return digest({"schema": KEY_SCHEMA, **requested})


@dataclass(frozen=True)
class QuestionSet:
    """Distinct question keys (hex), in the order of an array's columns."""

    questions: tuple[str, ...]

    @cached_property
    def key(self) -> bytes:
        """Digest of the question keys in their order."""
        return bytes.fromhex(digest({"schema": KEY_SCHEMA, "questions": list(self.questions)}))

    @cached_property
    def place(self) -> dict[str, int]:
        """Question key -> column."""
        return {question: column for column, question in enumerate(self.questions)}


@dataclass(frozen=True)
class Piece:
    """New answers of one context: numbers of shape (`YES_NO_NUMBERS`, k) for the columns `places` (k), and failures.

    `seconds` is the wall time of the answers; `failures` are pairs of column and reason.
    """

    context: str
    places: Places
    numbers: Numbers
    failures: tuple[tuple[int, str], ...] = ()
    seconds: float = 0.0


class DenseStore:
    """The dense answers of a response store, which several processes may write; an instance belongs to one thread."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection, self.path = connection, path
        self._sets: dict[bytes, QuestionSet] = {}

    @cached_property
    def _exists(self) -> bool:
        """Whether the store had the tables when they were first read or written."""
        return has_table(self.connection, "blocks")

    def create(self) -> None:
        """Create the tables that are not there, in the caller's transaction."""
        for statement in _TABLES.split(";"):
            self.connection.execute(statement)
        self._exists = True

    def register(self, wanted: QuestionSet) -> None:
        """Store the questions of a set, unless they are stored already.

        Raises
        ------
        ValueError
            If a question comes twice.
        """
        if len(wanted.place) < len(wanted.questions):
            raise ValueError("a question comes twice in a set")
        with transaction(self.connection, self.path):
            self.create()
            self.add_question_set(wanted)

    def add_question_set(self, wanted: QuestionSet) -> None:
        """Store the questions of a set in the caller's transaction, unless they are stored already."""
        body = zlib.compress(bytes.fromhex("".join(wanted.questions)))
        row = (wanted.key, body, checksum(wanted.key, body))
        self.connection.execute("INSERT OR IGNORE INTO question_sets VALUES (?, ?, ?)", row)

    def read(self, contexts: Sequence[str], wanted: QuestionSet) -> Iterator[tuple[str, Numbers]]:
        """Yield (context, numbers) of the contexts with an answer to any question of `wanted`.

        Numbers have the shape (`YES_NO_NUMBERS`, questions of the set) and are NaN where there is no answer.
        """
        for start in range(0, len(contexts) if self._exists else 0, _CHUNK):
            keys = [bytes.fromhex(context) for context in contexts[start : start + _CHUNK]]
            numbers_of: dict[bytes, Numbers] = {}
            for context, question_set, numbers in self._rows(keys):
                if question_set == wanted.key:
                    _fill(numbers_of, context, numbers)
                    continue
                columns, other_columns = self.shared(question_set, wanted)
                if len(columns):
                    shared_numbers = np.full((_WIDTH, len(wanted.questions)), np.nan, np.float32)
                    shared_numbers[:, columns] = numbers[:, other_columns]
                    _fill(numbers_of, context, shared_numbers)
            for context, numbers in numbers_of.items():
                if answered(numbers).any():
                    yield context.hex(), numbers

    def failures(self, contexts: Iterable[str], wanted: QuestionSet) -> dict[tuple[str, int], tuple[str, int]]:
        """Return (context, column) -> (reason, number of attempts) of the questions of a set that only failed."""
        failures = {}
        with as_user_error(self.path):
            for context in contexts if self._exists else ():
                for question, (error, attempts) in self._failures(bytes.fromhex(context)).items():
                    column = wanted.place.get(question.hex())
                    if column is not None:
                        failures[context, column] = (error, attempts)
        return failures

    def _failures(self, context: bytes) -> dict[bytes, tuple[str, int]]:
        """Return question -> (reason, number of attempts) of a context, as far as they match their checksums."""
        query = "SELECT question, error, attempts, runtime, updated FROM block_failures WHERE context = ?"
        rows: dict[bytes, tuple[Any, ...]] = {
            context + question: rest for question, *rest in self.connection.execute(query, (context,))
        }
        return {key[32:]: rows[key][:2] for key in intact(self.connection, FAILURES, rows)}

    def put(self, pieces: Sequence[Piece], wanted: QuestionSet, runtime: Mapping[str, object] | None = None) -> None:
        """Store new answers in one transaction; numbers that are stored already do not change.

        An answer replaces a failure; a failure raises the question's number of attempts, and is ignored if there is an
        answer.
        """
        with transaction(self.connection, self.path):
            now = time.time()
            mark = put_runtime(self.connection, runtime or {})
            for piece in pieces:
                self._put(piece, wanted, mark, now)

    def _put(self, piece: Piece, wanted: QuestionSet, mark: str, now: float) -> None:
        context = bytes.fromhex(piece.context)
        before, seconds = self._own(context, wanted)
        numbers = before.copy()
        new = np.full_like(numbers, np.nan)
        new[:, piece.places] = piece.numbers
        _merge(numbers, new)
        has_answer = answered(numbers)
        if len(piece.places):
            row = Row(context, wanted.key, int(has_answer.sum()), packed(numbers), seconds + piece.seconds, mark, now)
            self.connection.execute(PUT_BLOCK, (*row.fields, row.checksum()))
            delete_failures(
                self.connection, [(context, bytes.fromhex(wanted.questions[column])) for column in piece.places]
            )
        failed = {
            bytes.fromhex(wanted.questions[column]): error for column, error in piece.failures if not has_answer[column]
        }
        if failed:
            failures = self._failures(context)
            tries = {question: failures[question][1] + 1 if question in failures else 1 for question in failed}
            put_failures(
                self.connection,
                [(context, question, error, tries[question], mark, now) for question, error in failed.items()],
            )

    def seconds_of(self, contexts: Iterable[str]) -> tuple[float, int]:
        """Return the total seconds and the number of the stored answers of `contexts`."""
        query = "SELECT seconds, answered FROM blocks WHERE context = ?"
        seconds, count = 0.0, 0
        for context in contexts if self._exists else ():
            for took, number in self.connection.execute(query, (bytes.fromhex(context),)):
                seconds, count = seconds + took, count + number
        return seconds, count

    def _own(self, context: bytes, wanted: QuestionSet) -> tuple[Numbers, float]:
        """Return the numbers of a set's own array, and the seconds of its answers so far."""
        query = f"SELECT {COLUMNS} FROM blocks WHERE context = ? AND question_set = ?"
        for fields in self.connection.execute(query, (context, wanted.key)):
            row = self.checked(fields)
            return self.unpacked(row, len(wanted.questions)), row.seconds
        return np.full((_WIDTH, len(wanted.questions)), np.nan, np.float32), 0.0

    def _rows(self, contexts: Sequence[bytes]) -> Iterator[tuple[bytes, bytes, Numbers]]:
        """Yield (context, question set, numbers) of every array of `contexts`."""
        marks = ",".join("?" * len(contexts))
        query = f"SELECT {COLUMNS} FROM blocks WHERE context IN ({marks})"
        with as_user_error(self.path):
            for fields in self.connection.execute(query, contexts):
                row = self.checked(fields)
                numbers = self.unpacked(row, len(self.question_set(row.question_set).questions))
                yield row.context, row.question_set, numbers

    def shared(self, other: bytes, wanted: QuestionSet) -> tuple[Places, Places]:
        """Return the columns in `wanted`, and in the other set, of the questions that both have."""
        theirs = self.question_set(other).place
        pairs = [(column, theirs[key]) for key, column in wanted.place.items() if key in theirs]
        columns, other_columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return columns, other_columns

    def question_set(self, key: bytes) -> QuestionSet:
        """Return the stored question set with a digest; raises `Fp2Error` if it is damaged or missing."""
        if key not in self._sets:
            query = "SELECT questions, checksum FROM question_sets WHERE digest = ?"
            row = self.connection.execute(query, (key,)).fetchone()
            if row is None or checksum(key, row[0]) != row[1]:
                raise _damaged("a question set", key, self.path)
            body = zlib.decompress(row[0])
            self._sets[key] = QuestionSet(tuple(body[at : at + 32].hex() for at in range(0, len(body), 32)))
        return self._sets[key]

    def checked(self, fields: Sequence[Any]) -> Row:
        """Return a row of `blocks`, selected by `COLUMNS`; raises `Fp2Error` if it does not match its checksum."""
        row = Row(*fields[:-1])
        if row.checksum() != fields[-1]:
            raise _damaged("an array of answers", row.context, self.path)
        return row

    def unpacked(self, row: Row, questions: int) -> Numbers:
        """Return the numbers of a row, (`YES_NO_NUMBERS`, questions)."""
        raw = zlib.decompress(row.numbers)
        if len(raw) != 4 * _WIDTH * questions:
            raise _damaged("an array of answers", row.context, self.path)
        planes = np.frombuffer(raw, np.uint8).reshape(4, -1)
        numbers: Numbers = np.ascontiguousarray(planes.T).view("<f4").reshape(_WIDTH, questions)
        return numbers.astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of `blocks` without its checksum."""

    context: bytes
    question_set: bytes
    answered: int
    numbers: bytes
    seconds: float
    runtime: str
    updated: float

    @property
    def fields(self) -> tuple[object, ...]:
        """The columns in the order of the table."""
        return (
            self.context,
            self.question_set,
            self.answered,
            self.numbers,
            self.seconds,
            self.runtime,
            self.updated,
        )

    def checksum(self) -> bytes:
        """Return a digest of all columns in 16 bytes."""
        plain = f"{self.answered}\0{self.seconds!r}\0{self.runtime}\0{self.updated!r}".encode()
        return checksum(self.context, self.question_set, self.numbers, plain)


COLUMNS = "context, question_set, answered, numbers, seconds, runtime, updated, checksum"
PUT_BLOCK = "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
FAILURES = "block_failures"


def put_failures(connection: sqlite3.Connection, rows: Sequence[FailureRow]) -> None:
    """Store failures (context, question, error, attempts, runtime, updated) with their checksums."""
    connection.executemany("INSERT OR REPLACE INTO block_failures VALUES (?, ?, ?, ?, ?, ?)", rows)
    sums = {row[0] + row[1]: checksum(row[0] + row[1], *row[2:]) for row in rows}
    put_checksums(connection, FAILURES, sums)


def delete_failures(connection: sqlite3.Connection, keys: Sequence[tuple[bytes, bytes]]) -> None:
    """Delete the failures of (context, question) with their checksums."""
    connection.executemany("DELETE FROM block_failures WHERE context = ? AND question = ?", keys)
    delete_checksums(connection, FAILURES, [context + question for context, question in keys])


def answered(numbers: Numbers) -> NDArray[np.bool_]:
    """Return which questions of numbers (..., `YES_NO_NUMBERS`, questions) have an answer, that is, any number."""
    return np.asarray(~np.isnan(numbers).all(axis=-2))


def written_since(
    connection: sqlite3.Connection, keys: Sequence[str], when: float, n_known: Callable[[str], int]
) -> set[str]:
    """Return which of `keys` (context and question set, in hex) have an array that was written after `when` (s).

    An array has the time at which its transaction began. One that began shortly before `when` may have ended after it:
    it counts if it has more answers than are known of its context (`n_known`).
    """
    query = "SELECT updated, answered FROM blocks WHERE context = ? AND question_set = ? AND updated > ?"
    written = set()
    for key in keys:
        where = (bytes.fromhex(key[:64]), bytes.fromhex(key[64:]), when - _LONGEST_WRITE)
        row = connection.execute(query, where).fetchone()
        if row and (row[0] > when or row[1] > n_known(key[:64])):
            written.add(key)
    return written


def _merge(numbers: Numbers, more: Numbers) -> None:
    """Copy from `more` the questions to which `numbers` has no answer."""
    missing = ~answered(numbers)
    numbers[:, missing] = more[:, missing]


def _fill(numbers_of: dict[bytes, Numbers], context: bytes, more: Numbers) -> None:
    if context in numbers_of:
        _merge(numbers_of[context], more)
    else:
        numbers_of[context] = more


def packed(numbers: Numbers) -> bytes:
    """Return the compressed numbers, with the first bytes of all numbers before their second bytes, and so on."""
    raw = np.ascontiguousarray(numbers, dtype="<f4").view(np.uint8).reshape(-1, 4)
    return zlib.compress(np.ascontiguousarray(raw.T).tobytes(), _LEVEL)


def _damaged(noun: str, key: bytes, path: Path) -> Fp2Error:
    fix = "Restore the file from a copy, or move it away and run again to ask the model again"
    problem = f"{noun} ({key.hex()}) does not match its checksum: it was changed or the disk is failing"
    return Fp2Error(problem, where=str(path), fix=fix)
