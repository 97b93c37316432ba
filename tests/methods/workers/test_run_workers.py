"""Runs whose model is in several processes: the tables of one process, lost workers, interruptions; the same on Ray."""

from __future__ import annotations

import importlib.util
import os
import signal
import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from bench import Bench, check_counts, results_of
from slow_engine import SLOW, stored, wait_for
from test_run_shards import tables

from fp2.errors import EXIT_INTERRUPTED, Fp2Error

STRONG = "model.truth={seed: 4, effects: {trust: {gender: {f: -4}}}, errors: {rate: 0.02}}"
WORDS = (STRONG, "answers.error_budget=1", "probe.select=[trust,lifestyle]")
TWO = "engine.devices=[cpu,cpu]"


def test_two_processes_give_the_tables_of_one(bench: Bench, tmp_path: Path) -> None:
    one = bench.run(*WORDS)
    other = bench.copied_to(tmp_path / "two")
    other.store.unlink()
    two = other.run(*WORDS, TWO)
    same(one.folder, two.folder)
    assert two.results["answers"]["cached"] == 0
    assert two.results["answers"]["model_calls"] > one.results["answers"]["model_calls"] - 1
    store = sqlite3.connect(other.store)
    assert store.execute("SELECT count(*) FROM leases").fetchone() == (0,)


def same(one: Path, two: Path) -> None:
    """Assert that two runs have the same results and tables, apart from times."""
    old, new = tables(one), tables(two)
    assert old.keys() == new.keys()
    assert {name: old[name] for name in old if name != "responses.parquet"} == {
        name: new[name] for name in new if name != "responses.parquet"
    }
    frames = [
        pd.read_parquet(folder / "responses.parquet").drop(columns=["cached", "seconds"]) for folder in (one, two)
    ]
    pd.testing.assert_frame_equal(*frames)
    keys = ("response_set", "config_hash", "disparities", "composites", "model")
    assert {key: results_of(one)[key] for key in keys} == {key: results_of(two)[key] for key in keys}


def children(pid: int) -> list[int]:
    """Return the worker processes of a run."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in found if b"workers.processes" in Path(f"/proc/{one}/cmdline").read_bytes()]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the workers in /proc")
@pytest.mark.usefixtures("interruptible")
def test_a_lost_worker_is_reported_and_a_signal_ends_the_others(bench: Bench) -> None:
    script = bench.root / "slow_workers.py"
    script.write_text(SLOW, encoding="utf-8")
    words = ("engine.target=slow_workers:Slow", "engine.batch_size=1", TWO, "probe.select=[trust,lifestyle]")
    with bench.process(*words, script=script) as child:
        wait_for(bench, 8)
        first = children(child.pid)
        assert len(first) == 2
        os.kill(first[0], signal.SIGKILL)
        wait_for(bench, stored(bench) + 8)
        until = time.monotonic() + 300
        while not set(children(child.pid)) - set(first):  # the loss was noticed: another worker is in its place
            assert time.monotonic() < until
            time.sleep(0.05)
        workers = {*first, *children(child.pid)}
        child.send_signal(signal.SIGTERM)
        until = time.monotonic() + 2
        while any(map(lives, workers)) and time.monotonic() < until:
            time.sleep(0.02)
        assert not any(map(lives, workers)), "workers live on after the signal"
        _, err = child.communicate(timeout=300)
    assert child.returncode == EXIT_INTERRUPTED
    assert "worker 1 (cpu) was lost (SIGKILL)" in " ".join(err.split()) or "worker 2 (cpu) was lost (SIGKILL)" in err
    assert "Traceback" not in err
    part = results_of(bench.run_folders()[0])
    check_counts(part)
    assert 0 < part["answers"]["answered"] < part["answers"]["planned"]
    whole = bench.run("probe.select=[trust,lifestyle]").results
    assert whole["answers"]["cached"] == part["answers"]["answered"]
    assert whole["complete"] is True


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra `ray` is not installed")
def test_ray_gives_the_tables_of_one_process_and_takes_over_a_lost_actor(bench: Bench, tmp_path: Path) -> None:
    import ray

    from fp2.methods.workers.on_ray import RayActors

    one = bench.run(*WORDS)
    other = bench.copied_to(tmp_path / "two")
    other.store.unlink()
    started, killed = RayActors.start, []

    def start(self: RayActors, place: int) -> int:
        number = started(self, place)
        if not killed and number == 2:  # the second actor dies before it has answered anything
            killed.append(number)
            ray.kill(self._actors[number])
        return number

    before = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RayActors, "start", start)
        two = other.run(*WORDS, "engine=ray", "model=planted", "engine.batch_size=4")
    try:
        same(one.folder, two.folder)
        assert killed
        assert signal.getsignal(signal.SIGTERM) == before
    finally:
        ray.shutdown()


def test_ray_that_is_not_there_is_one_line(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "ray" else there(name, *rest))
    with pytest.raises(Fp2Error, match=r"Ray is not installed \(engine.ray\). pip install 'fp2\[ray\]'"):
        bench.run("engine=ray", "model=planted")


@pytest.mark.parametrize(("address", "cure"), [(None, "less busy"), ("auto", "ray start --head")])
def test_ray_that_does_not_start_is_one_line(address: str | None, cure: str) -> None:
    from fp2.engines.worker_options import RayOptions
    from fp2.methods.workers.on_ray import _connect

    def init(**_: object) -> None:
        raise Exception("The current node timed out during startup.\nThis could happen because ...")

    with pytest.raises(Fp2Error, match=rf"node timed out during startup\. \(engine.ray\)\. .*{cure}") as said:
        _connect(SimpleNamespace(init=init), RayOptions(address=address))
    assert "\n" not in str(said.value)
