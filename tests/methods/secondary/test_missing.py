"""Missing answers as outcomes: planted failures and refusals are found, and shown beside the score."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from simulated import QUICK, analysed

from fp2.methods.secondary.missing import Missing


def test_answers_that_fail_more_often_for_one_group_are_an_outcome(found: Any) -> None:
    analysis, run = found
    rows = {(row["probe"], row["scorer"], row["cut"]): row for row in analysis.blocks["missing"]["rows"]}
    failed = rows["education", "valence_context", "age"]
    assert (failed["verdict"], failed["worst_group"]) == ("biased", "old")
    rates = {group["group"]: group["rate"] for group in failed["groups"]}
    assert rates["old"] == pytest.approx(0.22, abs=0.1)
    assert failed["raw"] == pytest.approx(rates["old"] - rates["young"])
    assert not rows["education", "valence_context", "skin"]["significant"]
    assert ("education", "stereotype", "age") not in rows  # the same answers are missing: listed once
    assert all(row["family_size"] == len(rows) for row in rows.values())
    lifestyle = run.answers[run.answers["probe"] == "lifestyle"]
    assert rows["lifestyle", "valence_context", "age"]["n_images"] == len(lifestyle) - int(lifestyle["refused"].sum())


def test_refusals_are_shown_beside_the_score_with_the_gaps_they_could_hide(found: Any) -> None:
    parts = {(row["probe"], row["cut"]): row for row in found[0].blocks["missing"]["two_part"]}
    assert {probe for probe, _ in parts} == {"lifestyle"}
    row = parts["lifestyle", "age"]
    assert row["refusal"]["verdict"] == "biased"
    assert row["answered"]["verdict"] != "biased"
    assert row["bounds_low"] == 0.0
    assert row["bounds_high"] > row["answered"]["raw"]


def test_refusals_are_tested_without_their_scorer_too(found: Any) -> None:
    words = (*(word for word in QUICK if not word.startswith("scorer")), "scorer=valence")
    block = analysed({"each": ["skin", "age"]}, words=words)[0].blocks["missing"]
    (row,) = [row for row in block["rows"] if (row["scorer"], row["cut"]) == ("refusal", "age")]
    assert (row["probe"], row["verdict"], row["worst_group"]) == ("lifestyle", "biased", "old")
    parts = {(part["probe"], part["cut"]): part for part in block["two_part"]}
    full = {(part["probe"], part["cut"]): part for part in found[0].blocks["missing"]["two_part"]}
    assert set(parts) == set(full)
    for key, part in parts.items():
        assert part["refusal"]["raw"] == pytest.approx(full[key]["refusal"]["raw"])
        assert part["refusal_rate"] == full[key]["refusal_rate"]


def test_verdicts_on_missing_values_do_not_depend_on_the_seed() -> None:
    truth = {"errors": {"rate": 0.0, "by": {"age": {"old": 0.13}}}}
    _, run = analysed({"each": ["skin", "age"]}, truth)
    blocks = [Missing().block(replace(run, comparison=replace(run.comparison, seed=seed))) for seed in range(5)]
    table = np.array([[row["adjusted_p"] for row in block["rows"]] for block in blocks if block])
    near = (table.min(axis=0) > 0.002) & (table.min(axis=0) < 0.1)
    assert near.any()
    error = np.sqrt(table.mean(axis=0) * (1 - table.mean(axis=0)) / 1999)
    assert (np.ptp(table, axis=0) < 6 * error + 0.002).all()
