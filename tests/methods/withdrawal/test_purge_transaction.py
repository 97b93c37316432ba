"""A purge removes whom it names and nobody else, reaches every place, and is finished after a kill at any step."""

from __future__ import annotations

import base64
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import REPOSITORY, Bench, environment, every_byte, fp2, rest_of, results_of, write_pictures
from thorough import thorough_but

from fp2.methods.withdrawal.journal import Journal, alone, pending
from fp2.runs.folders import record_folder
from fp2.store.salted_keys import local_salt, salted
from fp2.store.withdrawn import read_withdrawn

QUICK = ("analysis.permutations=99", "analysis.bootstrap=0", "report=default", "report.figures=false")
LOGGED = ("tracking=mlflow", *QUICK)


def named(own_root: Path, folder: str = "h5", subject: Callable[[int], str] = "p{}".format) -> Bench:
    """Return a project on images img_1.png to img_40.png, one of each of 40 people."""
    pictures = write_pictures(own_root / folder, n_subjects=40, per_subject=1)
    rows = pd.read_csv(pictures / "people.csv")
    for number, name in enumerate(rows["file"], start=1):
        (pictures / name).rename(pictures / f"img_{number}.png")
    rows["file"] = [f"img_{number}.png" for number in range(1, 41)]
    rows["person"] = [subject(number) for number in range(1, 41)]
    rows.to_csv(pictures / "people.csv", index=False)
    return Bench(own_root, pictures)


def images_left(folder: Path) -> set[str]:
    return set(pd.read_parquet(folder / "people.parquet")["image_id"])


def keys_of(bench: Bench, names: list[str]) -> set[str]:
    return set(salted(names, local_salt(bench.root / "state"), "image"))


def tags_of(bench: Bench, run_id: str) -> dict[str, str]:
    with closing(sqlite3.connect(bench.root / "mlruns" / "mlflow.db")) as connection:
        return dict(connection.execute("SELECT key, value FROM tags WHERE run_uuid = ?", (run_id,)))


def artifacts_of(bench: Bench, run_id: str) -> Path:
    return next((bench.root / "mlruns" / "artifacts").glob(f"*/{run_id}")) / "artifacts"


def certificates(bench: Bench) -> list[Path]:
    return sorted((bench.root / "state" / "purges").glob("*.certificate.json"))


def predicate(certificate: Path) -> dict[str, Any]:
    payload = base64.b64decode(json.loads(certificate.read_text())["payload"])
    return dict(json.loads(payload)["predicate"])


