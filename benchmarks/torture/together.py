"""Several runs on one store at once, and one sweep started twice over four processes each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.torture.project import WORDS, Project, Row, Yard

SWEEP = (
    "-m", "hydra/launcher=joblib", "hydra.launcher.n_jobs=4", "tracking=mlflow", "variant=original,swapped",
    "cut.by=[gender],[region],[gender,region]", "scorer=valence,refusal,confidence,stereotype",
)  # fmt: skip
JOBS = 24


def together(yard: Yard) -> Iterator[Row]:
    """Yield a row for each way in which runs meet."""
    yield _pairs(yard)
    yield _sweeps(yard)


def _pairs(yard: Yard) -> Row:
    row = Row("the same run twice at once on one store")
    for _ in range(yard.times(20, 1)):
        project = yard.project(slow=0.02)
        started = time.monotonic()
        children = [project.start(), project.start()]
        ended = [project.wait(child, output, started) for child, output in children]
        wrong = [f"exit status {one.status}: {one.said[-300:]}" for one in ended if one.status != 0]
        asked, distinct, _ = project.counted()
        if asked != 432 or distinct != 432:
            wrong.append(f"{asked} questions were asked, {distinct} different ones")
        row.add("shared, each asked once", wrong + project.finished(yard.tables))
        project.remove()
    return row


def _sweeps(yard: Yard) -> Row:
    """Start a sweep of 24 jobs over 4 processes twice at once: every job ends well, every question is asked once."""
    row = Row(f"a sweep of {JOBS} jobs over 4 processes, started twice at once")
    for _ in range(yard.times(1, 0)):
        project = yard.project()
        children = [_launched(project) for _ in range(2)]
        said = [child.communicate()[0] for child in children]
        codes = [child.returncode for child in children]
        wrong = [f"exit status {code}: {text[-500:]}" for code, text in zip(codes, said, strict=True) if code]
        wrong += ["a lock error" for text in said if "locked" in text]
        found = [json.loads((path / "results.json").read_text()) for path in project.bench.run_folders()]
        if len(found) != 2 * JOBS:
            wrong.append(f"{len(found)} of {2 * JOBS} runs ended")
        asked = sum(one["answers"]["answered"] - one["answers"]["cached"] for one in found)
        if asked != project.stored():
            wrong.append(f"{asked} answers were asked for, {project.stored()} are stored")
        wrong += _unlogged(project)
        row.add(f"{len(found)} runs ended well, {asked} answers asked once", wrong)
        project.remove()
    return row


def _launched(project: Project) -> subprocess.Popen[str]:
    from bench import REPOSITORY, environment

    words = project.bench.words(*WORDS, *SWEEP)
    return subprocess.Popen(
        [sys.executable, str(REPOSITORY / "launch.py"), *words],
        env={**environment(project.bench.root), **_quiet()},
        cwd=project.bench.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _quiet() -> dict[str, str]:
    return {"OMP_NUM_THREADS": "1", "TMPDIR": os.environ.get("TMPDIR", "/tmp")}


def _unlogged(project: Project) -> list[str]:
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{project.bench.root}/mlruns/mlflow.db")
    runs: list[Any] = client.search_runs(["1"], max_results=1000)
    ended = sum(run.info.status == "FINISHED" for run in runs)
    return [] if ended == 2 * JOBS else [f"{ended} of {2 * JOBS} MLflow runs are FINISHED"]
