"""Intersections: sizes of the combinations, and what a combination adds to the effects of its parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from simulated import analysed

from fp2.methods.adjusted.combinations import beyond_additive, intersection_table
from fp2.methods.adjusted.intersections import Intersections, IntersectionsSection
from fp2.report.values import as_cell, suppressed, tables


def test_an_intersection_lists_its_combinations_and_what_is_beyond_their_parts(found: Any) -> None:
    truth = {"noise": {"subject_sd": 0.3, "image_sd": 0.3}, "effects": {"occupation": {"skin": {"III": -2.0}}}}
    analysis, _ = analysed({"by": ["skin", "age"]}, truth)
    (cut,) = analysis.blocks["intersections"]["cuts"]
    assert cut["by"] == ["skin", "age"]
    assert {row["group"]: row["n_subjects"] for row in cut["groups"]}["III x old"] == 15
    assert sum(row["n_images"] for row in cut["groups"]) == 180
    extra = next(row["groups"] for row in cut["beyond"] if row["probe"] == "occupation")
    assert set(extra) == {row["group"] for row in cut["groups"]}
    assert max(abs(value) for value in extra.values()) < 0.1  # one attribute alone: nothing beyond the sum
    assert "intersections" not in found[0].blocks
    tests = {row["probe"]: row for row in analysis.blocks["intersections"]["tests"]}
    assert set(tests) == {row["probe"] for row in cut["beyond"]}
    assert not any(row["significant"] for row in tests.values())


def test_an_effect_of_one_combination_is_found_beyond_its_parts_whatever_the_labels_contain() -> None:
    """An interaction of 0.6 in one of 3 x 2 cells of equal size leaves +0.2 there, and the rest by hand elsewhere."""
    _, run = analysed({"by": ["skin", "age"]}, {"noise": {"subject_sd": 0.0}})
    renamed = {"I": "I x II", "II": "I × II", "III": "III"}  # both ways that labels are joined
    people = run.people.assign(attr_skin=[[renamed[value] for value in cell] for cell in run.people["attr_skin"]])
    chosen = {
        image
        for image, skin, age in zip(people["image_id"], people["attr_skin"], people["attr_age"], strict=True)
        if (skin, age) == (["I x II"], ["old"])
    }
    mine = (run.scores["scorer"] == "valence_context") & (run.scores["probe"] == "occupation")
    value = run.scores["value"].mask(mine, 0.6 * run.scores["image_id"].isin(chosen))
    block = Intersections().block(replace(run, scores=run.scores.assign(value=value), people=people))
    assert block is not None
    (cut,) = block["cuts"]
    assert [row["probe"] for row in block["tests"] if row["significant"]] == ["occupation"]
    extra = next(row["groups"] for row in cut["beyond"] if row["probe"] == "occupation")
    assert extra == pytest.approx(
        {
            "I x II x old": 0.2,
            "I x II x young": -0.2,
            "I × II x old": -0.1,
            "I × II x young": 0.1,
            "III x old": -0.1,
            "III x young": 0.1,
        }
    )
    assert {row["group"] for row in cut["groups"]} == set(extra)


def test_combinations_of_few_subjects_are_counted_and_not_shown() -> None:
    sizes = [("a x c", 30, True), ("a x d", 12, True), ("b x c", 4, False), ("b x d", 0, False)]
    groups = [{"group": g, "n_subjects": n, "n_images": 2 * n, "eligible": large} for g, n, large in sizes]
    cut = {"cut": "gender", "groups": groups, "beyond": [{"probe": "trust", "groups": {"a x c": 0.1, "a x d": -0.1}}]}
    block = {"cuts": [cut], "scorer": "valence", "min_subjects": 10}
    results = {"probes": [{"id": "trust", "label": "P4 Trust"}], "cuts": ["gender"], "scorers": [{"name": "valence"}]}
    table = tables(suppressed(IntersectionsSection().values(block, results), 20))[0]
    assert [as_cell(row.cells[0]).value for row in table.rows] == ["a x c"]
    assert table.label == ("Gender: 1 combinations have too few subjects, 1 do not occur; 1 of small groups not shown")


def test_intersections_count_subjects_and_list_empty_combinations() -> None:
    attributes = {"gender": ["f", "f", "m", "m", "m"], "age": ["old", "old", "old", "old", "young"]}
    groups, table = intersection_table(attributes, ["p", "p", "q", "r", "r"], min_subjects=2)
    assert groups == ["f × old", "f × old", "m × old", "m × old", "m × young"]
    assert [(row.group, row.n_subjects, row.n_images, row.eligible) for row in table] == [
        ("m × old", 2, 2, True),
        ("f × old", 1, 2, False),
        ("m × young", 1, 1, False),
        ("f × young", 0, 0, False),
    ]
    with pytest.raises(ValueError):
        intersection_table({}, ["p"])


def test_beyond_additive_is_zero_for_sums_and_finds_what_is_left() -> None:
    rng = np.random.default_rng(12)
    n = 400
    first, second = rng.choice(["f", "m"], n), rng.choice(["x", "y", "z"], n)
    y = 0.1 * (first == "f") + 0.2 * (second == "z")
    attributes = {"a": first, "b": second}
    assert list(beyond_additive(y, attributes, range(n)).values()) == pytest.approx([0.0] * 6, abs=1e-12)
    y = y + 0.3 * ((first == "f") & (second == "z"))
    assert beyond_additive(y, attributes, range(n))["f × z"] > 0.05
