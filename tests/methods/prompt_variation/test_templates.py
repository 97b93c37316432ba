"""Prompt sensitivity against pingouin and SciPy, planted interactions, and the level of its test."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pingouin
import pytest
from scipy import stats
from stats_data import clustered

from fp2.methods.prompt_variation.templates import template_sensitivity, variance_shares
from fp2.stats.rows import PanelSettings

SETTINGS = PanelSettings(n_permutations=199, seed=1)


def test_variance_shares_are_those_of_a_two_way_table():
    table = np.random.default_rng(8).normal(size=(4, 3))
    frame = pd.DataFrame([(g, t, table[g, t]) for g in range(4) for t in range(3)], columns=["group", "template", "y"])
    anova = pingouin.anova(frame, dv="y", between=["group", "template"], ss_type=1)
    squares = anova.set_index("Source")["SS"]
    total = ((table - table.mean()) ** 2).sum()
    shares = variance_shares(table)
    assert shares[:2] == pytest.approx((squares["group"] / total, squares["template"] / total))
    assert sum(shares) == pytest.approx(1)
    assert variance_shares(np.ones((3, 2))) == (None, None, None)


def test_templates_that_agree_and_one_that_reverses_the_order():
    rng = np.random.default_rng(9)
    values, groups, subjects, images = clustered(rng, sizes=(40, 40, 40), columns=4, sd=0.1)
    step = {"group A": 0.0, "group B": 0.1, "group C": 0.2}
    effect = np.array([step[g] for g in groups])[:, None]
    person = rng.normal(size=(120, 1))[subjects] * 0.05
    agree = values + person + effect + np.array([0.0, 0.3, -0.2, 0.1])
    result = template_sensitivity(agree, groups, subjects, SETTINGS, images=images)
    assert (result.sign_flips, result.extreme_flips) == (0.0, 0)
    assert result.rank_correlation == result.kendalls_w == pytest.approx(1.0)
    assert result.interaction_p > 0.05
    assert result.share_interaction < 0.05
    turned = agree.copy()
    turned[:, 3] -= 2 * effect[:, 0]
    result = template_sensitivity(turned, groups, subjects, SETTINGS, images=images)
    assert result.sign_flips == pytest.approx(0.25)
    assert result.extreme_flips == 1
    assert result.rank_correlation == pytest.approx(0.0)
    assert result.interaction_p == pytest.approx(1 / 200)
    with pytest.raises(ValueError, match="two templates"):
        template_sensitivity(agree[:, :1], groups, subjects, SETTINGS)


def test_templates_are_compared_on_the_same_complete_images():
    """One template misses most people of one group: means, shares and test leave out these images."""
    rng = np.random.default_rng(12)
    values, groups, subjects, images = clustered(rng, sizes=(40, 40), images=2, columns=3)
    holes = values.copy()
    low = (groups == "group A") & (values[:, 0] < np.median(values[groups == "group A", 0]))
    holes[low, 0] = np.nan
    found = template_sensitivity(holes, groups, subjects, SETTINGS, images=images)
    whole = ~low
    same = template_sensitivity(
        values[whole], groups[whole], subjects[whole], SETTINGS, images=np.asarray(images)[whole]
    )
    assert found.n_left_out == low.sum() > 0
    assert same.n_left_out == 0
    assert found.means == same.means
    assert (found.share_interaction, found.interaction_p) == (same.share_interaction, same.interaction_p)


def test_kendalls_w_and_spearman_against_libraries():
    rng = np.random.default_rng(10)
    values, groups, subjects, images = clustered(rng, sizes=(12, 12, 12, 12, 12), columns=3)
    result = template_sensitivity(values, groups, subjects, SETTINGS, images=images)
    table = np.array(result.means)
    rho = stats.spearmanr(table).statistic
    assert result.rank_correlation == pytest.approx(rho[np.triu_indices(3, 1)].mean())
    # W = (mean rho (T - 1) + 1) / T
    assert result.kendalls_w == pytest.approx((2 * result.rank_correlation + 1) / 3)
    frame = pd.DataFrame({"g": groups, "s": subjects, "y": values[:, 1]})
    expected = frame.groupby(["g", "s"]).y.mean().groupby("g").mean()
    assert table[:, 1] == pytest.approx(expected.to_numpy())


def test_the_interaction_test_holds_its_level():
    rng = np.random.default_rng(11)
    rejected = 0
    for k in range(100):
        values, groups, subjects, images = clustered(rng, sizes=(25, 15, 10), images=2, columns=3)
        settings = PanelSettings(n_permutations=99, seed=k)
        result = template_sensitivity(values, groups, subjects, settings, images=images)
        rejected += result.interaction_p <= 0.05
    assert rejected / 100 < 0.12


def test_other_wordings_are_distinguished_from_these_by_the_variance_between_questions():
    """The same mean difference of 0.5: with questions that agree it holds for others, with questions that do not."""
    rng = np.random.default_rng(21)
    groups, people = np.repeat(["a", "b", "c"], 50), np.arange(150)
    noise = 0.5 * rng.normal(size=(150, 4))
    agree, differ = (np.where((groups == "c")[:, None], gaps, 0.0) for gaps in ([0.5] * 4, [2.0, -1.0, 1.5, -0.5]))
    found = [template_sensitivity(noise + gap, groups, people, SETTINGS).wordings for gap in (agree, differ)]
    assert [one.holds for one in found] == [True, False]
    assert found[0].best == "c"
    assert found[0].difference == pytest.approx(0.5, abs=0.3)
    assert found[0].low < found[0].difference < found[0].high
