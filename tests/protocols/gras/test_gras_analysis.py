"""The analysis of a GRAS run, against SciPy, pingouin, counting by hand and planted truth."""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import f_oneway, friedmanchisquare, ttest_ind

from fp2.errors import Fp2Error
from fp2.protocols.gras import GrasAnswers, GrasOptions, analyse, attribution_intervals, attribution_rates, bias_score
from fp2.protocols.gras.analysis import prepare
from fp2.protocols.gras.groups import Relabeller, make_design
from fp2.protocols.gras.wording import rank_agreement, sign_flips, wording_tests

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from benchmarks.gras_worlds import World

QUICK = GrasOptions(permutations=40, bootstrap=40, min_subjects=5)
STRADDLING = World(60, images=3, groups={"gender": 2, "age": 4}, traits=6, templates=3)


def world_with_changing_age(missing: bool) -> tuple[GrasAnswers, pd.DataFrame]:
    """Some people's ages differ between their pictures; one has two genders; some answers are missing."""
    rng = np.random.default_rng(3)
    people = STRADDLING.people(rng)
    answers = STRADDLING.answers(people, rng)
    ages = list(people["attr_age"])
    for row in range(0, 60, 4):
        ages[row] = [f"age {rng.integers(4)}"]
    genders = list(people["attr_gender"])
    genders[9:12] = [["gender 0", "gender 1"]] * 3
    people = people.assign(attr_age=ages, attr_gender=genders)
    if missing:
        answers.columns["p_yes_first_token"][rng.random((180, 6, 3)) < 0.1] = np.nan
    return answers, people


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kind", ["images", "subjects"])
def test_welch_is_scipys(kind: str, missing: bool) -> None:
    answers, people = world_with_changing_age(missing)
    comparison = prepare(answers, people, STRADDLING.cuts, QUICK).comparison(kind)
    found, _ = comparison.observed()
    y = answers.columns["p_yes_first_token"].astype(float).reshape(180, 18)
    for a, name in enumerate(("gender", "age")):
        long = people[["subject_id", f"attr_{name}"]].rename(columns={f"attr_{name}": "group"})
        for q in (0, 7, 17):
            frame = long.assign(y=y[:, q]).explode("group").dropna()
            if kind == "subjects":
                frame = frame.groupby(["subject_id", "group"], as_index=False)["y"].mean()
            parts = [part["y"].to_numpy() for _, part in frame.groupby("group")]
            expected = f_oneway(*parts, equal_var=False)
            assert found.f[0, a, q] == pytest.approx(expected.statistic, rel=1e-8)
            assert found.p[0, a, q] == pytest.approx(expected.pvalue, rel=1e-7)
            if len(parts) == 2:
                assert found.p[0, a, q] == pytest.approx(ttest_ind(*parts, equal_var=False).pvalue, rel=1e-7)
            gain = (len(parts) - 1) * (expected.statistic - 1)
            assert found.omega_squared[0, a, q] == pytest.approx(gain / (gain + len(frame)), abs=1e-9)
            assert found.gap[0, a, q] == pytest.approx(np.ptp([part.mean() for part in parts]), rel=1e-8)


@pytest.mark.parametrize("kind", ["images", "subjects"])
def test_permuted_sums_are_those_of_permuted_tables(kind: str) -> None:
    """A relabelling by matrix products equals analysing a people table with the labels moved."""
    answers, people = world_with_changing_age(missing=True)
    ready = prepare(answers, people, STRADDLING.cuts, QUICK)
    comparison = ready.comparison(kind)
    part = ready.design.sets[0]
    labels = Relabeller(part, 1, 0).draw(3)
    found = comparison.tests([comparison.units[0].relabelled(labels)])
    names = [group for attribute in ready.design.attributes for group in attribute.groups]
    for b in range(3):
        member = part.member[labels[b][part.slot]][:, : len(names)] > 0
        cells = {
            name: [[g for g, on in zip(names, row, strict=True) if on and g.startswith(name)] for row in member]
            for name in ("gender", "age")
        }
        moved = people.assign(**{f"attr_{name}": cell for name, cell in cells.items()})
        again, _ = prepare(answers, moved, STRADDLING.cuts, replace(QUICK, min_subjects=2)).comparison(kind).observed()
        np.testing.assert_allclose(found.p[b], again.p[0], rtol=1e-6)


