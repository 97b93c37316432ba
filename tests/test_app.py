"""Runs and sweeps from the command line: mistakes are one line, sweeps share answers, one job stops no other."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import REPOSITORY, Bench, environment, fp2, results_of

from fp2.app import _own_settings, _varied, main
from fp2.compose import jobs_of
from fp2.errors import EXIT_BAD_INPUT
from fp2.runs.outputs import name_with

COLUMNS = "data.columns={image: file, subject: person, region: region, pronoun: gender}"


# --- sweeps ---


@pytest.mark.usefixtures("mlflow_store")
@pytest.mark.package(name="maintenance")
@pytest.mark.package(name="several_runs")
def test_a_sweep_over_cuts_asks_once_and_is_on_a_leaderboard(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    from fp2.methods.maintenance.ui import _runs
    from fp2.tracking.client import tracking_uri

    words = bench.words(
        "-m", "cut=region,pronoun,region_x_pronoun", COLUMNS, "tracking=mlflow", "analysis.min_subjects=6"
    )
    assert fp2("run", *words) == 0
    out = capsys.readouterr().out
    assert "3 of 3 runs finished" in out
    sweep = re.search(r"fp2 leaderboard (\S+)", out)[1]  # type: ignore[index]
    client = mlflow.MlflowClient(tracking_uri=tracking_uri(bench.config("tracking=mlflow")))
    runs = client.search_runs(["1"], order_by=["attributes.start_time ASC"])
    assert [run.data.tags["fp2.sweep_id"] for run in runs] == [sweep] * 3
    assert [run.data.metrics["answers.model_calls"] for run in runs] == [1, 0, 0]
    assert [run.data.params["cut"] for run in runs] == ["region", "pronoun", "region_x_pronoun"]
    assert [run.info.run_name.split(" · ")[0] for run in runs] == ["region", "pronoun", "region_x_pronoun"]
    assert f"compare: fp2 ui {sweep}  (starts MLflow and prints the link)" in out  # no link: no UI runs
    assert "http://" not in out
    assert _runs([], bench.config("tracking=mlflow")) == [(run.info.run_id, "1") for run in runs]
    assert len({run.data.tags["fp2.response_set"] for run in runs}) == 1
    assert len({run.data.tags["fp2.config_hash"] for run in runs}) == 3
    assert not any("mlflow.parentRunId" in run.data.tags for run in runs)
    bench.run("tracking=mlflow")  # a run of no sweep
    monkeypatch.setenv("COLUMNS", "200")
    assert fp2("leaderboard", sweep, *bench.paths) == 0
    shown = capsys.readouterr().out
    assert [run.info.run_id[:8] in shown for run in runs] == [True] * 3
    assert "gender" not in shown
    assert fp2("leaderboard", *bench.paths) == 0
    assert "gender" in capsys.readouterr().out
    assert fp2("leaderboard", "no'such", *bench.paths) == 2
    assert "no finished run" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("hydra.run.dir={place}/../${{hydra.job.name}}", "hydra.job.name=place"),
        ("hydra.run.dir={place}", "hydra.job.chdir=true", "hydra.output_subdir=null", "+hydra.job.env_set.FOO=bar"),
    ],
    ids=["job name", "job settings"],
)
def test_a_run_is_where_hydra_has_it(bench: Bench, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    place = bench.root / "place"
    assert bench.launch(*(word.format(place=place) for word in words)) == 0, capsys.readouterr().err
    assert f"{place}/results.json" in capsys.readouterr().out
    assert json.loads((place / "status.json").read_text())["exit_status"] == 0
    assert list(bench.outputs.glob("*/*")) == []  # no empty folder is left


@pytest.mark.parametrize(
    ("subdir", "jobs"),
    [
        ("by seed/${seed}/run", ("by seed/2/run", "by seed/11/run")),
        ("${hydra.job.override_dirname}", ("seed=2", "seed=11")),
    ],
    ids=["nested", "overrides"],
)
@pytest.mark.package(name="several_runs")
def test_a_sweep_and_its_report_are_where_hydra_has_them(
    bench: Bench, capsys: pytest.CaptureFixture[str], subdir: str, jobs: tuple[str, ...]
) -> None:
    place = bench.root / "sweeps" / "one"
    words = [
        "-m",
        "seed=2,11",
        "report=default",
        "report.figures=false",
        f"hydra.sweep.dir={place}",
        f"hydra.sweep.subdir={subdir}",
    ]
    keys = sorted({word.partition("=")[0] for word in [*bench.words(), *words] if "=" in word} - {"seed"})
    keys += ["cut.each", "cut.name"]  # which cut.by empties
    words.append(f"hydra.job.config.override_dirname.exclude_keys=[{','.join(keys)}]")
    assert bench.launch(*words) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert "2 of 2 runs finished" in out
    assert f"{place}/report/report.html" in out
    found = sorted(path.parent for path in place.rglob("results.json") if path.parent.name != "report")
    assert sorted(place / job for job in jobs) == found
    runs = json.loads((place / "report" / "results.json").read_text())["runs"]
    assert [run["analysis"]["seed"] for run in runs] == [2, 11]  # in the order of the jobs
    assert list(bench.outputs.glob("*/*")) == []
    assert fp2("report", str(place), "--to", str(bench.root / "again"), *bench.paths) == 0
    again = json.loads((bench.root / "again" / "results.json").read_text())
    assert [run["run_id"] for run in again["runs"]] == [run["run_id"] for run in runs]


@pytest.mark.package(name="several_runs")
def test_a_relative_folder_is_below_the_one_where_the_command_is_given(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bench.root)
    assert bench.launch("hydra.run.dir=here/run") == 0
    sweep = ("-m", "seed=1,2", "hydra.sweep.dir=here/sweep", "hydra.job.chdir=true", "report=default")
    assert bench.launch(*sweep, "report.figures=false") == 0, capsys.readouterr().err
    for place in ("run", "sweep/0", "sweep/1", "sweep/report"):
        assert (bench.root / "here" / place / "results.json").is_file()
    assert list(bench.outputs.glob("*/*")) == []


def test_a_refused_run_leaves_nothing_in_a_folder_that_has_files(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = bench.root / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    (here / "notes.txt").write_text("mine")
    assert bench.launch("hydra.run.dir=.", "cut.by=[absent]") == EXIT_BAD_INPUT
    assert "absent" in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == ["notes.txt"]
    (here / "status.json").write_text(json.dumps({"exit_status": 2, "message": "an earlier run"}))
    assert bench.launch("-m", "seed=1,2", "hydra.sweep.dir=.", "report=none") == 0
    assert "2 of 2 runs finished" in capsys.readouterr().out


HYDRA_SHOWS = {  # options of Hydra that start no run -> what they print
    "--cfg job": "experiment: null",
    "--cfg=job": "experiment: null",
    "-c hydra": "output_subdir: null",
    "--cfg job --package engine": "batch_size",
    "--cfg job -p engine --resolve": "batch_size",
    "--info": "Defaults",
    "--info defaults": "Defaults List",
    "-i searchpath": "fp2.methods.peeps.conf",
    "--info plugins": "BasicSweeper",
    "--hydra-help": "--multirun",
    "--version": "Hydra 1.3",
    "--shell-completion install=bash": "complete",
    "hydra/help=default --help": "Configuration groups",
}
HYDRA_REFUSES = {  # options that this program has a way of its own for -> what the line names
    "--config-name other": "--config-dir",
    "-cp conf": "--config-dir",
    "--experimental-rerun job": "fp2 rerun",
    "-m seed=1,2 --cfg job": "Leave out -m",
    "-cd no/such/folder": "folder does not exist",
}


@pytest.mark.parametrize("words", HYDRA_SHOWS)
def test_what_hydra_shows_is_shown(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    # --info is written by a logger, which an earlier run of this process has disabled
    monkeypatch.setattr(logging.getLogger("hydra._internal.hydra"), "disabled", False)
    monkeypatch.setattr(logging.root, "handlers", [])
    status: Any = 0
    try:
        status = main([*words.split(), *bench.words()])
    except SystemExit as ended:  # Hydra's own way to end after its help
        status = ended.code
    assert not status
    assert HYDRA_SHOWS[words] in capsys.readouterr().out
    assert not bench.outputs.exists()


@pytest.mark.parametrize("words", HYDRA_REFUSES)
def test_what_hydra_would_do_otherwise_is_refused(bench: Bench, capsys: pytest.CaptureFixture[str], words: str) -> None:
    assert main([*words.split(), *bench.words()]) == EXIT_BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert HYDRA_REFUSES[words] in line


@pytest.mark.package(name="maintenance")
def test_settings_of_hydra_change_no_number(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Logging, modes, callbacks, environment, sweepers; and a folder of YAML files in either spelling."""
    (bench.root / "mine" / "cut").mkdir(parents=True)
    (bench.root / "mine" / "cut" / "mine.yaml").write_text("name: mine\nby: [gender]\n")
    run = [
        "hydra.verbose=[fp2]",
        "hydra/job_logging=stdout",
        "hydra/hydra_logging=none",
        "hydra.mode=RUN",
        "--run",
        "hydra.output_subdir=.hydra",
        "hydra.job.env_copy=[HOME]",
        "hydra.job_logging.root.level=ERROR",
        "+hydra.callbacks.x._target_=hydra.experimental.callback.Callback",
    ]
    sweep = [
        "--multirun",
        "seed=range(1,3)",
        "hydra/sweeper=basic",
        "hydra/launcher=basic",
        "hydra.sweeper.max_batch_size=1",
        "hydra.sweep.subdir=s${hydra.job.num}",
    ]
    plain = [word for word in bench.words() if not word.startswith("cut.")]
    assert main([*run, "-cd", str(bench.root / "mine"), "cut=mine", *plain]) == 0, capsys.readouterr().err
    assert main([*sweep, f"--config-dir={bench.root / 'mine'}", "cut=mine", *plain]) == 0, capsys.readouterr().err
    assert bench.launch("cut=mine", f"hydra.searchpath=[file://{bench.root / 'mine'}]") == 0
    assert fp2("pin", "--config-dir", str(bench.root / "mine"), "cut=mine", *plain) in (0, EXIT_BAD_INPUT)
    assert "option" not in capsys.readouterr().err
    seeds = [results_of(folder)["analysis"]["seed"] for folder in bench.run_folders()]
    assert seeds[1:3] == [1, 2]
    first, *_, last = (results_of(folder) for folder in bench.run_folders())
    assert first["config_hash"] == last["config_hash"]
    assert first["disparities"] == last["disparities"]


