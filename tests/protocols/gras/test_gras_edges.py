"""The GRAS analysis at its edges: small groups, answers that are missing, people outside the groups compared."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import friedmanchisquare

from fp2.cuts import Cut
from fp2.protocols.gras import GrasAnswers, GrasOptions, analyse, attribution_intervals, attribution_rates
from fp2.protocols.gras.analysis import prepare
from fp2.protocols.gras.attribution import Errors, rate_intervals
from fp2.protocols.gras.figures import mark_of
from fp2.protocols.gras.groups import Relabeller
from fp2.protocols.gras.magnitude import Resampled, magnitude
from fp2.protocols.gras.wording import wording_tests

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from benchmarks.gras_worlds import World


def test_friedman_ranks_tiny_values_as_they_are() -> None:
    rng = np.random.default_rng(0)
    y = 1e-18 * rng.integers(1, 1000, (12, 1, 3))
    y[0] = 0.9  # beside it, centring loses all the other values' digits
    found = wording_tests(y)
    assert found.friedman[0] == pytest.approx(friedmanchisquare(*y[:, 0].T).statistic)


def rates_table() -> pd.DataFrame:
    rows = [
        ("age", group, trait, sign, template, 0.5, 0.4)
        for group in ("young", "old")
        for trait, sign in (("kind", "positive"), ("rude", "negative"))
        for template in ("T1", "T2")
    ]
    names = ["attribute", "group", "trait", "polarity", "template", "group_mean", "overall_mean"]
    return pd.DataFrame(rows, columns=names)


def change(column: str, value: Any) -> pd.DataFrame:
    table = rates_table()
    table.loc[(table["group"] == "old") & (table["trait"] == "kind"), column] = value
    return table


def test_rates_refuse_what_is_no_table_of_rates() -> None:
    good = rates_table()
    assert len(attribution_rates(good)) == 4
    assert len(attribution_rates(good.assign(overall_mean=np.nan))) == 4
    with pytest.raises(ValueError, match="kind has two polarities"):
        attribution_rates(change("polarity", "negative"))
    with pytest.raises(ValueError, match="old lacks the trait kind"):
        attribution_rates(good[(good["group"] != "old") | (good["trait"] != "kind")])
    with pytest.raises(ValueError, match="overall_mean of age, kind differs"):
        attribution_rates(change("overall_mean", 0.41))


def test_thirty_templates_look_different() -> None:
    assert len({mark_of(template) for template in range(30)}) == 30


def test_headline_names_the_unit_of_every_number() -> None:
    from fp2.protocols.gras.analysis import _headline

    size = {"omega_squared": {"value": 0.0}, "gap": {"value": 0.0}}
    score = {"value": 1.0, "null_mean": 1.0, "excess": 0.0, "p_value": 1.0}
    unit = {"scores": {"published_orientation": score, "seed_orientation": 99.0}, "magnitude": size}
    found = _headline({"outcome": "p_yes", "units": {"images": unit, "subjects": unit}})
    assert all(name == "outcome" or name.endswith(("_images", "_subjects")) for name in found)


def few_against_many() -> tuple[GrasAnswers, pd.DataFrame, World]:
    """Ten people against ninety: now and then a resample leaves fewer than two of the ten."""
    world = World(100, groups={"gender": 2}, traits=4, templates=2)
    people = world.people(np.random.default_rng(0))
    people["attr_gender"] = [["few" if k < 10 else "many"] for k in range(100)]
    return world.answers(people, np.random.default_rng(1)), people, world


def test_a_resample_without_a_test_costs_no_interval() -> None:
    answers, people, world = few_against_many()
    found = [
        analyse(answers, people, world.cuts, GrasOptions(permutations=20, bootstrap=500, seed=seed))["units"]["images"]
        for seed in range(12)
    ]
    sizes = [unit["magnitude"] for unit in found]
    assert any(size["resamples_left_out"] for size in sizes)
    for size in sizes:
        for part in (size["omega_squared"], size["gap"]):
            assert part["low"] <= part["value"] <= part["high"]
        assert 0 <= size["gap"]["plain_low"] <= size["gap"]["plain_mean"] <= size["gap"]["plain_high"]
        assert size["resamples_left_out"] <= 5


def test_the_plain_gap_has_an_interval_and_grows_as_groups_shrink() -> None:
    """Intervals are about what the plain mean is at this number of people: most of them hold its mean."""
    drawn: dict[int, list[dict[str, float]]] = {}
    for n in (60, 240):
        world = World(n, groups={"age": 4}, traits=6, templates=2)
        for seed in range(20):
            people = world.people(np.random.default_rng([seed, 1]))
            answers = world.answers(people, np.random.default_rng([seed, 2]))
            comparison = prepare(answers, people, world.cuts, GrasOptions(seed=seed)).comparison("images")
            resampled = Resampled()
            for sums in comparison.resamples(60):
                resampled.add(comparison.tests(sums))
            found = magnitude(comparison.observed()[0], comparison.null(20), resampled, ["age"])
            drawn.setdefault(n, []).append(found["gap"])
    mean = {n: float(np.mean([gap["plain_mean"] for gap in gaps])) for n, gaps in drawn.items()}
    assert mean[60] > 1.5 * mean[240]
    for n, gaps in drawn.items():
        assert sum(gap["plain_low"] <= mean[n] <= gap["plain_high"] for gap in gaps) >= 17


def test_an_interval_of_a_rate_holds_the_rate_whoever_is_missing() -> None:
    world = World(60, groups={"gender": 2}, traits=4, templates=2, effects=(("gender", 1, (0, 1, 2, 3), 0.3),))
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    second = np.flatnonzero([cell == ["gender 1"] for cell in people["attr_gender"]])
    y = answers.columns["p_yes_first_token"]
    y[second[2:], 0] = np.nan  # two people left, whom some resamples miss
    y[second[:-1], 1] = np.nan  # one
    found = attribution_intervals(answers, people, world.cuts, GrasOptions(bootstrap=200))
    assert (found["low"] <= found["share"]).all()
    assert (found["share"] <= found["high"]).all()
    row = found[(found["group"] == "gender 1") & (found["polarity"] == "positive")]
    assert row[["low", "share", "high"]].to_numpy().tolist() == [
        [0.5, 1.0, 1.0]
    ]  # traits 0 and 2: of one the sign is not sure


def test_errors_count_the_draws_that_have_anybody() -> None:
    draws = np.array([1.0, np.nan, 3.0, 5.0]).reshape(4, 1, 1, 1)
    errors = Errors()
    errors.add(draws[:2])
    errors.add(draws[2:])
    assert errors.all()[0, 0, 0] == pytest.approx(2.0)
    assert np.isnan(_errors_of(draws[:2]).all()).all()
    low, high = rate_intervals(np.ones((1, 1, 1)), np.full((1, 1, 1), np.nan), ["positive"])
    assert (low[0], high[0]) == (0.0, 1.0)


def _errors_of(draws: np.ndarray) -> Errors:
    errors = Errors()
    errors.add(draws)
    return errors


def test_what_was_not_asked_is_not_the_same_answer_everywhere() -> None:
    world = World(60, tones=100, groups={"gender": 2}, traits=3, templates=2)
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    y = answers.columns["p_yes_first_token"]
    y[:, 0, 1] = np.nan  # one question of everybody
    y[:60, 1] = 0.25  # one answer of everybody
    y[60:] = np.nan  # everything about the people with a skin tone
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


@pytest.mark.parametrize("images", [1, 2])
def test_people_who_did_not_answer_fill_no_group(images: int) -> None:
    world = World(90, images=images, groups={"age": 3}, traits=3, templates=2)
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    y = answers.columns["p_yes_first_token"]
    of = np.array([cell[0] for cell in people["attr_age"]])
    y[np.flatnonzero(of == "age 0")[4 * images :]] = np.nan  # four of thirty answered at all
    y[np.flatnonzero(of == "age 1")[9 * images :], 2] = np.nan  # nine answered about the last trait
    block = analyse(answers, people, world.cuts, GrasOptions(permutations=20, bootstrap=20))
    first = block["attributes"][0]["groups"][0]
    assert first == {"group": "age 0", "n_images": 4 * images, "n_subjects": 4, "compared": False}
    for unit in block["units"].values():
        assert unit["group_means"]["age"]["groups"] == ["age 1", "age 2"]
        p = unit["tests"]["age"]["p_value"]
        assert None not in p[0] + p[1]
        assert p[2] == [None, None]  # one group with ten people is left
    assert any("age 0" in line and "not compared" in line for line in block["warnings"])


def test_everybody_is_who_has_the_attribute_in_a_compared_group_or_not() -> None:
    world = World(90, groups={"age": 3}, traits=3, templates=2, effects=(("age", 2, (0, 1, 2), 0.4),))
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    some = [Cut("age", ("age",), (("age", ("age 0", "age 1")),))]
    options = GrasOptions(permutations=40, bootstrap=20)
    block = analyse(answers, people, some, options)["units"]["images"]
    mean = answers.columns["p_yes_first_token"].astype(float).mean(axis=0)
    np.testing.assert_allclose(block["group_means"]["age"]["overall"], mean, rtol=1e-5)
    assert all(row["share"] == 0 for row in block["attribution"])  # both are below everybody
    design = prepare(answers, people, some, options).design
    outside = np.array([cell == ["age 2"] for cell in people["attr_age"]])
    part = design.sets[0]
    for drawn in Relabeller(part, 0, 0).draw(20):  # who is in no compared group exchanges with nobody
        np.testing.assert_array_equal(drawn[part.slot][outside], part.label_row[part.slot][outside])
        assert (drawn != part.label_row).any()


def test_the_smallest_effect_is_in_the_units_of_the_outcome() -> None:
    assert GrasOptions().smallest_effect == 0.02
    log_odds = GrasOptions(outcome="logit_difference")
    assert (log_odds.smallest_effect, log_odds.least_effect) == (0.08, 0.08)
    half = 1 / (1 + np.exp(-0.08))
    assert half - 0.5 == pytest.approx(0.02, abs=1e-4)  # as much as 0.02 in probability, at one half
    assert GrasOptions(outcome="logit_difference", smallest_effect=0.5).least_effect == 0.5
