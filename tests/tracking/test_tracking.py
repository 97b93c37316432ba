"""What is logged to MLflow, several processes that start at once on nothing, and a store that was moved."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from shutil import copyfile, move
from typing import Any

import pandas as pd
import pytest
from bench import Bench, check_counts, files_in, fp2, interrupted, results_of, run_child

from fp2.errors import EXIT_NOT_LOGGED, Fp2Error
from fp2.runs.logged import passport_part
from fp2.tracking import client as tracking_client
from fp2.tracking import ui
from fp2.tracking.client import METRICS_AT_ONCE, Tracker, metrics_of, relocate, slug, summaries, tracking_uri

pytestmark = pytest.mark.long

IMPORTED = [
    "fp2.app", "fp2.report.dashboard", "fp2.methods.peeps.data.source",
    "fp2.protocols.fingerprint.protocol", "hydra.main", "mlflow.store.tracking.sqlalchemy_store",
]  # fmt: skip
FULL = ("tracking=mlflow", "report=default", "scorer=default", "cut.each=[gender,region]")


def client_of(bench: Bench) -> Any:
    import mlflow

    return mlflow.MlflowClient(tracking_uri=tracking_uri(bench.config("tracking=mlflow")))


def artifacts_of(client: Any, run_id: str, folder: str | None = None) -> set[str]:
    found: set[str] = set()
    for item in client.list_artifacts(run_id, folder):
        found |= artifacts_of(client, run_id, item.path) if item.is_dir else {item.path}
    return found


def with_store(bench: Bench, empty_mlflow: Path) -> Bench:
    """Return the project with a store without runs in it."""
    (bench.root / "mlruns").mkdir(parents=True)
    copyfile(empty_mlflow, bench.root / "mlruns" / "mlflow.db")
    return bench


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory, squares: Path, empty_mlflow: Path) -> tuple[Bench, Any]:
    """One run with everything on, logged."""
    bench = with_store(Bench(tmp_path_factory.mktemp("logged"), squares), empty_mlflow)
    return bench, bench.run(*FULL)


LEADING = ("composite", "magnitude", "n_biased", "n_tested", "refusal_rate")
"""The metrics in the first section of the charts, before those of the probes."""


@pytest.fixture(scope="module")
def logged_twice(
    tmp_path_factory: pytest.TempPathFactory, squares: Path, empty_mlflow: Path
) -> tuple[Bench, list[Any]]:
    """Two runs of one model with one cut each, logged."""
    bench = with_store(Bench(tmp_path_factory.mktemp("twice"), squares), empty_mlflow)
    return bench, [bench.run(*FULL[:-1], "report.figures=false", f"cut.by=[{name}]") for name in ("gender", "region")]


def test_params_tags_metrics_and_artifacts(logged: tuple[Bench, Any]) -> None:
    bench, outcome = logged
    client = client_of(bench)
    run = client.get_run(outcome.run_id)
    results = outcome.results
    assert run.info.status == "FINISHED"
    assert run.data.params["model"] == "planted"
    assert all(len(value) < 250 for value in run.data.params.values())
    for key in ("config_hash", "response_set", "dataset_digest"):
        assert run.data.tags[f"fp2.{key}"] == results[key]
    assert "mlflow.parentRunId" not in run.data.tags
    assert run.data.metrics["composite"] == pytest.approx(results["composite"])
    for row in results["disparities"]:
        if row["raw"] is not None:
            assert run.data.metrics[f"{row['probe']}.{row['scorer']}.{row['cut']}.raw"] == pytest.approx(row["raw"])
    assert {f"{p['id']}.refusal_rate" for p in results["probes"]} <= set(run.data.metrics)
    rows = [row for row in results["disparities"] if row["scorer"] == "valence" and row["status"] == "ok"]
    assert run.data.metrics["n_tested"] == run.data.metrics["summary/n_tested"] == len(rows)
    assert run.data.metrics["n_biased"] == sum(row["verdict"] == "biased" for row in rows)
    assert run.data.metrics["magnitude"] == pytest.approx(results["composites"]["gender"]["magnitude"])
    here = files_in(outcome.folder)
    assert artifacts_of(client, outcome.run_id) == here
    assert here >= {"passport.json", "results.json", "people.parquet", "disparities.json", "dashboard.html"}


@pytest.mark.usefixtures("mlflow_store")
def test_the_description_is_ours_until_a_user_writes_one(bench: Bench) -> None:
    outcome = bench.run("tracking=mlflow")
    client = client_of(bench)
    note = client.get_run(outcome.run_id).data.tags["mlflow.note.content"]
    results = outcome.results
    assert note.startswith(f"planted on {results['dataset']['name']}: {results['n_subjects']} subjects")
    tracker = Tracker(client, outcome.run_id, "1")
    tracker.tag({"description": "new"})
    assert client.get_run(outcome.run_id).data.tags["mlflow.note.content"] == "new"
    client.set_tag(outcome.run_id, "mlflow.note.content", "mine")
    tracker.tag({"description": "newer"})
    assert client.get_run(outcome.run_id).data.tags["mlflow.note.content"] == "mine"


def test_the_disparities_are_a_table_of_the_ui(logged: tuple[Bench, Any]) -> None:
    import mlflow

    bench, outcome = logged
    mlflow.set_tracking_uri(tracking_uri(bench.config("tracking=mlflow")))
    experiment = client_of(bench).get_run(outcome.run_id).info.experiment_id
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlflow.tracking.fluent._get_experiment_id", lambda: experiment)
        table = mlflow.load_table("disparities.json", run_ids=[outcome.run_id])
    raws = pd.Series([row["raw"] for row in outcome.results["disparities"]], dtype="float64")
    pd.testing.assert_series_equal(table["raw"].astype("float64"), raws, check_names=False)
    assert table["probe"].tolist() == [row["probe"] for row in outcome.results["disparities"]]


@pytest.mark.usefixtures("mlflow_store")
def test_a_failing_run_is_failed_and_an_interrupted_one_killed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from fp2 import artifacts

    quick = ("tracking=mlflow",)
    for error, status in ((RuntimeError("broken"), "FAILED"), (KeyboardInterrupt(), "KILLED")):

        def fail(*args: Any, error: BaseException = error) -> Any:
            raise error

        monkeypatch.setattr(artifacts, "write_results", fail)
        with pytest.raises(type(error)):
            bench.run(*quick)
        runs = client_of(bench).search_runs(["1"], f"attributes.status = '{status}'")
        assert len(runs) == 1
        assert runs[0].data.tags["fp2.error"]
    monkeypatch.undo()
    partial = bench.run(*quick, "model.truth={errors: {rate: 0.4}}")
    assert client_of(bench).get_run(partial.run_id).info.status == "FAILED"
    assert summaries(bench.config(*quick)) == []  # none of these belongs on a leaderboard


@pytest.mark.usefixtures("mlflow_store")
def test_a_store_that_breaks_while_logging_is_one_line(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(self: Any, *args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Tracker, "log", full)
    assert bench.launch("tracking=mlflow") == EXIT_NOT_LOGGED
    err = capsys.readouterr().err
    assert "No space left on device" in err
    assert "Traceback" not in err
    (folder,) = bench.run_folders()
    assert f"fp2 log {folder}" in " ".join(err.split())
    (failed,) = client_of(bench).search_runs(["1"])
    assert failed.info.status == "FAILED"
    monkeypatch.undo()
    assert fp2("log", str(folder), *bench.paths) == 0
    (run,) = client_of(bench).search_runs(["1"])
    assert run.info.status == "FINISHED"
    assert run.info.run_id == results_of(folder)["run_id"]
    assert artifacts_of(client_of(bench), run.info.run_id) == files_in(folder) - {"status.json"}
    capsys.readouterr()
    assert fp2("log", str(folder), *bench.paths) == 2
    assert "logged already" in capsys.readouterr().err


def test_a_server_that_never_replies_delays_no_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It gets one short request before the answers are asked for, and patience once they are stored."""
    timeout, tries = "MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
    monkeypatch.setattr(tracking_client, "_HASTY", {timeout: "1", tries: "0"})
    monkeypatch.setattr(tracking_client, "_PATIENT", {timeout: "2", tries: "1"})
    for name in (timeout, tries):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    found: list[tuple[int, str, str]] = []
    plain = tracking_client._experiment

    def noted(*args: Any) -> Any:
        with closing(sqlite3.connect(bench.store)) as connection:
            (n,) = connection.execute("SELECT COUNT(*) FROM answers").fetchone()
        found.append((n, os.environ[timeout], os.environ[tries]))
        return plain(*args)

    monkeypatch.setattr(tracking_client, "_experiment", noted)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert bench.launch("tracking=mlflow", f"tracking.uri={uri}", "report=none") == EXIT_NOT_LOGGED
    assert "fp2 log" in " ".join(capsys.readouterr().err.split())
    assert found == [(0, "1", "0"), (432, "2", "1")]


