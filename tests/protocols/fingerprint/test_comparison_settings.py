"""The correction follows the size of the family, and too few permutations are reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from simulated import analysed

from fp2.compose import load_config
from fp2.protocols.fingerprint.settings import comparison_of, too_few_permutations


@pytest.mark.package(name="secondary")
def test_too_few_permutations_for_a_block_are_reported() -> None:
    words = ("analysis.permutations=99", "analysis.bootstrap=0", "analysis.alpha=0.005", "scorer=valence")
    analysis, run = analysed({"each": ["age"]}, words=words)
    assert any("99 permutations" in line and "missing" in line for line in analysis.notes)
    assert not any(row["significant"] for row in analysis.blocks["missing"]["rows"])
    # the largest family of the block decides, though the run has no rows of its own
    block = {"matched": {"rows": [{"family_size": 30}, {"family_size": 10}]}}
    holm = replace(run.comparison, n_permutations=499, correction="holm", alpha=0.05)
    (line,) = too_few_permutations([], holm, block)
    assert "499 permutations" in line
    assert "family of 30" in line
    assert too_few_permutations([], replace(holm, n_permutations=599), block) == []


def test_sets_keep_the_permutations_that_holm_needs() -> None:
    config = load_config(["scorer=default", "analysis.family=run"])
    population, sets = comparison_of(config, 500, 2), comparison_of(config, 500, 2, matched=True)
    family = 500 * 2 * len(config.scorer)
    assert (population.correction, population.n_permutations) == ("step-down max-T", 10_000)
    assert sets.correction == "holm"
    assert family / (sets.n_permutations + 1) < 0.05


def test_a_large_family_is_corrected_by_its_joint_permutations(monkeypatch: pytest.MonkeyPatch, found: Any) -> None:
    """Planted effects are found with it too; a row's adjusted p is never smaller than its p."""
    monkeypatch.setattr("fp2.stats.adjustment.LARGE_FAMILY", 3)
    stepped, run = analysed({"each": ["skin", "age"]})
    assert run.comparison.correction == stepped.settings["correction"] == "step-down max-T"
    for old, new in zip(found[0].disparities, stepped.disparities, strict=True):
        assert (old["raw"], old["p_value"]) == (new["raw"], new["p_value"])
        if new["p_value"] is None:
            assert new["adjusted_p"] is None
        else:
            assert new["p_value"] <= new["adjusted_p"] + 1e-12
    rows = {(r["probe"], r["scorer"], r["cut"]): r for r in stepped.disparities}
    assert rows["occupation", "valence_context", "skin"]["verdict"] == "biased"
    assert rows["occupation", "valence_context", "age"]["verdict"] != "biased"