def test_label_rows_move_as_one_and_the_skin_tone_apart() -> None:
    world = World(70, tones=50, groups={"gender": 2, "race": 7}, traits=2, templates=2)
    people = world.people(np.random.default_rng(0))
    ids = (people["image_id"].to_numpy(dtype=object), people["subject_id"].to_numpy(dtype=object))
    design = make_design(*ids, people, world.cuts, 5)
    assert [part.attributes for part in design.sets] == [(0, 1), (2,)]
    assert [len(part.images) for part in design.sets] == [70, 50]
    for number, part in enumerate(design.sets):
        own = np.bincount(part.label_row)
        drawn = Relabeller(part, 4, number).draw(20)
        assert (drawn != part.label_row).any()
        for row in drawn:
            np.testing.assert_array_equal(np.bincount(row), own)  # whole rows, none split up
    assert (Relabeller(design.sets[0], 4, 0).draw(5)[2:] == Relabeller(design.sets[0], 4, 0).draw(5)[2:]).all()


def test_batches_do_not_change_the_null(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, people = world_with_changing_age(missing=False)
    ready = prepare(answers, people, STRADDLING.cuts, QUICK)
    whole = ready.comparison("subjects").null(12)
    monkeypatch.setattr("fp2.protocols.gras.units._CHUNK_BYTES", 1)
    single = ready.comparison("subjects").null(12)
    np.testing.assert_array_equal(whole.scores["published_orientation"], single.scores["published_orientation"])
    np.testing.assert_allclose(whole.omega_squared, single.omega_squared)


def test_constant_columns_and_constant_groups() -> None:
    world = World(60, traits=4, templates=1, groups={"age": 3})
    rng = np.random.default_rng(1)
    people = world.people(rng)
    answers = world.answers(people, rng)
    y = answers.columns["p_yes_first_token"]
    first = np.array([cell == ["age 0"] for cell in people["attr_age"]])
    y[:, 0] = 0.3
    y[first, 1] = 0.5  # one group without spread: SciPy has no answer, the limit has
    y[:, 2] = np.where(first, 0.9, 0.1)[:, None]  # no spread in any group, and different
    comparison = prepare(answers, people, world.cuts, QUICK).comparison("images")
    found, _ = comparison.observed()
    assert found.p[0, 0, 0] == 1.0
    assert found.f[0, 0, 0] == 0.0
    assert found.p[0, 0, 2] < 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nearly = y[:, 1, 0].astype(float) + np.where(first, 1e-6 * rng.normal(size=60), 0)
        groups = [nearly[[cell == [f"age {k}"] for cell in people["attr_age"]]] for k in range(3)]
        assert found.p[0, 0, 1] == pytest.approx(f_oneway(*groups, equal_var=False).pvalue, abs=1e-3)
    assert comparison.constant.sum() == 1


def test_wording_tests_are_pingouins_and_scipys() -> None:
    pingouin = pytest.importorskip("pingouin", reason="the comparison needs pingouin, a test-only dependency")
    rng = np.random.default_rng(2)
    y = rng.normal(size=(30, 3, 5)) + rng.normal(size=(30, 3, 1))
    y[:, :, 1] += 0.4
    y[:, :, 2] *= 2
    y[:, 2] = np.round(y[:, 2])  # ties
    y[4, 0, 2] = np.nan
    found = wording_tests(y)
    for k in range(3):
        rows = y[np.isfinite(y[:, k]).all(axis=1), k]
        long = pd.DataFrame([(i, t, v) for (i, t), v in np.ndenumerate(rows)], columns=["unit", "template", "y"])
        names = {"data": long, "dv": "y", "within": "template", "subject": "unit"}
        table = pingouin.rm_anova(**names, correction=True, detailed=True).iloc[0]
        assert found.n[k] == len(rows)
        assert found.f[k] == pytest.approx(table["F"])
        assert found.greenhouse_geisser[k] == pytest.approx(table["eps"])
        assert found.p_gg[k] == pytest.approx(table["p_GG_corr"])
        assert found.huynh_feldt[k] == pytest.approx(pingouin.epsilon(**names, correction="hf"))
        assert found.share_template[k] == pytest.approx(table["ng2"])
        assert found.share_template[k] + found.share_unit[k] + found.share_rest[k] == pytest.approx(1.0)
        expected = friedmanchisquare(*rows.T)
        assert found.friedman[k] == pytest.approx(expected.statistic)
        assert found.friedman_p[k] == pytest.approx(expected.pvalue)


def test_flips_and_rank_agreement_by_hand() -> None:
    means = np.zeros((2, 1, 4))
    means[0, 0] = 0.1, 0.1, 0.1, -0.1
    assert sign_flips(means) == 0.25
    assert sign_flips(np.abs(means)) == 0.25 - 0.25
    assert np.isnan(sign_flips(np.zeros((2, 3, 4))))
    many = np.random.default_rng(0).normal(size=(3, 20, 1)) * np.ones(5)
    assert rank_agreement(many) == pytest.approx(1.0)


@pytest.fixture(scope="module")
def planted() -> tuple[GrasAnswers, pd.DataFrame, World, dict[str, Any]]:
    """Traits 0-2 for the second gender, 4 for the last age group; two pictures each; a separate skin tone set."""
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
    strong = {
        (name, k)
        for name, part in unit["tests"].items()
        for k, row in enumerate(part["p_value"])
        if min(row) * unit["scores"]["n_tests"] <= 0.05
    }
    assert strong == {("gender", 0), ("gender", 1), ("gender", 2), ("age", 4)}
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
    assert "cannot be checked" in lines
    assert "every picture counts as a person" not in lines
    assert set(block["other_outcomes"]) == {"p_yes"}


def test_one_picture_each_is_said_and_small_groups_are_left_out() -> None:
    world = World(60, traits=3, templates=2)
    people = world.people(np.random.default_rng(0))
    ages = list(people["attr_age"])
    ages[0] = ["age 9"]
    people = people.assign(attr_age=ages)
    answers = world.answers(people, np.random.default_rng(1))
    block = analyse(answers, people, world.cuts, QUICK)
    assert list(block["units"]) == ["images"]
    assert block["same_units"]
    assert any("every picture counts as a person" in line for line in block["warnings"])
    assert any("age 9" in line for line in block["warnings"])
    (small,) = [g for a in block["attributes"] for g in a["groups"] if not g["compared"]]
    assert small == {"group": "age 9", "n_images": 1, "n_subjects": 1, "compared": False}
    assert "age 9" not in block["units"]["images"]["group_means"]["age"]["groups"]


def test_answers_that_differ_between_groups_in_being_missing_are_said() -> None:
    world = World(60, traits=3, templates=2)
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    second = np.array([cell == ["gender 1"] for cell in people["attr_gender"]])
    answers.columns["p_yes_first_token"][second, 0] = np.nan
    block = analyse(answers, people, world.cuts, QUICK)
    assert any("missing answers" in line and "gender 1" in line for line in block["warnings"])
    assert block["units"]["images"]["scores"]["n_undefined"] == 2  # nobody left to compare with
    assert json.dumps(block, allow_nan=False)


def test_attribution_intervals_hold_the_rates() -> None:
    world = World(60, images=2, traits=10, templates=2, effects=(("gender", 1, (0, 2, 4), 0.2),))
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    found = attribution_intervals(answers, people, world.cuts, QUICK, units="subjects", smallest_effect=0.02)
    row = found.set_index(["group", "polarity"]).loc[("gender 1", "positive")]
    assert row["low"] <= 0.6 <= row["high"]
    assert row["share"] == pytest.approx(0.6, abs=0.2)
    assert ((found["low"] >= 0) & (found["high"] <= 1)).all()


def test_refusals_name_the_option() -> None:
    world = World(30, traits=2, templates=2)
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    with pytest.raises(Fp2Error, match="outcome"):
        analyse(answers, people, world.cuts, replace(QUICK, outcome="p_yes"))
    with pytest.raises(Fp2Error, match="fewer than two groups"):
        analyse(answers, people, world.cuts, replace(QUICK, min_subjects=25))
    with pytest.raises(Fp2Error, match="permutation"):
        GrasOptions.read({"permutation": 10})
    with pytest.raises(Fp2Error, match="alpha"):
        GrasOptions.read({}, alpha=1.5)
    with pytest.raises(ValueError, match="shape"):
        replace(answers, traits=answers.traits[:1])
