"""Runs that end early: interruptions, too many failures, full disks; every answer that came is kept."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import Bench, check_counts, files_in, predicate_of, question_texts, results_of
from thorough import thorough_but

from fp2.errors import EXIT_BAD_INPUT, EXIT_ERROR_BUDGET, EXIT_INTERRUPTED

STRONG = "model.truth={seed: 4, effects: {trust: {gender: {f: -4}}}, refusals: {lifestyle: {base: 0.2}}}"

SLOW = """
import sys, time
from fp2.methods.peeps.planted.engine import PlantedEngine
quick = PlantedEngine.answer
def slow(self, tasks):
    for batch in quick(self, tasks):
        yield batch
        print("stored", flush=True)
        time.sleep(0.1)
PlantedEngine.answer = slow
from fp2.app import main
sys.exit(main(sys.argv[1:]))
"""
BATCHES = "engine.batch_size=4"  # images: 18 batches


def stopped(bench: Bench, how: signal.Signals, *overrides: str) -> tuple[int, str]:
    """Start a slow run, send a signal when three batches are stored, and return its exit status and error stream."""
    script = bench.root / "slow.py"
    script.write_text(SLOW, encoding="utf-8")
    with bench.process(STRONG, BATCHES, *overrides, script=script) as child:
        assert child.stdout is not None
        for _ in range(3):
            assert "stored" in child.stdout.readline(), child.stderr.read() if child.stderr else ""
        child.send_signal(how)
        _, err = child.communicate(timeout=60)
    return child.returncode, err


def as_bytes(disparities: Any) -> bytes:
    return json.dumps(disparities).encode()


def test_a_killed_run_goes_on_where_it_was(bench: Bench, tmp_path: Path) -> None:
    code, _ = stopped(bench, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert bench.run_folders() == []
    resumed = bench.run(STRONG, BATCHES).results
    assert 3 * 4 * 6 <= resumed["answers"]["cached"] < resumed["answers"]["planned"]
    assert resumed["answers"]["model_calls"] == 18 - resumed["answers"]["cached"] // 24
    whole = Bench(tmp_path / "whole", bench.pictures).run(STRONG).results
    assert as_bytes(resumed["disparities"]) == as_bytes(whole["disparities"])
    assert resumed["composites"] == whole["composites"]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("how", thorough_but([signal.SIGINT, signal.SIGTERM], signal.SIGTERM), ids=lambda how: how.name)
def test_an_interruption_leaves_a_partial_passport_and_the_answers(bench: Bench, how: signal.Signals) -> None:
    code, err = stopped(bench, how)
    assert code == EXIT_INTERRUPTED
    assert "Traceback" not in err
    assert "answers are kept" in err
    folder = bench.run_folders()[0]
    results = results_of(folder)
    assert results["complete"] is False
    check_counts(results)
    assert 0 < results["answers"]["answered"] < results["answers"]["planned"]
    assert predicate_of(folder)["complete"] is False
    whole = bench.run(STRONG).results
    assert whole["answers"]["cached"] == results["answers"]["answered"]
    assert whole["complete"] is True


STAGES = """
import sys
from fp2.progress import Progress
def told(method):
    def wrapped(self, title, *rest):
        print(title, flush=True)
        return method(self, title, *rest)
    return wrapped
for name in ("steps", "counter", "count_up", "answers"):
    setattr(Progress, name, told(getattr(Progress, name)))
