"""Checksums of rows without a column for one: damage to failures and origins is found, and rows of 0.3.0 are read."""

from __future__ import annotations

import lzma
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from fp2.engines.server.report import Report, ServerReports
from fp2.errors import Fp2Error
from fp2.store import origins
from fp2.store.integrity import count_checked, damaged_rows
from fp2.store.merge import merge_stores
from fp2.store.rows import ResponseStore
from fp2.tables import YES_NO_NUMBERS, Answer

pytestmark = [pytest.mark.package(name=name) for name in ("dense", "dual", "fhibe")]  # their rows are checked too

A, B, C = ("aa" * 32, "bb" * 32, "cc" * 32)
PICTURE = ("table", "", "image", "subject", "/a.png")


@pytest.fixture
def store(tmp_path: Path):
    with ResponseStore(tmp_path / "store.sqlite") as opened:
        origins.create_tables(opened.connection)
        yield opened


def keys_of(store: ResponseStore) -> set[str]:
    return origins.keys_of(store.connection, store.path, origins.recorded_images(store.connection, store.path))


@pytest.mark.parametrize("change", ["error = 'other'", "attempts = 7", "updated = 1.5", "runtime = ''"])
def test_a_changed_failure_is_forgotten_and_counted_anew(store: ResponseStore, change: str) -> None:
    failed = Answer("i", "q", None, "no \ud800 words")
    store.put_many([("k", failed)])
    store.put_many([("k", failed)])
    assert store.get_failures(["k"])["k"].attempts == 2
    store.connection.execute(f"UPDATE failures SET {change}")
    assert store.get_failures(["k"]) == {}
    store.put_many([("k", failed)])
    assert store.get_failures(["k"])["k"].attempts == 1
    store.put_many([("k", Answer("i", "q", "words"))])
    assert [store.connection.execute(f"SELECT count(*) FROM {t}").fetchone() for t in ("failures", "checksums")] == [
        (0,),
        (0,),
    ]


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM origins WHERE key = X'" + B + "'",
        "UPDATE origins SET key = X'" + C + "' WHERE key = X'" + B + "'",
        "INSERT INTO origins VALUES (X'" + C + "', 1)",
        "UPDATE pictures SET subject = 'other'",
        "UPDATE pictures SET path = '/b.png'",
        "UPDATE checksums SET checksum = CAST(X'00' || substr(checksum, 2) AS BLOB)",
    ],
)
def test_a_purge_is_refused_where_origins_were_changed(store: ResponseStore, damage: str) -> None:
    origins.add(store.connection, store.path, PICTURE, [bytes.fromhex(A)])
    origins.add(store.connection, store.path, PICTURE, [bytes.fromhex(A), bytes.fromhex(B)])
    assert keys_of(store) == {A, B}
    store.connection.execute(damage)
    with pytest.raises(Fp2Error, match="origins of image 1"):
        keys_of(store)


def test_an_image_that_shares_pixels_with_a_purged_one_stays_intact(store: ResponseStore) -> None:
    twin = (*PICTURE[:2], "twin", *PICTURE[3:])
    for row, keys in ((PICTURE, (A, B)), (twin, (B, C))):
        origins.add(store.connection, store.path, row, [bytes.fromhex(key) for key in keys])
    (gone,) = (one for one in origins.recorded_images(store.connection, store.path) if one.image == "image")
    origins.delete(store.connection, store.path, {A, B}, [gone], ())
    assert keys_of(store) == {C}


def test_origins_of_a_version_without_checksums_are_read_and_get_them(tmp_path: Path) -> None:
    released = Path(__file__).parents[1] / "releases" / "0.3.0" / "responses.sqlite.xz"
    path = tmp_path / "responses.sqlite"
    path.write_bytes(lzma.decompress(released.read_bytes()))
    with ResponseStore(path) as store:
        origins.create_tables(store.connection)
        images = origins.recorded_images(store.connection, store.path)
        assert len(keys_of(store)) > 100
        one = images[0]
        row = (one.data, one.release, one.image, one.subject, one.path)
        origins.add(store.connection, store.path, row, [bytes.fromhex(C)])
        origins.check(store.connection, store.path, one)
        store.connection.execute("DELETE FROM origins WHERE key = ?", (bytes.fromhex(C),))
        with pytest.raises(Fp2Error, match="do not match"):
            origins.check(store.connection, store.path, one)


