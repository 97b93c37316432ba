"""The response store: nothing acknowledged is lost, nothing damaged is served, failures are not answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fp2.errors import Fp2Error
from fp2.store.database import SCHEMA_VERSION
from fp2.store.rows import ResponseStore
from fp2.tables import Answer


def row(key: str, text: str | None = "words", error: str | None = None) -> tuple[str, Answer]:
    return key, Answer("image", "question", text, error, seconds=0.125, tokens=3)


@pytest.fixture
def store(tmp_path: Path):
    with ResponseStore(tmp_path / "deep" / "store.sqlite") as opened:
        yield opened


def test_what_is_put_comes_back_with_its_runtime(store: ResponseStore) -> None:
    store.put_many([row("a", "A nurse."), row("b", "")], {"device": "cpu", "batch_size": 4})
    found = store.get_many(["b", "a", "absent", "a"])
    assert {key: answer.text for key, answer in found.items()} == {"a": "A nurse.", "b": ""}
    assert (found["a"].seconds, found["a"].tokens, found["a"].attempts) == (0.125, 3, 1)
    (runtime,) = store.connection.execute("SELECT json FROM runtimes WHERE digest = ?", [found["a"].runtime]).fetchone()
    assert json.loads(runtime) == {"device": "cpu", "batch_size": 4}


def test_the_first_answer_to_a_key_stays(store: ResponseStore) -> None:
    store.put_many([row("a", "first")])
    store.put_many([row("a", "second")])
    assert store.get_many(["a"])["a"].text == "first"


@settings(max_examples=40)
@given(text=st.text(alphabet=st.characters(exclude_categories=())))
def test_any_text_survives_and_half_characters_are_replaced(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    with ResponseStore(tmp_path_factory.mktemp("store") / "s.sqlite") as store:
        store.put_many([row("k", text)])
        kept = store.get_many(["k"])["k"].text
        # a high half followed by a low half is one whole character written in two parts
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        assert kept == whole
        if not any("\ud800" <= character <= "\udfff" for character in text):
            assert kept == text


def test_a_failure_is_never_an_answer_is_counted_and_gives_way(store: ResponseStore) -> None:
    for attempt in (1, 2):
        store.put_many([row("a", None, f"broken {attempt}")])
        assert store.get_many(["a"]) == {}
        assert store.get_failures(["a"])["a"].attempts == attempt
    assert store.get_failures(["a"])["a"].error == "broken 2"
    store.put_many([row("a", "at last")])
    assert store.get_failures(["a"]) == {}
    assert store.get_many(["a"])["a"].attempts == 3


def test_a_failure_after_an_answer_changes_nothing(store: ResponseStore) -> None:
    store.put_many([row("a", "words")])
    store.put_many([row("a", None, "too late")])
    assert store.get_many(["a"])["a"].text == "words"
    assert store.get_failures(["a"]) == {}


def test_a_row_with_neither_words_nor_reason_is_refused_whole(store: ResponseStore) -> None:
    with pytest.raises(ValueError, match="neither"):
        store.put_many([row("a"), row("b", None)])
    assert store.get_many(["a", "b"]) == {}


@pytest.mark.parametrize(
    ("column", "value"),
    [("text", "other"), ("tokens", 99), ("seconds", 9.0), ("attempts", 7), ("runtime", "x"), ("runtime", b"x")],
)
def test_a_changed_row_is_refused(store: ResponseStore, column: str, value: object) -> None:
    store.put_many([row("good"), row("bad")])
    store.connection.execute(f"UPDATE answers SET {column} = ? WHERE key = 'bad'", (value,))
    assert "good" in store.get_many(["good"])
    with pytest.raises(Fp2Error, match="bad") as told:
        store.get_many(["good", "bad"])
    assert told.value.fix
    assert "\n" not in str(told.value)


def test_a_swapped_key_is_refused(store: ResponseStore) -> None:
    store.put_many([row("a", "words of a")])
    store.connection.execute("UPDATE answers SET key = 'b'")
    with pytest.raises(Fp2Error, match="checksum"):
        store.get_many(["b"])


def test_a_full_disk_is_one_line_and_loses_only_its_batch(store: ResponseStore) -> None:
    store.put_many([row("kept")])
    pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
    store.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(Fp2Error, match="disk is full"):
        store.put_many([row(f"lost{i}", "x" * 2000) for i in range(50)])
    assert set(store.get_many(["kept", "lost0", "lost49"])) == {"kept"}
    store.connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
    store.put_many([row("after")])
    assert "after" in store.get_many(["after"])


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"a picture, perhaps" * 100)
    with pytest.raises(Fp2Error, match="not a response store"):
        ResponseStore(path)
    assert path.read_bytes() == b"a picture, perhaps" * 100


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "s") as store:
        store.connection.execute("UPDATE schema SET version = 99")
    with pytest.raises(Fp2Error, match="schema version 99"):
        ResponseStore(tmp_path / "s")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Fp2Error, match="folder of the response store"):
        ResponseStore(tmp_path / "file" / "store.sqlite")
    with pytest.raises(Fp2Error, match="cannot be opened"):
        ResponseStore(tmp_path)


_WRITER = """
import sys
from pathlib import Path
from fp2.engines.base import Answer
from fp2.store.rows import ResponseStore
store, who, stop = ResponseStore(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
for batch in range(stop):
    rows = [(f"{who}-{batch}-{i}", Answer("i", "q", f"text {batch} {i}")) for i in range(8)]
    store.put_many(rows)
    print(batch, flush=True)
"""


def _write(path: Path, who: str, stop: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WRITER, str(path), who, str(stop)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    for round_ in range(3):
        writer = _write(path, f"w{round_}", 10**6)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.15)
        os.kill(writer.pid, signal.SIGKILL)
        out, _ = writer.communicate()
        acknowledged = [0, *(int(line) for line in out.splitlines() if line)]
        assert len(acknowledged) > 2
        with ResponseStore(path) as store:
            keys = [f"w{round_}-{batch}-{i}" for batch in range(max(acknowledged) + 1) for i in range(8)]
            assert set(store.get_many(keys)) == set(keys)
            after = store.connection.execute(
                "SELECT COUNT(*) FROM answers WHERE key LIKE ?", (f"w{round_}-%",)
            ).fetchone()[0]
            assert after % 8 == 0, "a batch is kept whole or not at all"
            assert store.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_file_that_is_locked_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    script = (
        "import sqlite3, sys, time\n"
        "other = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "other.execute('CREATE TABLE x (y)'); other.execute('BEGIN EXCLUSIVE')\n"
        "print('locked', flush=True); time.sleep(0.5); other.execute('COMMIT'); other.close()"
    )
    holder = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    with ResponseStore(path) as store:
        store.put_many([row("a")])
        assert store.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert holder.wait() == 0


# --- numbers of scored answers, and stores of version 1 ---

SCORED = {"p_yes": 0.1 + 0.2, "mass": 1e-17, "orders": [["a", "b"], 3], "note": "\u2013"}


def scored(key: str, numbers: dict[str, object] | None = SCORED) -> tuple[str, Answer]:  # type: ignore[assignment]
    return key, Answer("image", "question", "Yes", seconds=0.5, tokens=1, numbers=numbers)


def test_numbers_come_back_to_the_last_bit_and_words_have_none(store: ResponseStore) -> None:
    store.put_many([scored("a"), row("b"), scored("c", {})])
    found = store.get_many(["a", "b", "c"])
    assert json.loads(found["a"].numbers or "") == SCORED
    assert (found["b"].numbers, found["c"].numbers) == (None, "{}")


def version_three(path: Path) -> None:
    """Make a store with one answer as version 3 of the tables had it: without checksums of failures."""
    with ResponseStore(path) as store:
        store.put_many([row("a")])
        store.connection.executescript("DROP TABLE checksums; UPDATE schema SET version = 3;")


def test_six_processes_bring_an_old_store_up_to_date_at_once(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    version_three(path)
    writers = [_write(path, f"p{i}", 2) for i in range(6)]
    for writer in writers:
        _, error = writer.communicate(timeout=60)
        assert writer.returncode == 0, error
    with ResponseStore(path) as store:
        keys = [f"p{p}-{batch}-{i}" for p in range(6) for batch in range(2) for i in range(8)]
        assert len(store.get_many(["a", *keys])) == 97
        assert store.connection.execute("SELECT version FROM schema").fetchall() == [(SCHEMA_VERSION,)]


def test_a_new_store_is_readable_by_its_owner_only_and_an_opened_one_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "state" / "responses.sqlite"
    with ResponseStore(path) as opened:
        opened.put_many([row("k")])
        files = [path, *path.parent.glob("responses.sqlite-*")]
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
        assert len(files) > 1
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o640)
    with ResponseStore(path):
        assert path.stat().st_mode & 0o777 == 0o640
