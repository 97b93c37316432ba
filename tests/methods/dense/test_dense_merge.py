"""Merging stores with arrays, and taking arrays from a second store: nothing is lost, conflicts are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fp2.errors import Fp2Error
from fp2.methods.dense.merge import take_blocks
from fp2.methods.dense.store import DenseStore, Piece, QuestionSet
from fp2.store.merge import count_rows, merge_stores
from fp2.store.rows import ResponseStore
from fp2.tables import YES_NO_NUMBERS

KEYS = [f"{k:02x}" * 32 for k in range(256)]
WIDE, NARROW = QuestionSet(tuple(KEYS[:3])), QuestionSet((KEYS[2], KEYS[9]))


def piece(context: str, places: list[int], *values: float) -> Piece:
    return Piece(context, np.array(places), np.tile(np.array(values, np.float32), (len(YES_NO_NUMBERS), 1)), (), 1.5)


def dense(store: ResponseStore, wanted: QuestionSet, *pieces: Piece) -> None:
    read = DenseStore(store.connection, store.path)
    read.register(wanted)
    read.put(pieces, wanted, {"device": "cpu"})


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two stores that share an array; of another, each has one of two answers."""
    paths = (tmp_path / "a.sqlite", tmp_path / "b.sqlite")
    for path, own in zip(paths, (1, 2), strict=True):
        with ResponseStore(path) as store:
            dense(store, WIDE, piece(KEYS[20], [0], 0.25), piece(KEYS[20 + own], [0, own], 0.5, own / 8))
            dense(store, WIDE, piece(KEYS[30], [own], own / 4))
    return paths


def test_a_merged_store_has_the_arrays_of_each(two: tuple[Path, Path], tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "empty.sqlite"):
        pass
    counts = merge_stores([*two, tmp_path / "empty.sqlite"], tmp_path / "c.sqlite")
    assert counts == count_rows(tmp_path / "c.sqlite")
    assert counts["blocks"] == 4
    with ResponseStore(tmp_path / "c.sqlite") as merged:
        read = dict(DenseStore(merged.connection, merged.path).read(KEYS, WIDE))
    assert sorted(read) == [KEYS[20], KEYS[21], KEYS[22], KEYS[30]]
    np.testing.assert_array_equal(read[KEYS[30]][0], [np.nan, 0.25, 0.5])  # each had one of the two


def change_array(store: ResponseStore) -> None:
    store.connection.execute("DELETE FROM blocks WHERE context = ?", (bytes.fromhex(KEYS[20]),))
    dense(store, WIDE, piece(KEYS[20], [0], 0.26))


def change_in_another_set(store: ResponseStore) -> None:
    """The question KEYS[2], about KEYS[22], has 0.25 in the array of the set `WIDE`."""
    dense(store, NARROW, piece(KEYS[22], [0], 0.75))


@pytest.mark.parametrize(("change", "key"), [(change_array, KEYS[20]), (change_in_another_set, KEYS[22])])
def test_conflicting_answers_are_named_and_nothing_is_merged(
    two: tuple[Path, Path], tmp_path: Path, change: Callable[[ResponseStore], None], key: str
) -> None:
    with ResponseStore(two[0]) as store:
        change(store)
    with pytest.raises(Fp2Error, match=f"1 answer differs between the stores: {key}"):
        merge_stores(two, tmp_path / "c.sqlite")
    assert not [*tmp_path.glob(".*.draft*"), *tmp_path.glob("c.*")]


def test_arrays_are_copied_from_a_seed_that_cannot_be_written(two: tuple[Path, Path], tmp_path: Path) -> None:
    two[1].chmod(0o444)
    before = two[1].read_bytes()
    with ResponseStore(tmp_path / "own.sqlite", seeds=two) as store:
        take_blocks(store, KEYS)
        assert len(list(DenseStore(store.connection, store.path).read(KEYS, WIDE))) == 4
    assert two[1].read_bytes() == before
