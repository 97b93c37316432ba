"""Blocks of yes/no numbers: kept exactly, completed and never changed, shared between sets, refused if damaged."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fp2.errors import Fp2Error
from fp2.methods.dense.store import (
    DenseStore,
    Numbers,
    Piece,
    QuestionSet,
    answered,
    context_key,
    question_key,
)
from fp2.store import origins
from fp2.store.rows import ResponseStore
from fp2.tables import YES_NO_NUMBERS, Question

WIDTH = len(YES_NO_NUMBERS)
QUESTIONS = tuple(question_key(Question(f"q{k}", "p", f"Is it {k}?", "yes_no"), {"name": "m/1"}) for k in range(9))
HERE, THERE = (context_key({"engine": "e"}, pixels, "original", {}, {}) for pixels in ("a", "b"))


def numbers(n: int, seed: int = 0) -> Numbers:
    """Float32 numbers of every kind: tiny, denormal, negative, and a column that some answers lack."""
    rng = np.random.default_rng(seed)
    values = np.exp(rng.normal(-20, 25, (WIDTH, n))).astype(np.float32)
    values[6] = rng.normal(0, 30, n)
    values[2, ::3] = np.nan
    values[0] = np.maximum(values[0], np.float32(1e-42))
    return values


def piece(context: str, places: list[int], values: Numbers, *failures: tuple[int, str], seconds: float = 0.5) -> Piece:
    return Piece(context, np.array(places, dtype=np.int64), values, failures, seconds)


def only(store: DenseStore, context: str, wanted: QuestionSet) -> Numbers:
    ((found, values),) = store.read([context], wanted)
    assert found == context
    return values


@pytest.fixture
def store(tmp_path: Path) -> DenseStore:
    opened = ResponseStore(tmp_path / "s.sqlite")
    return DenseStore(opened.connection, opened.path)


def registered(store: DenseStore, *places: int) -> QuestionSet:
    wanted = QuestionSet(tuple(QUESTIONS[place] for place in places))
    store.register(wanted)
    return wanted


def test_numbers_come_back_bit_by_bit(store: DenseStore) -> None:
    wanted, values = registered(store, *range(9)), numbers(9)
    store.put([piece(HERE, list(range(9)), values)], wanted)
    assert only(store, HERE, wanted).tobytes() == values.tobytes()
    assert not list(store.read([THERE], wanted))


def test_a_block_is_completed_and_what_it_has_never_changes(store: DenseStore) -> None:
    wanted, first, second = registered(store, 0, 1, 2, 3), numbers(2, 1), numbers(3, 2)
    store.put([piece(HERE, [0, 2], first, (1, "no luck"))], wanted)
    assert answered(only(store, HERE, wanted)).tolist() == [True, False, True, False]
    assert store.failures([HERE, THERE], wanted) == {(HERE, 1): ("no luck", 1)}
    store.put([piece(HERE, [2, 1, 3], second, (0, "too late"))], wanted)
    found = only(store, HERE, wanted)
    expected = np.stack([first[:, 0], second[:, 1], first[:, 1], second[:, 2]], axis=1)
    np.testing.assert_array_equal(found, expected)
    assert store.failures([HERE], wanted) == {}
    assert store.connection.execute("SELECT answered FROM blocks").fetchall() == [(4,)]
    assert store.seconds_of([HERE, THERE]) == (1.0, 4)


def test_failures_count_their_attempts_and_keep_the_last_reason(store: DenseStore) -> None:
    wanted, none = registered(store, 0, 1), numbers(0)
    store.put([piece(HERE, [], none, (0, "first"), (1, "other"))], wanted)
    store.put([piece(HERE, [], none, (0, "second"))], wanted)
    assert store.failures([HERE], wanted) == {(HERE, 0): ("second", 2), (HERE, 1): ("other", 1)}
    assert not list(store.read([HERE], wanted))


def test_a_question_is_found_in_the_blocks_of_other_sets(store: DenseStore) -> None:
    old, new = registered(store, 4, 1, 0), registered(store, 0, 1, 2, 3)
    values, more = numbers(3, 3), numbers(1, 4)
    store.put([piece(HERE, [0, 1, 2], values)], old)
    found = only(store, HERE, new)
    assert answered(found).tolist() == [True, True, False, False]
    np.testing.assert_array_equal(found[:, :2], values[:, [2, 1]])
    store.put([piece(HERE, [3], more)], new)
    found = only(store, HERE, new)
    np.testing.assert_array_equal(found[:, [0, 1, 3]], np.concatenate([values[:, [2, 1]], more], axis=1))
    assert only(store, HERE, old)[:, 0].tobytes() == values[:, 0].tobytes()
    unrelated = registered(store, 7, 8)
    assert not list(store.read([HERE], unrelated))


def test_many_contexts_are_read_in_chunks(store: DenseStore) -> None:
    wanted = registered(store, 0, 1)
    contexts = [context_key({}, str(k), "original", {}, {}) for k in range(900)]
    values = numbers(2)
    store.put([piece(context, [0, 1], values + np.float32(k)) for k, context in enumerate(contexts)], wanted)
    found = dict(store.read(contexts, wanted))
    assert len(found) == 900
    np.testing.assert_array_equal(found[contexts[777]], values + np.float32(777))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE blocks SET numbers = X'00'",
        "UPDATE blocks SET answered = 1",
        "UPDATE blocks SET seconds = 9",
        "UPDATE blocks SET context = X'{there}'",
        "UPDATE blocks SET checksum = X'00'",
        "UPDATE question_sets SET questions = X'00'",
        "DELETE FROM question_sets",
    ],
)
def test_a_damaged_row_is_refused(tmp_path: Path, change: str) -> None:
    with ResponseStore(tmp_path / "s.sqlite") as opened:
        store = DenseStore(opened.connection, opened.path)
        wanted = registered(store, 0, 1, 2)
        store.put([piece(HERE, [0, 1], numbers(2))], wanted)
        opened.connection.execute(change.format(there=THERE))
    with ResponseStore(tmp_path / "s.sqlite") as opened:
        store = DenseStore(opened.connection, opened.path)
        with pytest.raises(Fp2Error, match="does not match its checksum"):
            list(store.read([HERE, THERE], QuestionSet((QUESTIONS[8], QUESTIONS[0]))))
        if change.startswith("UPDATE blocks SET numbers"):
            with pytest.raises(Fp2Error, match="does not match its checksum"):
                store.put([piece(HERE, [2], numbers(1))], wanted)


def test_a_question_twice_in_a_set_is_refused(store: DenseStore) -> None:
    with pytest.raises(ValueError, match="twice"):
        registered(store, 1, 1)


def test_a_failed_transaction_leaves_nothing_half_done(store: DenseStore) -> None:
    wanted = registered(store, 0, 1)
    with pytest.raises(IndexError):
        store.put([piece(HERE, [0], numbers(1)), piece(THERE, [5], numbers(1))], wanted)
    assert not list(store.read([HERE, THERE], wanted))


def test_origins_know_contexts_and_forget_their_blocks(store: DenseStore) -> None:
    wanted = registered(store, 0, 1)
    store.put([piece(c, [0], numbers(1), (1, "no")) for c in (HERE, THERE)], wanted)
    assert origins.all_keys(store.connection, store.path) == {HERE, THERE}
    gone = origins.delete(store.connection, store.path, {HERE}, [], [])
    assert (gone["blocks"], gone["block_failures"]) == (1, 1)
    assert [context for context, _ in store.read([HERE, THERE], wanted)] == [THERE]
    assert origins.all_keys(store.connection, store.path) == {THERE}


def _writer(path: str, worker: int, contexts: list[str]) -> None:
    with ResponseStore(Path(path)) as opened:
        store = DenseStore(opened.connection, opened.path)
        wanted = registered(store, *range(8))
        for context in contexts:
            store.put([piece(context, [worker, worker + 4], numbers(2, worker))], wanted)


def test_processes_that_write_at_once_complete_each_others_blocks(tmp_path: Path) -> None:
    path, contexts = tmp_path / "s.sqlite", [context_key({}, str(k), "original", {}, {}) for k in range(25)]
    workers = [multiprocessing.Process(target=_writer, args=(str(path), worker, contexts)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    with ResponseStore(path) as opened:
        store = DenseStore(opened.connection, opened.path)
        wanted = QuestionSet(QUESTIONS[:8])
        found = dict(store.read(contexts, wanted))
        assert len(found) == 25
        for values in found.values():
            for place in range(4):
                np.testing.assert_array_equal(values[:, [place, place + 4]], numbers(2, place))


def test_the_keys_follow_what_changes_an_answer() -> None:
    question, method = Question("q", "p", "Is it?", "yes_no"), {"name": "m/1"}
    named = Question("other", "probe", "Is it?", "yes_no", "T", "kind")
    assert question_key(question, method) == question_key(named, method)
    assert question_key(question, method) != question_key(question, {"name": "m/2"})
    base: tuple[Any, ...] = ({"engine": "e"}, "pixels", "original", {}, {})
    others = [
        ({"engine": "f"}, *base[1:]),
        (base[0], "other", *base[2:]),
        (*base[:2], "grey", {}, {}),
        (*base[:3], {"size": 8}, {}),
        (*base[:4], {"person": "x"}),
    ]
    assert len({context_key(*base), *(context_key(*other) for other in others)}) == 6


def test_a_changed_failure_is_forgotten(store: DenseStore) -> None:
    wanted = registered(store, 0, 1)
    for _ in range(2):
        store.put([piece(HERE, [], numbers(0), (0, "no"), (1, "never"))], wanted)
    assert store.failures([HERE], wanted) == {(HERE, 0): ("no", 2), (HERE, 1): ("never", 2)}
    question = bytes.fromhex(wanted.questions[0])
    store.connection.execute("UPDATE block_failures SET attempts = 9 WHERE question = ?", (question,))
    assert store.failures([HERE], wanted) == {(HERE, 1): ("never", 2)}