from fp2.app import main
sys.exit(main(sys.argv[1:]))
"""
LONG = ("analysis.permutations=200000", "scorer=[valence,refusal,stereotype]")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("stage", "words"),
    thorough_but(
        [
            ("Drawing the people", ("data=peeps", "data.n_subjects=2000", "cut=pronoun")),
            ("Comparing groups", LONG),
            ("Writing the report", ("report=default", "cut.each=[gender,region]", "scorer=default")),
        ],
        ("Comparing groups", LONG),
    ),
)
def test_an_interruption_ends_every_stage_within_two_seconds(bench: Bench, stage: str, words: tuple[str, ...]) -> None:
    """Two seconds of a processor: the machine may be busy with other tests. Asking: the test above."""
    script = bench.root / "stages.py"
    script.write_text(STAGES, encoding="utf-8")
    with bench.process(*words, script=script) as child:
        assert child.stdout is not None
        assert any(stage in line for line in child.stdout), child.stderr.read() if child.stderr else ""
        time.sleep(0.1)
        before = sum(float(part) for part in Path(f"/proc/{child.pid}/stat").read_text().rsplit(")")[1].split()[11:13])
        child.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == EXIT_INTERRUPTED
    assert usage.ru_utime + usage.ru_stime - before / os.sysconf("SC_CLK_TCK") < 2


@pytest.mark.usefixtures("mlflow_store")
def test_a_killed_run_is_marked_so_by_the_next_and_a_live_one_is_not(bench: Bench) -> None:
    import mlflow

    def runs() -> dict[str, str]:
        client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{bench.root}/mlruns/mlflow.db")
        return {run.info.run_id: run.info.status for run in client.search_runs(["1"])}

    script = bench.root / "slow.py"
    script.write_text(SLOW.replace("0.1", "0.5"), encoding="utf-8")
    with bench.process(STRONG, BATCHES, "tracking=mlflow", script=script) as child:
        assert child.stdout is not None
        child.stdout.readline()
        (other,) = runs()
        mine = bench.run("tracking=mlflow", "data.limit=12").run_id
        assert runs() == {other: "RUNNING", mine: "FINISHED"}
        child.kill()
    again = bench.run("tracking=mlflow", "data.limit=12").run_id
    assert runs() == {other: "KILLED", mine: "FINISHED", again: "FINISHED"}
    assert not any((bench.root / "state" / "running").iterdir())


def test_the_same_command_twice_at_once_asks_everything_once(bench: Bench) -> None:
    script = bench.root / "slow.py"
    script.write_text(SLOW, encoding="utf-8")
    with bench.process(STRONG, BATCHES, script=script) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert bench.run(STRONG, BATCHES).exit_status == 0
        _, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    found = [results_of(folder) for folder in bench.run_folders()]
    assert len(found) == 2
    planned = found[0]["answers"]["planned"]
    asked = [results["answers"]["planned"] - results["answers"]["cached"] for results in found]
    assert sum(asked) == planned
    assert min(asked) > 0  # they shared the work
    assert as_bytes(found[0]["disparities"]) == as_bytes(found[1]["disparities"])
    tables = {(folder / "scores.parquet").read_bytes() for folder in bench.run_folders()}
    assert len(tables) == 1


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_over_the_error_budget_everything_is_kept(
    bench: Bench, rate: float, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = f"model.truth={{seed: 4, errors: {{rate: {rate}}}}}"
    assert bench.launch(failing, "report=default") == EXIT_ERROR_BUDGET
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert "planted error" in err
    folder = bench.run_folders()[0]
    results = results_of(folder)
    assert results["complete"] is False
    assert predicate_of(folder)["complete"] is False
    check_counts(results)
    assert results["answers"]["failed"] > 0.2 * results["answers"]["planned"]
    assert files_in(folder) >= {"passport.json", "responses.parquet", "results.json", "dashboard.html"}
    allowed = bench.run(failing, "answers.error_budget=1").results
    assert allowed["complete"] is True
    assert allowed["answers"]["cached"] == results["answers"]["answered"]


def test_attempts_are_counted_over_runs(bench: Bench) -> None:
    failing = "model.truth={seed: 4, errors: {rate: 0.02}}"
    for run in (1, 2):
        outcome = bench.run(failing, "answers.attempts=3")
        assert outcome.exit_status == 0
        answers = pd.read_parquet(outcome.folder / "responses.parquet")
        assert set(answers.loc[answers["status"] == "error", "attempts"]) == {3 * run}
    assert outcome.results["answers"]["failed"] > 0


def test_empty_answers_run_through(bench: Bench) -> None:
    empty = "".join(f"- '{' ' * i}'\n" for i in range(10))
    text = question_texts()["trust"]
    truth = bench.root / "truth.yaml"
    body = "".join(f"      {line}\n" for line in empty.splitlines())
    truth.write_text(f"probes:\n  trust:\n    texts: ['{text}']\n    sentences:\n{body}", encoding="utf-8")
    outcome = bench.run(f"model.truth={truth}", "probe.select=[trust]", "scorer=default")
    assert outcome.exit_status == 0
    assert outcome.results["answers"]["answered"] == 72
    assert {row["verdict"] for row in outcome.results["disparities"]} <= {"uninformative", "too_few_subjects"}
    assert outcome.results["diversity"][0]["uninformative"] is True


def test_a_model_that_always_says_the_same_has_no_severity_anywhere(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    sentences = ["A trustworthy person."] * 10
    truth = {"probes": {"trust": {"texts": [question_texts()["trust"].replace("''", "'")], "sentences": sentences}}}
    (bench.root / "truth.yaml").write_text(json.dumps(truth), encoding="utf-8")
    words = (f"model.truth={bench.root / 'truth.yaml'}", "probe.select=[trust]", "report=default")
    assert bench.launch(*words, "report.figures=false") == 0
    printed = capsys.readouterr().out
    (folder,) = bench.run_folders()
    results, stated = results_of(folder), predicate_of(folder)
    assert {row["verdict"] for row in results["disparities"]} == {"uninformative"}
    for severity in (results["severity"], stated["severity"], results["composites"]["gender"]["severity"]):
        assert severity is None
    for shown in (printed, (folder / "dashboard.html").read_text(encoding="utf-8")):
        assert "not testable: the answers to every probe all have the same value" in " ".join(shown.split())
        assert "No difference between groups was found" not in shown


def full_disk(*args: Any, **kwargs: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device", "results.json")


def test_a_disk_that_fills_up_while_the_report_is_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fp2 import artifacts

    monkeypatch.setattr(artifacts, "write_results", full_disk)
    assert bench.launch() == EXIT_BAD_INPUT
    err = capsys.readouterr().err
    assert "No space left on device" in err
    assert "all answers are stored" in err
    assert "Traceback" not in err
    monkeypatch.undo()
    assert bench.run().results["answers"]["model_calls"] == 0


def test_a_disk_that_fills_up_while_answers_are_stored(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sqlite3

    from fp2.store import rows as responses

    class Full(sqlite3.OperationalError):
        sqlite_errorname = "SQLITE_FULL"

    def fail(*args: Any) -> Any:
        raise Full("database or disk is full")

    monkeypatch.setattr(responses, "put_failures", fail)
    assert bench.launch("tracking=none") == EXIT_BAD_INPUT
    err = capsys.readouterr().err
    assert "the disk is full" in err
    assert "Traceback" not in err
