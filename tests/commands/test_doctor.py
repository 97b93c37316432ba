"""`fp2 doctor`: content where everything is in order, and what is not is named."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

import pytest
from bench import Bench, fp2

from fp2.commands import doctor
from fp2.compose import load_config


def test_it_is_content_here_and_names_a_broken_store(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("doctor", *bench.words("tracking=mlflow", "engine.device=cpu")) == 0
    out = capsys.readouterr().out
    assert "failed" not in out
    assert out.count("ok ") >= 8
    bench.store.parent.mkdir(parents=True, exist_ok=True)
    bench.store.write_text("not a store at all, but a text of some length" * 40, encoding="utf-8")
    assert fp2("doctor", *bench.words("engine.device=cpu")) == 1
    assert "failed" in capsys.readouterr().out


def test_a_network_disk_a_file_store_and_a_missing_driver_are_named_with_their_cure(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(bench.words())
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(doctor, "MOUNTS", mounts)
    for kind, well in (("ext4", True), ("nfs4", False), ("fuse.sshfs", False)):
        mounts.write_text(f"proc / proc rw 0 0\nserver:/home {bench.root} {kind} rw 0 0\n", encoding="utf-8")
        found, line = doctor._local_disk(config)
        assert found == well
        assert kind in line
        assert ("paths.state" in line) != well
    assert "migrate-filestore" in str(doctor._unusable_uri("file:///old/mlruns"))
    assert "psycopg2-binary" in str(doctor._unusable_uri("postgresql+psycopg2://h/db"))
    assert doctor._unusable_uri("sqlite:////x/mlflow.db") is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    _, line = doctor._tracking(load_config(bench.words("tracking=mlflow", "tracking.artifacts=s3://runs/own")))
    assert "s3 needs boto3: pip install 'fp2[s3]'" in line
    assert doctor._unusable_uri("http://localhost:5000") is None


def test_a_wrong_version_below_the_requirements_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "4.13.2" if name.startswith("antlr4") else real(name)
    )
    well, line = doctor._packages(load_config(bench.words()))
    assert not well
    assert "antlr4-python3-runtime 4.13.2 is not ==4.9.*, which hydra-core needs" in line
