"""`fp2 data verify`: what it finds in a release, in a table, and in what was derived from withdrawn subjects."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from bench import Bench, fp2
from fhibe_copy import VERSION, Copy, write_copy, write_fullres
from PIL import Image


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return write_copy(tmp_path / "fhibe", n_subjects=30)


def verify(root: Path, *words: str) -> int:
    return fp2("data", "verify", *words, "data=fhibe", f"data.root={root}", "data.accept_terms=true", "model=planted")


def test_a_whole_release_is_summarised_by_its_counts(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(copy.root) == 0
    out = capsys.readouterr().out
    n_images = len({row["image_id"] for row in copy.rows})
    n_people = len({row["subject_id"] for row in copy.rows})
    assert f"fhibe, downsampled: release {VERSION}" in out
    assert f"{n_images} images of {n_people} subjects" in out
    assert "3 images of two people" in out
    assert f"{n_images} files" in out
    assert "ERROR" not in out
    assert "no errors were found" in out


def test_small_groups_are_listed_without_their_counts(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    for row in copy.rows:
        row["pronoun"] = "['0. She/her/hers']"
    copy.rows[0]["pronoun"] = "['2. They/them/their']"
    copy.save()
    assert verify(copy.root, "cut=pronoun") == 0
    lines = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in capsys.readouterr().out.splitlines()
        if "│" in line
    ]
    found = {line[1]: line[2:] for line in lines}
    assert found["They/them/their"] == ["<10", "–"]
    assert int(found["She/her/hers"][0]) > 10


def test_missing_damaged_wrongly_sized_and_repeated_images(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    single = [row for row in copy.rows if row["is_primary"] == "True"]
    paths = [copy.root / row["filepath"] for row in single]
    paths[0].unlink()
    paths[1].write_bytes(b"no picture")
    Image.new("RGB", (12, 24)).save(paths[2])
    data = paths[3].read_bytes()
    paths[3].write_bytes(data[: len(data) // 2])
    other = next(n for n in range(5, len(single)) if single[n]["subject_id"] != single[4]["subject_id"])
    shutil.copy(paths[4], paths[other])
    (copy.root / single[6]["json_path"]).unlink()
    assert verify(copy.root) == 1
    out = capsys.readouterr().out
    ids = [row["image_id"] for row in single]
    assert f"ERROR 1 image missing: {ids[0]}" in out
    assert f"ERROR 1 image cannot be read: {ids[1]}" in out
    assert f"ERROR 1 image of another size than stated: {ids[2]}" in out
    assert f"ERROR 1 image cannot be decoded: {ids[3]}" in out
    assert f"warning 2 images repeated for several subjects: {ids[4]}, {ids[other]}" in out
    assert f"warning 1 annotation file missing: {ids[6]}" in out
    assert "\nerrors were found" in out


def test_headers_only(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    path = copy.root / copy.rows[3]["filepath"]
    path.write_bytes(path.read_bytes()[:-400])
    assert verify(copy.root, "--no-pixels") == 0
    assert "headers only" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["fullres", "face_aligned", "face_unaligned"])
def test_the_other_forms(tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    copy = (write_fullres if form == "fullres" else write_copy)(tmp_path / "fhibe", n_subjects=12)
    if form == "face_aligned":
        for face in copy.faces:
            Image.new("RGB", (24, 24), (len(face["image_id"]), hash(face["image_id"]) % 256, 3)).save(
                copy.root / face["filepath"]
            )
    assert verify(tmp_path / "fhibe", f"data.form={form}") == 0
    assert f"fhibe, {form}: release {VERSION}" in capsys.readouterr().out


def test_ids_that_a_newer_release_lacks_are_counted_and_written(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    older = copy.root.parent.parent / "older"
    shutil.copytree(copy.root.parent, older)
    subject = copy.rows[-12]["subject_id"]
    gone = copy.remove(subject)
    listed = older / "gone.txt"
    assert verify(older, "--no-pixels", "--newer", str(copy.root), "--ids-to", str(listed)) == 0
    out = capsys.readouterr().out
    assert f"1 subjects and {len(gone)} images are not in {VERSION}" in out
    assert "fp2 purge --absent" in out
    assert set(listed.read_text().split()) == {subject, *gone}
    assert verify(copy.root, "--no-pixels", "--newer", str(older)) == 0
    assert "0 subjects and 0 images" in capsys.readouterr().out


def test_rows_derived_from_withdrawn_subjects_are_errors_until_they_are_purged(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = write_copy(bench.root / "fhibe")
    run = (
        "data=fhibe",
        f"data.root={copy.root}",
        "data.accept_terms=true",
        "model=planted",
        "cut.by=[pronoun]",
        "scorer=valence",
        "report=none",
        "tracking=none",
        "analysis.permutations=199",
        "analysis.bootstrap=0",
        "analysis.min_subjects=2",
        *bench.paths,
    )
    assert fp2("run", *run) == 0
    assert fp2("data", "verify", "--no-pixels", *run) == 0
    assert "nothing was derived from subjects" in capsys.readouterr().out
    copy.remove(copy.rows[-10]["subject_id"])
    assert fp2("data", "verify", "--no-pixels", *run) == 1
    assert "ERROR 1 subjects or their images are not in this release" in capsys.readouterr().out
    assert fp2("purge", "--absent", "--yes", *run) == 0
    assert fp2("data", "verify", "--no-pixels", *run) == 0


def test_any_table_can_be_validated(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("data", "verify", *bench.words()) == 0
    out = capsys.readouterr().out
    assert "72 images of 36 subjects" in out
    assert "gender" in out
    assert "36 subjects" in out


def test_a_table_without_the_cuts_attributes_is_counted_by_its_own(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for word in bench.words() if not word.startswith("cut")]
    assert fp2("data", "verify", "--no-pixels", *words) == 0
    out = capsys.readouterr().out
    assert "region" in out
    assert "North" in out


def test_results_carry_how_the_release_was_read(bench: Bench) -> None:
    copy = write_copy(bench.root / "fhibe")
    run = (
        "data=fhibe",
        f"data.root={copy.root}",
        "data.accept_terms=true",
        "data.expand_regions=true",
        "model=planted",
        "cut.by=[subregion]",
        "scorer=valence",
        "report=none",
        "tracking=none",
        "analysis.permutations=199",
        "analysis.bootstrap=0",
        "analysis.min_subjects=2",
        "seed=2",
        *bench.paths,
    )
    assert fp2("run", *run) == 0
    (path,) = (bench.root / "outputs").rglob("results.json")
    results = json.loads(path.read_text())
    settings = results["dataset"]["settings"]
    assert settings["bare_region"] == "all its subregions"
    assert settings["form"] == "downsampled"
    assert set(settings["terms"]) == {"terms", "acknowledged"}
    assert "Middle Africa" in results["dataset"]["groups"]["subregion"]
    assert str(copy.root) not in path.read_text()


def test_only_a_data_set_with_releases_is_compared_with_a_newer_one(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fp2("data", "verify", "--no-pixels", "--newer", "/new", *bench.words()) == 2
    assert "--newer compares releases" in capsys.readouterr().err
    assert fp2("purge", "--absent", *bench.words()) == 2
    assert "--absent compares with a release" in capsys.readouterr().err


def test_people_are_not_looked_for_in_a_release_of_face_crops(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    copy = write_copy(bench.root / "fhibe")
    words = (
        "data=fhibe",
        f"data.root={copy.root}",
        "data.accept_terms=true",
        "data.form=face_unaligned",
        *(place for place in bench.places if place.startswith("paths")),
    )
    assert fp2("data", "verify", "--no-pixels", *words) == 0
    assert "derived" not in capsys.readouterr().out
    assert fp2("purge", "--absent", *words) == 2
    assert "lists every subject" in capsys.readouterr().err
