"""The pairs of groups behind a significant disparity, against planted effects and the single tests."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from bench import load_config

from fp2.cuts import Cut
from fp2.methods.secondary.pair_tests import pairwise_mann_whitney, pairwise_permutation_panel
from fp2.methods.secondary.pairwise import Pairwise
from fp2.scorers.outcomes import entries_of, members, outcome_columns
from fp2.scorers.registry import build_scorers
from fp2.stats.adjustment import adjust_p_values


def test_the_pairs_behind_a_disparity_are_the_planted_ones(found: Any) -> None:
    analysis, _ = found
    block = analysis.blocks["pairwise"]
    json.dumps(analysis.blocks, allow_nan=False)
    row = next(row for row in block["rows"] if (row["probe"], row["cut"]) == ("occupation", "skin"))
    real = {frozenset((p["first"], p["second"])) for p in row["pairs"] if p["p_permutation"] <= 0.05}
    assert real == {frozenset(("I", "III")), frozenset(("II", "III"))}
    assert {frozenset((p["first"], p["second"])) for p in row["pairs"] if p["p_mann_whitney"] <= 0.05} == real
    significant = {
        (r["probe"], r["cut"]) for r in analysis.disparities if r["scorer"] == "valence_context" and r["significant"]
    }
    assert {(row["probe"], row["cut"]) for row in block["rows"]} == significant
    assert block["family_size"] == 6 * (3 + 1)
    assert not any(row["dependent_groups"] for row in block["rows"])


def test_rank_tests_are_corrected_over_all_pairs_of_all_rows(found: Any) -> None:
    analysis, run = found
    wide = outcome_columns(run.scores[run.scores["scorer"] == "valence_context"])
    raw: list[float | None] = []
    mine = None
    for name in ("skin", "age"):
        entries = entries_of(wide, members(run.people, Cut(name, (name,))))
        for j, probe in enumerate(wide.columns.get_level_values("probe")):
            tests = pairwise_mann_whitney(entries.values[:, j], entries.groups, entries.subjects)
            if (probe, name) == ("occupation", "skin"):
                mine = len(raw) + next(k for k, t in enumerate(tests) if {t.first, t.second} == {"I", "III"})
            raw += [test.p_value for test in tests]
    row = next(r for r in analysis.blocks["pairwise"]["rows"] if (r["probe"], r["cut"]) == ("occupation", "skin"))
    pair = next(p for p in row["pairs"] if {p["first"], p["second"]} == {"I", "III"})
    assert mine is not None
    assert pair["p_mann_whitney"] == pytest.approx(adjust_p_values(raw)[mine])


def test_a_panel_of_pairs_equals_each_outcome_alone() -> None:
    rng = np.random.default_rng(0)
    people, groups = np.repeat(np.arange(60), 2), np.repeat(np.array(["a", "b", "c"])[np.arange(60) % 3], 2)
    values = rng.normal(size=(120, 3))
    values[5, 1] = np.nan
    values[np.flatnonzero(groups == "c")[4:], 2] = np.nan  # too few subjects of c
    options: dict[str, Any] = {"n_permutations": 299, "seed": 4, "images": np.arange(120)}
    panel = pairwise_permutation_panel(values, groups, people, yes_no=[False] * 3, **options)
    assert [len(rows) for rows in panel] == [3, 3, 1]
    for j in range(2):
        (alone,) = pairwise_permutation_panel(values[:, [j]], groups, people, yes_no=[False], **options)
        for one, other in zip(panel[j], alone, strict=True):
            assert asdict(one) == pytest.approx(asdict(other))


def test_shared_subjects_are_marked_and_shares_are_not_tested_as_yes_or_no(found: Any) -> None:
    _, run = found
    straddling = run.people.assign(
        attr_skin=[
            ["I"] if image == "2-1" else cell
            for image, cell in zip(run.people["image_id"], run.people["attr_skin"], strict=True)
        ]
    )
    cuts = (Cut("skin", ("skin",)),)
    comparison = replace(run.comparison, primary="refusal")
    rows = [{"probe": "occupation", "cut": "skin", "scorer": "refusal", "significant": True}]
    # a share of several questions: 0.5 is neither yes nor no
    rng = np.random.default_rng(0)
    share = run.scores[(run.scores["scorer"] == "refusal") & (run.scores["probe"] == "occupation")]
    share = share.assign(value=rng.choice([0.0, 0.5, 1.0], len(share)), refused=False)
    changed = replace(
        run,
        scores=share,
        people=straddling,
        cuts=cuts,
        comparison=comparison,
        disparities=rows,
        scorers=build_scorers(load_config(["scorer=refusal"]).scorer),
    )
    block = Pairwise().block(changed)
    assert block is not None
    (row,) = block["rows"]
    assert row["dependent_groups"]
    wide = outcome_columns(share)
    entries = entries_of(wide, members(straddling, cuts[0]))
    (plain,) = pairwise_permutation_panel(
        entries.values[:, [0]],
        entries.groups,
        entries.subjects,
        images=entries.images,
        yes_no=[False],
        n_permutations=1000,
        seed=comparison.seed,
    )
    expected = {frozenset((t.first, t.second)): t.adjusted_p for t in plain}
    assert {frozenset((p["first"], p["second"])): p["p_permutation"] for p in row["pairs"]} == expected
