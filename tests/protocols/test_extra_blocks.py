"""What stands behind a fingerprint: pairs of groups, missing answers, wordings, intersections; against known truths."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fp2.analysis import compared, scored
from fp2.compose import load_config
from fp2.cuts import Cut, resolve_cuts
from fp2.engines.planted import simulate
from fp2.engines.planted_truth import load_truth
from fp2.probes.battery import Battery, load_battery
from fp2.scorers.registry import build_scorers
from fp2.stats import adjust_p_values, pairwise_permutation, pairwise_permutation_panel, pairwise_tests

QUICK = ["analysis.permutations=1999", "analysis.bootstrap=0", "scorer=default"]
TRUTH: dict[str, Any] = {
    "effects": {"occupation": {"skin": {"III": -2.5}}},
    "refusals": {"lifestyle": {"base": 0.05, "by": {"age": {"old": 0.3}}}},
    "errors": {"rate": 0.02, "by": {"age": {"old": 0.2}}},
}


def population(n: int = 90) -> pd.DataFrame:
    rows = [
        {
            "image_id": f"{person}-{k}", "subject_id": f"p{person}", "n_people": 1, "set_id": None,
            "attr_skin": [("I", "II", "III")[person % 3]], "attr_age": [("young", "old")[person // 3 % 2]],
        }
        for person in range(n)
        for k in range(2)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def analysed(cut: dict[str, Any], truth: dict[str, Any] | None = None, battery: Battery | None = None) -> Any:
    config = load_config(QUICK)
    battery = battery or load_battery(asdict(config.probe))
    people, scorers = population(), build_scorers(config.scorer)
    answers = simulate(people, battery.questions, load_truth(truth or TRUTH)).drop(columns="level")
    cuts = resolve_cuts(cut, ["skin", "age"])
    answers, scores = scored(answers, people, battery, scorers)
    return compared(config, battery, answers, scores, people, cuts, scorers), answers, scores, people


@pytest.fixture(scope="module")
def found() -> Any:
    return analysed({"each": ["skin", "age"]})


def test_the_pairs_behind_a_disparity_are_those_that_were_planted(found: Any) -> None:
    block = found[0].blocks["pairwise"]
    json.dumps(found[0].blocks, allow_nan=False)
    row = next(row for row in block["rows"] if (row["probe"], row["cut"]) == ("occupation", "skin"))
    real = {frozenset((p["first"], p["second"])) for p in row["pairs"] if p["p_permutation"] <= 0.05}
    assert real == {frozenset(("I", "III")), frozenset(("II", "III"))}
    assert {frozenset((p["first"], p["second"])) for p in row["pairs"] if p["p_mann_whitney"] <= 0.05} == real
    significant = {(r["probe"], r["cut"]) for r in found[0].fingerprint.disparities
                   if r["scorer"] == "valence" and r["significant"]}  # fmt: skip
    assert {(row["probe"], row["cut"]) for row in block["rows"]} == significant
    assert block["family_size"] == 6 * (3 + 1)


def test_rank_tests_are_corrected_over_all_pairs_of_all_rows(found: Any) -> None:
    from fp2.protocols.fingerprint import entries_of, members, outcome_columns

    findings, _, scores, people = found
    wide = outcome_columns(scores[scores["scorer"] == "valence"])
    raw: list[float | None] = []
    mine = None
    for name in ("skin", "age"):
        entries = entries_of(wide, members(people, Cut(name, (name,))))
        for j, probe in enumerate(wide.columns.get_level_values("probe")):
            tests = pairwise_tests(entries.values[:, j], entries.groups, entries.subjects, correction=None)
            if (probe, name) == ("occupation", "skin"):
                mine = len(raw) + next(k for k, t in enumerate(tests) if {t.first, t.second} == {"I", "III"})
            raw += [test.p_value for test in tests]
    row = next(r for r in findings.blocks["pairwise"]["rows"] if (r["probe"], r["cut"]) == ("occupation", "skin"))
    pair = next(p for p in row["pairs"] if {p["first"], p["second"]} == {"I", "III"})
    assert mine is not None
    assert pair["p_mann_whitney"] == pytest.approx(adjust_p_values(raw)[mine])


def test_a_panel_of_pairs_is_each_outcome_alone() -> None:
    rng = np.random.default_rng(0)
    people, groups = np.repeat(np.arange(60), 2), np.repeat(np.array(["a", "b", "c"])[np.arange(60) % 3], 2)
    values = rng.normal(size=(120, 3))
    values[5, 1] = np.nan
    values[np.flatnonzero(groups == "c")[4:], 2] = np.nan  # too few people of c
    options: dict[str, Any] = {"n_permutations": 299, "seed": 4, "images": np.arange(120)}
    panel = pairwise_permutation_panel(values, groups, people, yes_no=[False] * 3, **options)
    assert [len(rows) for rows in panel] == [3, 3, 1]
    for j in range(2):
        for one, other in zip(panel[j], pairwise_permutation(values[:, j], groups, people, **options), strict=True):
            assert asdict(one) == pytest.approx(asdict(other))


def test_answers_that_fail_oftener_for_one_group_are_an_outcome(found: Any) -> None:
    block = found[0].blocks["missing"]
    rows = {(row["probe"], row["scorer"], row["cut"]): row for row in block["rows"]}
    failed = rows["education", "valence", "age"]
    assert (failed["verdict"], failed["worst_group"]) == ("biased", "old")
    rates = {group["group"]: group["rate"] for group in failed["groups"]}
    assert rates["old"] == pytest.approx(0.22, abs=0.1)
    assert failed["raw"] == pytest.approx(rates["old"] - rates["young"])
    assert not rows["education", "valence", "skin"]["significant"]
    assert ("education", "stereotype", "age") not in rows  # the same answers are missing: said once
    assert all(row["family_size"] == len(rows) for row in rows.values())
    answers = found[1]
    lifestyle = answers[answers["probe"] == "lifestyle"]
    assert rows["lifestyle", "valence", "age"]["n_images"] == len(lifestyle) - int(lifestyle["refused"].sum())


def test_refusals_stand_beside_the_score_and_what_they_could_hide(found: Any) -> None:
    parts = {(row["probe"], row["cut"]): row for row in found[0].blocks["missing"]["two_part"]}
    assert {probe for probe, _ in parts} == {"lifestyle"}
    row = parts["lifestyle", "age"]
    assert row["refusal"]["verdict"] == "biased"
    assert row["answered"]["verdict"] != "biased"
    assert row["bounds_low"] == 0.0
    assert row["bounds_high"] > row["answered"]["raw"]


def test_a_probe_in_two_wordings_says_whether_they_agree() -> None:
    plain = load_battery(asdict(load_config(QUICK).probe))
    first = [q for q in plain.questions if q.probe == "occupation"]
    other = next(q for q in plain.questions if q.probe == "trust")
    moved = replace(other, probe="occupation", question_id="occupation_again")
    battery = replace(plain, questions=(*first, moved), probes=tuple(p for p in plain.probes if p.id == "occupation"))
    findings, *_ = analysed({"each": ["skin"]}, {"effects": TRUTH["effects"]}, battery)
    (row,) = findings.blocks["templates"]["rows"]
    assert row["questions"] == [first[0].question_id, "occupation_again"]
    assert row["gaps"][0] > 2 * row["gaps"][1]  # planted in the words of the one, not of the other
    assert row["interaction_adjusted_p"] <= 0.05
    json.dumps(findings.blocks, allow_nan=False)
    one, *_ = analysed({"each": ["skin"]})
    assert "templates" not in one.blocks


def test_an_intersection_shows_its_combinations_and_what_is_beyond_their_parts() -> None:
    truth = {"noise": {"subject_sd": 0.3, "image_sd": 0.3}, "effects": {"occupation": {"skin": {"III": -2.0}}}}
    findings, *_ = analysed({"by": ["skin", "age"]}, truth)
    (cut,) = findings.blocks["intersections"]["cuts"]
    assert cut["by"] == ["skin", "age"]
    assert {row["group"]: row["n_subjects"] for row in cut["groups"]}["III x old"] == 15
    assert sum(row["n_images"] for row in cut["groups"]) == 180
    extra = next(row["groups"] for row in cut["beyond"] if row["probe"] == "occupation")
    assert set(extra) == {row["group"] for row in cut["groups"]}
    assert max(abs(value) for value in extra.values()) < 0.1  # one attribute alone: nothing beyond the sum
    assert "intersections" not in analysed({"each": ["skin"]})[0].blocks


def test_a_large_family_is_corrected_by_its_joint_permutations(monkeypatch: pytest.MonkeyPatch, found: Any) -> None:
    """What was planted is found with it too; a row's p is never smaller than before the correction."""
    monkeypatch.setattr("fp2.stats.stepdown.LARGE_FAMILY", 3)
    stepped = analysed({"each": ["skin", "age"]})[0]
    assert stepped.comparison.correction == "step-down max-T"
    for old, new in zip(found[0].fingerprint.disparities, stepped.fingerprint.disparities, strict=True):
        assert (old["raw"], old["p_value"]) == (new["raw"], new["p_value"])
        if new["p_value"] is None:
            assert new["adjusted_p"] is None
        else:
            assert new["p_value"] <= new["adjusted_p"] + 1e-12
    rows = {(r["probe"], r["scorer"], r["cut"]): r for r in stepped.fingerprint.disparities}
    assert rows["occupation", "valence", "skin"]["verdict"] == "biased"
    assert rows["occupation", "valence", "age"]["verdict"] != "biased"
