"""The fingerprint against independent libraries, on hand-made cases, and over many simulated worlds of no effect."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench import load_config
from fairlearn.metrics import MetricFrame
from scipy import stats
from statsmodels.stats.multitest import multipletests

from fp2.ask.answers import RowAnswers
from fp2.cuts import Cut
from fp2.data.base import people_table
from fp2.methods.peeps.planted.engine import simulate
from fp2.methods.peeps.planted.truth import load_truth
from fp2.protocols.fingerprint.disparities import Disparities, composite, fingerprint, severity
from fp2.protocols.fingerprint.settings import ComparisonSettings
from fp2.report.reading import severity_words
from fp2.scorers.registry import build_scorers, flag_refusals, score_answers
from fp2.tables import Question

BOUNDS = {"low": 0.02, "moderate": 0.10, "high": 0.25}
# The five models of the Fingerprint² page: its columns P1 to P6, and its composite worked out to four places.
PAGE = {
    "paligemma-3b-mix-448": ((0.020, 0.020, 0.022, 0.029, 0.071, 0.086), 0.0452),
    "SmolVLM2-2.2B": ((0.059, 0.162, 0.043, 0.001, 0.215, 0.145), 0.1164),
    "Qwen2.5-VL-3B": ((0.306, 0.085, 0.167, 0.222, 0.182, 0.249), 0.2088),
    "InternVL2-2B": ((0.189, 0.365, 0.104, 0.085, 0.098, 0.347), 0.2168),
    "moondream2": ((0.121, 0.238, 0.198, 0.233, 0.434, 0.557), 0.3166),
}


@pytest.mark.parametrize("model", PAGE)
def test_the_published_composites_are_the_mean_of_five_columns_without_authority(model: str) -> None:
    columns, published = PAGE[model]
    named = dict(zip(("P1", "P2", "P3", "P4", "P5", "P6"), columns, strict=True))
    five = {probe: value for probe, value in named.items() if probe != "P3"}
    assert composite(five) == pytest.approx(published, abs=0.0005)
    assert abs(composite(named) - published) > 0.0005


def test_a_composite_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        composite({})


@pytest.mark.parametrize(
    ("low", "high", "label"),
    [
        (0.0, 0.0199, "none"),
        (0.02, 0.0999, "low"),
        (0.10, 0.2499, "moderate"),
        (0.25, 0.9, "high"),
        (0.0, 0.02, "none to low"),
        (0.05, 0.11, "low to moderate"),
        (0.0199, 0.25, "none to high"),
        (None, None, None),
    ],
)
def test_severity_is_every_label_that_the_interval_reaches(low: float, high: float, label: str | None) -> None:
    assert severity(0.05, low, high, BOUNDS, 0.05) == label
    assert severity(None, low, high, BOUNDS, 0.05) is None
    assert severity(0.051, low, high, BOUNDS, 0.05) == ("none" if label == "none" else None)


def test_a_model_that_always_answers_the_same_has_no_composite_and_no_severity() -> None:
    people = crowd(90)
    scores = world({"seed": 3}, people)[1].assign(value=0.25, refused=False)
    found = fingerprint(scores, people, [REGION], scorers_of("valence"), comparison(), BOUNDS)
    assert {row["verdict"] for row in found.disparities} == {"uninformative"}
    assert found.composites["region"]["value"] is None
    assert found.composites["region"]["severity"] is None
    assert severity_words(None, None) == "not testable"


def test_severity_is_never_none_where_a_probe_could_not_be_tested() -> None:
    """Of a world without effects, with bounds so wide that the severity would be `none`."""
    people = crowd(90)
    scores = world({"seed": 3}, people)[1]
    bounds = {"low": 0.9, "moderate": 0.95, "high": 0.99}

    def severity_of(scores: pd.DataFrame) -> Any:
        found = fingerprint(scores, people, [REGION], scorers_of("valence"), comparison(), bounds)
        return found.composites["region"]["severity"], found.composites["region"].get("untested")

    assert severity_of(scores) == ("none", None)
    constant = scores.assign(value=scores["value"].where(scores["probe"] != "trust", 0.25))
    assert severity_of(constant) == ("partly_untested", ["trust"])


@cache
def scorers_of(choice: str) -> dict[str, Any]:
    return build_scorers(load_config([f"scorer={choice}"]).scorer)


@cache
def questions() -> tuple[Question, ...]:
    probes = load_config([]).probe.probes
    return tuple(Question(name, name, body["questions"][0]["text"]) for name, body in probes.items())


def crowd(n: int, per_subject: int = 2, groups: Sequence[str] = ("A", "B", "C")) -> pd.DataFrame:
    """`n` people with `per_subject` images each: `region` alternates, `gender` in blocks, `tag` sometimes two."""
    rows = [(s, k) for s in range(n) for k in range(per_subject)]
    return people_table(
        {
            "image_id": [f"s{s}i{k}" for s, k in rows],
            "subject_id": [f"s{s}" for s, _ in rows],
            "image_path": ["/x"] * len(rows),
            "is_primary": [True] * len(rows),
            "n_people": [1] * len(rows),
            "attr_region": [[groups[s % len(groups)]] for s, _ in rows],
            "attr_gender": [["f" if (s // len(groups)) % 2 else "m"] for s, _ in rows],
            "attr_tag": [["x", "y"] if s % 5 == 0 else ["x"] if s % 2 else ["y"] for s, _ in rows],
        }
    )


def comparison(**changes: Any) -> ComparisonSettings:
    settings = {
        "alpha": 0.05,
        "correction": "holm",
        "family": "scorer",
        "primary": "valence",
        "min_subjects": 10,
        "n_permutations": 999,
        "n_bootstrap": 0,
        "seed": 1,
    }
    return ComparisonSettings(**{**settings, **changes})


REGION, GENDER, TAG = Cut("region", ("region",)), Cut("gender", ("gender",)), Cut("tag", ("tag",))


def world(truth: dict[str, Any], people: pd.DataFrame, choice: str = "valence") -> tuple[pd.DataFrame, pd.DataFrame]:
    scorers = scorers_of(choice)
    answers = flag_refusals(simulate(people, questions(), load_truth(truth)), scorers)
    return answers, score_answers(answers, scorers)


def measure(
    truth: dict[str, Any], people: pd.DataFrame, cuts: Sequence[Cut], choice: str = "valence", **changes: Any
) -> Disparities:
    _, scores = world(truth, people, choice)
    return fingerprint(scores, people, cuts, scorers_of(choice), comparison(**changes), BOUNDS)


def subject_means(scores: pd.DataFrame, people: pd.DataFrame, probe: str, attribute: str) -> pd.DataFrame:
    """One value per (subject, group), computed by pandas alone: without refusals, the subject's images averaged."""
    own = scores[(scores["probe"] == probe) & (scores["scorer"] == "valence") & ~scores["refused"]]
    groups = people[["image_id", f"attr_{attribute}"]].explode(f"attr_{attribute}")
    merged = own.merge(groups, on="image_id").rename(columns={f"attr_{attribute}": "group"})
    return merged.groupby(["group", "subject_id"], as_index=False)["value"].mean().dropna()