def test_an_image_is_its_id_its_file_name_or_its_stem_and_never_a_part_of_a_path(
    own_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = named(own_root)
    folder = bench.run(*QUICK, folder="one").folder
    for given, gone in (("h5", []), ("img_", []), ("img_1", ["img_1.png"]), (" img_2.png ", ["img_2.png"])):
        before = images_left(folder)
        assert fp2("purge", "--image", given, "--yes", *bench.paths) == 0
        assert before - images_left(folder) == keys_of(bench, gone)
        assert f"image {given.strip()}: {'1 image, 6 answers, 1 run' if gone else 'selects'}" in capsys.readouterr().out


def test_what_is_selected_is_listed_by_id_before_it_is_removed(
    own_root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = named(own_root)
    bench.run(*QUICK, folder="one")
    seen: list[str] = []
    monkeypatch.setattr("typer.confirm", lambda text: seen.append(capsys.readouterr().out) or False)
    assert fp2("purge", "--subject", "p3", "--subject", "p99", "--image", "img_7", *bench.paths) == 1
    assert "subject p3: 1 image, 6 answers, 1 run\nsubject p99: selects nothing here\n" in seen[0]
    assert "image img_7: 1 image, 6 answers, 1 run, by its file name without ending" in seen[0]
    assert "1 people whose ids were not given are in these images" in seen[0]
    assert fp2("purge", "--subject", "p3", "--image", "img_7", "--dry-run", "--json", *bench.paths) == 0
    said = json.loads(capsys.readouterr().out.removeprefix("nothing was removed\n"))
    assert [(one["kind"], one["id"], one["images"], one["answers"], one["runs"]) for one in said["ids"]] == [
        ("subject", "p3", 1, 6, 1),
        ("image", "img_7", 1, 6, 1),
    ]
    assert said["others"] == 1


def test_an_id_selects_one_person_however_it_is_typed(own_root: Path) -> None:
    bench = named(own_root, subject="zoë_{}".format)
    folder = bench.run(*QUICK, folder="one").folder
    assert fp2("purge", "--subject", unicodedata.normalize("NFD", " zoë_4 "), "--yes", *bench.paths) == 0
    assert keys_of(bench, ["img_4.png"]).isdisjoint(images_left(folder))
    assert results_of(folder)["n_subjects"] == 39


@pytest.mark.usefixtures("mlflow_store")
@pytest.mark.package(name="several_runs")
def test_tags_with_a_meaning_stay_and_free_text_loses_whole_words(own_root: Path) -> None:
    from mlflow import MlflowClient

    bench = named(own_root, subject=str)
    one = bench.run(*LOGGED, folder="one")
    client = MlflowClient(f"sqlite:///{bench.root / 'mlruns' / 'mlflow.db'}")
    client.set_tag(one.run_id, "fp2.error", "subject 7 of img_7.png, not 17")
    client.set_tag(one.run_id, "mlflow.note.content", "look at (7) again")
    for experiment in (one.experiment_id, hidden := client.create_experiment("hidden")):
        client.set_experiment_tag(experiment, "mlflow.note.content", "of 7 and 17")
    client.delete_experiment(hidden)
    before = tags_of(bench, one.run_id)
    (bench.outputs / "failed").mkdir()
    note = bench.outputs / "failed" / "traceback.txt"
    note.write_text("OSError: subject 7, line 17")
    (bench.outputs / "failed" / "status.json").write_text('{"status": 7, "error": "subject 7"}')
    ranks = [bench.root / "elsewhere" / name for name in ("ranks.csv", "ranks.md")]
    assert fp2("leaderboard", "--csv", str(ranks[0]), "--markdown", str(ranks[1]), *bench.paths) == 0
    assert all(path.is_file() for path in ranks)
    assert fp2("purge", "--subject", "7", "--yes", *bench.paths) == 0
    assert not any(path.exists() for path in ranks)
    after = tags_of(bench, one.run_id)
    assert after["fp2.error"] == "subject removed of removed, not 17"
    assert after["mlflow.note.content"] == "look at (removed) again"
    for experiment in map(client.get_experiment, (one.experiment_id, hidden)):
        assert experiment.tags["mlflow.note.content"] == "of removed and 17"
    assert client.get_experiment(hidden).lifecycle_stage == "deleted"
    changed = {name for name in before if before[name] != after[name]}
    results = results_of(one.folder)
    assert changed <= {
        "fp2.error",
        "mlflow.note.content",
        "fp2.passport_sha256",
        "fp2.summary",
        "fp2.response_set",
        "fp2.dataset_digest",
        "fp2.description",
    }
    assert before["fp2.description"] != after["fp2.description"]
    assert "39 subjects" in after["fp2.description"]
    assert after["fp2.dataset_digest"] == results["dataset_digest"]
    assert json.loads(after["fp2.summary"])[0]["n_subjects"] == 39
    assert note.read_text() == "OSError: subject removed, line 17"
    assert json.loads(note.with_name("status.json").read_text()) == {"status": 7, "error": "subject removed"}
    assert fp2("leaderboard", *bench.paths) == 0
    assert fp2("check", str(one.folder), *bench.paths) == 0


@pytest.mark.usefixtures("mlflow_store")
@pytest.mark.parametrize("has_folder", [True, False])
def test_a_logged_run_whose_files_were_half_deleted_is_replaced_or_removed_by_any_purge(
    bench: Bench, has_folder: bool
) -> None:
    half, whole = bench.run(*LOGGED, folder="half"), bench.run(*LOGGED, "cut.by=[region]", folder="whole")
    if not has_folder:
        shutil.rmtree(half.folder)
    folder = artifacts_of(bench, half.run_id)
    (folder / "people.parquet").unlink()
    (folder / "passport.json").unlink()
    subject = pd.read_csv(bench.table)["person"].iloc[4]
    assert fp2("purge", "--subject", subject, "--yes", *bench.paths) == 0
    assert results_of(whole.folder)["n_subjects"] == 35
    if has_folder:
        assert (folder / "passport.json").read_bytes() == (half.folder / "passport.json").read_bytes()
        assert results_of(folder)["n_subjects"] == 35
    else:
        assert not folder.exists()
        assert not tags_of(bench, half.run_id)


def test_a_run_that_was_killed_while_it_wrote_its_tables_stops_no_purge(
    finished: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    half = finished.outputs / "half"
    half.mkdir()
    table = (finished.outputs / "one" / "people.parquet").read_bytes()
    (half / "people.parquet").write_bytes(table[: len(table) // 2])
    record_folder(finished.root / "state", "half", half)
    other = shutil.copytree(half, finished.outputs / "somebody's")
    subject = pd.read_csv(finished.table)["person"].iloc[4]
    assert fp2("purge", "--subject", subject, "--yes", *finished.paths) == 0
    assert results_of(finished.outputs / "one")["n_subjects"] == 35
    assert not half.exists()
    assert (other / "people.parquet").is_file()
    assert f"not reached: {other}: incomplete tables in a folder that no run" in capsys.readouterr().out


def test_runs_whose_files_say_something_odd_and_tables_of_somebody_else_stop_no_purge(
    finished: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    one, state = finished.outputs / "one", finished.root / "state"
    texts = [json.dumps({**results_of(one), key: 3}) for key in ("notes", "disparities", "odd")]
    texts += ["[" * 100_000, '{"a":' * 600 + "1" + "}" * 600]
    for number, (name, text) in enumerate(
        zip(["results.json"] * 2 + ["passport.json"] + ["status.json"] * 2, texts, strict=True)
    ):
        folder = shutil.copytree(one, finished.outputs / f"odd-{number}")
        (folder / name).write_text(text)
    tables = [
        ("people", "subject_id"),
        ("people", "image_id"),
        ("people", ""),
        ("responses", "image_id"),
        ("responses", "text"),
        ("responses", "response_key"),
        ("scores", "response_key"),
    ]
    for number, (name, column) in enumerate(tables):
        path = shutil.copytree(one, finished.outputs / f"other-{number}") / f"{name}.parquet"
        table = pd.read_parquet(path)
        (table.drop(columns=column) if column else table.assign(image_id=None)).to_parquet(path)
    subject = pd.read_csv(finished.table)["person"].iloc[4]
    assert fp2("purge", "--subject", subject, "--yes", "--drop-reports", *finished.paths) == 0
    assert not pending(state)
    for folder in (one, *finished.outputs.glob("odd-*")):
        assert pd.read_parquet(folder / "people.parquet")["subject_id"].nunique() == 35
    assert results_of(one)["n_subjects"] == 35
    said = capsys.readouterr().out
    for number in range(len(tables)):
        folder = finished.outputs / f"other-{number}"
        assert f"not reached: {folder}: the tables of a signed run, which cannot be read" in said


def test_folders_elsewhere_are_reached_and_one_that_is_gone_is_named(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench import execute

    elsewhere = tmp_path_factory.mktemp("elsewhere")
    run = execute(bench.words(*QUICK), elsewhere / "run")
    record_folder(bench.root / "state", run.run_id, run.folder)
    record_folder(bench.root / "state", "moved", elsewhere / "moved")
    subject = pd.read_csv(bench.table)["person"].iloc[4]
    assert fp2("purge", "--subject", subject, "--yes", *bench.paths) == 0
    assert results_of(run.folder)["n_subjects"] == 35
    assert f"not reached: {elsewhere / 'moved'}: the folder of run moved" in capsys.readouterr().out
    assert predicate(certificates(bench)[0])["not_reached"]


@pytest.mark.package(name="exports")
def test_a_copy_of_a_project_leaves_the_originals_folders_alone(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench import execute

    elsewhere = tmp_path_factory.mktemp("elsewhere")
    execute(bench.words(*QUICK), elsewhere / "run")
    inside = bench.run(*QUICK, "cut.by=[region]", folder="one").folder
    subject = pd.read_csv(bench.table)["person"].iloc[4]
    assert fp2("export", str(inside), "--csv", str(elsewhere / "rows.csv"), *bench.paths) == 0
    root = tmp_path_factory.mktemp("copy") / "project"
    shutil.copytree(bench.root, root)
    copy = Bench(root, bench.pictures)
    before = every_byte(bench.root) + every_byte(elsewhere)
    assert fp2("purge", "--subject", subject, "--yes", *copy.paths) == 0
    assert every_byte(bench.root) + every_byte(elsewhere) == before
    assert results_of(copy.outputs / "one")["n_subjects"] == 35
    said = capsys.readouterr().out
    for folder in (elsewhere / "run", inside):
        assert f"not reached: {folder}: of the project that this one is a copy of" in said
    assert fp2("purge", "--subject", subject, "--yes", *bench.paths) == 0
    assert results_of(elsewhere / "run")["n_subjects"] == 35
    assert not (elsewhere / "rows.csv").exists()


@pytest.mark.package(name="passport_page")
@pytest.mark.package(name="gate")
@pytest.mark.package(name="exports")
@pytest.mark.package(name="several_runs")
def test_reports_and_exports_elsewhere_are_removed_or_named(
    finished: Bench, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere, one = tmp_path_factory.mktemp("elsewhere"), str(finished.outputs / "one")
    (elsewhere / "mine.txt").write_text("mine")
    assert fp2("report", one, "--to", str(elsewhere), "report.figures=false", *finished.paths) == 0
    for name in ("rows.csv", "moved.csv", "edited.csv"):
        assert fp2("export", one, "--csv", str(elsewhere / name), *finished.paths) == 0
    fp2("gate", one, "--junit", str(elsewhere / "gate.xml"), "--markdown", str(elsewhere / "gate.md"), *finished.paths)
    passport = str(finished.outputs / "one" / "passport.json")
    assert fp2("passport", passport, "--html", str(elsewhere / "passport.html"), *finished.paths) == 0
    (elsewhere / "moved.csv").unlink()
    with (elsewhere / "edited.csv").open("a") as file:
        file.write("a note of mine\n")
    subject = pd.read_csv(finished.table)["person"].iloc[4]
    capsys.readouterr()
    assert fp2("purge", "--subject", subject, "--yes", *finished.paths) == 0
    said = capsys.readouterr().out
    assert {path.name for path in elsewhere.iterdir()} == {"mine.txt", "edited.csv"}
    run_id = results_of(finished.outputs / "one")["run_id"]
    for name in ("report.html", "rows.csv", "gate.xml", "gate.md", "passport.html"):
        assert f"{elsewhere / name}: written from run {run_id}\n" in said
    assert f"not reached: {elsewhere / 'edited.csv'}: written from run {run_id}, changed since\n" in said
    assert f"not reached: {elsewhere / 'moved.csv'}: written from run {run_id}, moved or deleted\n" in said


@pytest.mark.parametrize("everyone", [False, True])
def test_files_in_a_runs_folder_that_the_run_did_not_write_stay(
    finished: Bench, everyone: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    one = finished.outputs / "one"
    (one / "mine").mkdir()
    (one / "mine" / "thesis.txt").write_text("mine")
    draft = one / ".people.parquet.purged"
    draft.write_bytes(b"of a purge that was killed")
    people = pd.read_csv(finished.table)["person"].unique()
    chosen = [word for person in people[: None if everyone else 1] for word in ("--subject", person)]
    assert fp2("purge", *chosen, "--yes", *finished.paths) == 0
    assert (one / "mine" / "thesis.txt").read_text() == "mine"
    assert not draft.exists()
    assert (one / "people.parquet").exists() != everyone
    assert f"not reached: {one}: 1 file that the run did not write" in capsys.readouterr().out
    if everyone:
        assert {path.name for path in one.iterdir()} == {"mine"}
    else:
        assert "thesis" not in base64.b64decode(json.loads((one / "passport.json").read_text())["payload"]).decode()


def test_tables_that_a_killed_purge_had_downloaded_are_deleted(finished: Bench) -> None:
    state = finished.root / "state"
    left = state / "purges" / ".download-left"
    (left / "run").mkdir(parents=True)
    assert fp2("purge", "--subject", "nobody", "--dry-run", *finished.paths) == 0
    assert not list((state / "purges").glob(".download-*"))


def test_whoever_was_purged_is_withdrawn_and_a_release_is_not(finished: Bench) -> None:
    subject = pd.read_csv(finished.table)["person"].iloc[4]
    assert fp2("purge", "--release", "none", "--yes", *finished.paths) == 0
    assert not read_withdrawn(finished.root / "state")
    assert fp2("purge", "--subject", subject, "--yes", *finished.paths) == 0
    salt = local_salt(finished.root / "state")
    files = pd.read_csv(finished.table)["file"].iloc[4:6]
    withdrawn = read_withdrawn(finished.root / "state")
    assert withdrawn.subjects == set(salted([subject], salt))
    assert withdrawn.images == set(salted(files, salt, "image"))


def test_whoever_has_nothing_here_yet_is_left_out_later(finished: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("purge", "--subject", "new", "--dry-run", *finished.paths) == 0
    assert not read_withdrawn(finished.root / "state")
    assert fp2("purge", "--subject", "new", "--yes", *finished.paths) == 0
    assert "subject new: selects nothing here" in capsys.readouterr().out
    assert read_withdrawn(finished.root / "state").subjects == set(salted(["new"], local_salt(finished.root / "state")))


def test_the_certificate_verifies_and_names_nobody(finished: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    folder = finished.outputs / "one"
    rows = pd.read_csv(finished.table)
    subject, files = rows["person"].iloc[4], rows["file"].iloc[4:6]
    before = json.loads((folder / "results.json").read_text())
    finished.outputs.joinpath("old.zip").write_bytes(b"")
    assert fp2("purge", "--subject", subject, "--yes", *finished.paths) == 0
    (certificate,) = certificates(finished)
    key = str(next((finished.root / "state" / "keys").glob("*pub*")))
    assert fp2("verify", str(certificate), "--key", key) == 0
    said = capsys.readouterr().out
    assert "certificate of deletion valid: signature" in said
    assert "not reached: " in said
    stated = predicate(certificate)
    assert stated["removed"]["people"] == 1
    assert stated["removed"]["store"]["answers"] == 12
    (run,) = stated["removed"]["runs"]
    assert (run["run"], run["people"], run["answers"]) == (before["run_id"], 1, 12)
    assert run["before"]["passport.json"] != run["after"]["passport.json"]
    text = json.dumps(stated)
    assert not [name for name in (subject, *files) if name in text]
    for name in ("passport.json", "other.json"):  # in the place of a passport it is refused
        shutil.copyfile(certificate, folder / name)
    assert fp2("verify", str(folder / "passport.json"), "--key", key) == 1
    envelope = json.loads(certificate.read_text())
    envelope["payload"] = base64.b64encode(json.dumps({"a": 1}).encode()).decode()
    certificate.write_text(json.dumps(envelope))
    assert fp2("verify", str(certificate), "--key", key) == 1


def test_what_is_still_there_is_named_and_the_exit_status_says_so(
    finished: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = pd.read_csv(finished.table)["person"].iloc[4]
    mine = finished.outputs / "mine.csv"
    mine.write_text(f"{subject},a note of mine\n")
    assert fp2("purge", "--subject", subject, "--yes", *finished.paths) == 1
    assert f"still there: {mine}: an id" in capsys.readouterr().out
    assert subject not in json.dumps(predicate(certificates(finished)[0]))


def test_a_draft_of_a_journal_with_ids_does_not_outlive_a_kill(finished: Bench) -> None:
    draft = finished.root / "state" / "purges" / ".20260101T000000000000.json.4711"
    draft.parent.mkdir(parents=True)
    draft.write_text('{"words": ["p1"]}')
    finished.run()
    assert not draft.exists()


@pytest.mark.parametrize("place", ["/home/me/Documents", "/home/me/../x/{id}/artifacts", "file:///data/{id}/other"])
def test_a_server_cannot_point_a_purge_at_folders_of_this_machine(finished: Bench, place: str) -> None:
    from fp2.errors import Fp2Error
    from fp2.tracking.files import Logged, files_of

    run = Logged("0" * 32, "1", place.format(id="0" * 32), {}, {})
    config = finished.config("tracking=mlflow", "tracking.uri=http://127.0.0.1:9")
    with pytest.raises(Fp2Error, match="as the files of a run"):
        files_of(run, config, finished.root / "scratch")


def test_two_purges_do_not_run_at_the_same_time(finished: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    subject = pd.read_csv(finished.table)["person"].iloc[4]
    before = every_byte(finished.outputs)
    with alone(finished.root / "state"):
        assert fp2("purge", "--subject", subject, "--yes", *finished.paths) == 2
    assert "another purge is running" in capsys.readouterr().err
    assert every_byte(finished.outputs) == before


@pytest.fixture
def project(own_root: Path, mlflow_store: None) -> Bench:
    """A project with two logged runs, one without its folder, a list of chosen images and a note of a failed run."""
    bench = named(own_root)
    names = ",".join(f"img_{number}.png" for number in range(1, 31))
    bench.run(*LOGGED, f"data.ids=[{names}]", folder="one")
    shutil.rmtree(bench.run(*LOGGED, "cut.by=[region]", folder="two").folder)
    (bench.outputs / "failed").mkdir()
    (bench.outputs / "failed" / "traceback.txt").write_text("OSError: img_4.png, img_14.png")
    return bench


def store_rows(bench: Bench) -> dict[str, set[Any]]:
    """Return what the store holds of everyone but the person p4, and the answers of all by key."""
    with closing(sqlite3.connect(bench.store)) as connection:
        theirs = sorted(keys_of(bench, ["img_4.png"]))
        answers = set(connection.execute("SELECT * FROM answers"))
        pictures = set(connection.execute("SELECT image, subject, path FROM pictures"))
        keys = {
            key.hex()
            for (key,) in connection.execute(
                "SELECT key FROM origins JOIN pictures ON picture = id WHERE image = ?", theirs
            )
        }
    return {
        "mine": {row for row in answers if row[0] in keys} | {row for row in pictures if row[0] in theirs},
        "others": {row for row in answers if row[0] not in keys} | {row for row in pictures if row[0] not in theirs},
    }


def check_finished(bench: Bench, others: set[Any], tables: dict[str, pd.DataFrame]) -> None:
    """Assert that nothing of p4 is anywhere, that nobody else's rows changed, and that what is left verifies."""
    rows = store_rows(bench)
    assert rows["mine"] == set()
    assert rows["others"] == others
    (table := bench.pictures / "people.csv").rename(aside := bench.root.parent / "people.csv.aside")
    left = rest_of(bench.root)
    aside.rename(table)
    salt = local_salt(bench.root / "state")
    for key in (*salted(["p4"], salt), *salted(["img_4.png"], salt, "image"), "img_4.png"):
        assert key.encode() not in left, key
    key = str(next((bench.root / "state" / "keys").glob("*pub*")))
    (image,) = salted(["img_4.png"], salt, "image")
    for run_id, before in tables.items():
        folder = artifacts_of(bench, run_id)
        after = pd.read_parquet(folder / "responses.parquet")
        assert after.equals(before[before["image_id"] != image].reset_index(drop=True))
        assert fp2("verify", str(folder / "passport.json"), "--key", key) == 0
    assert not pending(bench.root / "state")
    for certificate in certificates(bench):
        assert fp2("verify", str(certificate), "--key", key) == 0


def answers_of(bench: Bench) -> dict[str, pd.DataFrame]:
    folders = sorted((bench.root / "mlruns" / "artifacts").glob("*/*/artifacts"))
    return {folder.parent.name: pd.read_parquet(folder / "responses.parquet") for folder in folders}


def run_anew(bench: Bench, kept: Path) -> None:
    """Put the project back to what it was."""
    for path in bench.root.iterdir():
        if path != kept and path != bench.pictures:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(kept, bench.root, dirs_exist_ok=True)


@pytest.mark.long
def test_a_purge_that_ends_at_any_step_is_finished_by_the_next(
    project: Bench,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = tmp_path_factory.mktemp("kept") / "project"
    shutil.copytree(project.root, kept, ignore=shutil.ignore_patterns(project.pictures.name))
    others, tables = store_rows(project)["others"], answers_of(project)
    write, kinds = Journal.write, set()
    for place in (3, 6, 9):  # of the nine times that the journal is written
        stops = iter(range(place - 1, -1, -1))
        early = bool(place % 2)  # before the journal says so

        def stop(journal: Journal, stops: Iterator[int] = stops, early: bool = early) -> None:
            is_last = next(stops) == 0
            if is_last and early:
                raise KeyboardInterrupt
            write(journal)
            kinds.update(step.kind for step in journal.steps)
            if is_last:
                raise KeyboardInterrupt

        run_anew(project, kept)
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "write", stop)
            assert fp2("purge", "--subject", "p4", "--yes", *project.paths) == 130
        began = bool(pending(project.root / "state"))
        capsys.readouterr()
        assert fp2("purge", "--subject", "nobody", "--dry-run", *project.paths) == 0
        assert began == ("finished the purge that began at" in capsys.readouterr().out)
        check_finished(project, others, tables)
    assert kinds == {"run", "texts", "store"}


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("moved", [False, True])
def test_a_folder_that_is_gone_since_the_purge_was_killed_stops_no_purge(
    finished: Bench, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    bench, people = finished, pd.read_csv(finished.table)["person"].unique()
    with monkeypatch.context() as patch:
        patch.setattr("fp2.methods.withdrawal.purge._mirror", lambda *folders: signal.raise_signal(signal.SIGINT))
        assert fp2("purge", "--subject", people[4], "--yes", *bench.paths) == 130
    if moved:
        root = tmp_path_factory.mktemp("moved") / "project"
        bench = Bench(root, Path(str(bench.pictures).replace(str(bench.root), str(root))))
        shutil.move(finished.root, root)
    else:
        shutil.rmtree(bench.outputs / "one")
    assert fp2("purge", "--subject", people[5], "--yes", *bench.paths) == 0
    assert not pending(bench.root / "state")
    if moved:
        assert results_of(bench.outputs / "one")["n_subjects"] == 34


KILLED = """
import os, signal, sys
from fp2.runs import purge
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository

def die(*args, **options):
    os.kill(os.getpid(), signal.SIGKILL)

def half(self, path=None):
    for name in sorted(os.listdir(self.artifact_dir))[::2]:
        os.remove(os.path.join(self.artifact_dir, name))
    die()

where = sys.argv.pop(1)
if where == "mlflow":
    LocalArtifactRepository.delete_artifacts = half
elif where == "folder":
    copy, done = purge.shutil.copyfile, []
    def some(source, target, **options):
        copy(source, target, **options)
        done.extend([target] * str(target).endswith(".purged"))
        return target if len(done) < 4 else die()
    purge.shutil.copyfile = some
sys.argv[0] = "fp2"
from fp2.cli import main
main()
"""


@pytest.mark.long
@pytest.mark.parametrize("where", thorough_but(["folder", "mlflow"], "mlflow"))
def test_a_killed_purge_is_finished_by_the_next(project: Bench, tmp_path: Path, where: str) -> None:
    others, tables = store_rows(project)["others"], answers_of(project)
    script = project.root / "killed.py"
    script.write_text(KILLED)
    done = subprocess.run(
        [sys.executable, str(script), where, "purge", "--subject", "p4", "--yes", *project.paths],
        env=environment(project.root),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert pending(project.root / "state")
    assert fp2("purge", "--subject", "p5", "--yes", *project.paths) == 0
    theirs = keys_of(project, ["img_5.png"])
    assert len(certificates(project)) == 2
    gone = {row for row in others if set(row) & theirs}
    assert gone
    check_finished_two(project, others, tables, theirs)


def check_finished_two(bench: Bench, others: set[Any], tables: dict[str, pd.DataFrame], also: set[str]) -> None:
    """Assert the same after `also` (images) were purged too."""
    left = store_rows(bench)
    keys = {row[0] for row in others - left["others"] if len(row) > 3}
    assert left["mine"] == set()
    assert len(keys) == 6
    check_finished(bench, left["others"], {run: table[~table["image_id"].isin(also)] for run, table in tables.items()})
