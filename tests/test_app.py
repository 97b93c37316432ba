"""Runs and sweeps from the command line: mistakes are one line, sweeps share answers, one job stops no other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import REPOSITORY, Bench, environment, fp2

from fp2.app import _own_settings, _varied
from fp2.commands.ui import _runs
from fp2.compose import jobs_of
from fp2.errors import EXIT_BAD_INPUT
from fp2.runs.outputs import name_with

COLUMNS = "data.columns={image: file, subject: person, region: region, pronoun: gender}"


# --- sweeps ---


@pytest.mark.usefixtures("mlflow_store")
def test_a_sweep_over_cuts_asks_once_and_is_on_a_leaderboard(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

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


def test_a_run_is_named_by_what_differs_in_its_sweep(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """First, and once: legends cut the end of a name."""
    words = bench.words("cut=region,pronoun", "seed=1,2", "tracking.experiment=x")
    monkeypatch.setenv("FP2_VARIED", json.dumps(_varied(words)))
    named = "planted · {} · blind"
    names = [name_with(named.format("pronoun" if "cut=pronoun" in job else "region"), _own_settings(job))
             for job in jobs_of(words)]  # fmt: skip
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
    [["cut=[region,age]"], ["-m", "cut=region,agee"], ["model=planted", "cut=region,age"], ["data=fhibe"]],
    ids=" ".join,
)
def test_the_launcher_ends_with_one_line_and_a_status(words: list[str], own_root: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / "launch.py"), *words],
        env=environment(own_root), cwd=own_root, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert not (own_root / "outputs").exists()