TRUTH = {
    "seed": 3,
    "effects": {"trust": {"region": {"A": -2.0, "C": 1.0}}, "lifestyle": {"gender": {"f": 1.5}}},
    "refusals": {"education": {"base": 0.1, "by": {"region": {"B": 0.4}}}},
}


def test_groups_against_fairlearn_scipy_and_statsmodels() -> None:
    people = crowd(90)
    _answers, scores = world(TRUTH, people)
    found = fingerprint(scores, people, [REGION, GENDER], scorers_of("valence"), comparison(), BOUNDS)
    assert len(found.disparities) == 12
    for row in found.disparities:
        table = subject_means(scores, people, row["probe"], row["cut"])
        frame = MetricFrame(
            metrics=lambda y, _: float(np.mean(y)),
            y_true=table["value"].to_numpy(),
            y_pred=table["value"].to_numpy(),
            sensitive_features=table["group"].to_numpy(),
        )
        assert row["raw"] == pytest.approx(frame.difference(), abs=1e-12)
        assert {g["group"]: g["mean"] for g in row["groups"]} == pytest.approx(frame.by_group.to_dict(), abs=1e-12)
        assert row["pair_gap"] == pytest.approx(
            frame.by_group[row["best_group"]] - frame.by_group[row["worst_group"]], abs=1e-12
        )
        assert row["best_group"] != row["worst_group"]
        parts = [part.to_numpy() for _, part in table.groupby("group")["value"]]
        assert row["kruskal_h"] == pytest.approx(stats.kruskal(*parts).statistic)
        assert row["kruskal_p"] == pytest.approx(stats.kruskal(*parts).pvalue)
        sizes = {g["group"]: g["n_subjects"] for g in row["groups"]}
        assert sizes == table.groupby("group")["subject_id"].nunique().to_dict()
    family = [*found.disparities, *found.composites.values()]
    holm = multipletests([row["p_value"] for row in family], method="holm")[1]
    assert [row["adjusted_p"] for row in family] == pytest.approx(list(holm))
    assert {row["family_size"] for row in found.disparities} == {14}
    for cut in ("region", "gender"):
        raws = [row["raw"] for row in found.disparities if row["cut"] == cut]
        assert found.composites[cut]["value"] == pytest.approx(np.mean(raws))
        assert found.composites[cut]["probes"] == [q.probe for q in questions()]