def test_a_run_is_named_by_what_differs_in_its_sweep(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """First, and once: legends cut the end of a name."""
    words = bench.words("cut=region,pronoun", "seed=1,2", "tracking.experiment=x")
    monkeypatch.setenv("FP2_VARIED", json.dumps(_varied(words)))
    named = "planted · {} · blind"
    names = [
        name_with(named.format("pronoun" if "cut=pronoun" in job else "region"), _own_settings(job))
        for job in jobs_of(words)
    ]
    assert names == [f"{cut} · seed={seed} · planted · blind" for cut in ("region", "pronoun") for seed in (1, 2)]
    assert name_with("planted · region", ["+task.model='a b'"]) == "task.model=a b · planted · region"
    assert name_with("a b · gras · region", ["+task.model='a b'"]) == "a b · gras · region"


def test_one_failing_job_does_not_stop_the_others(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("run", *bench.words("-m", "cut=age,region", COLUMNS)) == EXIT_BAD_INPUT
    captured = capsys.readouterr()
    assert "1 of 2 runs finished" in captured.out
    errors = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "cut=age" in errors[0]
    assert "no attribute 'age'" in errors[0]
    assert "Traceback" not in captured.err


def test_a_bug_in_one_job_does_not_stop_the_others(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fp2 import artifacts

    write, calls = artifacts.write_results, []

    def once_broken(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise RuntimeError("a slip")
        return write(*args)

    monkeypatch.setattr(artifacts, "write_results", once_broken)
    assert fp2("run", *bench.words("-m", "cut=region,pronoun", COLUMNS)) == 1
    captured = capsys.readouterr()
    assert "1 of 2 runs finished" in captured.out
    assert "cut=region" in captured.err
    assert "RuntimeError: a slip" in captured.err


# --- mistakes ---


@pytest.mark.parametrize(
    "words",
    [["-m", "cut=region,agee"], ["data=fhibe"]],
    ids=" ".join,
)
def test_the_launcher_ends_with_one_line_and_a_status(words: list[str], own_root: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "launch.py"), *words],
        env=environment(own_root),
        cwd=own_root,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert not (own_root / "outputs").exists()


def test_a_relative_path_that_hydra_moves_away_from_is_named(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bench.pictures)
    assert main([*bench.words("hydra.job.chdir=true"), "data.path=people.csv"]) == EXIT_BAD_INPUT
    assert "people.csv). With hydra.job.chdir=true" in capsys.readouterr().err
