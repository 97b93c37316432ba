"""Pinned commits of hub models: what a pin changes, where it does not apply, and what a lock file may hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import fp2, load_config

from fp2.compose import config_hash, from_plain
from fp2.engines.pins import cached_checkpoint, read_pins, write_pins
from fp2.errors import Fp2Error

REPOSITORY, COMMIT, OTHER = "Qwen/Qwen2.5-VL-3B-Instruct", "a" * 40, "b" * 40
MODEL = "model=qwen2_5_vl_3b"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty local cache of the hub."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def put(hub: Path, commit: str, main: str | None = None) -> None:
    folder = hub / f"models--{REPOSITORY.replace('/', '--')}"
    (folder / "snapshots" / commit).mkdir(parents=True)
    (folder / "snapshots" / commit / "config.json").write_text(json.dumps({"model_type": "qwen2_5_vl"}))
    if main is not None:
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / "main").write_text(main)


def test_a_pin_is_the_revision(own_root: Path) -> None:
    before = config_hash(load_config([MODEL]))
    write_pins(own_root / "pins.yaml", {REPOSITORY: COMMIT})
    pinned = load_config([MODEL])
    assert pinned.model.revision == COMMIT
    assert config_hash(pinned) == config_hash(load_config([MODEL, f"model.revision={COMMIT}"])) != before
    assert load_config([MODEL, f"model.revision={OTHER}"]).model.revision == OTHER  # what is said goes first
    assert load_config(["model=smolvlm2_2_2b"]).model.revision is None
    by_id = load_config(["model=smolvlm2_2_2b", f"model.id={REPOSITORY}"])
    assert by_id.model.revision == COMMIT


def test_a_pin_is_of_no_server_no_folder_and_no_logged_run(own_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import asdict

    write_pins(own_root / "pins.yaml", {REPOSITORY: COMMIT})
    assert load_config(["model=openai_compat", f"model.id={REPOSITORY}"]).model.revision is None
    logged = {**asdict(load_config([MODEL])), "paths": {"pins": str(own_root / "pins.yaml")}}
    logged["model"]["revision"] = None
    assert from_plain(logged).model.revision is None  # it keeps the hash that it was logged with
    (own_root / REPOSITORY).mkdir(parents=True)
    monkeypatch.chdir(own_root)
    assert load_config([MODEL]).model.revision is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{REPOSITORY}: main", "not a full commit hash"),
        (f"{REPOSITORY}: {COMMIT[:12]}", "not a full commit hash"),
        ("- a list", "no mapping"),
        ("{unclosed", "cannot be read"),
    ],
)
def test_a_wrong_lock_file_is_one_line(own_root: Path, text: str, said: str) -> None:
    (own_root / "pins.yaml").write_text(text)
    with pytest.raises(Fp2Error, match=said) as error:
        load_config([MODEL])
    assert "pins.yaml" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_commit_is_that_of_main_or_the_only_one(hub: Path) -> None:
    assert cached_checkpoint(REPOSITORY) is None
    put(hub, COMMIT)
    found = cached_checkpoint(REPOSITORY)
    assert found is not None
    assert (found.revision, found.has_weights) == (COMMIT, False)
    put(hub, OTHER)
    with pytest.raises(Fp2Error, match="2 commits"):
        cached_checkpoint(REPOSITORY)
    (hub / f"models--{REPOSITORY.replace('/', '--')}" / "refs").mkdir()
    (hub / f"models--{REPOSITORY.replace('/', '--')}" / "refs" / "main").write_text(OTHER)
    found = cached_checkpoint(REPOSITORY)
    assert found is not None
    assert found.revision == OTHER


@pytest.mark.package(name="maintenance")
def test_what_is_missing_is_said_and_the_rest_is_pinned(
    own_root: Path, hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(hub, COMMIT, main=COMMIT)
    write_pins(own_root / "pins.yaml", {REPOSITORY: OTHER, "some/other": OTHER})
    assert fp2("pin", "qwen2_5_vl_3b", "vikhyatk/moondream2", "planted", "peeps_vlm") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"qwen2_5_vl_3b: {REPOSITORY} at {COMMIT}, without its weights")
    assert lines[0].endswith(f"was {OTHER}")
    assert "hf download vikhyatk/moondream2" in lines[1]
    assert "engine=planted" in lines[2]
    assert "digests of its files" in lines[3]
    assert read_pins(own_root / "pins.yaml") == {REPOSITORY: COMMIT, "some/other": OTHER}
    for words, said in ((["moondrem2"], "Did you mean 'moondream2'"), ([], "no model is named"), (["a/b/c"], "owner")):
        assert fp2("pin", *words) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
