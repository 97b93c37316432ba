"""The block of `task=fhibe_scores` from its tables: effects within conditions, empty cells, columns that are stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fp2.cuts import Cut
from fp2.data.base import people_table
from fp2.methods.fhibe.scores.analysis import ScoresAnalysis, change, numbers_of, within_condition
from fp2.methods.fhibe.scores.benchmark import BenchmarkOptions, benchmark
from fp2.methods.fhibe.scores.benchmark_values import highest_disparities
from fp2.methods.fhibe.scores.options import Metric, ScoresOptions
from fp2.plugins import read_options
from fp2.protocols.task_tables import ScoreComparison
from fp2.report.values import as_cell, charts, suppressed, tables

ANALYSIS = ScoreComparison(alpha=0.05, correction="holm", min_subjects=10, n_permutations=999, n_bootstrap=200, seed=1)
PLAIN: dict[str, Any] = {"error_model": None, "patterns": None}
GENDER = [Cut("gender", ("gender",))]


def analysed(scores: pd.DataFrame, people: pd.DataFrame, options: ScoresOptions) -> dict[str, Any]:
    return ScoresAnalysis(people, GENDER, options, ANALYSIS).run(scores)[0]


def crowd(n: int, images: int = 2, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    gender = rng.choice(["f", "m"], n)
    beard = np.where((gender == "m") & (rng.random(n) < 0.6), "Beard", "None")
    light = rng.random((n, images))
    rows: dict[str, list[Any]] = {
        "image_id": [f"i{s}-{k}" for s in range(n) for k in range(images)],
        "subject_id": [f"s{s}" for s in range(n) for _ in range(images)],
        "image_path": [""] * n * images,
        "is_primary": [True] * n * images,
        "n_people": [1] * n * images,
        "attr_gender": [[str(gender[s])] for s in range(n) for _ in range(images)],
        "attr_beard": [[str(beard[s])] for s in range(n) for _ in range(images)],
    }
    return people_table(rows).assign(brightness=light.ravel())


def long(people: pd.DataFrame, value: Any, probe: str = "scores", scorer: str = "recall") -> pd.DataFrame:
    return people[["image_id", "subject_id"]].assign(probe=probe, scorer=scorer, value=value)


def row(**given: Any) -> dict[str, Any]:
    usual = {
        "status": "ok",
        "significant": False,
        "raw": 0.1,
        "shrunken": 0.09,
        "ci_high": 0.05,
        "smallest_effect": 0.02,
    }
    return usual | given


@pytest.mark.parametrize(
    ("after", "word"),
    [
        ({}, "disappears"),
        ({"ci_high": 0.12}, "inconclusive"),
        ({"ci_high": 0.095}, "inconclusive"),  # below the raw gap only, which chance makes larger
        ({"ci_high": None}, "inconclusive"),
        ({"ci_high": 0.12, "smallest_effect": 0.2}, "disappears"),
        ({"significant": True}, "remains"),
        ({"status": "too_few_subjects"}, "cannot be compared"),
    ],
)
def test_a_gap_disappears_only_where_its_interval_says_so(after: dict[str, Any], word: str) -> None:
    assert change(row(significant=True), row(**after)) == word


def test_an_effect_that_the_condition_leaves_alone_does_not_disappear() -> None:
    """The condition is a coin: the gap is the same within, often not significant there, and must not be called gone."""
    gone, unsure = 0, 0
    for seed in range(12):
        people = crowd(160, seed=seed)
        rng = np.random.default_rng([seed, 9])
        own = np.repeat(rng.normal(0, 0.12, 160), 2) - 0.06 * people["attr_gender"].map(lambda c: c == ["f"])
        people["coin"] = np.repeat(rng.integers(0, 2, 160), 2)
        scores = people[["image_id", "subject_id"]].assign(score=own + 0.6 + rng.normal(0, 0.03, 320))
        how = {"smallest_effect": 0.02, "n_permutations": 499, "n_bootstrap": 200, "value_range": (-1, 2)}
        options = BenchmarkOptions(**how)
        whole = benchmark(scores, people, GENDER, options)
        word = within_condition(scores, people, GENDER, options, "coin == 1", whole)["rows"][0]["change"]
        gone += word == "disappears"
        unsure += word == "inconclusive"
    assert gone <= 1
    assert unsure >= 3


def test_pairs_of_metric_and_task_without_a_score_are_left_out_with_a_note() -> None:
    people = crowd(60)
    full = np.linspace(0, 1, len(people))
    scores = pd.concat(
        [
            long(people, full, "detect", "recall"),
            long(people, np.nan, "detect", "lpips"),
            long(people, full + 1, "paint", "lpips"),
            long(people, np.nan, "paint", "recall"),
        ]
    )
    lpips = Metric("lpips", higher_is_better=False, range=(0, 1))
    options = ScoresOptions(metrics=(Metric("recall"), lpips), **PLAIN)
    found = analysed(scores, people, options)
    assert [(one["probe"], one["metric"]) for one in found["outcomes"]] == [("detect", "recall"), ("paint", "lpips")]
    said = " | ".join(found["notes"])
    assert "detect · lpips: no subject has a score" in said
    assert "above the range were clipped to its end, 1" in said


def test_a_condition_that_leaves_no_subject_is_a_note() -> None:
    people = crowd(60)
    options = ScoresOptions(metrics=(Metric("recall"),), within=("beard == Goatee",), **PLAIN)
    found = analysed(long(people, np.linspace(0, 1, len(people))), people, options)
    assert found["outcomes"][0]["within"][0]["rows"] == []
    assert found["notes"] == ["scores · recall: no subject with a score is left within beard == Goatee"]


def test_only_what_the_analyses_use_leaves() -> None:
    off = {"error_model": False, "patterns": False}
    assert kept(**off) == (["gender"], [])
    assert kept(**off, within=["brightness > 0.1 and beard == None"]) == (["gender", "beard"], ["brightness"])
    assert kept(features=["brightness", "beard"], patterns=False) == (["gender", "beard"], ["brightness"])
    assert kept(attributes=["beard"], error_model=None, patterns=None) == (["gender", "beard"], [])


def kept(**given: Any) -> tuple[list[str], list[str]]:
    """Return the attributes and the features that a run with these options keeps."""
    options = read_options(ScoresOptions, {"metrics": {"recall": True}, **given}, "task.options")
    return ScoresAnalysis(crowd(40), GENDER, options, ANALYSIS).attributes, numbers_of(options)


def test_all_attributes_of_rules_are_followed_up_and_conditions_take_everything() -> None:
    people = crowd(300)
    rng = np.random.default_rng(4)
    for name in ("headwear", "eyewear", "bald"):
        people[name] = np.repeat(rng.integers(0, 2, 300), 2).astype(float)
    bearded = people["attr_beard"].map(lambda cell: cell == ["Beard"])
    low = 0.2 * bearded + 0.2 * people["headwear"] + 0.2 * people["eyewear"] + 0.2 * people["bald"]
    scores = long(people, 0.9 - low + rng.normal(0, 0.05, len(people)))
    small = {"trees": 5, "folds": 2, "repeats": 1, "resamples": 50}

    def found(**patterns: Any) -> dict[str, Any]:
        options = ScoresOptions(
            metrics=(Metric("recall", range=(-1, 2)),),
            sensitive=("gender",),
            within=("brightness > 0.3",),
            within_all=True,
            error_model=small,
            patterns={"permutations": 200, "longest": 1, **patterns},
        )
        return dict(analysed(scores, people, options)["outcomes"][0])

    one = found()
    assert {line["feature"] for line in one["patterns"]["found"]} >= {"beard", "headwear", "eyewear", "bald"}
    assert one["within"][0]["error_model"]["status"] == "ok"
    assert one["within"][0]["error_model"]["n_images"] == int((people["brightness"] > 0.3).sum())
    assert one["within"][0]["patterns"]["n_held"] >= 1
    assert len(found(looked_into=1)["patterns"]["found"]) == 1


@pytest.mark.parametrize(("min_cell", "worst"), [(10, ["b"]), (9, ["few", "b"]), (41, [])])
def test_highest_disparities_with_a_small_group_are_not_shown(min_cell: int, worst: list[str]) -> None:
    groups = [{"group": "a", "n_subjects": 40}, {"group": "b", "n_subjects": 30}, {"group": "few", "n_subjects": 9}]
    lines = [
        {
            "outcome": "recall",
            "intersection": "A",
            "cut": "age",
            "worst": worst,
            "best": "a",
            "disparity": 0.2,
            "agreement": "both",
        }
        for worst in ("few", "b")
    ]
    outcome = {"label": "recall", "benchmark": {"rows": [{"cut": "age", "groups": groups}]}}
    values = suppressed(highest_disparities({"outcomes": [outcome], "top": lines}, "top"), min_cell)
    assert [as_cell(row.cells[3]).value for row in tables(values)[0].rows] == worst
    assert sum(len(series.points) for series in charts(values)[0].series) == len(worst)
