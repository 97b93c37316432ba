"""From a model's name to its files: folders, package folders, the local cache, and a small hub of our own."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from fp2.engines.checkpoint import FileDigests, resolve_checkpoint, with_weights
from fp2.engines.server.report import Report, ServerReports
from fp2.errors import Fp2Error
from fp2.store.database import CachedTable
from fp2.store.rows import ResponseStore

COMMIT = "a" * 40


def vectors_in(connection: sqlite3.Connection) -> CachedTable:
    return CachedTable(connection, "embeddings", ["key"], "vector BLOB NOT NULL")


def test_a_folder_is_pinned_by_its_files_and_read_once(tiny_llava: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_llava, tmp_path / "model"))
    (folder / "README.md").write_text("words about the model")
    with ResponseStore(tmp_path / "store.sqlite") as store:
        first = FileDigests(store.connection)
        found = resolve_checkpoint(str(folder), None, first)
        assert first.files_read >= 5
        again = FileDigests(store.connection)
        assert resolve_checkpoint(str(folder), None, again) == found
        assert again.files_read == 0
        proof = FileDigests(store.connection, verify=True)
        assert resolve_checkpoint(str(folder), None, proof).weights_digest == found.weights_digest
        assert proof.files_read == first.files_read
        (folder / "README.md").write_text("other words")
        assert resolve_checkpoint(str(folder), None, again) == found
        (folder / "generation_config.json").write_text('{"repetition_penalty": 1.5}')
        assert resolve_checkpoint(str(folder), None, again).weights_digest != found.weights_digest
        assert again.files_read == 1
    assert (found.id, found.revision, found.model_type) == ("local", None, "llava")
    assert with_weights(found) == found.path


def test_a_change_behind_the_same_size_and_time_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    with ResponseStore(tmp_path / "store.sqlite") as store:
        digests = FileDigests(store.connection)
        for content in (b"one", b"two"):
            file.write_bytes(content)
            os.utime(file, ns=(0, 0))
            assert digests.sha256(file) == hashlib.sha256(content).hexdigest()


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A store that another process writes to all the time; the digest of `known.bin` is remembered in it."""
    path = tmp_path / "locked.sqlite"
    (tmp_path / "known.bin").write_bytes(b"known")
    with ResponseStore(path) as store:
        for make in (ServerReports, vectors_in):
            make(store.connection)
        FileDigests(store.connection).sha256(tmp_path / "known.bin")
        store.connection.execute("PRAGMA busy_timeout = 10")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        yield store.connection
        other.execute("ROLLBACK")
        other.close()


def test_a_locked_store_costs_a_reading_of_the_files_and_no_more(locked: sqlite3.Connection, tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(b"one")
    digests = FileDigests(locked)
    assert digests.sha256(tmp_path / "known.bin") == hashlib.sha256(b"known").hexdigest()
    assert digests.files_read == 0
    assert {digests.sha256(file) for _ in range(2)} == {hashlib.sha256(b"one").hexdigest()}
    assert digests.files_read == 2


def test_what_has_to_be_kept_in_a_locked_store_is_one_line(locked: sqlite3.Connection) -> None:
    reports, vectors = ServerReports(locked), vectors_in(locked)
    assert reports.get("http://a", "m") is None
    assert vectors.get([("a",)]) == {}
    for keep in (
        lambda: reports.put("http://a", "m", Report({})),
        lambda: vectors.put([("a", np.zeros(3, np.float32).tobytes())]),
    ):
        with pytest.raises(Fp2Error, match="the response store is locked") as told:
            keep()
        assert "locked.sqlite" in str(told.value)


def test_a_damaged_store_is_one_line(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "no.sqlite", isolation_level=None)
    (tmp_path / "no.sqlite").write_bytes(b"not a database at all " * 100)
    assert FileDigests(connection).files_read == 0
    for make in (ServerReports, vectors_in):
        with pytest.raises(Fp2Error, match="not a response store"):
            make(connection)
    connection.close()


def test_a_package_folder(tiny_llava: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(tiny_llava, tmp_path / "some_package" / "models" / "tiny")
    (tmp_path / "some_package" / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = resolve_checkpoint("pkg://some_package/models/tiny")
    assert found.id == "pkg://some_package/models/tiny"
    assert found.weights_digest == resolve_checkpoint(str(tiny_llava)).weights_digest
    for absent in ("pkg://some_package/models/none", "pkg://no_such_package/x", "pkg://no.dots/x"):
        with pytest.raises(Fp2Error, match="no model directory"):
            resolve_checkpoint(absent)


@pytest.mark.parametrize("name", ["./nowhere/model", "/nowhere/model", "model", "a/b/c", ""])
def test_a_folder_that_is_not_there(name: str) -> None:
    with pytest.raises(Fp2Error):
        resolve_checkpoint(name)


@pytest.mark.parametrize(
    ("place", "content"),
    [
        ("chat_template.jinja", None),
        ("chat_template.json", {"chat_template": "{{ x }}"}),
        ("tokenizer_config.json", {"chat_template": "{{ x }}"}),
        ("processor_config.json", {"chat_template": "{{ x }}"}),
    ],
)
def test_a_chat_template_is_found_wherever_it_lies(
    place: str, content: Any, tiny_llava_raw: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_llava_raw, tmp_path / "model"))
    assert resolve_checkpoint(str(folder)).chat_template_digest is None
    text = "{{ x }}" if content is None else json.dumps(content)
    (folder / place).write_text(text)
    assert resolve_checkpoint(str(folder)).chat_template_digest is not None


def test_every_shard_of_an_index_has_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"x": "1.safetensors", "y": "2.safetensors"}})
    )
    (tmp_path / "1.safetensors").write_bytes(b"x")
    assert not resolve_checkpoint(str(tmp_path)).has_weights
    with pytest.raises(Fp2Error, match="no complete weights"):
        with_weights(resolve_checkpoint(str(tmp_path)))
    (tmp_path / "2.safetensors").write_bytes(b"y")
    assert resolve_checkpoint(str(tmp_path)).has_weights


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as a download needs: what files a revision has, and the files."""

    folder: ClassVar[Path]
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self._serve(body=True)

    def do_HEAD(self) -> None:
        self._serve(body=False)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def _serve(self, body: bool) -> None:
        path = self.path.partition("?")[0]
        known = f"/api/models/some/model/revision/{COMMIT}", "/api/models/some/model/revision/main"
        files = sorted(self.folder.iterdir())
        name = path.removeprefix(f"/some/model/resolve/{COMMIT}/")
        if path in known:
            siblings = [{"rfilename": file.name} for file in files]
            self._reply(200, json.dumps({"id": "some/model", "sha": COMMIT, "siblings": siblings}).encode(), body)
        elif path == f"/api/models/some/model/tree/{COMMIT}":
            sizes = {file.name: file.stat().st_size for file in files}
            tree = [{"type": "file", "path": name, "size": size, "oid": name} for name, size in sizes.items()]
            self._reply(200, json.dumps(tree).encode(), body)
        elif (self.folder / name).is_file():
            if body:
                self.asked.append(name)
            self._reply(200, (self.folder / name).read_bytes(), body)
        else:
            revision = path.startswith("/api/models/some/model/")
            self._reply(404, b"{}", body, {"X-Error-Code": "RevisionNotFound" if revision else "RepoNotFound"})

    def _reply(self, status: int, content: bytes, body: bool, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": COMMIT, **(more or {})}
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(content)


@pytest.fixture
def hub(tiny_llava: Path) -> Iterator[str]:
    Hub.folder, Hub.asked[:] = tiny_llava, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


_SCRIPT = """
import sys
from fp2.engines.checkpoint import resolve_checkpoint, with_weights
from fp2.errors import Fp2Error
name, revision, what = sys.argv[1], sys.argv[2] or None, sys.argv[3]
try:
    found = resolve_checkpoint(name, revision)
    if what == "pickled":
        try:
            with_weights(found, option="the.option")
        except Fp2Error as error:
            print("REFUSED", error, end=" ")
    if what:
        with_weights(found, pickled=what == "pickled")
    print(found.id, found.revision, found.weights_digest, found.has_weights, "torch" in sys.modules)
