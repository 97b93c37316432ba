"""Error models on planted data: the cause is selected, a correlated feature is not, and noise predicts nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GroupKFold

from fp2.methods.fhibe.scores.design import make_design
from fp2.methods.fhibe.scores.error_model import elbow, error_model, grow
from fp2.methods.fhibe.scores.importances import Data, ErrorModelOptions, interval, per_subject, ratios

QUICK = ErrorModelOptions(trees=20, repeats=1, resamples=500)


def planted(seed: int = 0, n: int = 150, images: int = 3) -> pd.DataFrame:
    """Tone goes with contrast in 8 of 10 people; `noise` with nothing. Nothing is scored yet."""
    rng = np.random.default_rng(seed)
    dark = rng.random(n) < 0.5
    low = np.where(rng.random(n) < 0.8, dark, ~dark)
    rows: list[dict[str, Any]] = []
    for s in range(n):
        for k in range(images):
            rows.append(
                {
                    "image_id": f"i{s}-{k}",
                    "subject_id": f"s{s}",
                    "contrast": (0.3 if low[s] else 0.7) + rng.normal(0, 0.05),
                    "noise": rng.random(),
                    "attr_skin_tone": ["VI" if dark[s] else "I"],
                    "attr_pose": [str(rng.choice(["Standing", "Sitting", "Lying"], p=[0.5, 0.3, 0.2]))],
                }
            )
    return pd.DataFrame(rows)


def run(table: pd.DataFrame, score: Any, options: ErrorModelOptions = QUICK, **more: Any) -> dict[str, Any]:
    return error_model(table.assign(score=score), ["contrast", "noise"], ["pose"], ["skin_tone"], options, **more)


@pytest.fixture(scope="module")
def by_contrast() -> dict[str, Any]:
    table = planted()
    rng = np.random.default_rng(1)
    lying = table["attr_pose"].map(lambda cell: cell == ["Lying"])
    return run(table, 0.3 + 0.6 * table["contrast"] - 0.25 * lying + rng.normal(0, 0.03, len(table)))


def test_the_cause_is_first_and_what_goes_with_it_is_not(by_contrast: dict[str, Any]) -> None:
    rows = {row["feature"]: row for row in by_contrast["importances"]}
    assert {row["feature"] for row in by_contrast["importances"][:2]} == {"contrast", "pose"}
    assert set(by_contrast["selected"][:2]) == {"contrast", "pose"}
    assert rows["contrast"]["permutation"] > 10 * abs(rows["skin_tone"]["permutation"])
    assert rows["pose"]["found"]
    assert not rows["noise"]["found"]
    assert rows["skin_tone"]["sensitive"]
    assert by_contrast["explains"]
    assert by_contrast["r2"] > 0.8


def test_the_tone_gap_is_gone_in_what_the_features_leave(by_contrast: dict[str, Any]) -> None:
    (gap,) = by_contrast["gaps"]
    assert gap["gap"] > 0.1
    assert gap["p"] < 0.01
    assert gap["left"] < 0.1 * gap["gap"]


def test_the_tree_shows_the_direction(by_contrast: dict[str, Any]) -> None:
    nodes = by_contrast["tree"]["nodes"]
    root = nodes[0]
    assert root["column"] in ("contrast", "pose = Lying")
    (contrast,) = [row for row in by_contrast["directions"] if row["feature"] == "contrast"]
    assert 0.35 < contrast["threshold"] < 0.65
    assert contrast["ci_low"] > 0
    assert all(node["n_subjects"] >= 10 for node in nodes)
    lying = next(row for row in by_contrast["directions"] if row["feature"] == "pose")
    assert lying["column"] == "pose = Lying"
    assert lying["ci_low"] < lying["difference"] < lying["ci_high"] < 0


def test_a_planted_tone_effect_stays_after_the_features() -> None:
    table = planted(2)
    rng = np.random.default_rng(3)
    dark = table["attr_skin_tone"].map(lambda cell: cell == ["VI"])
    found = run(table, 0.8 - 0.2 * dark + rng.normal(0, 0.05, len(table)))
    assert found["importances"][0]["feature"] == "skin_tone"
    (gap,) = found["gaps"]
    assert gap["left"] > 0.05
    assert gap["left_p"] < 0.05


def test_a_model_that_explains_nothing_says_so() -> None:
    """Scores differ between subjects but by no known feature: images of one subject must not be in two folds."""
    table = planted(4)
    rng = np.random.default_rng(5)
    person = np.repeat(rng.normal(0.6, 0.2, 150), 3)
    found = run(table, person + rng.normal(0, 0.02, len(table)))
    assert not found["explains"]
    assert found["r2"] < 0.05
    assert not any(row["found"] for row in found["importances"])


def test_yes_no_outcomes_have_an_auc() -> None:
    table = planted(6)
    rng = np.random.default_rng(7)
    hit = rng.random(len(table)) < np.where(table["contrast"] > 0.5, 0.95, 0.4)
    found = run(table, hit.astype(float), yes_no=True)
    assert 0.7 < found["auc"] < 0.95
    assert found["importances"][0]["feature"] == "contrast"
    assert found["explains"]


@pytest.mark.parametrize(("score", "status"), [(1.0, "constant"), (np.nan, "too_few")])
def test_outcomes_without_a_model_have_a_status(score: float, status: str) -> None:
    table = planted(n=60)
    assert run(table, np.full(len(table), score))["status"] == status


def test_the_same_seed_gives_the_same_model() -> None:
    table = planted(8, n=60)
    score = table["contrast"].to_numpy() + np.random.default_rng(0).normal(0, 0.1, len(table))
    small = replace(QUICK, trees=5, resamples=50)
    assert run(table, score, small) == run(table, score, small)


def test_permutation_importance_is_scikit_learns_fold_by_fold() -> None:
    """On one image per person and one column a feature, the share of variance lost is the drop of R² out of fold."""
    from sklearn.ensemble import RandomForestRegressor

    table = planted(9, n=200, images=1)
    rng = np.random.default_rng(10)
    score = table["contrast"].to_numpy() + rng.normal(0, 0.05, 200)
    options = replace(QUICK, repeats=8)
    ours = {
        row["feature"]: row
        for row in error_model(table.assign(score=score), ["contrast", "noise"], [], [], options)["importances"]
    }
    x = table[["contrast", "noise"]].to_numpy()
    people = np.unique(table["subject_id"], return_inverse=True)[1]
    lost = []
    split = GroupKFold(5, shuffle=True, random_state=options.seed).split(x, groups=people)
    for k, (train, test) in enumerate(split):
        forest = RandomForestRegressor(n_estimators=20, min_samples_leaf=5, random_state=options.seed + k).fit(
            x[train], score[train]
        )
        theirs = permutation_importance(
            forest, x[test], score[test], n_repeats=8, scoring="neg_mean_squared_error", random_state=0
        )
        lost.append(theirs.importances_mean[0])
    assert ours["contrast"]["permutation"] == pytest.approx(np.mean(lost) / score.var(), rel=0.1)


@pytest.mark.parametrize(
    ("ranked", "expected"),
    [
        ([0.5, 0.3, 0.05, 0.04, 0.04, 0.03, 0.02], 2),
        ([0.9, 0.02, 0.02, 0.02], 1),
        ([0.2, 0.2, 0.2, 0.2, 0.1, 0.01, 0.01, 0.01], 5),
        ([0.1] * 6, 1),
        ([0.6, 0.4], 2),
        ([1.0], 1),
    ],
)
def test_elbows(ranked: list[float], expected: int) -> None:
    assert elbow(ranked) == expected


def test_the_bootstrap_resamples_people() -> None:
    """Ten images of one subject are one observation: the standard error is that of the mean over subjects."""
    rng = np.random.default_rng(0)
    people = rng.normal(0, 1, 100)
    values = np.repeat(people, 10) + rng.normal(0, 0.01, 1000)
    means = per_subject(values, np.repeat(np.arange(100), 10), 100)
    error, low, high = interval(ratios(means, np.ones_like(means), 5000, 0)[:, 0])
    assert error == pytest.approx(people.std(ddof=1) / 10, rel=0.1)
    assert low is not None
    assert high is not None
    assert low < people.mean() < high


def test_columns_that_few_people_have_or_that_copy_another_are_left_out() -> None:
    table = planted(1, n=40)
    table["flag"] = table["attr_skin_tone"].map(lambda cell: float(cell == ["VI"]))
    table["rare"] = [1.0] * 9 + [0.0] * (len(table) - 9)
    names = [c.name for c in make_design(table, ["flag", "rare", "absent"], ["skin_tone", "pose"], 10).columns]
    assert names == ["flag", "pose = Lying", "pose = Sitting", "pose = Standing"]


def test_the_tree_is_scikit_learns() -> None:
    from sklearn.tree import DecisionTreeRegressor

    table = planted(3, n=60)
    design = make_design(table, ["contrast", "noise"], ["pose"], 10)
    y = np.random.default_rng(0).random(len(table)) + table["contrast"].to_numpy()
    people = np.unique(table["subject_id"], return_inverse=True)[1]
    weights = np.full(len(y), 1 / 3)
    data = Data(y, design, people, 60, weights, False)
    nodes = grow(data, design, depth=2, min_subjects=10)["nodes"]
    theirs = DecisionTreeRegressor(max_depth=2, min_weight_fraction_leaf=10 / 60, random_state=0)
    theirs.fit(design.matrix, y, sample_weight=weights)
    assert [node["mean"] for node in nodes] == pytest.approx(theirs.tree_.value[:, 0, 0].tolist())
    assert sum(node["n_images"] for node in nodes if node["feature"] is None) == len(y)
