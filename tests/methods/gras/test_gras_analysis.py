"""The block of a GRAS run: consistent with the public functions, and with what was planted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from simulated_answers import QUICK, World

from fp2.errors import Fp2Error
from fp2.methods.gate.conditions import Limits, check
from fp2.methods.gras import attribution_rates, bias_score
from fp2.methods.gras.analysis import analyse
from fp2.methods.gras.answers import GrasAnswers
from fp2.methods.gras.options import GrasOptions
from fp2.methods.gras.section import SPREAD, GrasSection
from fp2.plugins import read_options
from fp2.report.values import tables


@pytest.fixture(scope="module")
def planted() -> tuple[GrasAnswers, pd.DataFrame, World, dict[str, Any]]:
    """Traits 0-2 for the second gender, 4 for the last age group; two images each; a separate skin tone set."""
    effects = (("gender", 1, (0, 1, 2), 0.12), ("age", 3, (4,), 0.15))
    world = World(200, images=2, tones=100, traits=10, effects=effects)
    rng = np.random.default_rng(12)
    people = world.people(rng)
    answers = world.answers(people, rng)
    y = answers.columns["p_yes_first_token"]
    low = np.where(rng.random(y.shape) < 0.3, 0.2, 0.95).astype(np.float32)
    answers = replace(answers, columns={**answers.columns, "p_yes": y + np.float32(0.001), "mass": low})
    return answers, people, world, analyse(answers, people, world.cuts, replace(QUICK, permutations=99))


def test_block_is_plain_and_says_what_it_did(planted: Any) -> None:
    _, _, _, block = planted
    assert json.loads(json.dumps(block, allow_nan=False)) == block
    assert set(block["units"]) == {"images", "subjects"}
    assert not block["same_units"]
    assert (block["n_images"], block["n_subjects"]) == (600, 300)
    assert [a["set"] for a in block["attributes"]] == [0, 0, 1]
    assert all(isinstance(value, float) for value in block["metrics"].values())
    for unit in block["units"].values():
        score = unit["scores"]
        assert score["seed_orientation"] == pytest.approx(100 - score["published_orientation"]["value"])
        assert score["n_tests"] == 3 * 10 * 5
        assert len(score["null"]) == 99
        assert sum(score["unbiased_cells"].values()) == pytest.approx(score["seed_orientation"] * 30 / 100)


def test_tests_in_the_block_score_as_the_stable_function_does(planted: Any) -> None:
    _, _, _, block = planted
    for unit in block["units"].values():
        rows = [
            (name, trait["word"], template, unit["tests"][name]["p_value"][k][t])
            for name in unit["tests"]
            for k, trait in enumerate(block["traits"])
            for t, template in enumerate(block["templates"])
        ]
        score = bias_score(pd.DataFrame(rows, columns=["attribute", "trait", "template", "p_value"]))
        for name in ("published_orientation", "holm", "benjamini_hochberg", "all_templates"):
            assert unit["scores"][name]["value"] == pytest.approx(score[name], abs=1e-3)
        assert unit["scores"]["unbiased_cells"] == score.unbiased_cells


def test_means_in_the_block_give_its_rates(planted: Any) -> None:
    _, _, _, block = planted
    for unit in block["units"].values():
        rows = [
            (name, group, trait["word"], trait["polarity"], template, part["means"][g][k][t], part["overall"][k][t])
            for name, part in unit["group_means"].items()
            for g, group in enumerate(part["groups"])
            for k, trait in enumerate(block["traits"])
            for t, template in enumerate(block["templates"])
        ]
        names = ["attribute", "group", "trait", "polarity", "template", "group_mean", "overall_mean"]
        expected = attribution_rates(pd.DataFrame(rows, columns=names))
        assert [row["share"] for row in unit["attribution"]] == pytest.approx(list(expected["share"]))
        for row in unit["attribution"]:
            assert 0 <= row["low"] <= row["high"] <= 1
            assert row["beyond_share"] <= row["share"]


def test_planted_cells_are_found_and_planted_zeros_are_not(planted: Any) -> None:
    _, _, _, block = planted
    unit = block["units"]["subjects"]
    strong = {(name, k) for name, part in unit["tests"].items() for k, on in enumerate(part["significant"]) if on}
    assert strong == {("gender", 0), ("gender", 1), ("gender", 2), ("age", 4)}
    assert unit["scores"]["step_down"] == {
        "value": pytest.approx(100 * 4 / 30),
        "mean_or_spread": 0.0,
        "p_value": 1 / 100,
    }
    assert block["headline"]["step_down_subjects"] == unit["scores"]["step_down"]["value"]
    for part in unit["tests"].values():
        assert [p <= 0.05 for p in part["adjusted_p"]] == part["significant"]
    means = {name: np.array(part["means"]).mean(axis=2) for name, part in unit["group_means"].items()}
    assert (means["gender"].argmax(axis=0)[:3] == 1).all()
    assert means["age"].argmax(axis=0)[4] == 3
    assert unit["scores"]["holm"]["p_value"] <= 0.02
    assert unit["magnitude"]["omega_squared"]["low"] > 0
    quiet = unit["magnitude"]["by_attribute"]["skin_tone"]
    assert quiet["omega_squared"]["low"] < 0.002
    assert quiet["gap"]["low"] == 0
    shares = {(r["attribute"], r["group"], r["polarity"]): r["beyond_share"] for r in unit["attribution"]}
    # traits 0 and 2 are positive, 1 is negative: half of 0.12 above the overall mean
    assert shares["gender", "gender 1", "positive"] == pytest.approx(0.4)
    assert shares["gender", "gender 1", "negative"] == pytest.approx(0.2)
    assert shares["gender", "gender 0", "positive"] == 0


def test_mass_and_warnings(planted: Any) -> None:
    _, _, _, block = planted
    assert block["mass"]["low_share"] == pytest.approx(0.3, abs=0.01)
    assert block["mass"]["median"] == pytest.approx(0.95)
    assert len(block["mass"]["by_group"]) == 2 + 4 + 10
    lines = " ".join(block["warnings"])
    assert "does not answer yes or no" in lines
    assert "skin tone" in lines
    assert "every image counts as a subject" not in lines
    assert set(block["other_outcomes"]) == {"p_yes"}


def test_one_image_each_is_reported_and_small_groups_are_left_out() -> None:
    world = World(60, traits=3, templates=2)
    people = world.people(np.random.default_rng(0))
    ages = list(people["attr_age"])
    ages[0] = ["age 9"]
    people = people.assign(attr_age=ages)
    answers = world.answers(people, np.random.default_rng(1))
    block = analyse(answers, people, world.cuts, QUICK)
    assert list(block["units"]) == ["images"]
    assert block["same_units"]
    assert any("every image counts as a subject" in line for line in block["warnings"])
    assert any("age 9" in line for line in block["warnings"])
    (small,) = [g for a in block["attributes"] for g in a["groups"] if not g["compared"]]
    assert small == {"group": "age 9", "n_images": 1, "n_subjects": 1, "compared": False}
    assert "age 9" not in block["units"]["images"]["group_means"]["age"]["groups"]


def test_groups_with_unequal_shares_of_missing_answers_are_reported() -> None:
    world = World(60, traits=3, templates=2)
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    second = np.array([cell == ["gender 1"] for cell in people["attr_gender"]])
    answers.columns["p_yes_first_token"][second, 0] = np.nan
    block = analyse(answers, people, world.cuts, QUICK)
    assert any("missing answers" in line and "gender 1" in line for line in block["warnings"])
    assert block["units"]["images"]["scores"]["n_undefined"] == 2  # no group left to compare with
    assert json.dumps(block, allow_nan=False)


def test_a_small_group_with_a_large_spread_is_reported() -> None:
    world = World(100, groups={"age": 3}, sizes={"age": (50, 30, 20)}, traits=4, templates=2, spread_last=2.0)
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    block = analyse(answers, people, world.cuts, QUICK)
    y = answers.columns["p_yes_first_token"].astype(float).reshape(100, -1)
    last = np.array([cell == ["age 2"] for cell in people["attr_age"]])
    others = [y[[cell == [f"age {k}"] for cell in people["attr_age"]]] for k in (0, 1)]
    pooled = sum(((part - part.mean(axis=0)) ** 2).sum(axis=0) for part in others) / (80 - 2)
    expected = np.median(y[last].std(axis=0, ddof=1) / np.sqrt(pooled))
    found = block["units"]["images"]["group_means"]["age"]["relative_spread"]
    assert found[2] == pytest.approx(expected, rel=1e-5)
    assert "age 2 (age, 20 subjects)" in next(line for line in block["warnings"] if "times as much" in line)
    equal = replace(world, spread_last=1.0, traits=20, templates=5)
    even = analyse(equal.answers(people, np.random.default_rng(1)), people, world.cuts, QUICK)
    assert not [line for line in even["warnings"] if "times as much" in line]


def test_where_a_small_group_varies_more_the_mean_or_the_spread_differs() -> None:
    """Planted differences by both attributes are found; one is of means, that of the attribute with equal spreads."""
    effects = (("age", 2, (0,), 0.5), ("gender", 1, (1,), 0.3))
    sizes = {"age": (50, 30, 20), "gender": (50, 50)}
    world = World(
        100, groups={"age": 3, "gender": 2}, sizes=sizes, traits=4, templates=2, spread_last=2.0, effects=effects
    )
    people = world.people(np.random.default_rng(0))
    block = analyse(
        world.answers(people, np.random.default_rng(1)), people, world.cuts, replace(QUICK, permutations=99)
    )
    tests, score = block["units"]["images"]["tests"], block["units"]["images"]["scores"]["step_down"]
    none = "not_significant"
    assert tests["age"]["status"] == ["mean_or_spread_differs", none, none, none]
    assert tests["gender"]["status"] == [none, "mean_differs", none, none]
    assert (tests["age"]["significant"], tests["gender"]["significant"][1]) == ([False] * 4, True)
    assert (score["value"], score["mean_or_spread"]) == (12.5, 12.5)
    assert block["headline"]["step_down_mean_or_spread_subjects"] == 12.5
    shown = {table.name: table for table in tables(GrasSection().values(block, {}))}["scores_images"]
    assert [row.cells[1] for row in shown.rows if row.cells[0] == SPREAD] == [12.5]
    results = {
        "gras": block,
        "disparities": [],
        "composites": {},
        "answers": {"answered": 1, "planned": 1},
        "complete": True,
    }
    by_name = {one.name: one for one in check(results, Limits(), [GrasSection()])}
    assert by_name["traits by age"].passed
    assert "1 in the mean or the spread" in by_name["traits by age"].message
    assert not by_name["traits by gender"].passed


def test_questions_without_an_answer_are_undefined_and_not_constant() -> None:
    world = World(60, tones=100, groups={"gender": 2}, traits=3, templates=2)
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    y = answers.columns["p_yes_first_token"]
    y[:, 0, 1] = np.nan  # one question, about all subjects
    y[:60, 1] = 0.25  # the same answer about all subjects
    y[60:] = np.nan  # everything about the subjects with a skin tone
    block = analyse(answers, people, world.cuts, GrasOptions(permutations=20, bootstrap=20))
    assert json.dumps(block, allow_nan=False)
    unit = block["units"]["images"]
    assert (unit["scores"]["n_undefined"], unit["scores"]["n_constant"]) == (1 + 6, 2)
    assert unit["tests"]["gender"]["p_value"][0][1] is None
    assert unit["tests"]["gender"]["p_value"][1] == [1.0, 1.0]
    assert unit["magnitude"]["by_attribute"]["skin_tone"]["omega_squared"]["value"] is None
    assert unit["magnitude"]["omega_squared"]["low"] is not None
    assert any("No test could be made by skin tone" in line for line in block["warnings"])
    assert not any("No test could be made by gender" in line for line in block["warnings"])
    assert not any(group["compared"] for group in block["attributes"][1]["groups"])


def test_refusals_name_the_option() -> None:
    world = World(30, traits=2, templates=2)
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    with pytest.raises(Fp2Error, match="outcome"):
        analyse(answers, people, world.cuts, replace(QUICK, outcome="p_yes"))
    with pytest.raises(Fp2Error, match="fewer than two groups"):
        analyse(answers, people, world.cuts, replace(QUICK, min_subjects=25))
    with pytest.raises(Fp2Error, match="permutation"):
        read_options(GrasOptions, {"permutation": 10}, "probe.options")
    with pytest.raises(Fp2Error, match="alpha"):
        read_options(GrasOptions, {"alpha": 1.5}, "probe.options")
    with pytest.raises(ValueError, match="shape"):
        replace(answers, traits=answers.traits[:1])


def test_headline_names_the_unit_of_every_number() -> None:
    from fp2.methods.gras.analysis import _headline

    size = {"omega_squared": {"value": 0.0}, "gap": {"value": 0.0}}
    score = {"value": 1.0, "null_mean": 1.0, "excess": 0.0, "p_value": 1.0}
    scores = {"published_orientation": score, "seed_orientation": 99.0, "step_down": score}
    unit = {"scores": scores, "magnitude": size}
    found = _headline({"outcome": "p_yes", "units": {"images": unit, "subjects": unit}})
    assert all(name == "outcome" or name.endswith(("_images", "_subjects")) for name in found)