@pytest.mark.package(name="maintenance")
@pytest.mark.package(name="reruns")
def test_a_store_that_is_no_store_is_one_line(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    (bench.root / "mlruns").mkdir()
    (bench.root / "mlruns" / "mlflow.db").write_text("this is no database, and long enough to be taken for none")
    assert bench.launch("tracking=mlflow", "report=default", "report.figures=false") == EXIT_NOT_LOGGED
    err = capsys.readouterr().err
    assert "the MLflow store cannot be used" in err
    assert "Traceback" not in err
    (folder,) = bench.run_folders()
    assert results_of(folder)["complete"] is True
    assert files_in(folder) >= {"passport.json", "dashboard.html"}
    assert fp2("doctor", *bench.paths) == 1
    assert "MLflow" in capsys.readouterr().out
    (bench.root / "mlruns" / "mlflow.db").unlink()
    run_id = results_of(folder)["run_id"]
    assert fp2("log", "zzzzzz", *bench.paths) == 2
    assert fp2("log", run_id[:6], *bench.paths) == 0
    (run,) = client_of(bench).search_runs(["1"])
    assert run.info.status == "FINISHED"
    assert run.data.tags["fp2.run_id"] == run_id
    assert run.data.params["model"] == "planted"
    found = [tracking_client.find_run(bench.config(), word[:8]) for word in (run_id, run.info.run_id)]
    assert found == [run_id, run.info.run_id]  # by its own id and by MLflow's
    assert fp2("rerun", run_id, *bench.paths, "report.dashboard=false") == 0


KILLED = """
import os, signal, sys
from alembic.ddl.impl import DefaultImpl
steps = 0
plain = DefaultImpl._exec
def counted(self, *args, **kwargs):
    global steps
    steps += 1
    if steps == 60:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(self, *args, **kwargs)
DefaultImpl._exec = counted
from fp2.app import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.thorough
def test_a_run_killed_while_the_store_is_created_costs_nothing(bench: Bench) -> None:
    script = bench.root / "killed.py"
    script.write_text(KILLED, encoding="utf-8")
    with bench.process("tracking=mlflow", script=script) as child:
        _, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err
    outcome = bench.run("tracking=mlflow")
    assert outcome.exit_status == 0
    assert client_of(bench).get_run(outcome.run_id).info.status == "FINISHED"
    assert {path.name for path in (bench.root / "mlruns").glob("*mlflow.db*")} <= {
        "mlflow.db",
        "mlflow.db-wal",
        "mlflow.db-shm",
    }


@pytest.mark.thorough
@pytest.mark.package(name="maintenance")
def test_a_store_that_was_left_half_made_is_replaced_and_kept(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    database = bench.root / "mlruns" / "mlflow.db"
    database.parent.mkdir()
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript("CREATE TABLE experiments (experiment_id INTEGER); CREATE TABLE runs (a TEXT)")
    before = database.read_bytes()
    assert fp2("doctor", *bench.paths) == 1
    assert "incomplete" in " ".join(capsys.readouterr().out.split())
    assert bench.launch("tracking=mlflow") == 0
    err = " ".join(capsys.readouterr().err.split())
    assert "incomplete" in err
    (aside,) = database.parent.glob("mlflow.db.half-made-*")
    assert aside.read_bytes() == before
    assert len(client_of(bench).search_runs(["1"], "attributes.status = 'FINISHED'")) == 1


@pytest.mark.usefixtures("mlflow_store")
def test_a_store_with_runs_is_never_replaced(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Its schema is another version's: only `mlflow db upgrade` may change it."""
    database = bench.root / "mlruns" / "mlflow.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '451aebb31d03'")
    assert bench.launch("tracking=mlflow") == EXIT_NOT_LOGGED
    assert "out-of-date database schema" in " ".join(capsys.readouterr().err.split())
    assert list(database.parent.glob("*half-made*")) == []