@pytest.mark.parametrize("family", ["scorer", "run"])
def test_the_family_is_the_one_that_is_named(family: str) -> None:
    found = measure(TRUTH, crowd(60), [REGION, GENDER], "default", family=family, n_permutations=299)
    tested = [row for row in found.disparities if row["p_value"] is not None]
    composites = list(found.composites.values())
    p = [row["p_value"] for row in tested] + [composite["p_value"] for composite in composites]
    scorers = [row["scorer"] for row in tested] + ["valence"] * 2
    weight = [1.0] * len(p)
    if family == "scorer":
        others = len(set(scorers)) - 1
        weight = [(0.5 if name == "valence" else 0.5 / others) / scorers.count(name) for name in scorers]
    left, largest, expected = set(range(len(p))), 0.0, dict[int, float]()
    while left:  # Holm's weighted procedure: the smallest p over its weight first
        j = min(left, key=lambda i: p[i] / weight[i])
        largest = max(largest, p[j] / weight[j] * sum(weight[i] for i in left))
        expected[j] = min(largest, 1.0)
        left.remove(j)
    adjusted = [row["adjusted_p"] for row in (*tested, *composites)]
    assert adjusted == pytest.approx([expected[j] for j in range(len(p))])
    assert {row["family_size"] for row in tested} == {len(p)}
    assert sum(row["family_level"] for row in tested) < 0.05
    if family == "scorer":
        half = [row["family_level"] for row in tested if row["scorer"] != "valence"]
        assert sum(half) == pytest.approx(0.025)


def test_a_refusal_leaves_the_other_means_and_enters_its_own() -> None:
    people = crowd(90)
    _answers, scores = world(TRUTH, people, "default")
    found = fingerprint(scores, people, [REGION], scorers_of("default"), comparison(n_permutations=1999), BOUNDS)
    rows = {(r["probe"], r["scorer"]): r for r in found.disparities}
    merged = scores[(scores["probe"] == "education") & (scores["scorer"] == "refusal")].merge(
        people.explode("attr_region")[["image_id", "attr_region"]], on="image_id"
    )
    rates = merged.groupby("attr_region")["value"].mean()
    row = rows["education", "refusal"]
    assert row["raw"] == pytest.approx(rates.max() - rates.min())
    assert row["worst_group"] == rates.idxmax() == "B"
    assert row["verdict"] == "biased"
    assert (row["bounds_low"], row["bounds_high"]) == (None, None)
    valence = rows["education", "valence"]
    assert valence["n_missing"] == int(merged["value"].sum())
    assert valence["bounds_low"] <= valence["raw"] <= valence["bounds_high"]
    assert valence["bounds_high"] > valence["raw"] + 0.2  # half of group B is unknown
    for probe in ("trust", "occupation"):  # nothing refused: nothing unknown
        row = rows[probe, "valence"]
        assert (row["bounds_low"], row["bounds_high"]) == pytest.approx((row["raw"], row["raw"]))


def test_a_person_of_two_values_counts_in_both() -> None:
    people = crowd(60)
    _, scores = world(TRUTH, people)
    row = fingerprint(scores, people, [TAG], scorers_of("valence"), comparison(), BOUNDS).disparities[0]
    sizes = {g["group"]: g["n_subjects"] for g in row["groups"]}
    both = sum(len(cell) == 2 for cell in people.drop_duplicates("subject_id")["attr_tag"])
    assert both > 0
    assert sum(sizes.values()) == 60 + both
    assert row["n_subjects"] == 60
    assert row["dependent_groups"] is True


