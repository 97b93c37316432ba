"""Rescoring: a logged run's answers under other scorers, cuts and settings, equal to a run that was made with them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, fp2, predicate_of

from fp2.compose import load_config
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.methods.peeps.planted.engine import PlantedEngine
from fp2.methods.reruns.rescoring import composable, rescored_config

STRONG = "model.truth={seed: 4, effects: {trust: {gender: {f: -4}}}, refusals: {lifestyle: {base: 0.2}}}"
# What does not stand on random draws: those follow the order of the ids, which are salted keys in a run's tables.
SURE = ("raw", "shrunken", "hedges_g", "epsilon_squared", "icc", "n_subjects", "n_images", "n_missing", "family_size")
BOTH = "cut.each=[gender,region]"


def rescored(bench: Bench, run: str, *words: str) -> tuple[dict[str, Any], Path]:
    """Rescore and return the new run's results and folder."""
    outputs = bench.outputs
    known = set(outputs.rglob("results.json"))
    assert fp2("rescore", run, *words, "tracking=none", "report=none", *bench.paths) == 0
    (path,) = set(outputs.rglob("results.json")) - known
    return json.loads(path.read_text(encoding="utf-8")), path.parent


def assert_same_sizes(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    for old, new in zip(one, other, strict=True):
        assert [old[name] for name in ("probe", "scorer", "cut")] == [new[name] for name in ("probe", "scorer", "cut")]
        assert {name: old[name] for name in SURE} == pytest.approx({name: new[name] for name in SURE}, abs=1e-9)
        assert old["p_value"] == pytest.approx(new["p_value"], abs=0.15)


def test_other_scorers_cuts_and_settings_give_what_a_run_with_them_gives(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = bench.run(BOTH, STRONG, folder="logged")
    words = ("scorer=economic", "cut.by=[region]", "analysis.alpha=0.01")
    wanted = bench.run(*words, STRONG, folder="wanted").results
    monkeypatch.setattr(PlantedEngine, "answer", lambda self, tasks: pytest.fail("the model was asked"))
    monkeypatch.setattr("fp2.data.pixels.PixelIndex.digest_many", lambda *args, **kw: pytest.fail("a picture was read"))
    found, folder = rescored(bench, str(logged.folder), *words)
    assert_same_sizes(found["disparities"], wanted["disparities"])
    for name in ("config_hash", "response_set", "answers_by_group", "coverage", "scorers", "cuts", "diversity"):
        assert found[name] == wanted[name], name
    assert found["run_id"] not in (logged.run_id, wanted["run_id"])
    assert found["rescored_from"]["run_id"] == logged.run_id
    assert found["answers"]["model_calls"] == 0
    predicate = predicate_of(folder)
    assert predicate["rescored_from"] == found["rescored_from"]
    assert predicate["protocol"]["decoding"] is not None
    assert len(found["rescored_from"]["passport_sha256"]) == 64
    again, _ = rescored(bench, str(folder))  # a rescored run can be rescored: nothing named is nothing changed
    assert again["disparities"] == found["disparities"]
    assert again["config_hash"] == found["config_hash"]
    assert again["rescored_from"]["run_id"] == found["run_id"]


@pytest.mark.usefixtures("mlflow_store")
def test_a_run_in_the_mlflow_store_is_rescored_into_a_run_of_its_own(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    import mlflow

    logged = bench.run(STRONG, "tracking=mlflow")
    assert fp2("rescore", logged.run_id, "scorer=refusal", "report.figures=false", *bench.paths) == 0
    said = capsys.readouterr().out
    assert f"rescored from run {logged.run_id}" in said
    client = mlflow.MlflowClient(f"sqlite:///{bench.root / 'mlruns' / 'mlflow.db'}")
    runs = client.search_runs([logged.experiment_id])
    assert len(runs) == 2
    new = next(run for run in runs if run.info.run_id != logged.run_id)
    assert new.data.tags["fp2.rescored_from"] == logged.run_id
    assert new.data.params["scorers"] == "refusal"


def test_a_single_setting_changes_nothing_else_of_the_sources(bench: Bench) -> None:
    logged = load_config(
        bench.words("scorer=valence", BOTH, "analysis.severity={low: 0.01, moderate: 0.2, high: 0.4}", "seed=3")
    )

    def after(*words: str) -> Config:
        return rescored_config(logged, load_config(composable(words)), words)

    scored = after("scorer.valence.smallest_effect=0.1", "analysis.alpha=0.01")
    assert scored.scorer == {"valence": {**logged.scorer["valence"], "smallest_effect": 0.1}}
    assert scored.cut == logged.cut
    assert scored.analysis == replace(logged.analysis, alpha=0.01)
    assert after("analysis.severity.low=0.03").analysis.severity == {"low": 0.03, "moderate": 0.2, "high": 0.4}
    assert after("analysis.severity={low: 0.03}").analysis.severity == {"low": 0.03, "moderate": 0.2, "high": 0.4}
    for word in ("cut.groups={gender: [f, m]}", "+cut.groups.gender=[f, m]"):
        assert after(word).cut == replace(logged.cut, groups={"gender": ["f", "m"]})
    assert after("+scorer.own={target: a:B}").scorer == {**logged.scorer, "own": {"target": "a:B"}}
    assert after("cut.by=[region]").cut.by == ["region"]
    assert after("scorer=economic", "scorer.economic.smallest_effect=0.2").scorer["economic"]["smallest_effect"] == 0.2
    other = after("seed=4")
    assert replace(other, report=logged.report, tracking=logged.tracking, paths=logged.paths) == replace(logged, seed=4)
    with pytest.raises(Fp2Error, match="no scorer 'economic'"):
        after("scorer.economic.smallest_effect=0.2")
    with pytest.raises(Fp2Error, match="one run"):
        after("scorer.valence.smallest_effect=0.1,0.2")


@pytest.mark.parametrize("text", ["{}", "[]", "3", '{"run_id": "a", "cuts": {}}'])
def test_a_folder_with_something_else_is_reported_in_one_line(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results.json").write_text(text)
    (tmp_path / "config.yaml").write_text("cut: {by: [gender]}")
    for words in (("rescore", str(tmp_path)), ("show", str(tmp_path))):
        assert fp2(*words, f"paths.root={tmp_path}") == 2
        told = capsys.readouterr().err
        assert "this folder has no results of a run" in told
        assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["model=peeps_vlm"], "cannot change 'model'"),
        (["cut.by=[region]"], "has no attribute 'region'"),
        (["scorer=first_mention"], "'first_mention' is for images of two people"),
        (["scorer=nothing"], "unknown scorer 'nothing'"),
    ],
)
def test_what_cannot_be_rescored_is_reported_in_one_line(
    finished: Bench, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished.outputs / "one"
    assert fp2("rescore", str(folder), *words, *finished.paths) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    (folder / "responses.parquet").unlink()
    assert fp2("rescore", str(folder), *finished.paths) == 2
    assert "has no responses.parquet" in capsys.readouterr().err


def test_a_run_that_scored_no_answers_is_refused_by_its_name(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bench.run("task=diversity").folder
    assert fp2("rescore", str(folder), *bench.paths) == 2
    assert "a run of task=diversity has no answers that the scorers read" in capsys.readouterr().err
