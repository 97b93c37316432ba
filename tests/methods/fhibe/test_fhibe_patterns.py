"""Error patterns: planted ones replicate in other subjects, noise does not; support, confidence, lift by mlxtend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlxtend.frequent_patterns import association_rules, fpgrowth

from fp2.methods.fhibe.scores.design import DesignColumn, FeatureMatrix, make_design
from fp2.methods.fhibe.scores.patterns import PatternOptions, find_patterns, make_items, permutation_p

QUICK = PatternOptions(permutations=500)


def people(seed: int, n: int = 240, images: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    beard = rng.choice(["None", "Beard", "Mustache"], n, p=[0.6, 0.25, 0.15])
    colour = rng.choice(["Black", "White", "Gray"], n, p=[0.5, 0.25, 0.25])
    glasses = rng.random(n) < 0.4
    rows: list[dict[str, Any]] = [
        {
            "image_id": f"i{s}-{k}",
            "subject_id": f"s{s}",
            "attr_beard": [str(beard[s])],
            "attr_colour": [str(colour[s])],
            "glasses": float(glasses[s]),
            "light": rng.random(),
        }
        for s in range(n)
        for k in range(images)
    ]
    return pd.DataFrame(rows)


def found_in(table: pd.DataFrame, score: Any, options: PatternOptions = QUICK, **more: Any) -> dict[str, Any]:
    design = make_design(table, ["glasses", "light"], ["beard", "colour"], 10)
    return find_patterns(table.assign(score=score), design, options, **more)


def test_a_planted_pattern_of_two_values_is_found_and_holds() -> None:
    table = people(0, n=500)
    rng = np.random.default_rng(1)
    white_beard = table["attr_beard"].map(lambda c: c != ["None"]) & table["attr_colour"].map(lambda c: c == ["White"])
    found = found_in(table, 0.9 - 0.3 * white_beard + rng.normal(0, 0.05, len(table)))
    best = [rule for rule in found["rules"] if rule["held"]]
    assert set(best[0]["features"]) == {"beard", "colour"}
    assert ["colour", "White"] in best[0]["items"]
    assert best[0]["held_lift"] > 2
    assert not any(rule["features"] == ["light"] for rule in best)


def test_noise_between_people_gives_no_pattern_that_holds() -> None:
    """Chance differences between subjects must not count once per image: over seeds hardly any pattern holds."""
    held = 0
    for seed in range(8):
        table = people(seed, n=120)
        rng = np.random.default_rng(100 + seed)
        held += found_in(table, np.repeat(rng.normal(0.6, 0.1, 120), 3))["n_held"] > 0
    assert held <= 2


def test_support_confidence_and_lift_are_mlxtends() -> None:
    table = people(2)
    rng = np.random.default_rng(3)
    score = 0.9 - 0.2 * table["glasses"].to_numpy() + rng.normal(0, 0.1, len(table))
    design = make_design(table, ["glasses", "light"], ["beard", "colour"], 10)
    found = find_patterns(table.assign(score=score), design, QUICK)
    names, subject = np.unique(table["subject_id"], return_inverse=True)
    half = np.zeros(len(names), dtype=bool)
    half[np.random.default_rng([QUICK.seed, 2]).permutation(len(names))[: len(names) // 2]] = True
    rows = half[subject]
    items = make_items(design, ~rows)
    frame = pd.DataFrame(items.held[rows], columns=[" = ".join(name) for name in items.names])
    frame["LOW"] = score[rows] <= np.quantile(score, 0.25)
    frequent = fpgrowth(frame, min_support=0.01, use_colnames=True, max_len=4)
    theirs = association_rules(frequent, num_itemsets=len(frame), metric="confidence", min_threshold=0.0)
    theirs = theirs[theirs["consequents"] == frozenset({"LOW"})].set_index("antecedents")
    assert found["rules"]
    for rule in found["rules"]:
        line = theirs.loc[[frozenset(" = ".join(item) for item in rule["items"])]].iloc[0]
        for key in ("support", "confidence", "lift"):
            assert rule[key] == pytest.approx(line[key])


def test_yes_no_and_lower_is_better() -> None:
    table = people(4)
    rng = np.random.default_rng(5)
    missed = rng.random(len(table)) < np.where(table["glasses"] == 1, 0.6, 0.1)
    found = found_in(table, missed.astype(float), yes_no=True, higher_is_better=False)
    assert found["threshold"] == 1.0
    assert found["base_rate"] == pytest.approx(missed.mean(), abs=0.06)
    assert found["rules"][0]["items"] == [["glasses", "yes"]]
    assert found["rules"][0]["held"]


def test_permutation_p_values_are_exact_where_all_can_be_counted() -> None:
    """Six people, one row each, two with a low score, a rule on those two: 1 of 15 ways is as extreme."""
    where = np.array([[True], [True], [False], [False], [False], [False]])
    low = np.array([True, True, False, False, False, False])
    p = permutation_p(where, low, np.arange(6), 20000, 0)
    assert p[0] == pytest.approx(1 / 15, abs=0.008)


def test_labels_are_permuted_across_subjects() -> None:
    """Two subjects with four rows each: there are two permutations, so no p-value is below one half."""
    where = np.repeat([True, False], 4)[:, None]
    p = permutation_p(where, where[:, 0], np.repeat([0, 1], 4), 2000, 0)
    assert p[0] == pytest.approx(0.5, abs=0.04)


def test_numbers_become_thirds_of_the_discovery_half() -> None:
    values = np.r_[np.arange(90.0), np.full(10, 500.0), np.nan]
    held_out = np.r_[np.zeros(90, dtype=bool), np.ones(11, dtype=bool)]
    items = make_items(FeatureMatrix(values[:, None], (DesignColumn("light"),)), held_out)
    assert items.names == (("light", "low"), ("light", "middle"), ("light", "high"))
    assert items.held[:90].sum(axis=0).tolist() == [30, 30, 30]
    assert items.held[90:100, 2].all()
    assert not items.held[100].any()


@pytest.mark.parametrize(("n", "score", "status"), [(30, None, "too_few"), (60, 0.5, "constant")])
def test_outcomes_without_patterns_have_a_status(n: int, score: float | None, status: str) -> None:
    table = people(0, n=n)
    values = np.linspace(0, 1, len(table)) if score is None else score
    assert found_in(table, values)["status"] == status


def test_where_most_scores_are_the_best_the_others_are_low() -> None:
    """80 % of the images have the maximum, so the lower quartile is the maximum: low is what lies below it."""
    table = people(6, n=400)
    rng = np.random.default_rng(7)
    hit = rng.random(len(table)) < np.where(table["glasses"] == 1, 0.4, 0.06)
    score = np.where(hit, rng.choice([0.3, 0.8], len(table)), 1.0)
    assert (score == 1).mean() > 0.78
    found = found_in(table, score)
    assert found["status"] == "ok"
    assert found["threshold"] == 0.8
    assert found["low_share"] == pytest.approx(hit.mean())
    assert found["rules"][0]["items"] == [["glasses", "yes"]]
    turned = found_in(table, 1 - score, higher_is_better=False)
    assert turned["threshold"] == pytest.approx(0.2)
    assert turned["low_share"] == pytest.approx(hit.mean())


@pytest.mark.parametrize("discovery", [True, False])
def test_failures_in_one_half_only_are_too_few(discovery: bool) -> None:
    table = people(0, n=120)
    names, subject = np.unique(table["subject_id"], return_inverse=True)
    chosen = np.random.default_rng([QUICK.seed, 2]).permutation(len(names))
    one = chosen[0] if discovery else chosen[-1]
    found = found_in(table, np.where(subject == one, 0.0, 1.0), yes_no=True)
    assert found["status"] == "too_few"


def test_a_number_that_is_known_on_the_held_out_half_only_is_no_item() -> None:
    held_out = np.r_[np.zeros(40, dtype=bool), np.ones(40, dtype=bool)]
    values = np.where(held_out, np.arange(80.0), np.nan)
    other = np.tile([0.0, 1.0], 40)
    items = make_items(
        FeatureMatrix(np.column_stack([values, other]), (DesignColumn("light"), DesignColumn("bald"))), held_out
    )
    assert items.names == (("bald", "no"), ("bald", "yes"))
