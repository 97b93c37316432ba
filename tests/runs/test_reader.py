"""How a run is named on the command line: its folder, its id, its config hash, or the beginning of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import Bench, fp2, results_of
from mlflow import MlflowClient

from fp2.errors import Fp2Error
from fp2.runs.reader import run_folder
from fp2.tracking.client import tracking_uri


@pytest.mark.usefixtures("mlflow_store")
def test_a_logged_run_is_found_by_the_beginning_of_its_id_or_config_hash(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first, again = (bench.run("tracking=mlflow") for _ in range(2))
    other = bench.run("tracking=mlflow", "seed=7")
    here = bench.config("tracking=mlflow")

    def found(word: str) -> str:
        return str(results_of(run_folder(word, here, tmp_path, ("results.json",)))["run_id"])

    assert found(first.run_id) == found(first.run_id[:8]) == first.run_id
    config_hash = again.results["config_hash"]
    for word in (config_hash, config_hash[:10]):
        assert found(word) == again.run_id
        note = f"note: 2 runs have the config hash {word}: {again.run_id} is used, the newest that finished"
        assert capfd.readouterr().err.splitlines() == [note]  # and no bars of MLflow, one a file
    MlflowClient(tracking_uri(here)).set_terminated(again.run_id, "KILLED")
    assert found(config_hash) == first.run_id
    assert found(other.results["config_hash"][:10]) == other.run_id
    assert f"{first.run_id} is used" in capfd.readouterr().err
    for word in ("ab", "zzzzzz", f"{first.run_id}0"):
        with pytest.raises(Fp2Error, match=f"no run '{word}'"):
            found(word)


@pytest.mark.package(name="reruns")
def test_a_run_without_mlflow_is_found_in_its_output_folder(
    finished: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished.outputs / "one"
    results = results_of(folder)
    for word in (results["run_id"][:8], results["config_hash"][:12]):
        assert run_folder(word, finished.config(), tmp_path, ("results.json",)) == folder
    assert fp2("rerun", results["config_hash"], *finished.paths, "tracking.enabled=false") == 0
    assert "all numbers are equal" in capsys.readouterr().out
    again = finished.run_folders()[-1]  # a rerun has the same config hash: the newest complete one is meant
    config_hash = results["config_hash"]
    assert run_folder(config_hash, finished.config(), tmp_path, ("results.json",)) == again != folder
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        f"note: 2 runs have the config hash {config_hash}: {results_of(again)['run_id']} is used, the newest that "
        "finished"
    ]
    partial = {**results_of(again), "complete": False}
    (again / "results.json").write_text(json.dumps(partial), encoding="utf-8")
    assert run_folder(config_hash[:9], finished.config(), tmp_path, ("results.json",)) == folder


def test_a_beginning_that_several_runs_share_is_refused_with_their_names(bench: Bench, tmp_path: Path) -> None:
    folders = [bench.run(folder=name).folder for name in ("one", "two")]
    for number, folder in enumerate(folders):
        path = folder / "results.json"
        path.write_text(path.read_text().replace(results_of(folder)["run_id"], f"abcdef{number}"), encoding="utf-8")
    with pytest.raises(Fp2Error, match=r"matches 2 runs: .*abcdef"):
        run_folder("abcd", bench.config(), tmp_path, ("results.json",))
