"""`fp2 doctor`: content where everything is in order, and what is not is named."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from bench import Bench, fp2

from fp2.compose import load_config
from fp2.errors import Fp2Error
from fp2.methods.maintenance import doctor
from fp2.tracking.client import check_store


def test_it_is_content_here_and_names_a_broken_store(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("doctor", *bench.words("tracking=mlflow", "engine.device=cpu")) == 0
    out = capsys.readouterr().out
    assert "failed" not in out
    assert out.count("ok ") >= 8
    bench.store.parent.mkdir(parents=True, exist_ok=True)
    bench.store.write_text("not a store at all, but a text of some length" * 40, encoding="utf-8")
    assert fp2("doctor", *bench.words("engine.device=cpu")) == 1
    assert "failed" in capsys.readouterr().out


def test_a_network_disk_is_named_with_its_cure(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(bench.words())
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(doctor, "MOUNTS", mounts)
    for kind, well in (("ext4", True), ("nfs4", False), ("fuse.sshfs", False)):
        mounts.write_text(f"proc / proc rw 0 0\nserver:/home {bench.root} {kind} rw 0 0\n", encoding="utf-8")
        found, line = doctor._local_disk(config)
        assert found == well
        assert (kind in line) != well
        assert ("paths.state" in line) != well
        mounts.write_text(f"server:/home {bench.root / 'mlruns'} {kind} rw 0 0\n", encoding="utf-8")
        found, line = doctor._local_disk(config)
        assert found == well
        assert ("tracking.uri" in line) != well


def test_a_store_that_mlflow_cannot_use_is_refused_by_runs_and_named_here(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(*words: str) -> None:
        check_store(load_config(bench.words("tracking=mlflow", *words)))

    for uri in ("sqlite:////x/mlflow.db", "http://localhost:5000", "databricks"):
        check(f"tracking.uri={uri}")
    with pytest.raises(Fp2Error, match="migrate-filestore"):
        check("tracking.uri=file:///old/mlruns")
    with pytest.raises(Fp2Error, match="no store nosuch://"):
        check("tracking.uri=nosuch://host")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    _, line = doctor._tracking(load_config(bench.words("tracking=mlflow", "tracking.artifacts=s3://runs/own")))
    assert "s3 needs boto3 (tracking). pip install 'fp2[s3]'" in line
    with pytest.raises(Fp2Error, match="psycopg2-binary"):
        check("tracking.uri=postgresql+psycopg2://h/db")


def test_a_wrong_version_below_the_requirements_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "4.13.2" if name.startswith("antlr4") else real(name)
    )
    well, line = doctor._packages(load_config(bench.words()))
    assert not well
    assert "antlr4-python3-runtime 4.13.2 is not ==4.9.*, which hydra-core needs" in line


def test_a_package_that_needs_another_version_is_named(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(bench.words())
    assert doctor._conflicts(config) == (True, "all installed packages meet each other's requirements")
    folder = tmp_path / "vllm-9.9.dist-info"
    folder.mkdir()
    needs = "Metadata-Version: 2.1\nName: vllm\nVersion: 9.9\nRequires-Dist: transformers<5\nRequires-Dist: absent\n"
    (folder / "METADATA").write_text(needs, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    well, line = doctor._conflicts(config)
    assert not well
    assert f"vllm needs transformers<5, and {importlib.metadata.version('transformers')} is installed" in line
    assert "separate environment" in line


class Refusing(BaseHTTPRequestHandler):
    """Answers as MLflow's server does where it refuses a request."""

    reply: ClassVar[tuple[int, bytes]]

    def do_GET(self) -> None:
        status, body = self.reply
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    ("reply", "cure"),
    [
        ((403, b"Invalid Host header - possible DNS rebinding attack detected"), "--allowed-hosts"),
        ((401, b"You are not authenticated."), "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
    ],
)
def test_what_a_server_refuses_is_named_with_its_cure(bench: Bench, reply: tuple[int, bytes], cure: str) -> None:
    Refusing.reply = reply
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    uri = f"http://somebody:secret@127.0.0.1:{server.server_address[1]}"
    well, line = doctor._tracking(load_config(bench.words(f"tracking.uri={uri}")))
    server.shutdown()
    server.server_close()
    assert not well
    assert cure in line
    assert "secret" not in line


def test_stores_that_others_can_read_are_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(bench.words())
    artifacts = bench.root / "mlruns" / "artifacts"
    artifacts.mkdir(mode=0o755, parents=True)
    assert doctor._modes(config) == (True, "the stores are readable by their owner only")
    monkeypatch.setattr(Path, "parents", property(lambda path: ()))  # tests run below a folder of their owner
    well, line = doctor._modes(config)
    assert well, "it may be meant"
    assert str(artifacts) in line
    assert "chmod go=" in line


def test_an_address_in_the_environment_that_is_not_read_is_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, mlflow_store: None
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@elsewhere:5000")
    well, line = doctor._tracking(load_config(bench.words()))
    assert well
    assert "MLFLOW_TRACKING_URI is not read: set tracking.uri=http://elsewhere:5000" in line
