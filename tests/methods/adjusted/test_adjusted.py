"""Adjusted disparities of the simulator: planted confounding goes, planted effects stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench import Bench, fp2, results_of
from simulated import QUICK, analysed

from fp2.methods.adjusted import disparities as adjusted
from fp2.methods.adjusted.disparities import AdjustedDisparities, AdjustedSection
from fp2.report.values import Cell, Estimate, Sentence, as_cell, tables


def confounded(monkeypatch: pytest.MonkeyPatch, truth: dict[str, Any]) -> Any:
    """Return the analysis of simulated answers about people of whom four in five of type III are old."""
    import simulated

    rng = np.random.default_rng(4)
    rows = []
    for person in range(210):
        skin = person % 3
        old = rng.random() < (0.8 if skin == 2 else 0.2)
        rows += [
            {
                "image_id": f"{person}-{k}",
                "subject_id": f"p{person}",
                "n_people": 1,
                "set_id": None,
                "attr_skin": [("I", "II", "III")[skin]],
                "attr_age": [("young", "old")[old]],
                "attr_brightness": [f"{0.3 + 0.1 * rng.random():.4f}"],
            }
            for k in range(2)
        ]
    monkeypatch.setattr(simulated, "population", lambda: pd.DataFrame(rows))
    return analysed({"each": ["skin"]}, truth, words=(*QUICK, "analysis.adjust=[age,brightness]"))


def test_planted_confounding_goes_and_planted_effects_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust depends on age alone, which differs by skin type; occupation on the skin type itself."""
    noise = {"subject_sd": 0.8, "image_sd": 0.5}
    effects = {"trust": {"age": {"old": -3.0}}, "occupation": {"skin": {"III": -2.5}}}
    found, _ = confounded(monkeypatch, {"noise": noise, "effects": effects})
    block = found.blocks["adjusted"]
    rows = {row["probe"]: row for row in block["rows"]}
    assert rows["trust"]["unadjusted_verdict"] == "biased"
    assert not rows["trust"]["significant"]
    assert rows["trust"]["gap"] < 0.4 * rows["trust"]["raw"]
    assert rows["occupation"]["significant"]
    assert rows["occupation"]["lower_group"] == "III"
    assert rows["occupation"]["gap"] == pytest.approx(rows["occupation"]["raw"], abs=0.12)
    balance = {entry["attribute"]: entry for entry in rows["trust"]["balance"]}
    assert balance["age"]["before"] > 0.8
    assert max(entry["after"] for entry in balance.values()) < 1e-9
    assert block["family"].endswith("step-down max-T")
    assert {row["family_size"] for row in block["rows"]} == {6}
    results = {"probes": [{"id": p, "label": p.title()} for p in rows], "cuts": ["skin"]}
    values = list(AdjustedSection().values(block, results))
    stay, gone = (value.texts for value in values[:2] if isinstance(value, Sentence))
    assert str(stay).startswith("With age, brightness held constant, still different: Occupation by skin")
    assert "no longer found: Trust by skin" in str(gone)
    shown = {str(as_cell(row.cells[0]).value): row.cells[2] for row in tables(values)[0].rows}
    trust = rows["trust"]
    assert shown["Trust"] == Cell(Estimate(trust["gap"], trust["ci_low"], trust["ci_high"]))


def test_levels_numbers_and_missing_values_become_covariates() -> None:
    table = pd.DataFrame(
        {
            "subject_id": ["a", "a", "b", "c", "d"],
            "image_id": ["1", "2", "3", "4", "5"],
            "attr_age": [["old"], ["young"], ["young"], [], ["young"]],
            "attr_light": [["0.2"], ["0.4"], ["0.5"], ["0.9"], ["0.1"]],
        }
    )
    everyone = ["a", "b", "c", "d"]
    (column,) = adjusted._covariate(table, "age", everyone, 1).T
    assert column == pytest.approx([0.5, 0.0, np.nan, 0.0], nan_ok=True)
    (light,) = adjusted._covariate(table, "light", everyone, 1).T
    assert light == pytest.approx([0.3, 0.5, 0.9, 0.1])
    # levels of too few subjects are joined: nothing is left that varies
    assert adjusted._covariate(table, "age", everyone, 5).shape == (4, 0)


def test_without_covariates_there_is_no_block_and_attributes_of_the_cut_are_not_held_equal(found: Any) -> None:
    assert "adjusted" not in found[0].blocks
    run = found[1]
    analysis = replace(run.config.analysis, adjust=["age"])
    block = AdjustedDisparities().block(replace(run, config=replace(run.config, analysis=analysis)))
    assert block is not None
    assert {row["cut"] for row in block["rows"]} == {"skin"}


def test_a_run_measures_brightness_keeps_it_and_can_be_rescored(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = bench.run("analysis.adjust=[region,brightness]", "report=default").folder
    first = results_of(folder)
    row = first["adjusted"]["rows"][0]
    assert row["covariates"] == ["region", "brightness"]
    assert row["n_left_out"] == 0
    people = pd.read_parquet(folder / "people.parquet")
    assert {"attr_brightness", "attr_region"} <= set(people.columns)
    assert all(0 <= float(cell[0]) <= 1 for cell in people["attr_brightness"])
    assert "Adjusted disparities" in (folder / "dashboard.html").read_text(encoding="utf-8")
    assert fp2("rescore", str(folder), *bench.paths, "tracking=none") == 0
    again = results_of(bench.run_folders()[-1])
    assert [r["gap"] for r in again["adjusted"]["rows"]] == pytest.approx([r["gap"] for r in first["adjusted"]["rows"]])
    capsys.readouterr()
    assert fp2("run", *bench.words("analysis.adjust=[regoin]")) == 2
    error = capsys.readouterr().err
    assert "no attribute or image fact 'regoin'" in error
    assert "'region'" in error
    assert error.splitlines()[-1].startswith("error:")


def test_the_default_has_the_hash_of_before(bench: Bench) -> None:
    from fp2.compose import config_hash, identity_of

    config = bench.config()
    assert "adjust" not in identity_of(config)["analysis"]
    assert config_hash(bench.config("analysis.adjust=[region]")) != config_hash(config)
