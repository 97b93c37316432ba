"""FHIBE's pairwise disparities: against SciPy, by hand, and on planted data; the column beside it; the shares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fp2.cuts import Cut
from fp2.data.base import people_table
from fp2.errors import Fp2Error
from fp2.methods.fhibe.proportions import Proportion
from fp2.methods.fhibe.scores.analysis import disparity_rows
from fp2.methods.fhibe.scores.benchmark import BenchmarkOptions, benchmark, ratio_interval
from fp2.methods.fhibe.scores.features import every_intersection
from fp2.methods.fhibe.scores.published import (
    GroupScores,
    all_pairs,
    disparity_of,
    highest,
    in_release_order,
    mann_whitney,
    reverse,
)

QUICK: dict[str, Any] = {"n_permutations": 999, "n_bootstrap": 200}


def people_with(groups: dict[str, list[list[str]]], images: int = 1, **extra: list[float]) -> pd.DataFrame:
    """One subject per line of each attribute, `images` images each; extra columns are per subject."""
    n = len(next(iter(groups.values())))
    rows: dict[str, list[Any]] = {
        "image_id": [f"i{s}-{k}" for s in range(n) for k in range(images)],
        "subject_id": [f"s{s}" for s in range(n) for _ in range(images)],
        "image_path": [""] * n * images,
        "is_primary": [True] * n * images,
        "n_people": [1] * n * images,
    }
    for name, cells in groups.items():
        rows[f"attr_{name}"] = [cells[s] for s in range(n) for _ in range(images)]
    frame = people_table(rows)
    for name, values in extra.items():
        frame[name] = np.repeat(values, images)
    return frame


def scores_of(people: pd.DataFrame, values: np.ndarray) -> pd.DataFrame:
    return people[["image_id", "subject_id"]].assign(score=values)


@pytest.mark.parametrize("n", [5, 8, 9, 40])
@pytest.mark.parametrize("levels", [2, 11, 10**9])
def test_mann_whitney_is_scipys(n: int, levels: int) -> None:
    rng = np.random.default_rng([n, levels])
    for _ in range(20):
        x = np.sort(rng.integers(0, levels, n) / levels)
        y = np.sort(rng.integers(0, levels, n + 7) / levels + 0.1)
        expected = stats.mannwhitneyu(x, y, alternative="two-sided")
        u, p = mann_whitney(x, y)
        assert u == expected.statistic
        assert p == pytest.approx(expected.pvalue, rel=1e-9)


def test_equal_scores_are_no_difference() -> None:
    assert mann_whitney(np.ones(12), np.ones(15)) == (90.0, 1.0)


def test_special_cases_of_the_disparity() -> None:
    assert disparity_of(0.0, 0.0) == 0.0
    assert disparity_of(0.0, 0.4) == 1.0
    assert disparity_of(0.6, 0.8) == pytest.approx(0.25)
    assert disparity_of(-0.1, 0.8) is None


def test_scores_of_which_lower_ones_are_better_are_reversed_and_floored_at_zero() -> None:
    assert reverse([0.2, 1.3, math.nan], higher_is_better=False).tolist()[:2] == [0.8, 0.0]
    assert reverse([0.2], higher_is_better=True).tolist() == [0.2]


def test_bonferroni_counts_all_pairs_and_the_largest_disparity_wins() -> None:
    rng = np.random.default_rng(3)
    groups = [
        GroupScores(name, np.sort(rng.normal(mean, 0.05, 40).clip(0)), 40, np.zeros(40))
        for name, mean in (("a", 0.9), ("b", 0.6), ("c", 0.88), ("d", 0.87))
    ]
    pairs = all_pairs(groups)
    found, threshold = highest(pairs, 0.05)
    assert len(pairs) == 6
    assert threshold == pytest.approx(0.05 / 6)
    by_hand = {
        (p.worst, p.best): 1 - np.median(next(g for g in groups if g.name == p.worst).scores) / p.best_value
        for p in pairs
        if stats.mannwhitneyu(*(next(g for g in groups if g.name == n).scores for n in (p.worst, p.best))).pvalue
        < 0.05 / 6
    }
    assert {(p.worst, p.best): p.disparity for p in found} == pytest.approx(by_hand)
    assert (found[0].worst, found[0].best) == max(by_hand, key=lambda pair: by_hand[pair])


@pytest.mark.parametrize(
    ("attribute", "first", "second"),
    [
        ("pronoun", "She/her/hers", "He/him/his"),
        ("skin_tone", "VI", "I"),
        ("ancestry", "Asia", "Europe"),
        ("age", "18-29", "60+"),
        ("region x skin_tone", "Asia x VI", "Asia x II"),
    ],
)
def test_of_equal_medians_the_second_group_of_the_release_is_the_worse_one(
    attribute: str, first: str, second: str
) -> None:
    """As in the evaluation code (worst = first only if its median is below the second's), whatever the ranks say."""
    cut = Cut(attribute, tuple(attribute.split(" x ")))
    for higher in (first, second):
        groups = [
            GroupScores(name, np.array([0.5] * 20 + [0.9 if name == higher else 0.1] * 15), 35, np.zeros(35))
            for name in (first, second)
        ]
        (pair,) = all_pairs(in_release_order(groups[::-1], cut))
        assert (pair.worst, pair.best, pair.disparity) == (second, first, 0.0)
        assert pair.p_value < 0.001


def test_equal_medians_are_no_other_groups() -> None:
    """Medians of 0.5 and a large difference of means: both analyses name the same two groups, in either order."""
    people = people_with({"pronoun": [["He/him/his"]] * 40 + [["She/her/hers"]] * 40})
    values = np.array([0.5, 0.5, 0.5, 0.9] * 10 + [0.5, 0.5, 0.5, 0.1] * 10)
    (row,) = benchmark(scores_of(people, values), people, [Cut("pronoun", ("pronoun",))], BenchmarkOptions(**QUICK))[
        "rows"
    ]
    assert (row["published"]["worst"], row["published"]["disparity"]) == ("He/him/his", 0.0)
    assert row["ours"]["worst_group"] == "She/her/hers"
    assert (row["agreement"], row["reasons"]) == ("both", ["same_medians"])


def test_groups_need_ten_subjects_not_ten_images() -> None:
    people = people_with({"tone": [["I"]] * 20 + [["VI"]] * 9}, images=5)
    values = np.where(people["attr_tone"].map(lambda cell: cell == ["I"]), 0.9, 0.1)
    rng = np.random.default_rng(0)
    found = benchmark(
        scores_of(people, values + rng.random(len(people)) / 100),
        people,
        [Cut("tone", ("tone",))],
        BenchmarkOptions(**QUICK),
    )["rows"][0]
    assert [group["group"] for group in found["groups"]] == ["I"]
    assert found["published"] is None
    assert found["agreement"] == "none"
    assert "enough subjects" in found["why"]


def test_a_planted_gap_is_found_by_both_and_in_the_table() -> None:
    rng = np.random.default_rng(1)
    tone = [["I"]] * 40 + [["III"]] * 40 + [["VI"]] * 40
    pronoun = [["She/her/hers"], ["He/him/his"]] * 60
    people = people_with({"skin_tone": tone, "pronoun": pronoun}, images=3)
    true = people["attr_skin_tone"].map(lambda cell: {"I": 0.9, "III": 0.88, "VI": 0.7}[cell[0]]).to_numpy()
    values = (true + rng.normal(0, 0.05, len(people))).clip(0, 1)
    cuts = every_intersection(["pronoun", "skin_tone"])
    found = benchmark(scores_of(people, values), people, cuts, BenchmarkOptions(**QUICK))
    rows = {row["cut"]: row for row in found["rows"]}
    assert list(rows) == ["pronoun", "skin_tone", "pronoun_x_skin_tone"]
    assert rows["skin_tone"]["agreement"] == "both"
    assert rows["skin_tone"]["published"]["worst"] == "VI"
    assert rows["pronoun"]["agreement"] == "neither"
    medians = [np.median(values[true == level]) for level in (0.7, 0.9)]
    assert rows["skin_tone"]["published"]["disparity"] == pytest.approx(1 - medians[0] / medians[1])
    assert [line["intersection"] for line in found["top"]] == ["PxST", "ST"]
    outcome = {"probe": "detection", "metric": "recall", "benchmark": found}
    assert disparity_rows([outcome], cuts)[1]["verdict"] == "biased"


def test_pseudo_replication_is_named_as_the_reason() -> None:
    """Two groups whose people differ by chance, twelve images each: the published column calls it a difference."""
    only = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        people = people_with({"tone": [["I"]] * 15 + [["VI"]] * 15}, images=12)
        person = np.repeat(rng.normal(0, 0.1, 30), 12)
        values = (0.6 + person + rng.normal(0, 0.05, 360)).clip(0, 1)
        row = benchmark(scores_of(people, values), people, [Cut("tone", ("tone",))], BenchmarkOptions(**QUICK))["rows"][
            0
        ]
        if row["agreement"] == "published_only":
            only += 1
            assert "images_as_people" in row["reasons"]
    assert only >= 4


def test_a_tone_gap_that_is_contrast_disappears_within_a_contrast() -> None:
    rng = np.random.default_rng(7)
    dark = rng.random(300) < 0.5
    contrast = np.where(rng.random(300) < 0.8, dark, ~dark) * -0.4 + 0.8 + rng.normal(0, 0.03, 300)
    people = people_with({"tone": [["VI"] if d else ["I"] for d in dark]}, images=2, contrast=list(contrast))
    values = (0.2 + 0.8 * people["contrast"].to_numpy() + rng.normal(0, 0.05, 600)).clip(0, 1)
    cut, table = [Cut("tone", ("tone",))], scores_of(people, values)
    whole = benchmark(table, people, cut, BenchmarkOptions(**QUICK))["rows"][0]
    high = benchmark(table, people, cut, BenchmarkOptions(**QUICK, within="contrast > 0.6"))
    assert whole["agreement"] == "both"
    assert whole["ours"]["raw"] > 0.1
    assert high["rows"][0]["agreement"] == "neither"
    assert high["n_subjects"] == int((contrast > 0.6).sum())


def test_several_values_count_in_each_of_their_groups() -> None:
    people = people_with({"tone": [["I", "II"]] * 12 + [["II"]] * 12})
    row = benchmark(
        scores_of(people, np.linspace(0, 1, 24)), people, [Cut("tone", ("tone",))], BenchmarkOptions(**QUICK)
    )["rows"][0]
    assert [(g["group"], g["n_subjects"]) for g in row["groups"]] == [("I", 12), ("II", 24)]
    assert row["ours"]["dependent_groups"]


def test_yes_no_outcomes_are_compared_by_shares() -> None:
    rng = np.random.default_rng(5)
    people = people_with({"tone": [["I"]] * 60 + [["VI"]] * 60}, images=2)
    missed = rng.random(240) < np.where(people["attr_tone"].map(lambda c: c == ["VI"]), 0.5, 0.1)
    options = BenchmarkOptions(**QUICK, yes_no=True, higher_is_better=False)
    row = benchmark(scores_of(people, missed.astype(float)), people, [Cut("tone", ("tone",))], options)["rows"][0]
    share = {g["group"]: g["share"] for g in row["shares"]["groups"]}
    assert share["VI"] == pytest.approx(missed[120:].mean())
    assert row["published"]["worst"] == "VI"
    assert row["published"]["disparity"] == pytest.approx(1 - (1 - share["VI"]) / (1 - share["I"]))
    pair = row["shares"]["pair"]
    assert pair["ratio"] == pytest.approx(share["VI"] / share["I"])
    assert pair["difference"] == pytest.approx(share["VI"] - share["I"])
    assert pair["difference_low"] < pair["difference"] < pair["difference_high"]
    assert 1 < pair["ratio_low"] < pair["ratio"] < pair["ratio_high"]


def test_the_ratios_interval_covers() -> None:
    """MOVER with Wilson's intervals covers a ratio of independent shares about 95 % of the time."""
    from fp2.stats.interval import wilson

    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(600):
        ends = []
        for true, n in ((0.3, 80), (0.6, 60)):
            rate = rng.binomial(n, true) / n
            ends.append(Proportion("g", rate, *wilson(rate, n), n, n, float(n)))
        low, high = ratio_interval(*ends)
        assert low is not None
        hits += low <= 0.5 <= (math.inf if high is None else high)
    assert 0.93 <= hits / 600 <= 0.975


def test_negative_scores_have_no_published_disparity() -> None:
    rng = np.random.default_rng(2)
    people = people_with({"tone": [["I"]] * 30 + [["VI"]] * 30})
    values = np.r_[rng.normal(0.5, 0.1, 30), rng.normal(-0.5, 0.1, 30)]
    found = benchmark(
        scores_of(people, values), people, [Cut("tone", ("tone",))], BenchmarkOptions(**QUICK, value_range=(-1, 1))
    )
    assert found["negative"]
    assert found["rows"][0]["published"]["disparity"] is None
    assert found["rows"][0]["reasons"] == ["negative"]
    assert found["top"] == []


def test_intersections_never_hold_both_levels_of_ancestry() -> None:
    names = [cut.name for cut in every_intersection(["age", "region", "subregion", "skin_tone", "pronoun"])]
    assert "pronoun_x_age_x_skin_tone_x_subregion" in names
    assert not any("region_x_subregion" in name for name in names)
    assert len(names) == 15 + 8


@pytest.mark.parametrize(
    ("scores", "options", "words"),
    [
        ([0.5, 0.6, 2.0], {"value_range": (0, 1)}, "outside the range"),
        ([0.5, 0.6, 0.7], {"yes_no": True}, "other than 0 and 1"),
        ([math.nan] * 3, {}, "no score belongs"),
        ([math.inf, 0.6, 0.7], {}, "infinite"),
        ([0.5, 0.6, 0.7], {"higher_is_better": False}, "range of the score is not known"),
        ([0.5, 0.6, -0.1], {"higher_is_better": False, "value_range": (0, 1)}, "outside the range"),
    ],
)
def test_mistakes_are_refused(scores: list[float], options: dict[str, Any], words: str) -> None:
    people = people_with({"tone": [["I"]] * 3})
    with pytest.raises(Fp2Error, match=words):
        benchmark(scores_of(people, np.array(scores)), people, [Cut("tone", ("tone",))], BenchmarkOptions(**options))


def test_a_person_scored_twice_in_one_image_is_refused() -> None:
    people = people_with({"tone": [["I"]] * 3})
    twice = pd.concat([scores_of(people, np.array([0.1, 0.2, 0.3]))] * 2)
    with pytest.raises(Fp2Error, match="two scores of one subject in one image"):
        benchmark(twice, people, [Cut("tone", ("tone",))])


def test_a_cut_or_a_condition_without_subjects_is_a_note_and_no_error() -> None:
    people = people_with(
        {"tone": [["I"]] * 12 + [["VI"]] * 12, "age": [["60+"]] * 12 + [[]] * 12, "wear": [[]] * 12 + [["hat"]] * 12}
    )
    chosen = Cut("chosen", ("tone",), (("tone", ("VI",)),))
    cuts = [*every_intersection(["tone", "age", "wear"]), chosen]
    table = scores_of(people, np.linspace(0.2, 0.9, 24))
    rows = {row["cut"]: row for row in benchmark(table, people, cuts, BenchmarkOptions(**QUICK))["rows"]}
    assert len(rows) == 8
    assert rows["age_x_wear"]["n_groups"] == 0
    assert rows["age_x_wear"]["published"] is None
    assert rows["age_x_wear"]["why"] == "no subject has a value"
    assert rows["tone"]["agreement"] == "both"
    inside = benchmark(table, people, cuts, BenchmarkOptions(**QUICK, within="age == '60+'"))
    assert {row["cut"]: row["why"] for row in inside["rows"]}["chosen"] == "no subject has a value"
    empty = benchmark(table, people, cuts, BenchmarkOptions(**QUICK, within="tone == 'IV'"))
    assert empty["rows"] == empty["top"] == []
    assert empty["overall"] is None
    yes_no = benchmark(table.assign(score=table["score"].round()), people, cuts, BenchmarkOptions(**QUICK, yes_no=True))
    assert len(yes_no["rows"]) == 8


def test_the_published_disparity_of_a_distance_does_not_depend_on_the_largest_one() -> None:
    """LPIPS: max(0, 1 - LPIPS); one score of 3 counts as 1 and leaves the others as they are."""
    rng = np.random.default_rng(13)
    people = people_with({"tone": [["I"]] * 40 + [["VI"]] * 40}, light=[1.0] * 39 + [0.0] + [1.0] * 40)
    values = np.r_[rng.normal(0.3, 0.03, 40), rng.normal(0.5, 0.03, 40)]
    options = BenchmarkOptions(**QUICK, higher_is_better=False, value_range=(0, 1))
    cut, far = [Cut("tone", ("tone",))], values.copy()
    far[39] = 3.0
    found = benchmark(scores_of(people, far), people, cut, options)
    row = found["rows"][0]
    expected = 1 - (1 - np.median(values[40:])) / np.median(1 - far[:40].clip(0, 1))
    assert row["published"]["disparity"] == pytest.approx(expected)
    assert found["n_clipped"] == 1
    assert row["ours"]["raw"] == pytest.approx(values[40:].mean() - far[:40].clip(0, 1).mean())


def test_a_condition_does_not_change_the_scale() -> None:
    people = people_with({"tone": [["I"]] * 12 + [["VI"]] * 12}, light=[1.0] * 23 + [0.0])
    values = np.r_[np.linspace(1, 9, 23), 50.0]
    options = BenchmarkOptions(**QUICK, within="light == 1")
    found = benchmark(scores_of(people, values), people, [Cut("tone", ("tone",))], options)
    assert found["value_range"] == [0.0, 50.0]
