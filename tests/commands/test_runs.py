"""What is read off finished runs: `fp2 show` and `diff`, and `--json` in place of tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench import REPOSITORY, Bench, fp2, results_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, squares: Path) -> tuple[Bench, Any, Any]:
    """A run with a planted effect, and one without."""
    bench = Bench(tmp_path_factory.mktemp("runs"), squares)
    strong = "model.truth={seed: 4, effects: {trust: {gender: {f: -4}}}, refusals: {trust: {base: 0.3}}}"
    return bench, bench.run(strong), bench.run("seed=9", "model.truth={seed: 5}")


def printed(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    capsys.readouterr()
    assert fp2(*words) == status
    return capsys.readouterr().out


def test_a_run_is_shown_as_at_its_end(runs: tuple[Bench, Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    bench, strong, _ = runs
    for word in (strong.run_id[:8], strong.results["config_hash"][:12], str(strong.folder)):
        out = printed(capsys, "show", word, *bench.paths)
        assert "biased" in out
        assert "by gender" in out
        assert "Severity" in out
        assert strong.run_id in out
    assert json.loads(printed(capsys, "show", strong.run_id, "--json", *bench.paths)) == results_of(strong.folder)


def test_configs_that_differ_are_listed(runs: tuple[Bench, Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    bench, strong, plain = runs
    words = ("diff", strong.run_id, plain.run_id, *bench.paths)
    rows = {row["key"]: row for row in json.loads(printed(capsys, *words, "--json", status=1))}
    assert (rows["seed"]["first"], rows["seed"]["second"]) == (20260101, 9)
    assert "model.truth.refusals.trust.base" in rows
    assert {"config_hash", "response_set"} <= set(rows)
    assert "dataset_digest" not in rows
    assert "seed" in printed(capsys, *words, status=1)
    assert "same config" in printed(capsys, "diff", strong.run_id, str(strong.folder), *bench.paths)


RELEASED = REPOSITORY / "tests" / "releases" / "0.3.0" / "runs"


@pytest.mark.package(name="matched")
def test_a_run_of_a_special_case_is_shown_with_its_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert "sets vary in region" in printed(capsys, "show", str(RELEASED / "twins"))


@pytest.mark.package(name="maintenance")
def test_tables_are_printed_as_json_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "list", "scorers", "--json"))
    assert "valence" in {row["name"] for row in found["scorers"]}


@pytest.mark.package(name="maintenance")
@pytest.mark.usefixtures("mlflow_store")
def test_doctor_prints_json(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.run("tracking=mlflow", "scorer=refusal")
    checks = json.loads(printed(capsys, "doctor", "--json", *bench.paths))
    assert all(check["ok"] for check in checks)
