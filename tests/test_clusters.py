"""Sweeps over processes and jobs: nothing is asked twice, no run is lost, and a requeued job goes on where it was."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench import REPOSITORY, Bench, environment, results_of
from slow_engine import SLOW, stored, wait_for

MODELS = "model.truth={seed: 1},{seed: 2}"


def launch(bench: Bench, *words: str, script: Path | None = None) -> subprocess.Popen[str]:
    env = environment(bench.root)
    env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], str(bench.root)])
    return subprocess.Popen(
        [sys.executable, str(script or REPOSITORY / "launch.py"), "-m", *bench.words(*words)],
        env=env,
        cwd=bench.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.usefixtures("mlflow_store")
def test_a_sweep_in_two_stages_answers_once_and_compares_in_parallel(bench: Bench) -> None:
    import mlflow

    for seed in (1, 2):
        bench.run(f"model.truth={{seed: {seed}}}", "probe.select=[trust]")
    asked = stored(bench)
    words = (MODELS, "cut.by=[gender],[region]", "probe.select=[trust]", "tracking=mlflow")
    with launch(bench, *words, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2") as child:
        said, _ = child.communicate(timeout=600)
    assert child.returncode == 0, said
    assert "locked" not in said
    found = [results_of(folder) for folder in bench.run_folders()[2:]]
    assert len(found) == 4
    assert {one["answers"]["model_calls"] for one in found} == {0}
    assert stored(bench) == asked == 2 * 72
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{bench.root}/mlruns/mlflow.db")
    assert sorted(run.info.run_id for run in client.search_runs(["1"], "attributes.status = 'FINISHED'")) == sorted(
        one["run_id"] for one in found
    )


@pytest.mark.skipif(importlib.util.find_spec("submitit") is None, reason="the extra `slurm` is not installed")
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the job in /proc")
def test_a_preempted_job_of_an_array_is_requeued_and_goes_on_where_it_was(bench: Bench) -> None:
    (bench.root / "slow_workers.py").write_text(SLOW, encoding="utf-8")
    words = (
        "engine.target=slow_workers:Slow",
        "engine.batch_size=1",
        "probe.select=[trust]",
        "shard=1/2,2/2",
        "hydra/launcher=submitit_local",
    )
    with launch(bench, *words) as child:
        wait_for(bench, 6)
        (job, *_) = [pid for pid in every_child(child.pid) if b"core._submit" in command(pid)]
        before = stored(bench)
        os.kill(job, signal.SIGUSR2)  # what SLURM sends before it ends a job
        said, _ = child.communicate(timeout=600)
    assert child.returncode == 0, said
    logs = [path.read_text() for path in bench.outputs.rglob("*_log.out")]
    assert sorted(log.count("Loading pickle") for log in logs) == [1, 2], "the job was not requeued"
    runs = [results_of(folder)["answers"] for folder in bench.run_folders()]
    assert len(runs) == 2
    resumed = [one for one in runs if one["cached"] > 0]
    assert resumed, "the requeued job started over"
    assert before < 72
    whole = bench.run("probe.select=[trust]").results["answers"]
    assert (whole["cached"], whole["model_calls"]) == (72, 0)


@pytest.mark.skipif(importlib.util.find_spec("submitit") is None, reason="the extra `slurm` is not installed")
def test_a_sweep_on_slurm_is_one_array_that_is_requeued() -> None:
    from submitit.slurm.slurm import _make_sbatch_string

    from fp2.compose import hydra_overrides
    from fp2.compose.overrides import compose_config

    words = hydra_overrides(["hydra/launcher=slurm", "hydra.launcher.partition=gpu", "model=planted"])
    launcher = compose_config(words, with_hydra=True).hydra.launcher
    assert launcher._target_.endswith("SlurmLauncher")
    assert launcher.max_num_timeout > 0
    names = ("partition", "signal_delay_s", "cpus_per_task", "gpus_per_node", "stderr_to_stdout")
    script = _make_sbatch_string(
        "run",
        "/logs",
        **{name: launcher[name] for name in names},
        time=launcher.timeout_min,
        map_count=4,
        array_parallelism=launcher.array_parallelism,
        additional_parameters=dict(launcher.additional_parameters),
    )
    for line in ("--array=0-3%4", "--requeue", "--signal=USR2@120", "--open-mode=append", "--partition=gpu"):
        assert f"#SBATCH {line}\n" in script


def test_a_launcher_that_is_not_installed_is_named_with_its_extra(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.launch("-m", "hydra/launcher=submitit_nowhere", "seed=1,2") == 2
    assert "pip install 'fp2[slurm]'" in capsys.readouterr().err


def every_child(pid: int) -> list[int]:
    """Return the processes below a process."""
    found = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*found, *(deeper for one in found for deeper in every_child(one))]


def command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


FAKE = """#!/bin/bash
echo "$@" >> calls
trap 'exit 130' TERM
[ -e again ] && exit 0
touch asking
for i in $(seq 100); do sleep 0.05; done
"""


def test_the_array_script_stores_and_requeues_what_runs_out_of_time(tmp_path: Path) -> None:
    script = REPOSITORY / "examples" / "slurm" / "shards.sbatch"
    (tmp_path / ".fp2").mkdir()
    (tmp_path / ".fp2" / "salt").write_bytes(b"salt")
    for name, text in (("python", FAKE), ("scontrol", '#!/bin/bash\necho "$@" >> requeued\n')):
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    task = {"SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "8"}
    env = {**os.environ, **task, "FP2_ROOT": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen(["bash", script, "model=planted"], env=env, cwd=tmp_path) as job:
        while not (tmp_path / "asking").exists():
            time.sleep(0.02)
        job.send_signal(signal.SIGTERM)
    assert job.returncode == 130
    assert (tmp_path / "requeued").read_text() == "requeue 77_3\n"
    own = tmp_path / "shards" / "3"
    assert (own / "salt").read_bytes() == b"salt"
    (tmp_path / "again").touch()
    assert subprocess.run(["bash", script, "model=planted"], env=env, cwd=tmp_path).returncode == 0
    assert (tmp_path / "requeued").read_text() == "requeue 77_3\n"
    words = f"launch.py model=planted shard=3/8 paths.state={own} analysis=quick report=none tracking=none"
    assert (tmp_path / "calls").read_text().splitlines() == [words] * 2
