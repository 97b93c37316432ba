"""The family of a run: shares of alpha, weighted corrections, and what follows for every row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fp2.protocols.fingerprint.family import corrected, shares
from fp2.protocols.fingerprint.settings import STEP_DOWN, ComparisonSettings
from fp2.stats.adjustment import METHODS, adjust_p_values
from fp2.stats.disparities import disparity_panel
from fp2.stats.rows import Outcome

COMPARISON = ComparisonSettings(correction="holm", family="scorer", primary="valence", n_permutations=4999, seed=1)


def test_half_of_alpha_belongs_to_the_primary_scorer_and_the_rest_to_the_others_in_equal_parts():
    found = shares(["valence"] * 4 + ["refusal"] * 2 + ["economic"], COMPARISON)
    assert found == pytest.approx([0.125] * 4 + [0.125] * 2 + [0.25])
    assert sum(found) == pytest.approx(1)
    assert shares(["refusal", "economic", "economic"], COMPARISON) == pytest.approx([0.5, 0.25, 0.25])
    assert shares(["valence", "valence"], COMPARISON) == [0.5, 0.5]
    assert shares(["valence", "refusal", "refusal"], replace(COMPARISON, family="run")) == pytest.approx([1 / 3] * 3)
    assert shares([], COMPARISON) == []


def test_weighted_holm_equals_its_definition_and_equal_weights_change_nothing():
    rng = np.random.default_rng(1)
    p, weight = rng.random(9) ** 4, rng.random(9) + 0.1
    left, largest, expected = set(range(9)), 0.0, {}
    while left:
        j = min(left, key=lambda i: p[i] / weight[i])
        largest = max(largest, p[j] / weight[j] * sum(weight[i] for i in left))
        expected[j] = min(largest, 1.0)
        left.remove(j)
    assert adjust_p_values(p.tolist(), "holm", weight.tolist()) == pytest.approx([expected[j] for j in range(9)])
    for method in METHODS:
        plain = adjust_p_values([None, *p.tolist()], method)
        assert adjust_p_values([None, *p.tolist()], method, [3.0] * 10) == pytest.approx(plain)
    with pytest.raises(ValueError, match="weight"):
        adjust_p_values([0.1, 0.2], "holm", [1.0, 0.0])


@pytest.fixture(scope="module")
def panel():
    """Two scorers of two probes; the first probe of each differs."""
    rng = np.random.default_rng(2)
    groups, subjects = np.repeat(["a", "b", "c"], 30), np.arange(90)
    values = np.clip(rng.normal(0, 0.2, (90, 4)), -1, 1)
    values[60:, [0, 2]] += 0.3
    return disparity_panel(np.clip(values, -1, 1), groups, subjects, Outcome(), COMPARISON)


NAMES = (("trust", "valence"), ("age", "valence"), ("trust", "refusal"), ("age", "refusal"))


def rows_of(panel):
    return [(probe, scorer, "cut", row) for (probe, scorer), row in zip(NAMES, panel.rows, strict=True)]


@pytest.mark.parametrize("correction", ["holm", STEP_DOWN, "bh", "none"])
def test_rows_and_composites_are_one_family(panel, correction):
    composites = {"cut": {"p_value": 0.004, "adjusted_p": None}, "other": {"p_value": None, "adjusted_p": None}}
    comparison = replace(COMPARISON, correction=correction)
    rows = corrected(rows_of(panel), [panel], composites, comparison)
    assert [row["family_size"] for row in rows] == [5] * 4
    assert [row["verdict"] for row in rows] == ["biased", "no_difference_found"] * 2
    assert composites["other"]["adjusted_p"] is None
    assert composites["cut"]["adjusted_p"] >= 0.004
    levels = [0.05] * 4 if correction == "none" else [0.05 / 6, 0.05 / 6, 0.0125, 0.0125]
    assert [row["family_level"] for row in rows] == pytest.approx(levels)
    for row, own in zip(rows, panel.rows, strict=True):
        assert row["adjusted_p"] >= own.p_value - 1e-12
        assert row["mde80"] == pytest.approx(own.test.detectable(row["family_level"]))
        assert (row["selected_ci_low"] is None) == (not row["significant"])
        if row["significant"]:
            assert row["selected_ci_low"] <= row["ci_low"] < row["raw"] < row["ci_high"] <= row["selected_ci_high"]