except Fp2Error as error:
    print("REFUSED", error)
"""


def ask_hub(home: Path, address: str, name: str, *, revision: str = "", what: str = "", offline: bool = False) -> str:
    env = {**os.environ, "HF_HOME": str(home), "HF_ENDPOINT": address, "HF_HUB_OFFLINE": str(int(offline))}
    env |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": "1", "no_proxy": "127.0.0.1"}
    command = [sys.executable, "-c", _SCRIPT, name, revision, what]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return done.stdout.strip()


def test_a_hub_model_small_files_first_then_weights_then_no_network(hub: str, tmp_path: Path) -> None:
    assert ask_hub(tmp_path, hub, "some/model") == f"some/model {COMMIT} None False False"
    assert "config.json" in Hub.asked
    assert "model.safetensors" not in Hub.asked
    Hub.asked.clear()
    assert ask_hub(tmp_path, hub, "some/model", what="weights") == f"some/model {COMMIT} None True False"
    assert Hub.asked == ["model.safetensors"]
    Hub.asked.clear()
    for revision in ("", "main", COMMIT):
        said = ask_hub(tmp_path, "http://127.0.0.1:9", "some/model", revision=revision, what="weights", offline=True)
        assert said == f"some/model {COMMIT} None True False"
    assert Hub.asked == []


def test_pickled_weights_of_a_hub_are_fetched_only_where_they_are_permitted(hub: str, tmp_path: Path) -> None:
    old = Path(shutil.copytree(Hub.folder, tmp_path / "old"))
    (old / "model.safetensors").rename(old / "pytorch_model.bin")
    Hub.folder = old
    said = ask_hub(tmp_path / "home", hub, "some/model", what="pickled")
    assert "has no weights as safetensors" in said
    assert "the.option=true" in said
    assert said.endswith(f"some/model {COMMIT} None True False")
    Hub.asked.clear()
    offline = ask_hub(tmp_path / "home", hub, "some/model", what="pickled", offline=True)
    assert "has no weights as safetensors" in offline, "what is in the cache is not taken either"
    assert Hub.asked == []


def test_what_a_hub_refuses_is_one_line(hub: str, tmp_path: Path) -> None:
    assert "no model some/other" in ask_hub(tmp_path, hub, "some/other")
    assert "no revision 'v9'" in ask_hub(tmp_path, hub, "some/model", revision="v9")
    nobody = ask_hub(tmp_path, "http://127.0.0.1:9", "some/model")
    assert nobody.startswith("REFUSED the model some/model is not in the local cache, and the hub cannot be reached")
    assert "local folder" in nobody
    offline = ask_hub(tmp_path, hub, "some/model", offline=True)
    assert "HF_HUB_OFFLINE" in offline
    assert "local folder" in offline