def test_a_changed_embedding_is_computed_again(tmp_path: Path) -> None:
    from fp2.methods.dual.cache import EmbeddingCache

    connection = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)
    cache, vector = EmbeddingCache(connection), np.array([1, 2], np.float32)
    cache.put({"k": vector})
    np.testing.assert_array_equal(cache.get(["k"])["k"], vector)
    connection.execute("UPDATE embeddings SET vector = X'0000803F00004040'")
    assert cache.get(["k"]) == {}
    cache.put({"k": vector})
    np.testing.assert_array_equal(cache.get(["k"])["k"], vector)
    connection.close()


DAMAGE = {
    "answers": "text = 'other'",
    "failures": "attempts = 9",
    "blocks": "answered = 7",
    "block_failures": "error = 'other'",
    "question_sets": "questions = X'00'",
    "runtimes": "json = replace(json, 'cpu', 'gpu')",
    "pictures": "subject = 'other'",
    "embeddings": "vector = X'0000803F00004040'",
    "server_reports": "json = replace(json, 'true', 'false')",
    "narrow_predictions": "path = '/other.png'",
}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from fp2.methods.dense.store import DenseStore, Piece, QuestionSet
    from fp2.methods.dual.cache import EmbeddingCache
    from fp2.methods.fhibe.narrow.prediction_cache import PredictionCache

    """A store with a row in every table that is not a mere cache of a file's digest."""
    path = tmp_path_factory.mktemp("full") / "store.sqlite"
    with ResponseStore(path) as store:
        origins.create_tables(store.connection)
        store.put_many([(A, Answer("i", "q", "words")), (B, Answer("i", "r", None, "no"))], {"device": "cpu"})
        dense, wanted = DenseStore(store.connection, path), QuestionSet((B, C))
        dense.register(wanted)
        numbers = np.full((len(YES_NO_NUMBERS), 1), 0.5, np.float32)
        dense.put([Piece(A, np.array([0]), numbers, ((1, "never"),))], wanted)
        origins.add(store.connection, path, PICTURE, [bytes.fromhex(A)])
        EmbeddingCache(store.connection).put({A: np.array([1, 2], np.float32)})
        ServerReports(store.connection).put("http://a", "m", Report({"version": "1"}, {}, True, 5.0))
        PredictionCache(store.connection, {}, "person").put("shown", Path("/a.png"), [])
    return path


def test_every_table_is_checked(full: Path) -> None:
    assert list(damaged_rows(full)) == []
    ticks: list[int] = []
    list(damaged_rows(full, ticks.append))
    assert sum(ticks) == count_checked(full)
    with sqlite3.connect(full) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    assert tables - set(DAMAGE) == {"schema", "checksums", "origins", "salts"}  # the last two by `pictures`, and not


@pytest.mark.parametrize("table", DAMAGE)
def test_a_changed_row_of_any_table_is_found(full: Path, tmp_path: Path, table: str) -> None:
    path = Path(shutil.copy(full, tmp_path))
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(f"UPDATE {table} SET {DAMAGE[table]}").rowcount >= 1
    connection.close()
    assert len(list(damaged_rows(path))) >= 1


def test_a_changed_report_of_a_server_is_requested_again(full: Path, tmp_path: Path) -> None:
    connection = sqlite3.connect(shutil.copy(full, tmp_path), isolation_level=None)
    reports = ServerReports(connection)
    before = reports.get("http://a", "m")
    assert before is not None
    assert before.uses_images
    connection.execute(f"UPDATE server_reports SET {DAMAGE['server_reports']}")
    assert reports.get("http://a", "m") is None
    reports.put("http://a", "m", before)
    assert reports.get("http://a", "m") == before
    connection.execute("DELETE FROM checksums WHERE place = 'server_reports'")  # as version 0.3.0 wrote it
    assert reports.get("http://a", "m") == before
    connection.close()


def test_a_changed_runtime_is_not_copied_and_is_recorded_again(full: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(full, tmp_path))
    with ResponseStore(path) as store:
        store.connection.execute(f"UPDATE runtimes SET {DAMAGE['runtimes']}")
    merge_stores([path, full], tmp_path / "both.sqlite")
    assert list(damaged_rows(tmp_path / "both.sqlite")) == []
    with ResponseStore(path) as store:
        store.put_many([(C, Answer("i", "s", "more"))], {"device": "cpu"})
    assert list(damaged_rows(path)) == []
