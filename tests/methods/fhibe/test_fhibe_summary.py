"""The summary of disparities by number and kind of attributes and by value, counted by hand; `attributes=all`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fp2.cuts import Cut
from fp2.methods.fhibe.scores.analysis import ScoresAnalysis
from fp2.methods.fhibe.scores.options import ScoresOptions
from fp2.methods.fhibe.scores.summary import summarise
from fp2.protocols.task_tables import ScoreComparison


def _row(by: list[str], groups: list[str], ends: tuple[str, str] | None, d: float | None = None) -> dict[str, Any]:
    published = None if ends is None else {"worst": ends[0], "best": ends[1], "disparity": d}
    return {
        "cut": "_x_".join(by),
        "n_parts": len(by),
        "n_groups": len(groups),
        "abbreviation": "x".join(name[0].upper() for name in by),
        "groups": [{"group": group} for group in groups],
        "published": published,
        "ours": {"raw": 0.1 * len(by), "null_mean": 0.05},
    }


CUTS = [Cut("_x_".join(by), tuple(by)) for by in (["age"], ["pronoun"], ["age", "pronoun"], ["letter", "number"])]


def test_sizes_and_values_are_counted_with_what_chance_gives() -> None:
    rows = [
        _row(["age"], ["old", "young"], ("old", "young"), 0.2),
        _row(["pronoun"], ["he", "she"], None),
        _row(["age", "pronoun"], ["old x he", "old x she", "young x he"], ("old x he", "young x he"), 0.5),
        _row(["place"], ["one"], None),  # nothing to compare
    ]
    found = summarise([{"benchmark": {"rows": rows}}, {"benchmark": None}], CUTS)["disparity_summary"]
    one, two = found["by_number"]
    assert (one["n_parts"], one["n_cases"], one["n_significant"], one["median"]) == (1, 2, 1, 0.2)
    assert (two["n_cases"], two["median"], two["highest"]) == (1, 0.5, 0.5)
    assert two["excess"] == pytest.approx(0.15)
    assert [row["kind"] for row in found["by_kind"]] == ["A", "P", "AxP"]
    values = {(row["attribute"], row["value"]): row for row in found["values"]}
    old = values["age", "old"]
    assert (old["n_cases"], old["n_worst"], old["n_best"]) == (2, 2, 0)
    assert old["expected"] == pytest.approx(1 / 2 + 2 / 3)
    assert (values["age", "young"]["n_best"], values["age", "young"]["n_worst"]) == (2, 0)
    assert values["pronoun", "he"] | {"expected": None} == {
        "attribute": "pronoun",
        "value": "he",
        "n_cases": 1,
        "n_worst": 1,
        "n_best": 1,
        "expected": None,
    }
    assert summarise([{"benchmark": {"rows": [rows[3]]}}], CUTS) == {}


def test_the_expected_number_is_that_of_groups_drawn_at_random() -> None:
    """Over many null worlds the values are worst as often as stated."""
    rng = np.random.default_rng(0)
    groups = ["a x 1", "a x 2", "a x 3", "b x 1"]
    rows = []
    for _ in range(4000):
        worst, best = rng.choice(groups, 2, replace=False)
        rows.append(_row(["letter", "number"], groups, (str(worst), str(best)), 0.1))
    found = {
        row["value"]: row for row in summarise([{"benchmark": {"rows": rows}}], CUTS)["disparity_summary"]["values"]
    }
    for value, share in (("a", 3 / 4), ("b", 1 / 4), ("1", 1 / 2), ("2", 1 / 4)):
        assert found[value]["expected"] == pytest.approx(4000 * share)
        for end in ("n_worst", "n_best"):
            assert found[value][end] == pytest.approx(4000 * share, abs=4 * np.sqrt(4000 * share * (1 - share)))


def test_attributes_all_compares_every_attribute_and_the_sensitive_intersections() -> None:
    rng = np.random.default_rng(1)
    n = 60
    people = pd.DataFrame({"image_id": [f"i{k}" for k in range(n)], "subject_id": [f"s{k}" for k in range(n)]})
    for name, values in (
        ("pronoun", ["she", "he"]),
        ("age", ["18-29", "60+"]),
        ("hairstyle", ["short", "long"]),
        ("iso", ["up to 100", "100 to 200"]),
        ("camera_model", ["x", "y"]),
        ("location_country", ["A", "B"]),
    ):
        people[f"attr_{name}"] = [[value] for value in rng.choice(values, n)]
    people["attr_weather"] = [[] for _ in range(n)]
    options = ScoresOptions(attributes=("all",), error_model=None, patterns=None)
    analysis = ScoresAnalysis(people, [Cut("pronoun", ("pronoun",))], options, ScoreComparison())
    assert {cut.name for cut in analysis.every_cut} == {"pronoun", "age", "pronoun_x_age", "hairstyle", "iso"}
    assert set(analysis.attributes) == {"pronoun", "age", "hairstyle", "iso"}
