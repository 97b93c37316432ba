"""Purging: nothing derived from a removed person stays anywhere, and what is left is what a run without them gives."""

from __future__ import annotations

import errno
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import Bench, every_byte, fp2, notes_of, rest_of, results_of
from fhibe_copy import write_copy

from fp2.methods.withdrawal.selection import kind_of
from fp2.store.salted_keys import local_salt, salted

# What does not stand on random draws: those follow the order of the ids, which are salted keys in a run's tables.
NUMBERS = ("raw", "shrunken", "hedges_g", "epsilon_squared", "icc", "n_subjects", "n_images")


def people_of(bench: Bench) -> pd.DataFrame:
    return pd.read_csv(bench.table)


def without(bench: Bench, subject: str) -> Bench:
    """Return a bench on the same images and answers, whose table lacks one person."""
    folder = bench.root / "left"
    shutil.copytree(bench.pictures, folder)
    rows = people_of(bench)
    rows[rows["person"] != subject].to_csv(folder / "people.csv", index=False)
    return Bench(bench.root, folder)


def keys(bench: Bench, subject: str) -> tuple[str, set[str]]:
    """Return the salted keys of a person and of their images."""
    salt = local_salt(bench.root / "state")
    rows = people_of(bench)
    images = rows.loc[rows["person"] == subject, "file"].tolist()
    return salted([subject], salt)[0], set(salted(images, salt, "image"))


def dump(store: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(sqlite3.connect(store)) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table}").fetchall()
            for table in ("answers", "failures", "pictures", "origins", "pixel_digests")
        }


@pytest.mark.usefixtures("mlflow_store")
def test_a_purged_person_is_nowhere_and_the_numbers_are_those_of_a_run_without_them(bench: Bench) -> None:
    words = ("tracking=mlflow", "report=default", "report.figures=false")
    one = bench.run(*words, folder="one")
    subject = people_of(bench)["person"].iloc[0]
    own, images = keys(bench, subject)
    before = dump(bench.store)
    assert own.encode() in every_byte(bench.outputs)
    assert fp2("purge", "--subject", subject, "--yes", *bench.paths) == 0
    rest = rest_of(bench.root)
    for key in (own, *images, subject):
        assert key.encode() not in rest
    after = dump(bench.store)
    n_answers = len(before["answers"]) // 36
    assert len(after["answers"]) == len(before["answers"]) - n_answers
    assert len(after["pictures"]) == len(before["pictures"]) - 2
    assert len(after["pixel_digests"]) == len(before["pixel_digests"]) - 2
    again = without(bench, subject).run()
    purged, fresh = results_of(one.folder), again.results
    assert again.results["answers"]["cached"] == again.results["answers"]["planned"]
    for old, new in zip(purged["disparities"], fresh["disparities"], strict=True):
        assert {name: old[name] for name in NUMBERS} == pytest.approx({name: new[name] for name in NUMBERS}, abs=1e-9)
        assert old["null_mean"] == pytest.approx(new["null_mean"], abs=0.03)
    assert purged["composite"] == pytest.approx(fresh["composite"], abs=1e-9)
    for name in ("response_set", "n_images", "n_subjects", "answers_by_group", "diversity", "coverage"):
        assert purged[name] == fresh[name]
    assert purged["dataset_digest"] not in (one.results["dataset_digest"], fresh["dataset_digest"])
    assert purged["purged"][0]["people_removed"] == 1
    assert notes_of(purged)["removed"][0]["n"] == 1


def test_the_balance_table_stays_as_of_the_first_run(bench: Bench) -> None:
    rows = people_of(bench)
    bench = bench.with_people(rows.assign(region=rows["gender"].map({"f": "North", "m": "South"})))
    one = bench.run(folder="one")
    (pair,) = one.results["balance"]
    warning = notes_of(one.results)["confounded"]
    for place in (0, 3):
        assert fp2("purge", "--subject", rows["person"].iloc[2 * place], "--yes", *bench.paths) == 0
        purged = results_of(one.folder)
        assert purged["balance"] == [{**pair, "as_of_first_run": True}]
        assert notes_of(purged)["confounded"] == warning
        assert len(notes_of(purged)["association_of_first_run"]) == 1
    assert len(purged["purged"]) == 2


