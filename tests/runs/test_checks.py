"""The check of a run: sound runs pass, and each kind of damage to files, tables, store or record is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench import Bench, fp2, results_of

from fp2.errors import EXIT_UNSOUND
from fp2.runs.checks import check_run
from fp2.store.rows import ResponseStore

WORDS = ("probe.select=[trust]", "model.truth={seed: 4, refusals: {trust: {base: 0.2}}}")


@pytest.fixture(scope="module")
def run(squares: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Bench, Path]:
    """A project with a run; not to be changed."""
    bench = Bench(tmp_path_factory.mktemp("checked"), squares)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FP2_ROOT", str(bench.root))
        return bench, bench.run(*WORDS).folder


@pytest.fixture
def copy(run: tuple[Bench, Path], own_root: Path) -> tuple[Bench, Path]:
    """A copy of the project, to be damaged."""
    bench, folder = run
    own = bench.copied_to(own_root)
    return own, own.root / folder.relative_to(bench.root)


def failed(bench: Bench, folder: Path) -> dict[str, str]:
    """Return what fails, by check."""
    found = check_run(folder, bench.config(*WORDS))
    return {one.check: "; ".join(one.failures) for one in found if one.failures}


def test_a_sound_run_passes_every_check_and_nothing_is_left_out(run: tuple[Bench, Path]) -> None:
    bench, folder = run
    found = check_run(folder, bench.config(*WORDS))
    assert [(one.failures, one.notes) for one in found] == [((), ())] * 6
    assert fp2("check", str(folder), *bench.paths) == 0


def set_result(change: Callable[[dict[str, Any]], None]) -> Callable[[Bench, Path], None]:
    def damage(bench: Bench, folder: Path) -> None:
        results = results_of(folder)
        change(results)
        (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")

    return damage


def in_table(name: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[Bench, Path], None]:
    def damage(bench: Bench, folder: Path) -> None:
        change(pd.read_parquet(folder / name)).to_parquet(folder / name)

    return damage


def in_store(statement: str) -> Callable[[Bench, Path], None]:
    def damage(bench: Bench, folder: Path) -> None:
        with ResponseStore(bench.store) as store:
            store.connection.execute(statement)

    return damage


def config_line(bench: Bench, folder: Path) -> None:
    path = folder / "config.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("alpha: 0.05", "alpha: 0.06"), encoding="utf-8")


def other_words(frame: pd.DataFrame) -> pd.DataFrame:
    answered = np.flatnonzero(frame["status"] == "answered")[0]
    frame.loc[answered, "text"] = frame.loc[answered, "text"] + "!"
    return frame


DAMAGE: dict[str, tuple[Callable[[Bench, Path], None], dict[str, str]]] = {
    "a count in the results": (
        set_result(lambda results: results["answers"].update(planned=73)),
        {"passport": "was changed", "counts": "planned is not", "tables": "answers.planned"},
    ),
    "a group's count": (
        set_result(lambda results: results["answers_by_group"][0].update(refused=1000)),
        {"passport": "was changed", "counts": "more refused than answered", "tables": "answers_by_group.0.refused"},
    ),
    "a row of answers lost": (
        in_table("responses.parquet", lambda frame: frame.iloc[1:]),
        {"passport": "was changed", "tables": "answers.planned", "store": "response set"},
    ),
    "an answer changed": (
        in_table("responses.parquet", other_words),
        {
            "passport": "was changed", "tables": "diversity.0.distinct",
            "store": "1 of 72 answers in responses.parquet are not those of the store",
        },
    ),
    "scores lost": (
        in_table("scores.parquet", lambda frame: frame.iloc[3:]),
        {"passport": "was changed", "tables": "has no score of 3 answers"},
    ),
    "a person lost": (
        in_table("people.parquet", lambda frame: frame.iloc[1:]),
        {"passport": "was changed", "tables": "n_images"},
    ),
    "the config": (config_line, {"passport": "was changed", "config": "the config has the hash"}),
    "a file deleted": (lambda bench, folder: (folder / "scores.parquet").unlink(), {"passport": "is missing"}),
    "an answer of the store": (in_store("UPDATE answers SET tokens = 99"), {"store": "does not match its checksum"}),
    "answers of the store lost": (
        in_store("DELETE FROM answers WHERE key < '4'"), {"store": "the store lacks"},
    ),
    "no passport": (lambda bench, folder: (folder / "passport.json").unlink(), {"passport": "it did not end"}),
    "a table that is none": (
        lambda bench, folder: (folder / "people.parquet").write_bytes(b"PAR1"),
        {"passport": "was changed", "tables": "cannot be read", "store": "cannot be read"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_found_by_the_checks_that_it_concerns_and_no_other(
    copy: tuple[Bench, Path], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bench, folder = copy
    damage, expected = DAMAGE[what]
    damage(bench, folder)
    found = failed(bench, folder)
    assert {name: said for name, said in found.items() if expected.get(name, "absent") not in said} == {}
    assert found.keys() == expected.keys()
    if what == "the config":
        assert fp2("check", str(folder), *bench.paths) == 1
        out, err = capsys.readouterr()
        assert err.count("failed:") == 2
        assert "4 of 6 checks passed" in out


def test_a_copy_on_another_machine_is_checked_as_far_as_that_goes(
    run: tuple[Bench, Path], own_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench, folder = run
    there = Path(shutil.copytree(folder, own_root / "copied"))
    elsewhere = replace(bench, root=own_root)
    key = bench.root / "state" / "keys" / "passport_key.pub.pem"
    assert fp2("check", str(there), "--key", str(key), *elsewhere.paths) == 0
    out = capsys.readouterr().out
    assert "note: store: there is no response store" in out
    assert fp2("check", str(there), "--json", *elsewhere.paths) == 0
    assert json.loads(capsys.readouterr().out)["checks"][0]["notes"]


def test_a_run_that_fails_its_check_says_so_and_exits(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fp2 import artifacts

    write = artifacts.write_results
    monkeypatch.setattr(
        artifacts, "write_results", lambda folder, results: write(folder, {**results, "n_subjects": 35})
    )
    assert bench.launch(*WORDS) == EXIT_UNSOUND
    assert "failed 1 check: tables: results.json differs from the tables at n_subjects" in capsys.readouterr().err


@pytest.mark.usefixtures("mlflow_store")
def test_the_record_in_mlflow_is_checked(bench: Bench) -> None:
    import mlflow

    outcome = bench.run(*WORDS, "tracking=mlflow")
    here = bench.config(*WORDS, "tracking=mlflow")
    assert [one for one in check_run(outcome.folder, here) if one.failures] == []
    assert fp2("check", outcome.run_id, *bench.paths) == 0  # downloaded from the store
    assert fp2("keygen", str(bench.root / "auditor.pem")) == 0
    assert fp2("sign", str(outcome.folder / "passport.json"), "--key", str(bench.root / "auditor.pem")) == 0
    assert [one for one in check_run(outcome.folder, here) if one.failures] == []  # an auditor's signature was added
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{bench.root}/mlruns/mlflow.db")
    client.set_tag(outcome.run_id, "fp2.passport_sha256", "0" * 64)
    assert check_run(outcome.folder, here)[-1].failures == ("the MLflow run logged another passport",)
