"""Shards of one run, their stores merged: the same tables as in one process, and nothing asked twice."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import Bench, fp2, predicate_of, results_of

from fp2.ask.plan import Shard
from fp2.errors import Fp2Error

STRONG = "model.truth={seed: 4, effects: {trust: {gender: {f: -4}}}, errors: {rate: 0.02}}"
BUDGET = ("answers.error_budget=1", "probe.select=[trust,lifestyle]")


def merged(bench: Bench, root: Path, n: int, *words: str) -> tuple[Bench, list[dict[str, Any]]]:
    """Run every shard on a store of its own, merge the stores, and return the project with them and the results."""
    salt, found, stores = bench.root / "state" / "salt", [], []
    for part in range(1, n + 1):
        own = replace(bench, root=root / f"shard{part}")
        (own.root / "state").mkdir(parents=True)
        shutil.copyfile(salt, own.root / "state" / "salt")
        found.append(own.run(*words, f"shard={part}/{n}").results)
        stores.append(own.store)
    whole = replace(bench, root=root / "whole")
    shutil.copytree(bench.root / "state", whole.root / "state", ignore=shutil.ignore_patterns("*.sqlite*"))
    assert fp2("store", "merge", *map(str, stores), "--into", str(whole.store)) == 0
    return whole, found


def tables(folder: Path) -> dict[str, Any]:
    """Return the tables of a run as bytes; of the answers, all but how long they took and whether they were stored."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.parquet")):
        frame = pd.read_parquet(path)
        found[path.relative_to(folder).as_posix()] = (
            frame.drop(columns=["cached", "seconds"], errors="ignore").to_csv()
            if "cached" in frame
            else path.read_bytes()
        )
    return found


@pytest.mark.package(name="maintenance")
def test_a_run_merged_from_shards_is_the_run_of_one_process(bench: Bench, tmp_path: Path) -> None:
    one = bench.run(STRONG, *BUDGET)
    whole, shards = merged(bench, tmp_path, 3, STRONG, *BUDGET)
    asked = [found["answers"]["planned"] - found["answers"]["not_asked"] for found in shards]
    assert sum(asked) == one.results["answers"]["planned"] == 72 * 2
    assert min(asked) > 0
    assert [found["complete"] for found in shards] == [False] * 3
    again = whole.run(STRONG, *BUDGET, "answers.attempts=1")
    assert again.results["answers"]["cached"] == one.results["answers"]["answered"]
    assert again.results["response_set"] == one.results["response_set"]
    old, new = tables(one.folder), tables(again.folder)
    drop = "responses.parquet"  # the failed answers were tried once more
    assert {name: old[name] for name in old if name != drop} == {name: new[name] for name in new if name != drop}
    frames = [pd.read_parquet(folder / drop) for folder in (one.folder, again.folder)]
    kept = [frame[frame["status"] == "answered"].drop(columns=["cached", "seconds"]) for frame in frames]
    pd.testing.assert_frame_equal(*kept)
    assert again.results["disparities"] == one.results["disparities"]


def test_a_shard_is_a_partial_run_and_the_last_one_on_a_shared_store_is_whole(bench: Bench) -> None:
    first = bench.run("shard=1/2", "probe.select=[trust]")
    assert first.exit_status == 0
    assert predicate_of(first.folder)["complete"] is False
    assert first.results["composites"]["gender"]["severity"] is None
    second = bench.run("shard=2/2", "probe.select=[trust]")
    assert second.results["complete"] is True
    assert second.results["config_hash"] == first.results["config_hash"]
    assert second.results["answers"]["cached"] == first.results["answers"]["answered"]


def test_answers_travel_by_seed_stores_and_are_asked_nowhere_else(bench: Bench, tmp_path: Path) -> None:
    other = replace(bench, root=tmp_path / "elsewhere")
    first = other.run("probe.select=[trust]").results
    seeds = f"paths.seed_stores=[{other.store}]"
    assert bench.run("probe.select=[trust,lifestyle]", seeds, "shard=1/1").results["answers"]["cached"] == 72
    alone = bench.run("probe.select=[trust]")  # they were copied
    assert alone.results["answers"]["model_calls"] == 0
    assert alone.results["response_set"] == first["response_set"]


def test_a_shard_that_is_none_is_refused(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.launch("shard='3/2'") == 2
    assert "'3/2' is not a shard (shard)" in capsys.readouterr().err
    for word in ("0/2", "1/0", "x", "1/2/3", "-1/2", "1", "\u0661/2"):
        with pytest.raises(Fp2Error, match="is not a shard"):
            Shard.parse(word)


@pytest.mark.package(name="gras")
@pytest.mark.package(name="maintenance")
def test_dense_answers_of_shards_merge_to_the_run_of_one_process(bench: Bench, tmp_path: Path) -> None:
    words = (
        "probe=gras",
        "probe.traits={kind: 2.6, cruel: -2.9}",
        "scorer=none",
        "probe.options.permutations=99",
        "cut.by=[gender]",
    )
    one = bench.run(*words)
    whole, shards = merged(bench, tmp_path, 2, *words)
    assert all(found["answers"]["not_asked"] > 0 for found in shards)
    again = whole.run(*words)
    assert again.results["answers"]["model_calls"] == 0
    assert json.dumps(again.results["gras"]) == json.dumps(results_of(one.folder)["gras"])
    assert tables(one.folder) == tables(again.folder)