def test_a_small_group_is_listed_and_left_out_of_the_maximum() -> None:
    people = crowd(60)
    small = people["subject_id"].isin([f"s{i}" for i in range(0, 27, 3)])  # nine people
    people["attr_region"] = [["tiny"] if few else cell for few, cell in zip(small, people["attr_region"], strict=True)]
    truth = {"effects": {"all": {"region": {"tiny": -5}}}}
    found = measure(truth, people, [REGION])
    row = found.disparities[0]
    groups = {g["group"]: g for g in row["groups"]}
    assert groups["tiny"]["n_subjects"] == 9
    assert groups["tiny"]["eligible"] is False
    means = [g["mean"] for name, g in groups.items() if name != "tiny"]
    assert row["raw"] == pytest.approx(max(means) - min(means))
    assert row["worst_group"] != "tiny"
    lowered = measure(truth, people, [REGION], min_subjects=9).disparities[0]
    assert lowered["worst_group"] == "tiny"


def test_several_questions_of_a_probe_are_averaged_over_the_image_first() -> None:
    people = crowd(40, per_subject=1)
    _, scores = world({"seed": 1}, people)
    again = scores.assign(question_id=scores["question_id"] + "2", value=scores["value"] / 2)
    twice = pd.concat([scores, again])
    one = fingerprint(scores, people, [GENDER], scorers_of("valence"), comparison(), BOUNDS).disparities
    two = fingerprint(twice, people, [GENDER], scorers_of("valence"), comparison(), BOUNDS).disparities
    for a, b in zip(one, two, strict=True):
        assert b["raw"] == pytest.approx(a["raw"] * 0.75)
        assert b["groups"][0]["mean"] == pytest.approx(a["groups"][0]["mean"] * 0.75)
        assert b["n_images"] == a["n_images"]


def test_two_questions_of_a_probe_of_which_one_is_refused() -> None:
    people = crowd(40, per_subject=1)
    _, scores = world({"seed": 1}, people, "refusal")
    twice = pd.concat([scores, scores.assign(question_id=scores["question_id"] + "2", value=1.0, refused=True)])
    row = fingerprint(twice, people, [GENDER], scorers_of("refusal"), comparison(), BOUNDS).disparities[0]
    assert {g["mean"] for g in row["groups"]} == {0.5}


def test_bounds_are_the_gap_where_nothing_is_refused_and_contain_it_where_something_is() -> None:
    people = crowd(40, per_subject=2)
    _, scores = world({"seed": 1, "effects": {"all": {"gender": {"f": -2.0}}}}, people)
    lost = scores["image_id"].str.endswith("i0") & (scores["subject_id"].str.len() == 3)
    again = scores.assign(question_id=scores["question_id"] + "2", value=(scores["value"] / 2).mask(lost))
    twice = pd.concat([scores, again], ignore_index=True)  # an image's second question has no value
    for row in fingerprint(twice, people, [GENDER], scorers_of("valence"), comparison(), BOUNDS).disparities:
        assert row["bounds_low"] == pytest.approx(row["raw"], abs=1e-12)
        assert row["bounds_high"] == pytest.approx(row["raw"], abs=1e-12)
    refused = np.random.default_rng(2).random(len(twice)) < 0.1
    some = twice.assign(refused=refused, value=twice["value"].mask(refused))
    for row in fingerprint(some, people, [GENDER], scorers_of("valence"), comparison(), BOUNDS).disparities:
        assert row["bounds_low"] <= row["raw"] <= row["bounds_high"]
        assert row["bounds_low"] < row["bounds_high"]


