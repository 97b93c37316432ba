"""Attribution rates and their intervals, against counting by hand."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pandas as pd
import pytest
from simulated_answers import QUICK, World

import fp2.methods.gras.attribution
from fp2.methods.gras import attribution_intervals, attribution_rates
from fp2.methods.gras.attribution import StandardErrors, rate_intervals
from fp2.methods.gras.options import GrasOptions


def test_the_example_in_the_docstring() -> None:
    found = doctest.testmod(fp2.methods.gras.attribution)
    assert found.attempted
    assert not found.failed


def means(group: np.ndarray, overall: np.ndarray) -> pd.DataFrame:
    """Group means (groups, traits, templates) of one attribute; even traits are positive."""
    rows = [
        ("age", f"g{g}", f"w{k}", "negative" if k % 2 else "positive", f"T{t}", group[g, k, t], overall[k, t])
        for g, k, t in np.ndindex(*group.shape)
    ]
    names = ["attribute", "group", "trait", "polarity", "template", "group_mean", "overall_mean"]
    return pd.DataFrame(rows, columns=names)


def test_rates_are_what_counting_gives() -> None:
    rng = np.random.default_rng(5)
    group = rng.random((3, 12, 2))
    overall = group.mean(axis=0)
    found = attribution_rates(means(group, overall).sample(frac=1, random_state=1))
    above = (group > overall).all(axis=2)
    for row in found.itertuples():
        part = above[int(row.group[1:]), 1::2] if row.polarity == "negative" else above[int(row.group[1:]), ::2]
        assert row.share == pytest.approx(part.mean())
    assert list(found.columns) == ["attribute", "group", "polarity", "share"]
    assert len(found) == 6


def test_a_rate_needs_strictly_more_in_every_template() -> None:
    overall = np.full((2, 3), 0.5)
    group = np.stack([np.full((2, 3), 0.6), np.full((2, 3), 0.5)])
    group[0, 0, 1] = 0.5
    found = attribution_rates(means(group, overall)).set_index(["group", "polarity"])["share"]
    assert found.to_dict() == {
        ("g0", "positive"): 0.0,
        ("g0", "negative"): 1.0,
        ("g1", "positive"): 0.0,
        ("g1", "negative"): 0.0,
    }


def test_a_missing_mean_is_above_nothing() -> None:
    group, overall = np.full((1, 4, 2), 0.9), np.full((4, 2), 0.1)
    group[0, 0, 0] = np.nan
    found = attribution_rates(means(group, overall)).set_index("polarity")["share"]
    assert found.to_dict() == {"positive": 0.5, "negative": 1.0}


def test_rates_refuse_gaps_and_two_polarities() -> None:
    good = means(np.full((2, 2, 2), 0.6), np.full((2, 2), 0.5))
    with pytest.raises(ValueError, match="is missing"):
        attribution_rates(good.iloc[1:])
    both = good.assign(polarity=["positive"] * 4 + ["negative"] * 4, group="g0", template=["T0", "T1"] * 4)
    with pytest.raises(ValueError, match="two polarities"):
        attribution_rates(both)


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


def test_inconsistent_tables_of_rates_are_refused() -> None:
    good = rates_table()
    assert len(attribution_rates(good)) == 4
    assert len(attribution_rates(good.assign(overall_mean=np.nan))) == 4
    with pytest.raises(ValueError, match="kind has two polarities"):
        attribution_rates(change("polarity", "negative"))
    with pytest.raises(ValueError, match="old lacks the trait kind"):
        attribution_rates(good[(good["group"] != "old") | (good["trait"] != "kind")])
    with pytest.raises(ValueError, match="overall_mean of age, kind differs"):
        attribution_rates(change("overall_mean", 0.41))


def test_attribution_intervals_cover_the_planted_rate() -> None:
    world = World(60, images=2, traits=10, templates=2, effects=(("gender", 1, (0, 2, 4), 0.2),))
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    found = attribution_intervals(answers, people, world.cuts, QUICK, units="subjects", smallest_effect=0.02)
    row = found.set_index(["group", "polarity"]).loc[("gender 1", "positive")]
    assert row["low"] <= 0.6 <= row["high"]
    assert row["share"] == pytest.approx(0.6, abs=0.2)
    assert ((found["low"] >= 0) & (found["high"] <= 1)).all()


def test_an_interval_contains_its_rate_whichever_answers_are_missing() -> None:
    world = World(60, groups={"gender": 2}, traits=4, templates=2, effects=(("gender", 1, (0, 1, 2, 3), 0.3),))
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    second = np.flatnonzero([cell == ["gender 1"] for cell in people["attr_gender"]])
    y = answers.columns["p_yes_first_token"]
    y[second[2:], 0] = np.nan  # two subjects left, whom some resamples miss
    y[second[:-1], 1] = np.nan  # one
    found = attribution_intervals(answers, people, world.cuts, GrasOptions(bootstrap=200))
    assert (found["low"] <= found["share"]).all()
    assert (found["share"] <= found["high"]).all()
    row = found[(found["group"] == "gender 1") & (found["polarity"] == "positive")]
    assert row[["low", "share", "high"]].to_numpy().tolist() == [
        [0.5, 1.0, 1.0]
    ]  # traits 0 and 2: of one the sign is not sure


def test_standard_errors_are_over_the_resamples_that_define_the_deviation() -> None:
    draws = np.array([1.0, np.nan, 3.0, 5.0]).reshape(4, 1, 1, 1)
    errors = StandardErrors()
    errors.add(draws[:2])
    errors.add(draws[2:])
    assert errors.result()[0, 0, 0] == pytest.approx(2.0)
    assert np.isnan(_errors_of(draws[:2]).result()).all()
    low, high = rate_intervals(np.ones((1, 1, 1)), np.full((1, 1, 1), np.nan), ["positive"])
    assert (low[0], high[0]) == (0.0, 1.0)


def _errors_of(draws: np.ndarray) -> StandardErrors:
    errors = StandardErrors()
    errors.add(draws)
    return errors
