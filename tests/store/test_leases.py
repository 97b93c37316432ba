"""Leases: who asks what, when a run dies, and when a lease expires."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from bench import environment

from fp2.store import leases
from fp2.store.leases import Leases
from fp2.store.rows import ResponseStore, answered_keys
from fp2.tables import Answer

KEYS = [f"{number:064x}" for number in range(1200)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with ResponseStore(tmp_path / "store.sqlite") as store:
        return store.path


def test_every_key_has_one_owner_and_is_free_afterwards(path: Path) -> None:
    with Leases(path, answered_keys) as first:
        assert first.claim(KEYS[:700]) == set(KEYS[:700])
        assert first.claim(KEYS[:700]) == set(KEYS[:700])  # its own, for another attempt
        with Leases(path, answered_keys) as second:
            assert second.claim(KEYS) == set(KEYS[700:])
        assert first.claim(KEYS) == set(KEYS)
    with Leases(path, answered_keys) as third:
        assert third.claim(KEYS) == set(KEYS)
    assert [file.name for file in path.parent.glob(".*lock")] == []


def test_what_was_answered_meanwhile_is_not_granted(path: Path) -> None:
    with ResponseStore(path) as store, Leases(path, answered_keys) as run:
        store.put_many([(KEYS[3], Answer("i", "q", "text", None, 0.1, 1, None))])
        assert run.claim(KEYS[:10]) == set(KEYS[:10]) - {KEYS[3]}


def test_many_threads_claim_each_key_once(path: Path) -> None:
    got: list[str] = []

    def work() -> None:
        with Leases(path, answered_keys) as run:
            all_open.wait(timeout=30)
            for start in range(0, 400, 20):
                got.extend(run.claim(KEYS[start : start + 20]))
            all_done.wait(timeout=30)

    all_open, all_done = threading.Barrier(6), threading.Barrier(6)
    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(got) == KEYS[:400]


def test_a_killed_run_frees_its_questions_at_once(path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from fp2.store.leases import Leases\n"
        "with Leases(Path(sys.argv[1]), lambda connection, keys: set()) as run:\n"
        "    run.claim(['a', 'b']); print('claimed', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, env=environment(path.parent), text=True
    )
    with child, Leases(path, answered_keys) as run:
        assert child.stdout is not None
        assert child.stdout.readline() == "claimed\n"
        assert run.claim(["a", "c"]) == {"c"}
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=10)
        assert run.claim(["a", "b"]) == {"a", "b"}


def test_a_lease_of_another_machine_ends_when_it_expires_and_is_renewed_until_then(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "HEARTBEAT", 0.05)
    with Leases(path, answered_keys) as far, Leases(path, answered_keys) as run:
        far.claim(["a"])
        monkeypatch.setattr(run, "_is_dead", lambda owner: False)  # its lock cannot be seen
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("UPDATE leases SET expires = 1")
        for _ in range(500):
            if connection.execute("SELECT expires FROM leases").fetchone()[0] > 2:
                break
            threading.Event().wait(0.02)
        assert run.claim(["a"]) == set()
        far._ended.set()
        far._thread.join()
        connection.execute("UPDATE leases SET expires = 1")
        connection.close()
        assert run.claim(["a"]) == {"a"}
