"""What stands behind a fingerprint: pairs of groups, missing answers, wordings, intersections; against known truths."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fp2.analysis import compared, scored
from fp2.engines.planted_truth import load_truth
from fp2.prepare import comparison_of
from fp2.protocols.registry import Analysed

from fp2.compose import load_config
from fp2.cuts import Cut, resolve_cuts
from fp2.engines.planted import simulate
from fp2.probes.battery import Battery, load_battery
from fp2.protocols.fingerprint.disparities import (
    Fingerprint,
    entries_of,
    intersections,
    members,
    missing,
    outcome_columns,
    pairwise,
)
from fp2.results import too_few_permutations
from fp2.scorers.registry import build_scorers
from fp2.stats.adjustment import adjust_p_values
from fp2.stats.pairwise import pairwise_mann_whitney, pairwise_permutation_panel

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


def analysed(
    cut: dict[str, Any], truth: dict[str, Any] | None = None, battery: Battery | None = None, words: Any = QUICK,
) -> Any:  # fmt: skip
    config = load_config(list(words))
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
    findings, _, scores, people = found
    wide = outcome_columns(scores[scores["scorer"] == "valence"])
    raw: list[float | None] = []
    mine = None
    for name in ("skin", "age"):
        entries = entries_of(wide, members(people, Cut(name, (name,))))
        for j, probe in enumerate(wide.columns.get_level_values("probe")):
            tests = pairwise_mann_whitney(entries.values[:, j], entries.groups, entries.subjects)
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
        (alone,) = pairwise_permutation_panel(values[:, [j]], groups, people, yes_no=[False], **options)
        for one, other in zip(panel[j], alone, strict=True):
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


def test_refusals_without_their_scorer_are_tested_all_the_same(found: Any) -> None:
    words = [word for word in QUICK if not word.startswith("scorer")] + ["scorer=valence"]
    block = analysed({"each": ["skin", "age"]}, words=words)[0].blocks["missing"]
    (row,) = [row for row in block["rows"] if (row["scorer"], row["cut"]) == ("refusal", "age")]
    assert (row["probe"], row["verdict"], row["worst_group"]) == ("lifestyle", "biased", "old")
    parts = {(part["probe"], part["cut"]): part for part in block["two_part"]}
    full = {(part["probe"], part["cut"]): part for part in found[0].blocks["missing"]["two_part"]}
    assert set(parts) == set(full)
    for key, part in parts.items():
        assert part["refusal"]["raw"] == pytest.approx(full[key]["refusal"]["raw"])
        assert part["refusal_rate"] == full[key]["refusal_rate"]


def test_the_verdicts_on_missing_values_do_not_hang_on_the_seed() -> None:
    truth = {"errors": {"rate": 0.0, "by": {"age": {"old": 0.13}}}}
    findings, answers, scores, people = analysed({"each": ["skin", "age"]}, truth)
    config = load_config(QUICK)
    cuts = resolve_cuts({"each": ["skin", "age"]}, ["skin", "age"])
    run = Analysed(config, load_battery(asdict(config.probe)), answers, scores, people, cuts,
                   build_scorers(config.scorer), findings.comparison, findings.fingerprint.disparities)  # fmt: skip
    found = [missing.block(replace(run, comparison=replace(run.comparison, seed=seed))) for seed in range(5)]
    table = np.array([[row["adjusted_p"] for row in block["rows"]] for block in found if block])
    near = (table.min(axis=0) > 0.002) & (table.min(axis=0) < 0.1)
    assert near.any()
    error = np.sqrt(table.mean(axis=0) * (1 - table.mean(axis=0)) / 1999)
    assert (np.ptp(table, axis=0) < 6 * error + 0.002).all()


def test_too_few_permutations_for_a_block_are_told() -> None:
    words = ["analysis.permutations=99", "analysis.bootstrap=0", "analysis.alpha=0.005", "scorer=valence"]
    findings = analysed({"each": ["age"]}, words=words)[0]
    few = too_few_permutations(findings.fingerprint, findings.comparison, findings.blocks)
    assert any("99 permutations" in line and "missing" in line for line in few)
    assert not any(row["significant"] for row in findings.blocks["missing"]["rows"])
    # the largest family of the block decides, though the run has no rows of its own
    nothing, block = Fingerprint([], {}, []), {"matched": {"rows": [{"family_size": 30}, {"family_size": 10}]}}
    holm = replace(findings.comparison, n_permutations=499, correction="holm", alpha=0.05)
    (line,) = too_few_permutations(nothing, holm, block)
    assert "499 permutations" in line
    assert "family of 30" in line
    assert too_few_permutations(nothing, replace(holm, n_permutations=599), block) == []


def test_sets_keep_the_permutations_that_holm_needs() -> None:
    config = load_config(["scorer=default", "analysis.family=run"])
    population, sets = comparison_of(config, 500, 2), comparison_of(config, 500, 2, of_sets=True)
    family = 500 * 2 * len(config.scorer)
    assert (population.correction, population.n_permutations) == ("step-down max-T", 10_000)
    assert sets.correction == "holm"
    assert family / (sets.n_permutations + 1) < 0.05


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


def test_what_one_combination_alone_gets_is_found_beyond_its_parts_whatever_the_values_hold() -> None:
    """An interaction of 0.6 in one of 3 x 2 cells of equal size leaves +0.2 there, and the rest by hand elsewhere."""
    findings, answers, scores, people = analysed({"by": ["skin", "age"]}, {"noise": {"subject_sd": 0.0}})
    renamed = {"I": "I x II", "II": "I × II", "III": "III"}  # both ways that labels are joined
    people = people.assign(attr_skin=[[renamed[value] for value in cell] for cell in people["attr_skin"]])
    chosen = {
        image for image, skin, age in zip(people["image_id"], people["attr_skin"], people["attr_age"], strict=True)
        if (skin, age) == (["I x II"], ["old"])
    }  # fmt: skip
    mine = (scores["scorer"] == "valence") & (scores["probe"] == "occupation")
    value = scores["value"].mask(mine, 0.6 * scores["image_id"].isin(chosen))
    config = load_config(QUICK)
    run = Analysed(config, load_battery(asdict(config.probe)), answers, scores.assign(value=value), people,
                   resolve_cuts({"by": ["skin", "age"]}, ["skin", "age"]), build_scorers(config.scorer),
                   findings.comparison, findings.fingerprint.disparities)  # fmt: skip
    block = intersections.block(run)
    assert block is not None
    (cut,) = block["cuts"]
    extra = next(row["groups"] for row in cut["beyond"] if row["probe"] == "occupation")
    assert extra == pytest.approx({
        "I x II x old": 0.2, "I x II x young": -0.2, "I × II x old": -0.1, "I × II x young": 0.1,
        "III x old": -0.1, "III x young": 0.1,
    })  # fmt: skip
    assert {row["group"] for row in cut["groups"]} == set(extra)


def test_pairs_say_whether_groups_share_people_and_shares_are_not_yes_or_no(found: Any) -> None:
    assert not any(row["dependent_groups"] for row in found[0].blocks["pairwise"]["rows"])
    findings, answers, scores, people = found
    straddling = people.assign(
        attr_skin=[["I"] if image == "2-1" else cell
                   for image, cell in zip(people["image_id"], people["attr_skin"], strict=True)]
    )  # fmt: skip
    config = load_config(["analysis.permutations=199", "analysis.bootstrap=0", "scorer=refusal"])
    cuts = resolve_cuts({"each": ["skin"]}, ["skin"])
    comparison = replace(findings.comparison, primary="refusal")
    rows = [{"probe": "occupation", "cut": "skin", "scorer": "refusal", "significant": True}]
    # a share of several questions: 0.5 is neither yes nor no
    rng = np.random.default_rng(0)
    share = scores[(scores["scorer"] == "refusal") & (scores["probe"] == "occupation")]
    share = share.assign(value=rng.choice([0.0, 0.5, 1.0], len(share)), refused=False)
    run = Analysed(config, load_battery(asdict(config.probe)), answers, share, straddling, cuts,
                   build_scorers(config.scorer), comparison, rows)  # fmt: skip
    block = pairwise.block(run)
    assert block is not None
    (row,) = block["rows"]
    assert row["dependent_groups"]
    wide = outcome_columns(share)
    entries = entries_of(wide, members(straddling, cuts[0]))
    (plain,) = pairwise_permutation_panel(
        entries.values[:, [0]], entries.groups, entries.subjects, images=entries.images, yes_no=[False],
        n_permutations=1000, seed=comparison.seed,
    )  # fmt: skip
    expected = {frozenset((t.first, t.second)): t.adjusted_p for t in plain}
    assert {frozenset((p["first"], p["second"])): p["p_permutation"] for p in row["pairs"]} == expected


def test_a_large_family_is_corrected_by_its_joint_permutations(monkeypatch: pytest.MonkeyPatch, found: Any) -> None:
    """What was planted is found with it too; a row's p is never smaller than before the correction."""
    monkeypatch.setattr("fp2.stats.adjustment.LARGE_FAMILY", 3)
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