def test_what_the_tables_keep_is_balanced_again(bench: Bench) -> None:
    rows = people_of(bench)
    bench = bench.with_people(rows.assign(region=rows["gender"].map({"f": "North", "m": "South"})))
    one = bench.run("cut.each=[gender,region]", folder="one")
    assert fp2("purge", "--subject", rows["person"].iloc[0], "--yes", *bench.paths) == 0
    purged = results_of(one.folder)
    assert [(row["cut"], row["n_subjects"]) for row in purged["balance"]] == [("gender", 35), ("region", 35)]
    assert "association_of_first_run" not in notes_of(purged)


def test_the_old_passport_says_that_it_was_replaced_and_the_new_one_holds(
    finished: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished.outputs / "one"
    kept = finished.root / "kept.json"
    kept.write_bytes((folder / "passport.json").read_bytes())
    key = str(next((finished.root / "state" / "keys").glob("*pub*")))
    subject = people_of(finished)["person"].iloc[3]
    assert fp2("purge", "--subject", subject, "--yes", *finished.paths) == 0
    capsys.readouterr()
    assert fp2("verify", str(folder / "passport.json"), "--key", key) == 0
    assert "supersedes the passport with payload sha256" in capsys.readouterr().out
    (old,) = folder.glob("passport.superseded-*.json")
    assert old.read_bytes() == kept.read_bytes()
    assert fp2("verify", str(old), "--key", key) == 1
    assert "superseded by passport.json: use that one" in capsys.readouterr().out


@pytest.mark.usefixtures("mlflow_store")
def test_the_runs_in_the_mlflow_store_change_with_the_folder_or_without_it(bench: Bench) -> None:
    words = ("tracking=mlflow", "report=default", "report.figures=false")
    here, gone = bench.run(*words, folder="here"), bench.run(*words, "cut.by=[region]", folder="gone")
    shutil.rmtree(gone.folder)
    subject = people_of(bench)["person"].iloc[5]
    own, images = keys(bench, subject)
    artifacts = bench.root / "mlruns" / "artifacts"
    assert own.encode() in every_byte(artifacts)
    assert fp2("purge", "--subject", subject, "--yes", *bench.paths) == 0
    assert not [key for key in (own, *images) if key.encode() in every_byte(artifacts)]
    for run in (here, gone):
        (folder,) = artifacts.glob(f"*/{run.run_id}/artifacts")
        results = results_of(folder)
        assert results["n_subjects"] == 35
        assert (folder / "dashboard.html").is_file()
        with closing(sqlite3.connect(bench.root / "mlruns" / "mlflow.db")) as connection:
            (value,) = connection.execute(
                "SELECT value FROM metrics WHERE key = 'composite' AND run_uuid = ?", (run.run_id,)
            ).fetchone()
            tags = dict(connection.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (run.run_id,)))
        assert value == pytest.approx(results["composite"])
        assert tags["fp2.response_set"] == results["response_set"]
        assert json.loads(tags["fp2.summary"])[0]["n_subjects"] == 35
    assert (here.folder / "passport.json").read_bytes() == next(
        artifacts.glob(f"*/{here.run_id}/artifacts/passport.json")
    ).read_bytes()


def test_an_image_alone_can_go_and_its_person_stays(finished: Bench) -> None:
    folder = finished.outputs / "one"
    picture = people_of(finished)["file"].iloc[0]
    assert fp2("purge", "--image", picture, "--yes", *finished.paths) == 0
    results = results_of(folder)
    assert (results["n_images"], results["n_subjects"]) == (71, 36)


