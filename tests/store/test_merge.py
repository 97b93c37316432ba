"""Merging stores, and looking in a second one: nothing is lost, nothing is changed, conflicts are refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from bench import fp2

from fp2.errors import Fp2Error
from fp2.store import merge, origins
from fp2.store.merge import merge_stores, take_answers
from fp2.store.response_keys import response_set
from fp2.store.rows import ResponseStore, distinct, stored_keys
from fp2.tables import Answer

KEYS = [f"{k:02x}" * 32 for k in range(256)]
PICTURE = ("table", "", "image", "subject", "/a.png")


def text(said: str, **fields: object) -> Answer:
    return Answer("i", "q", said, seconds=0.5, tokens=2, **fields)  # type: ignore[arg-type]


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two stores that share an answer and an image."""
    paths = (tmp_path / "a.sqlite", tmp_path / "b.sqlite")
    for path, own in zip(paths, (1, 2), strict=True):
        with ResponseStore(path) as store:
            numbers = text("Yes", numbers={"p_yes": 0.1 + 0.2})
            store.put_many([(KEYS[0], text("both")), (KEYS[own], text(f"of {own}")), (KEYS[own + 2], numbers)])
            store.put_many([(KEYS[6 + own], Answer("i", "q", None, "no"))], {"run": own})
            origins.create_tables(store.connection)
            store.connection.execute("INSERT INTO salts VALUES ('one')")
            origins.add(store.connection, path, PICTURE, [bytes.fromhex(KEYS[k]) for k in (0, own)])
    return paths


@pytest.mark.package(name="maintenance")
def test_a_merged_store_has_what_each_has_and_is_intact(two: tuple[Path, Path], tmp_path: Path) -> None:
    with ResponseStore(two[1]) as second:  # failed in the first store, answered in the second
        second.put_many([(KEYS[7], text("at last"))])
    before = [path.read_bytes() for path in two]
    assert fp2("store", "merge", *map(str, two), "--into", str(tmp_path / "c.sqlite")) == 0
    assert [path.read_bytes() for path in two] == before
    assert fp2("store", "check", str(tmp_path / "c.sqlite")) == 0
    with ResponseStore(tmp_path / "c.sqlite") as merged, ResponseStore(two[0]) as a, ResponseStore(two[1]) as b:
        both = {**b.get_many(KEYS), **a.get_many(KEYS)}
        assert merged.get_many(KEYS) == both
        assert len(both) == 6
        assert set(merged.get_failures(KEYS)) == {KEYS[8]}
        runtimes = {row for s in (a, b) for row in s.connection.execute("SELECT * FROM runtimes")}
        assert set(merged.connection.execute("SELECT * FROM runtimes")) == runtimes
        images = origins.recorded_images(merged.connection, merged.path)
        assert origins.keys_of(merged.connection, merged.path, images) == set(KEYS[:3])
    assert os.stat(tmp_path / "c.sqlite").st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(".*.draft*"))


@pytest.mark.package(name="maintenance")
def test_conflicting_answers_are_named_and_nothing_is_merged(
    two: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ResponseStore(two[0]) as store:
        store.connection.execute("DELETE FROM answers WHERE key = ?", (KEYS[0],))
        store.put_many([(KEYS[0], text("other"))])
    assert fp2("store", "merge", *map(str, two), "--into", str(tmp_path / "c.sqlite")) == 2
    err = capsys.readouterr().err
    assert "1 answer differs between the stores" in err
    assert KEYS[0] in err
    assert not [*tmp_path.glob(".*.draft*"), *tmp_path.glob("c.*")]


def test_answers_of_a_storage_that_is_not_installed_are_not_lost(
    two: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "stored_kinds", list)
    with ResponseStore(two[1]) as store:
        store.connection.execute("CREATE TABLE blocks (context BLOB, numbers BLOB)")
    merge_stores(two, tmp_path / "c.sqlite")
    with ResponseStore(two[1]) as store:
        store.connection.execute("INSERT INTO blocks VALUES (X'00', X'00')")
    with pytest.raises(Fp2Error, match="no installed package merges the rows of blocks"):
        merge_stores(two, tmp_path / "d.sqlite")


@pytest.mark.package(name="maintenance")
def test_what_cannot_be_merged_is_refused(two: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(Fp2Error, match="the file exists"):
        merge_stores(two, two[1])
    with ResponseStore(two[1]) as store:
        store.connection.execute("UPDATE salts SET id = 'another'")
    with pytest.raises(Fp2Error, match="different salts"):
        merge_stores(two, tmp_path / "c.sqlite")
    with ResponseStore(two[1]) as store:
        store.connection.execute("UPDATE salts SET id = 'one'")
        store.connection.execute("UPDATE answers SET text = 'changed' WHERE key = ?", (KEYS[2],))
    with pytest.raises(Fp2Error, match=f"{KEYS[2]} does not match"):
        merge_stores(two, tmp_path / "c.sqlite")
    assert fp2("store", "check", str(two[1])) == 1
    assert fp2("store", "merge", str(two[0]), str(two[0]), "--into", str(tmp_path / "c.sqlite")) == 2
    assert not (tmp_path / "c.sqlite").exists()


def test_answers_are_copied_from_a_seed_that_cannot_be_written(two: tuple[Path, Path], tmp_path: Path) -> None:
    two[1].chmod(0o444)
    before = two[1].read_bytes()
    with ResponseStore(tmp_path / "own.sqlite", seeds=two) as store:
        store.put_many([(KEYS[1], text("mine"))])
        take_answers(store, KEYS)
        found = store.get_many(KEYS)
        assert {key: answer.text for key, answer in found.items()} == {
            KEYS[0]: "both",
            KEYS[1]: "mine",
            KEYS[2]: "of 2",
            KEYS[3]: "Yes",
            KEYS[4]: "Yes",
        }
        assert store.get_failures(KEYS) == {}
    assert two[1].read_bytes() == before
    with pytest.raises(Fp2Error, match="no response store"):
        ResponseStore(tmp_path / "own.sqlite", seeds=[tmp_path / "absent.sqlite"])


@pytest.mark.parametrize("planned", [3, 5000])
def test_the_index_finds_what_is_stored_whether_keys_are_looked_up_or_scanned(tmp_path: Path, planned: int) -> None:
    """The scan compares integers: also keys that share their first 64 bits, and those of all zeros and ones."""
    rng = np.random.default_rng(1)
    body = rng.integers(0, 256, (planned, 32), dtype=np.uint8)
    body[:3] = [[0] * 32, [255] * 32, [7] * 32]
    body = np.concatenate([body, body[:2]])
    body[-2:, 31] ^= 1  # the same first 64 bits
    keys, place = distinct(body)
    assert [keys[at].tobytes() for at in place] == [row.tobytes() for row in body]
    assert [key.tobytes() for key in keys] == sorted({row.tobytes() for row in body})
    stored = {key.tobytes().hex() for key in keys[::2]}
    with ResponseStore(tmp_path / "s.sqlite") as store:
        store.put_many([(key, text("x" * 200)) for key in sorted(stored)])
        store.put_many([(f"{k + 16**30:064x}", text("another plan")) for k in range(2000)])
        found = stored_keys(store, keys)
    assert [key.tobytes().hex() in stored for key in keys] == found.tolist()


def test_the_response_set_is_the_digest_of_the_sorted_list() -> None:
    from fp2.hashing import digest

    for n in (0, 1, 999, 1000, 1001, 2500):
        keys = [f"{k:x}" for k in range(n)]
        assert response_set([*keys[::-1], *keys[:3]]) == digest(sorted(keys))
