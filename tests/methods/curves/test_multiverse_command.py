"""`fp2 multiverse RUN`: specification curves beside a run, whose own files stay as they were signed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import Bench, fp2, results_of

from fp2.compose import build_protocol, load_config
from fp2.errors import Fp2Error
from fp2.protocols.requirements import check_settings

STRONG = "model.truth={seed: 4, effects: {trust: {gender: {f: -4}}}, refusals: {trust: {base: 0.2}}}"


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory, squares: Path) -> tuple[Bench, Any]:
    bench = Bench(tmp_path_factory.mktemp("multiverse"), squares)
    return bench, bench.run(STRONG, "cut.by=[gender]", "probe.select=[trust,lifestyle]")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.thorough
def test_it_writes_into_a_folder_of_its_own_and_leaves_the_run_as_it_is(
    logged: tuple[Bench, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    bench, run = logged
    before = contents(run.folder)
    capsys.readouterr()
    assert fp2("multiverse", run.run_id[:10], "--json", *bench.paths, "tracking=none") == 0
    printed = json.loads(capsys.readouterr().out)
    folder = bench.outputs / "multiverse" / run.run_id
    assert contents(run.folder) == before
    made = json.loads((folder / "multiverse.json").read_text(encoding="utf-8"))
    assert made["run"]["run_id"] == run.run_id
    assert made["run"]["config_hash"] == run.results["config_hash"]
    assert {row["cut"] for row in made["rows"]} == {"gender"}
    page = (folder / "dashboard.html").read_text(encoding="utf-8")
    assert ">Specification curves</h2>" in page
    assert "passport does not cover it" in page
    names = {path.name for path in (folder / "figures").iterdir()}
    assert {"multiverse_gender.png", "multiverse_gender_1.png", "multiverse_gender_1.svg"} <= names
    assert {key: value for key, value in made.items() if key != "computed"} == printed


def test_a_run_with_it_has_the_block_and_another_config_hash(bench: Bench) -> None:
    words = (STRONG, "cut.by=[gender]", "probe.select=[trust]")
    plain = bench.run(*words, folder="plain")
    run = bench.run(*words, "analysis.multiverse=true", folder="with")
    assert "multiverse" not in plain.results
    assert plain.results["config_hash"] == bench.run(*words, "analysis.multiverse=false").results["config_hash"]
    assert run.results["config_hash"] != plain.results["config_hash"]
    (row,) = run.results["multiverse"]["rows"]
    assert (row["probe"], row["cut"], row["verdict"]) == ("trust", "gender", "biased")
    assert run.results["methods"] == plain.results["methods"]


def test_a_purge_deletes_what_was_computed_with_the_person(
    logged: tuple[Bench, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = logged[0].copied_to(tmp_path / "copy")
    (path,) = bench.outputs.rglob("results.json")
    results = results_of(path.parent)
    words = [*bench.paths, "tracking=none", "report.figures=false"]
    assert fp2("multiverse", str(path.parent), *words) == 0
    folder = bench.outputs / "multiverse" / results["run_id"]
    assert folder.is_dir()
    assert "Specification curves" in capsys.readouterr().out
    assert fp2("purge", "--subject", "nobody", "--yes", *words) == 0
    assert folder.is_dir()
    somebody = pd.read_csv(bench.table)["person"].iloc[0]
    assert fp2("purge", "--subject", somebody, "--yes", *words) == 0
    assert not folder.exists()


@pytest.mark.parametrize("words", [("probe=gras",), ("task=diversity",)])
def test_a_protocol_without_specifications_refuses_them(words: tuple[str, ...]) -> None:
    config = load_config([*words, "analysis.multiverse=true"])
    with pytest.raises(Fp2Error, match=r"does not take it \(analysis.multiverse\)"):
        check_settings(build_protocol(config), config, None)


def test_a_run_without_scores_or_with_a_strange_id_is_refused_in_one_line(
    logged: tuple[Bench, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench, run = logged
    words = [*bench.paths, "tracking=none"]
    copy = tmp_path / "run"
    copy.mkdir()
    for path in run.folder.iterdir():
        if path.is_file() and path.name != "scores.parquet":
            (copy / path.name).write_bytes(path.read_bytes())
    assert fp2("multiverse", str(copy), *words) != 0
    assert "no scores.parquet" in capsys.readouterr().err
    (copy / "scores.parquet").write_bytes((run.folder / "scores.parquet").read_bytes())
    results = results_of(copy) | {"run_id": "../../elsewhere"}
    (copy / "results.json").write_text(json.dumps(results), encoding="utf-8")
    assert fp2("multiverse", str(copy), *words) != 0
    assert "id is not valid" in capsys.readouterr().err
    assert fp2("multiverse", "0123456789abcdef", *words) != 0
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