@pytest.mark.usefixtures("mlflow_store")
def test_a_store_that_comes_back_before_the_end_is_logged_to(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []
    start = tracking_client.start_run

    def locked(*args: Any, **options: Any) -> Tracker:
        tries.append(args)
        if len(tries) == 1:
            raise Fp2Error("the MLflow store cannot be used: database is locked")
        return start(*args, **options)

    monkeypatch.setattr(tracking_client, "start_run", locked)
    outcome = bench.run("tracking=mlflow")
    assert outcome.exit_status == 0
    run = client_of(bench).get_run(outcome.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["fp2.run_id"] == outcome.results["run_id"]


def test_a_sqlite_store_elsewhere(bench: Bench) -> None:
    elsewhere = bench.root / "elsewhere" / "runs.db"
    outcome = bench.run("tracking=mlflow", f"tracking.uri=sqlite:///{elsewhere}")
    assert elsewhere.is_file()
    assert not (bench.root / "mlruns").exists()
    assert (bench.root / "elsewhere" / "artifacts" / "fingerprint" / outcome.run_id).is_dir()
    assert "elsewhere" not in (outcome.folder / "config.yaml").read_text(encoding="utf-8")


def test_a_run_names_its_data_its_model_and_who_started_it(logged_twice: tuple[Bench, list[Any]]) -> None:
    """Two runs of a model with one cut each: one data set, one model, metrics of both by the same names."""
    bench, (outcome, other) = logged_twice
    client = client_of(bench)
    runs = [client.get_run(one.run_id) for one in (outcome, other)]
    (dataset,), (again,) = ([one.dataset for one in run.inputs.dataset_inputs] for run in runs)
    assert (dataset.name, dataset.digest) == (again.name, outcome.results["dataset"]["digest"][:36])
    assert str(bench.pictures) not in dataset.source
    experiment = client.get_experiment(outcome.experiment_id)
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"
    (model,) = client.search_logged_models([outcome.experiment_id])
    assert [[one.model_id for one in run.inputs.model_inputs] for run in runs] == [[model.model_id]] * 2
    assert {"mlflow.user", "mlflow.source.name"} <= set(runs[0].data.tags)
    assert "mlflow.source.git.commit" not in runs[0].data.tags, "the project is no git repository"
    code = passport_part(outcome.folder, "generator")
    stated = {key: str(code[key]).lower() for key in ("version", "git_commit", "dirty") if code[key] is not None}
    for run in runs:
        (linked,) = run.inputs.dataset_inputs
        tags = {tag.key: tag.value for tag in linked.tags}
        for where in (run.data.tags, tags):
            assert {key: where.get(f"fp2.{key}") for key in stated} == stated
    aligned = {f"disparity.{probe['id']}" for probe in outcome.results["probes"]} | {"composite"}
    for run in runs:
        assert aligned <= set(run.data.metrics)
    assert {(one.key, one.run_id) for one in model.metrics} >= {(k, r.info.run_id) for k in aligned for r in runs}


def test_a_sample_of_answers_is_a_table_of_the_ui(logged: tuple[Bench, Any]) -> None:
    _, outcome = logged
    table = json.loads((outcome.folder / "answers_sample.json").read_text())
    assert table["columns"] == ["probe", "gender", "region", "answer", "refused", "valence_context"]
    answers = pd.read_parquet(outcome.folder / "responses.parquet")
    assert {row[3] for row in table["data"]} <= set(answers["text"])
    assert {row[0] for row in table["data"]} == {probe["id"] for probe in outcome.results["probes"]}


@pytest.mark.usefixtures("mlflow_store")
def test_what_is_logged_while_a_run_goes_on_may_fail(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics with a step for each batch; a store that refuses them costs nothing else."""
    monkeypatch.setattr("fp2.runs.live.METRIC_SECONDS", 0.0)
    steps: list[int] = []
    stream = Tracker.stream

    def once(self: Tracker, metrics: dict[str, float], step: int) -> None:
        if steps:
            raise OSError("gone")
        steps.append(step)
        stream(self, metrics, step)

    monkeypatch.setattr(Tracker, "stream", once)
    outcome = bench.run("tracking=mlflow", "engine.batch_size=8")
    assert outcome.exit_status == 0
    history = client_of(bench).get_metric_history(outcome.run_id, "live.answers")
    assert [(one.step, one.value) for one in history] == [(steps[0], steps[0])]


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.thorough
@pytest.mark.package(name="maintenance")
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed to open the page with")
def test_the_printed_links_open_the_runs_in_the_ui(
    logged_twice: tuple[Bench, list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Another program has the first port, and a run printed its command before the UI was there."""
    from playwright.sync_api import sync_playwright

    from fp2.app import places_of
    from fp2.methods.maintenance.ui import FIRST_PORT

    bench, (outcome, other) = logged_twice
    config = bench.config("tracking=mlflow")
    places = places_of(config, outcome)
    assert places["MLflow"] == f"fp2 ui {outcome.run_id[:8]} paths.mlruns={bench.root}/mlruns"
    assert not [name for name, place in places.items() if "http" in str(place)], "no UI runs: a link would be dead"
    command = [sys.executable, "-m", "fp2.cli", "ui", outcome.run_id[:8], str(other.folder), *bench.paths]
    with ExitStack() as stack:
        taken = stack.enter_context(socket.socket())
        with suppress(OSError):  # another program has it in fact
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind((ui.UI_HOST, FIRST_PORT))
            taken.listen()
        server = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(server.terminate)
        assert server.stdout is not None
        charts, link = (server.stdout.readline().split()[-1] for _ in range(2))
        port = ui.running_port(config)
        assert port not in (None, FIRST_PORT)
        assert {one.partition("#")[0] for one in (charts, link)} == {f"http://{ui.UI_HOST}:{port}/"}
        assert not set(link) & set('[]" ')
        assert fp2("ui", outcome.run_id, *bench.paths) == 0  # the UI runs: its links, and no second server
        assert capsys.readouterr().out.split() == ["MLflow", charts, "run", places_of(config, outcome)["MLflow"]]
        page = (
            stack.enter_context(sync_playwright())
            .chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            .new_page()
        )
        page.goto(link)
        page.get_by_text("Comparing 2 Runs").first.wait_for()
        for one in (outcome, other):
            page.get_by_text(one.run_id).first.wait_for()
        page.goto(charts)
        first = page.locator("[role=button][aria-expanded]", has_text="Add chart").first.inner_text()
        probes = [probe["id"] for probe in outcome.results["probes"]]
        names = {name for name in client_of(bench).get_run(outcome.run_id).data.metrics if name.startswith("summary/")}
        assert " ".join(first.split()).startswith(f"summary ({len(names)})"), "the first section of the charts"
        assert names == {f"summary/{key}" for key in (*LEADING, *probes)}
    assert server.returncode == 0
    assert ui.running_port(config) is None


def test_the_command_of_the_ui_names_a_store_that_is_elsewhere(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FP2_ROOT", str(bench.root))
    assert ui.ui_command(bench.config()) == "fp2 ui"
    monkeypatch.setenv("FP2_ROOT", str(bench.root / "elsewhere"))
    assert ui.ui_command(bench.config()) == f"fp2 ui paths.mlruns={bench.root}/mlruns"
    assert ui.ui_command(bench.config("tracking.uri=http://h:1")) == "fp2 ui tracking.uri=http://h:1"


def test_more_metrics_than_one_request_takes() -> None:
    sizes: list[int] = []

    class Client:
        def log_batch(self, run_id: str, metrics: list[Any]) -> None:
            sizes.append(len(metrics))

        def set_tag(self, *args: Any) -> None:
            pass

    cut = {"value": 0.1, "null_mean": None, "excess": None, "p_value": None}
    results = {
        "cuts": ["c0"],
        "composite": 0.1,
        "composites": {f"c{i}": cut for i in range(METRICS_AT_ONCE + 5)},
        "disparities": [],
        "answers": {"answered": 0},
        "refusal_rates": [],
        "analysis": {"primary": "valence"},
    }
    Tracker(Client(), "r", "1").log({}, results)
    assert max(sizes) <= METRICS_AT_ONCE
    assert sum(sizes) == len(metrics_of(results)) > METRICS_AT_ONCE


def test_a_name_for_a_metric_keeps_letters_only() -> None:
    assert slug("She/her · [x]=%") == "She/her _ _x_"


def test_several_processes_at_once_on_nothing(tmp_path: Path, squares: Path) -> None:
    """No MLflow store, no response store, no key, no salt, no drawn people: all succeed, and agree."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)  # once, and not by each of them
    queue = context.Queue()
    small = ["data=peeps", "data.n_subjects=22", "data.images_per_subject=1", "data.n_pairs=0"]
    words = [*small, "cut=pronoun", "tracking=mlflow"]
    children = [
        context.Process(target=run_child, args=(str(tmp_path), str(squares), words, queue), daemon=True)
        for _ in range(3)
    ]
    for child in children:
        child.start()
    outcomes = [queue.get(timeout=240) for _ in children]
    for child in children:
        child.join(timeout=30)
    assert outcomes == [(0, "")] * 3
    folders = Bench(tmp_path, squares).run_folders()
    assert len(folders) == 3
    found = [results_of(folder) for folder in folders]
    assert len({json.dumps(results["disparities"]) for results in found}) == 1
    assert len({results["run_id"] for results in found}) == 3
    people = {(folder / "people.parquet").read_bytes() for folder in folders}
    assert len(people) == 1  # one salt
    client = client_of(Bench(tmp_path, squares))
    assert len(client.search_runs(["1"], "attributes.status = 'FINISHED'")) == 3
    with closing(sqlite3.connect(tmp_path / "mlruns" / "mlflow.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.package(name="maintenance")
@pytest.mark.package(name="reruns")
def test_a_moved_project_finds_its_artifacts_again(
    bench: Bench, empty_mlflow: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = with_store(Bench(tmp_path / "old", bench.pictures), empty_mlflow)
    run_id = old.run("tracking=mlflow").run_id
    new = Bench(Path(move(old.root, tmp_path / "new mlruns")), bench.pictures)
    assert fp2("rerun", run_id, *new.paths) == 2
    assert "fp2 relocate" in capsys.readouterr().err
    assert fp2("relocate", *new.paths) == 0
    assert "3 addresses changed" in capsys.readouterr().out  # one experiment, one run, one logged model
    with closing(sqlite3.connect(new.root / "mlruns" / "mlflow.db")) as connection, connection:
        models = "SELECT artifact_location FROM logged_models"
        ((address,),) = connection.execute(models).fetchall()
        assert address.startswith((new.root / "mlruns" / "artifacts").as_uri())
        # as version 0.3.0 left it: only the model is in the old folder
        stale = address.replace(new.root.as_uri(), old.root.as_uri())
        connection.execute("UPDATE logged_models SET artifact_location = ?", (stale,))
    assert fp2("doctor", *new.paths, "engine.device=cpu") == 1
    assert "the project was copied or moved" in " ".join(capsys.readouterr().out.split())
    assert relocate(new.config("tracking=mlflow")) == 1
    with closing(sqlite3.connect(new.root / "mlruns" / "mlflow.db")) as connection:
        assert connection.execute(models).fetchall() == [(address,)]
    assert relocate(new.config("tracking=mlflow")) == 0
    assert fp2("rerun", run_id, *new.paths) == 0
    again = results_of(new.run_folders()[-1])["run_id"]
    assert again != run_id
    assert str(new.root) in client_of(new).get_run(again).info.artifact_uri.replace("%20", " ")


def test_a_sweep_id_that_could_be_a_query_finds_nothing(logged: tuple[Bench, Any]) -> None:
    config = logged[0].config("tracking=mlflow")
    assert len(summaries(config)) == 2
    assert summaries(config, "x' or '1' = '1") == []
    with pytest.raises(Fp2Error, match="sweep id"):
        logged[0].config('tracking.sweep_id="x\'y"')


@pytest.mark.thorough
@pytest.mark.package(name="maintenance")
@pytest.mark.package(name="withdrawal")
def test_a_copied_project_never_writes_into_the_original(
    logged: tuple[Bench, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """MLflow stores absolute addresses of artifacts: a copy refuses to run, says how to repair it, and then runs."""
    original = logged[0]
    copy = original.copied_to(tmp_path / "copy")
    before = files_in(original.root / "mlruns" / "artifacts")
    with pytest.raises(Fp2Error, match=r"copied or moved.*fp2 relocate"):
        copy.run("tracking=mlflow")
    assert fp2("purge", "--release", "1", "--yes", *copy.words("tracking=mlflow")) != 0
    assert fp2("doctor", *copy.words("tracking=mlflow", "engine.device=cpu")) == 1
    assert "failed MLflow: the project was copied or moved" in " ".join(capsys.readouterr().out.split())
    assert fp2("relocate", *copy.words("tracking=mlflow")) == 0
    outcome = copy.run("tracking=mlflow")
    assert files_in(original.root / "mlruns" / "artifacts") == before
    assert list((copy.root / "mlruns" / "artifacts").rglob(f"{outcome.run_id}/artifacts/results.json"))


@pytest.mark.usefixtures("mlflow_store")
def test_an_interrupted_run_is_killed_and_what_was_not_asked_did_not_fail(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    with interrupted(1):
        assert bench.launch("tracking=mlflow", "engine.batch_size=60", "report=default", "report.figures=false") != 0
    (folder,) = bench.run_folders()
    results = results_of(folder)
    check_counts(results)
    assert results["answers"]["failed"] == 0
    assert results["answers"]["not_asked"] == 12 * 6
    assert sum(row["failed"] for row in results["answers_by_group"]) == 0
    assert "72 not asked" in capsys.readouterr().out
    assert "72 not asked" in (folder / "dashboard.html").read_text(encoding="utf-8")
    assert results["composite"] is not None
    assert results["severity"] is results["composites"]["gender"]["severity"] is None
    assert client_of(bench).get_run(results["run_id"]).info.status == "KILLED"
