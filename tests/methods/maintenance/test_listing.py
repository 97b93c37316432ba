"""`fp2 list`: descriptions are whole sentences, printed as they are written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bench import fp2

from fp2 import __version__
from fp2.config import choices
from fp2.methods.recorded.form import forms
from fp2.plugins import GROUPS, installed


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")


def test_brackets_of_a_description_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("list", "data") == 0
    assert "data=folder data.root=PATH data.attribute=NAME cut.by=[NAME]" in capsys.readouterr().out


def test_every_choice_of_data_cuts_experiments_and_variants_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    for group in ("data", "cut", "experiment", "variant", "sweep", "task"):
        assert fp2("list", group) == 0
        out = capsys.readouterr().out
        for name in choices(group):
            assert re.search(rf"│ {name} +│ \S", out), f"{group}={name}"


def test_every_data_set_says_whether_the_people_gave_consent(capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("list", "data") == 0
    described = capsys.readouterr().out.splitlines()
    stated = {line.split("│")[1].strip() for line in described if "consent" in line}
    assert set(choices("data")) <= stated


def test_an_unknown_kind_is_refused_with_the_nearest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("list", "modls") == 2
    assert "Did you mean 'model'" in capsys.readouterr().err


def test_folders_on_the_search_path_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "outsider.yaml").write_text("# A model of mine.\nname: outsider\n")
    assert fp2("list", "models", f"hydra.searchpath=[file://{tmp_path}]") == 0
    assert re.search(rf"│ outsider +│ A model of mine. +│ {tmp_path} ", capsys.readouterr().out)
    assert fp2("list", "models") == 0
    assert "outsider" not in capsys.readouterr().out


def test_a_kind_is_listed_under_its_singular_and_plural(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ("model", "models"),
        ("narrow", "narrows"),
        ("analysis",),
        ("paths", "path"),
        ("protocols", "protocol"),
    ):
        printed = set()
        for word in words:
            assert fp2("list", word) == 0
            printed.add(capsys.readouterr().out)
        assert len(printed) == 1
        assert printed.pop().strip()


@pytest.mark.package(name="recorded")
def test_every_form_of_answers_is_listed_with_its_origin(capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("list", "forms", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["forms"]
    assert [row["name"] for row in rows] == sorted(forms())
    assert {row["from"] for row in rows if row["class"].startswith("fp2.")} == {f"fp2 {__version__}"}


def test_the_whole_list_has_every_group_and_no_private_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("list") == 0
    out = capsys.readouterr().out
    for group in ("data", "narrow", "model", "analysis", "paths", "scorer"):
        assert f"{group}=NAME" in out
    for group in GROUPS:
        assert (f"classes ({group})" in out) == bool(installed(group))
    assert "__pycache__" not in out
