"""Scorers of one dimension: their agreement, whether it differs between groups, and which verdicts depend on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bench import load_config
from scipy.stats import spearmanr
from simulated import QUICK, TRUTH, analysed
from sklearn.metrics import cohen_kappa_score

from fp2.compose.identity import config_hash
from fp2.errors import Fp2Error
from fp2.methods.secondary.agreement import clustered_agreement
from fp2.methods.secondary.scorer_agreement import ScorerAgreement, _depends
from fp2.methods.secondary.scorer_agreement_section import ScorerAgreementSection
from fp2.protocols.fingerprint.settings import ComparedRun
from fp2.report.values import Sentence, Weight, as_cell, suppressed, tables
from fp2.scorers.registry import build_scorer, dimensions

WORDS = (*(word for word in QUICK if not word.startswith("scorer")), "scorer=[valence,valence_context]")


@pytest.fixture(scope="module")
def two() -> ComparedRun:
    return analysed({"each": ["skin", "age"]}, {**TRUTH, "errors": {"rate": 0.0}}, words=WORDS)[1]


def test_pairs_agree_with_independent_references(two: ComparedRun) -> None:
    block = ScorerAgreement().block(two)
    assert block is not None
    assert block["dimensions"] == {"valence": ["valence", "valence_context"]}
    scores = two.scores[~two.scores["refused"]]
    keys = ["image_id", "subject_id", "question_id", "probe"]
    wide = scores.pivot(index=keys, columns="scorer", values="value").reset_index()
    for pair in block["pairs"]:
        own = wide if pair["probe"] is None else wide[wide["probe"] == pair["probe"]]
        assert pair["n_answers"] == len(own)
        assert pair["coverage_second"] == own["valence_context"].notna().mean()
        both = own.dropna()
        assert pair["n_both"] == len(both)
        signs = [np.sign(both[name].where(both[name].abs() >= 0.05, 0.0)) for name in ("valence", "valence_context")]
        assert pair["same_class"] == pytest.approx((signs[0] == signs[1]).mean())
        if pair["rho"]["value"] is not None:
            assert pair["rho"]["value"] == pytest.approx(spearmanr(both["valence"], both["valence_context"])[0])
            assert pair["kappa"]["value"] == pytest.approx(
                cohen_kappa_score(signs[0].astype(int), signs[1].astype(int))
            )
    assert block["pairs"][0]["rho"]["low"] < block["pairs"][0]["rho"]["value"] < block["pairs"][0]["rho"]["high"]


def test_a_scorer_that_errs_about_one_group_is_found(two: ComparedRun) -> None:
    scores = two.scores.copy()
    old = set(two.people.loc[two.people["attr_age"].map(lambda ages: "old" in ages), "subject_id"])
    wrong = (scores["scorer"] == "valence_context") & scores["subject_id"].isin(old) & (scores["probe"] == "trust")
    scores.loc[wrong, "value"] = -1.0
    scores.loc[(scores["probe"] == "trust") & ~wrong, "value"] = 0.9
    block = ScorerAgreement().block(replace(two, scores=scores))
    assert block is not None
    found = {(row["probe"], row["cut"], row["outcome"]): row for row in block["tests"]}
    same = found["trust", "age", "same_class"]
    assert (same["significant"], same["lowest_group"], same["raw"]) == (True, "old", 1.0)
    difference = found["trust", "age", "difference"]
    assert difference["significant"]
    assert difference["raw"] == pytest.approx(0.95)  # of 0.95 and 0 of the scale
    assert not found["trust", "skin", "same_class"]["significant"]
    assert all(row["family_size"] == len(block["tests"]) for row in block["tests"])


def test_verdicts_that_depend_on_the_scorer_are_marked(two: ComparedRun) -> None:
    rows = [dict(row) for row in two.disparities]
    turned = next(r for r in rows if (r["probe"], r["cut"], r["scorer"]) == ("occupation", "skin", "valence_context"))
    own = next(r for r in rows if (r["probe"], r["cut"], r["scorer"]) == ("occupation", "skin", "valence"))
    assert own["significant"]
    assert own["worst_group"] == "III"
    for group in turned["groups"]:
        group["mean"] = -group["mean"]
    turned["worst_group"], turned["best_group"], turned["verdict"] = own["best_group"], "III", "equivalent"
    block = ScorerAgreement().block(replace(two, disparities=rows))
    assert block is not None
    found = {(row["probe"], row["cut"]): row for row in block["verdicts"]}
    assert found["occupation", "skin"]["depends"] == ["verdict", "direction", "worst_group"]
    assert found["occupation", "skin"]["scorers"]["valence"]["raw"] == own["raw"]
    assert block["metrics"]["valence.n_verdict_depends"] >= 1
    assert block["metrics"]["valence.n_direction_depends"] >= 1
    assert not _depends([own, own])


def test_a_lower_is_better_scorer_is_read_in_the_direction_of_the_first(two: ComparedRun) -> None:
    flipped = replace(two.scorers["valence_context"], higher_is_better=False)  # type: ignore[type-var]
    scores = two.scores.copy()
    own = scores["scorer"] == "valence_context"
    scores.loc[own, "value"] = -scores.loc[own, "value"]
    block = ScorerAgreement().block(two)
    turned = ScorerAgreement().block(replace(two, scores=scores, scorers={**two.scorers, "valence_context": flipped}))
    assert block is not None
    assert turned is not None
    assert turned["pairs"] == block["pairs"]
    assert turned["tests"] == block["tests"]


def test_the_section_hides_small_groups_and_is_left_out_for_one_scorer(two: ComparedRun) -> None:
    section = ScorerAgreementSection()
    results = {"probes": [{"id": name} for name in two.scores["probe"].unique()], "cuts": ["skin", "age"]}
    block = ScorerAgreement().block(two)
    assert block is not None
    values = list(section.values(block, results))
    for table in tables(suppressed(values, 31)):
        if table.name == "agreement":
            means = {as_cell(cell).value for row in table.rows for cell in row.cells[7:]}
            assert ("too few subjects" in means, len(means) > 1) == (table.cut == "skin", table.cut == "age")
    (said,) = (value for value in values if isinstance(value, Sentence) and value.weight is not Weight.DETAIL)
    assert "verdicts depend on the scorer" in said.texts
    alone = analysed({"each": ["age"]}, words=(*QUICK, "scorer=valence"))[0].blocks["scorer_agreement"]
    assert not alone["pairs"]
    assert not section.applies({section.name: alone})
    assert section.applies({section.name: block})


def test_the_dimension_is_declared_in_the_config() -> None:
    config = load_config(list(WORDS))
    assert dimensions(config.scorer) == {"valence": ["valence", "valence_context"]}
    before = config_hash(config)
    config.scorer["valence"]["measures"] = "valence"
    assert config_hash(config) == before
    config.scorer["valence"]["measures"] = "sentiment"
    assert config_hash(config) != before
    with pytest.raises(Fp2Error, match="dimension"):
        build_scorer("valence", {**config.scorer["valence"], "measures": 3})


def test_agreement_of_few_or_constant_answers_has_no_interval() -> None:
    subjects = np.arange(40)
    constant = clustered_agreement(np.ones(40), np.arange(40.0), subjects, n_bootstrap=50, seed=1)
    assert (constant.rho.value, constant.rho.low) == (None, None)
    rare = np.where(subjects < 5, 1.0, 0.0)
    found = clustered_agreement(rare, rare, subjects, classes=(rare, rare), n_bootstrap=50, seed=1)
    assert found.kappa is not None
    assert (found.rho.value, found.kappa.value, found.kappa.low) == (pytest.approx(1.0), 1.0, None)
    nothing = clustered_agreement([], [], [], n_bootstrap=50, seed=1)
    assert (nothing.n, nothing.rho.value) == (0, None)
    with pytest.raises(ValueError, match="missing"):
        clustered_agreement([np.nan], [1.0], ["a"], n_bootstrap=0, seed=1)