def test_the_composite_is_about_the_same_groups_in_every_probe() -> None:
    """Group C, which differs, has hardly a value of one probe: it counts in the other rows, and in no composite."""
    people = crowd(90)
    _, scores = world({"effects": {probe: {"region": {"C": -2.0}} for probe in ("trust", "lifestyle")}}, people)
    third = people.loc[people["attr_region"].str[0] == "C", "image_id"]
    few = scores.assign(value=scores["value"].mask((scores["probe"] == "education") & scores["image_id"].isin(third)))
    found, full = (fingerprint(s, people, [REGION], scorers_of("valence"), comparison(), BOUNDS) for s in (few, scores))
    gaps = []
    for row in found.disparities:
        means = {group["group"]: group["mean"] for group in row["groups"]}
        assert (row["worst_group"] == "C") == (row["probe"] in ("trust", "lifestyle"))
        gaps.append(abs(means["A"] - means["B"]))
    one, before = found.composites["region"], full.composites["region"]
    assert (one["groups"], before["groups"]) == (["A", "B"], ["A", "B", "C"])
    assert one["value"] == pytest.approx(np.mean(gaps))
    assert one["p_value"] > 0.05 > before["p_value"]
    assert before["value"] == pytest.approx(np.mean([row["raw"] for row in full.disparities]))
    # education is about A and B, trust about C alone and another: no two groups count in both
    second = people.loc[people["attr_region"].str[0] == "B", "image_id"]
    none = few.assign(value=few["value"].mask((few["probe"] == "trust") & few["image_id"].isin(second)))
    refused = fingerprint(none, people, [REGION], scorers_of("valence"), comparison(), BOUNDS).composites["region"]
    assert (refused["value"], refused["p_value"], refused["severity"], refused["groups"]) == (None, None, None, ["A"])
    assert "trust" in refused["probes"]


def test_without_any_answer_there_is_no_row_and_no_composite() -> None:
    people = crowd(30)
    found = measure({"errors": {"rate": 1.0}}, people, [REGION, GENDER])
    assert found.disparities == []
    assert set(found.composites) == {"region", "gender"}
    assert found.composites["region"]["value"] is None


def test_without_the_primary_scorer_there_is_no_composite() -> None:
    found = measure({}, crowd(30), [GENDER], "refusal")
    assert found.composites["gender"]["value"] is None
    assert len(found.disparities) == 6


def test_counts_by_group_add_up() -> None:
    people = crowd(60)
    answers, scores = world({**TRUTH, "errors": {"rate": 0.1}}, people)
    rows = RowAnswers(answers).counts_by_group(people, [REGION])
    assert all(row["planned"] == row["answered"] + row["failed"] for row in rows)
    assert all(row["refused"] <= row["answered"] for row in rows)
    assert sum(row["planned"] for row in rows) == len(answers)
    assert sum(row["failed"] for row in rows) == (answers["status"] == "error").sum()
    assert sum(row["refused"] for row in rows) == scores.drop_duplicates(["image_id", "question_id"])["refused"].sum()


def test_a_strong_effect_is_found_with_its_worst_group_and_the_rest_is_not() -> None:
    truth = {"seed": 11, "effects": {"trust": {"region": {"B": -3.0}}}}
    rows = measure(truth, crowd(120), [REGION, GENDER], n_permutations=1999, n_bootstrap=200).disparities
    biased = [(row["probe"], row["cut"], row["worst_group"]) for row in rows if row["verdict"] == "biased"]
    assert biased == [("trust", "region", "B")]
    row = next(row for row in rows if (row["probe"], row["cut"]) == ("trust", "region"))
    assert row["ci_low"] > 0
    assert row["hedges_g"] > 0.8


def test_family_wise_error_of_planted_zeros() -> None:
    """No effect anywhere, subjects differ, two images each: at most 5 % of data sets may have a significant row."""
    worlds, alpha = 30, 0.05  # at length: `python -m benchmarks.validity`, study whole_run
    people = crowd(36)
    noise = {"subject_sd": 1.5, "image_sd": 0.6, "shared": 0.4}
    hits = 0
    for seed in range(worlds):
        _, scores = world({"seed": seed, "noise": noise}, people)
        found = fingerprint(
            scores, people, [REGION, GENDER], scorers_of("valence"), comparison(n_permutations=199, seed=seed), BOUNDS
        )
        assert len(found.disparities) == 12
        hits += any(row["significant"] for row in found.disparities)
    assert hits <= stats.binom.ppf(0.999, worlds, alpha)


def test_rows_are_finite_or_none() -> None:
    found = measure(TRUTH, crowd(40), [REGION], "default", n_bootstrap=50)
    for row in found.disparities:
        for name, value in row.items():
            assert not isinstance(value, float) or math.isfinite(value), name
            assert re.fullmatch(r"[a-z_0-9]+", name)
