"""The simulation of a cluster: no failure costs nothing, and what is counted adds up; the rates that it assumes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.cluster_simulation import Cluster, options, report, simulate
from benchmarks.store_scale import merge
from fp2.store.merge import count_rows

SHARDS = [3.0, 2.0, 2.0, 1.0, 0.3]
CALM = {"limit": 1e9, "failure": 1e12, "preemption": 1e12}


def test_without_failures_it_takes_the_work_and_the_loading() -> None:
    found = simulate(SHARDS, Cluster(2, **CALM, load=0.1), np.random.default_rng(0))
    assert found.gpu == pytest.approx(sum(SHARDS) + 0.1 * len(SHARDS))
    assert found.makespan == pytest.approx(3.1 + 1.1 + 0.4)
    assert found.restarts == found.repeated == 0


def test_what_is_not_work_is_loading_or_repeated() -> None:
    for resumes in (True, False):
        cluster = Cluster(3, preemption=2.0, load=0.1)
        found = simulate(SHARDS * 20, cluster, np.random.default_rng(1), resumes=resumes)
        assert found.restarts > 20
        loading = found.gpu - sum(SHARDS * 20) - found.repeated
        assert 0 < loading <= 0.1 * (found.restarts + 100) + 1e-6


def test_stored_answers_save_most_of_what_starting_over_costs() -> None:
    found = report(options().parse_args(["--models", "20", "--images", "100000", "--gpus", "8"]))
    assert found["asked_again"] < found["without_store"]["asked_again"] / 10
    assert found["answers"] == 20 * 100_000 * 500


def test_merging_and_analysis_take_what_their_rates_say() -> None:
    words = ["--models", "20", "--images", "36000", "--gpus", "8", "--merged", "10", "--analysed", "5000"]
    found = report(options().parse_args(words))
    assert (found["merge_hours_a_model"], found["merge_core_hours"]) == (1.0, 20)
    assert (found["analysis_hours_a_model"], found["analysis_core_hours"]) == (1.0, 20)


def test_rates_of_merging_are_of_stores_that_were_merged(tmp_path: Path) -> None:
    rates = merge(tmp_path / "s.sqlite", 1500)
    assert min(rates.values()) > 0
    assert count_rows(tmp_path / "answers.sqlite")["answers"] == 1500
    assert count_rows(tmp_path / "arrays.sqlite")["blocks"] == 3