def test_dry_run_and_a_no_change_nothing(
    finished: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = finished.outputs / "one"
    subject = people_of(finished)["person"].iloc[0]
    before = dump(finished.store), {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert fp2("purge", "--subject", subject, "--dry-run", *finished.paths) == 0
    assert "1 people and 12 answers" in capsys.readouterr().out
    monkeypatch.setattr("typer.confirm", lambda text: False)
    assert fp2("purge", "--subject", subject, *finished.paths) == 1
    assert before == (dump(finished.store), {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()})
    assert fp2("purge", "--subject", "nobody", *finished.paths) == 0
    assert "nothing derived from them is stored here" in capsys.readouterr().out


def test_a_full_disk_ends_a_purge_in_one_line_and_the_same_command_finishes_it(
    finished: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fp2 import artifacts

    def full(*args: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device", "results.json")

    folder = finished.outputs / "one"
    subject = people_of(finished)["person"].iloc[0]
    own, images = keys(finished, subject)
    with monkeypatch.context() as patch:
        patch.setattr(artifacts, "write_results", full)
        assert fp2("purge", "--subject", subject, "--yes", *finished.paths) == 2
    assert "error: cannot write: No space left on device (results.json)" in capsys.readouterr().err
    assert fp2("purge", "--subject", subject, "--yes", *finished.paths) == 0
    assert results_of(folder)["n_subjects"] == 35
    assert not [name for name in (own, *images) if name.encode() in rest_of(finished.root)]


def test_answers_to_another_persons_image_go_with_that_person(bench: Bench) -> None:
    one = bench.run("variant=swapped", folder="one")
    subject = people_of(bench)["person"].iloc[0]
    assert fp2("purge", "--subject", subject, "--yes", *bench.paths) == 0
    results = results_of(one.folder)
    assert results["n_subjects"] == 35
    # their own 12 rows, and the 12 that others got from their images
    assert results["answers"]["planned"] == 432 - 24


def test_a_run_that_cannot_be_computed_again_is_purged_only_on_demand_and_keeps_its_other_rows(
    finished: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished.outputs / "one"
    run_id = results_of(folder)["run_id"]
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace("fp2.scorers.valence", "fp2.scorers.vallence"))
    subject = people_of(finished)["person"].iloc[0]
    before = every_byte(finished.outputs)
    assert fp2("purge", "--subject", subject, "--dry-run", *finished.paths) == 0
    assert f"would lose its results, figures and passport: run {run_id}: " in capsys.readouterr().out
    assert fp2("purge", "--subject", subject, "--yes", *finished.paths) == 2
    assert "nothing was removed" in capsys.readouterr().err
    assert every_byte(finished.outputs) == before
    assert fp2("purge", "--subject", subject, "--drop-reports", "--yes", *finished.paths) == 0
    left = {path.name for path in folder.iterdir()}
    assert left == {"config.yaml", "overrides.yaml", "people.parquet", "responses.parquet", "scores.parquet"}
    assert pd.read_parquet(folder / "people.parquet")["subject_id"].nunique() == 35


def test_a_store_from_before_there_were_origins_is_purged_by_the_runs_tables(finished: Bench) -> None:
    with closing(sqlite3.connect(finished.store)) as connection, connection:
        connection.execute("DROP TABLE origins")
        connection.execute("DROP TABLE pictures")
        (n_before,) = connection.execute("SELECT count(*) FROM answers").fetchone()
    subject = people_of(finished)["person"].iloc[0]
    assert fp2("purge", "--subject", subject, "--yes", *finished.paths) == 0
    with closing(sqlite3.connect(finished.store)) as connection:
        assert connection.execute("SELECT count(*) FROM answers").fetchone() == (n_before - 12,)


@pytest.mark.parametrize(
    "words", [[], ["--subject", "a", "--release", "b"], ["--absent"], ["--subject", " "], ["--image", ""]]
)
def test_whom_must_be_said_once(bench: Bench, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("purge", *words, "--yes", *bench.paths) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_lists_of_chosen_images_and_notes_of_failed_runs_lose_the_id(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    names = people_of(bench)["file"].tolist()
    one = bench.run(f"data.ids=[{','.join(names[:48])}]", folder="one")
    failed = bench.outputs / "failed"
    failed.mkdir()
    for name in ("traceback.txt", "multirun.yaml"):  # of a sweep that was killed
        (failed / name).write_text(f"OSError: {names[0]}")
    (remembered,) = (bench.root / "state" / "places").glob("*.json")
    assert names[0] in remembered.read_text()
    remembered.with_name(f".{remembered.name}.1").write_text(remembered.read_text())  # a purge was killed meanwhile
    assert fp2("purge", "--image", names[0], "--yes", *bench.paths) == 0
    assert names[0].encode() not in every_byte(bench.outputs) + rest_of(bench.root)
    assert names[1] in remembered.read_text()
    assert results_of(one.folder)["n_images"] == 47
    capsys.readouterr()
    assert fp2("check", str(one.folder), *bench.paths) == 0
    assert "the list of chosen images lost those of withdrawn people" in capsys.readouterr().out
    assert fp2("rerun", str(one.folder), "tracking.enabled=false", *bench.paths) == 2
    assert "start a run with the others" in capsys.readouterr().err


FHIBE = (
    "data=fhibe", "data.accept_terms=true", "model=planted", "cut.by=[pronoun]", "scorer=valence", "report=none",
    "tracking=mlflow", "analysis.permutations=199", "analysis.bootstrap=0", "analysis.min_subjects=2",
)  # fmt: skip


def run_fhibe(bench: Bench, root: Path, *words: str) -> Path:
    from fp2.app import main as launch

    assert launch([*FHIBE, f"data.root={root}", *bench.paths, *words]) == 0
    return bench.run_folders()[-1]


def test_a_run_cut_by_the_part_of_the_world_is_computed_again(bench: Bench) -> None:
    copy = write_copy(bench.root / "fhibe", n_subjects=20)
    folder = run_fhibe(bench, copy.root, "cut.by=null", "cut.each=[pronoun,location_un_region]", "tracking=none")
    before = results_of(folder)
    kept = pd.read_parquet(folder / "people.parquet")
    assert [name for name in map(str, kept.columns) if "location" in name] == ["attr_location_un_region"]
    assert fp2("purge", "--subject", copy.rows[-10]["subject_id"], "--yes", *bench.paths) == 0
    purged = results_of(folder)
    assert purged["n_subjects"] == before["n_subjects"] - 1
    assert purged["cuts"] == ["pronoun", "location_un_region"]
    assert {row["cut"] for row in purged["disparities"]} == set(purged["cuts"])


@pytest.mark.usefixtures("mlflow_store")
def test_whoever_left_a_newer_release_and_a_whole_release(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    copy = write_copy(bench.root / "fhibe", n_subjects=20)
    whole, faces = run_fhibe(bench, copy.root), run_fhibe(bench, copy.root, "data.form=face_unaligned")
    other = bench.run(folder="other")
    newer = copy.root.rename(copy.root.parent / copy.root.name.replace("2099", "2100"))
    copy.root = newer
    subject = copy.rows[-10]["subject_id"]  # in no image of two
    copy.remove(subject)
    own = salted([subject], local_salt(bench.root / "state"))[0]
    release = ("data=fhibe", f"data.root={newer}")
    n_before = {folder: results_of(folder)["n_subjects"] for folder in (whole, faces, other.folder)}
    assert fp2("purge", "--absent", "--yes", *release, *bench.paths) == 0
    left = {folder: results_of(folder)["n_subjects"] for folder in (whole, faces, other.folder)}
    assert left == {whole: n_before[whole] - 1, faces: n_before[faces] - 1, other.folder: 36}
    assert own.encode() not in every_byte(bench.outputs) + every_byte(bench.root / "mlruns")
    n_images = {folder: results_of(folder)["n_images"] for folder in (whole, faces)}
    assert fp2("purge", "--absent", "--yes", *release, *bench.paths) == 0
    assert "nothing derived" in capsys.readouterr().out
    image = copy.rows[-12]["image_id"]  # an image's id also stands for the face crops that were cut from it
    assert fp2("purge", "--image", image, "--yes", *bench.paths) == 0
    counts = {folder: results_of(folder)["n_images"] for folder in (whole, faces)}
    assert counts == {folder: n - 1 for folder, n in n_images.items()}
    version = results_of(whole)["dataset"]["release"]
    assert fp2("purge", "--release", version, "--yes", *bench.paths) == 0
    assert not whole.exists()
    assert not faces.exists()
    assert other.folder.exists()
    with closing(sqlite3.connect(bench.root / "mlruns" / "mlflow.db")) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (0,)
    assert len(dump(bench.store)["answers"]) == 432


def test_a_run_without_its_config_is_recognised_by_its_results(tmp_path: Path) -> None:
    fhibe = {"dataset": {"name": "faces", "settings": {"terms": {}}}}
    assert kind_of(fhibe, tmp_path) == "fhibe"
    assert kind_of({"dataset": {"name": "squares", "settings": {}}}, tmp_path) == ""
    (tmp_path / "config.yaml").write_text("data: {name: squares, kind: squares}\n")
    assert kind_of(fhibe, tmp_path) == "squares"


def test_a_merged_value_that_nobody_has_any_more_does_not_stop_the_recomputation(bench: Bench) -> None:
    done = bench.run("cut.by=[region]", "cut.groups={region: {Polar: [North, South]}}", "data.limit=48")
    assert set(done.results["dataset"]["groups"]["region"]) == {"Polar", "West"}
    table = pd.read_csv(bench.table, dtype=str)
    south = sorted(set(table.loc[table["region"] == "South", "person"]))
    named = [word for person in south for word in ("--subject", person)]
    assert fp2("purge", *named, "--yes", *bench.paths) == 0
    after = results_of(done.folder)
    before, groups = (one["dataset"]["groups"]["region"] for one in (done.results, after))
    assert 0 < groups["Polar"]["n_subjects"] < before["Polar"]["n_subjects"]
    assert groups["West"] == before["West"]
