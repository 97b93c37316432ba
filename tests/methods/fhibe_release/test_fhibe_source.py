"""The terms of use are acknowledged before FHIBE is read, once, on record; other data never ask."""

import json
import stat
from pathlib import Path

import pytest
from bench import load_config
from fhibe_copy import write_copy, write_fullres

from fp2.compose import config_hash
from fp2.data.base import load_configured
from fp2.errors import Fp2Error
from fp2.methods.fhibe_release.source import RECORD, TERMS, acknowledge
from fp2.progress import Progress


def people(root: Path, *words: str):
    words = ("data=fhibe", f"data.root={root}", "model=planted", *words)
    return load_configured(load_config(words), Progress(quiet=True))


def test_without_an_acknowledgement_nothing_is_read(tmp_path):
    copy = write_copy(tmp_path / "release")
    with pytest.raises(Fp2Error, match=r"terms of use .* not acknowledged .*data\.accept_terms=true") as caught:
        people(copy.root)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / ".fp2" / RECORD).exists()


def test_acknowledged_once_and_recorded_with_the_data_set(tmp_path):
    copy = write_copy(tmp_path / "release")
    first = people(copy.root, "data.accept_terms=true")
    again = people(copy.root)
    record = json.loads((tmp_path / ".fp2" / RECORD).read_text())
    assert first.settings["terms"] == again.settings["terms"] == record
    assert record["terms"] == TERMS
    assert stat.S_IMODE((tmp_path / ".fp2").stat().st_mode) == 0o700


def test_earlier_terms_do_not_count(tmp_path):
    (tmp_path / RECORD).write_text(json.dumps({"terms": "2020-01-01", "acknowledged": "2020-01-02"}))
    with pytest.raises(Fp2Error, match="not acknowledged"):
        acknowledge(tmp_path, accept=False)
    assert acknowledge(tmp_path, accept=False, ask=lambda: True)["terms"] == TERMS
    assert acknowledge(tmp_path, accept=False, ask=lambda: pytest.fail("asked again"))["terms"] == TERMS


@pytest.mark.parametrize(("typed", "accepted"), [("yes\n", True), ("Y\n", True), ("no\n", False), ("", False)])
def test_somebody_at_a_terminal_is_asked(tmp_path, monkeypatch, capsys, typed, accepted):
    class Terminal:
        def isatty(self):
            return True

        def readline(self):
            return typed

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    if accepted:
        assert acknowledge(tmp_path, accept=False)["terms"] == TERMS
    else:
        with pytest.raises(Fp2Error, match="not acknowledged"):
            acknowledge(tmp_path, accept=False)
    assert "Have you accepted these terms" in capsys.readouterr().err


def test_other_data_never_ask(tmp_path):
    words = ("model=planted", "data.n_subjects=4", "data.images_per_subject=1", "data.n_pairs=0")
    assert len(load_configured(load_config(words), Progress(quiet=True)).people) == 4


def test_accepting_is_not_part_of_the_hash_and_how_it_was_read_is():
    def hashed(*words: str) -> str:
        return config_hash(load_config(("data=fhibe", "data.root=/x", "model=planted", *words)))

    assert hashed() == hashed("data.accept_terms=true") == hashed("data.path=/some/file.csv")
    assert len({hashed(), hashed("data.expand_regions=true"), hashed("data.form=fullres")}) == 3


def test_forms_and_options_from_the_command_line(tmp_path):
    write_copy(tmp_path)
    write_fullres(tmp_path)
    accepted = people(tmp_path, "data.accept_terms=true", "data.expand_regions=true")
    assert accepted.settings["form"] == "downsampled"
    assert accepted.settings["bare_region"] == "all its subregions"
    assert people(tmp_path, "data.form=fullres").settings["form"] == "fullres"
    faces = load_config(("data=fhibe_faces", f"data.root={tmp_path}", "model=planted"))
    loaded = load_configured(faces, Progress(quiet=True))
    assert (loaded.name, loaded.settings["form"]) == ("fhibe_faces", "face_aligned")
    with pytest.raises(Fp2Error, match=r"'face_align' is not auto, .* face_aligned or face_unaligned \(data.form\)"):
        people(tmp_path, "data.form=face_align")


@pytest.mark.parametrize(
    ("address", "warned"), [("http://gpu.example.org:8000/v1", True), ("http://localhost:8000/v1", False)]
)
def test_sending_the_images_away_is_reported(tmp_path, capsys, address, warned):
    copy = write_copy(tmp_path)
    words = ("data=fhibe", f"data.root={copy.root}", "data.accept_terms=true", "model=openai_compat", "model.name=m")
    load_configured(load_config((*words, f"model.base_url={address}")), Progress())
    assert ("sent to another machine" in " ".join(capsys.readouterr().err.split())) == warned
