"""SocialCounterfactuals: the largest score of a set by hand, what differs within sets, and refusals by item."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from recorded_run import benchmark_run, published, simulated_run

from fp2.compose import load_config
from fp2.errors import Fp2Error
from fp2.methods.benchmarks.readers import load_social_counterfactuals
from fp2.methods.benchmarks.score import BenchmarkSection
from fp2.report.values import Estimate, Table

RACES, GENDERS, OCCUPATIONS = ("White", "Black"), ("male", "female"), 14


def rows() -> list[dict[str, Any]]:
    """One set of four images for each occupation."""
    return [
        {
            "file_name": f"images/{number}_{race}_{gender}.jpg",
            "caption": f"A photo of a {race} {gender} job {number}",
            "counterfactual_set": number,
            **{"a1a2": f"{race} {gender}", "a1": race, "a2": gender, "a1_type": "race", "a2_type": "gender"},
        }
        for number in range(OCCUPATIONS)
        for race in RACES
        for gender in GENDERS
    ]


def folder(root: Path, content: list[dict[str, Any]]) -> Path:
    root.mkdir()
    with (root / "metadata.csv").open("w", newline="") as handle:
        writer = csv.DictWriter(handle, list(content[0]))
        writer.writeheader()
        writer.writerows(content)
    return root


def test_the_largest_score_of_a_set_and_our_comparison_within_sets(tmp_path: Path) -> None:
    given = {}
    for place, row in enumerate(rows()):
        woman, number = row["a2"] == "female", row["counterfactual_set"]
        # women are rated lower by 2 in most sets; by race there is no difference but noise
        rating = 8 - (2 if woman and number % 7 else 0) - (place // 2 + number) % 2
        given[row["file_name"]] = {"hiring": str(rating)}
    results = benchmark_run(
        tmp_path,
        "social_counterfactuals",
        given,
        f"data.root={folder(tmp_path / 'copy', rows())}",
        "probe.select=[hiring]",
        "analysis.primary=trust_rating",
        "~scorer.valence_context",
    )
    part = "race_gender: hiring, trust_rating"
    assert {key: value for key, value in published(results).items() if key[0] == part} == {
        (part, "maximum, mean"): pytest.approx(8.0),
        (part, "maximum, SD"): 0.0,
        (part, "maximum, 90 %"): 8.0,
        # 12 sets have 8, 7 for men and 6, 5 for women; two sets have no difference by gender
        (part, "range, mean"): pytest.approx((12 * 3 + 2 * 1) / 14),
    }
    by_cut = {row["cut"]: row for row in results["matched"]["rows"] if row["scorer"] == "trust_rating"}
    assert by_cut["gender"]["verdict"] == "biased"
    assert by_cut["gender"]["raw"] == pytest.approx(2 * 12 / 14)
    assert by_cut["gender"]["worst_version"] == "female"
    assert by_cut["race"]["verdict"] in ("no_difference_found", "equivalent")
    # sets that do not vary have no best and no worst version, and a row on the page all the same
    by_cut["race"].update(raw=0.0, best_version=None, worst_version=None)
    by_cut["race"]["pairs"][0].update(difference=0.0, ci_low=0.0, ci_high=0.0)
    (table,) = (one for one in BenchmarkSection().values(results["benchmark"], results) if isinstance(one, Table))
    assert [Estimate(0.0, 0.0, 0.0)] == [cell for cell in table.rows[-2].cells if isinstance(cell, Estimate)]
    assert "male less female" in table.rows[-1].cells


def test_the_simulator_rates_women_lower_and_races_alike(tmp_path: Path) -> None:
    root = folder(tmp_path / "copy", rows())
    given = load_config(["experiment=social_counterfactuals", f"data.root={root}"]).probe.probes
    text = given["hiring"]["questions"][0]["text"]
    truth = {
        "effects": {"hiring": {"gender": {"female": -2}}},
        "probes": {
            "hiring": {
                "texts": [text.replace("{occupation}", f"job {n}") for n in range(OCCUPATIONS)],
                "sentences": [str(n) for n in range(1, 11)],
            }
        },
    }
    images = [str(root / row["file_name"]) for row in rows()]
    results = simulated_run(
        tmp_path,
        "social_counterfactuals",
        images,
        truth,
        f"data.root={root}",
        "probe.select=[hiring]",
        "analysis.primary=trust_rating",
        "~scorer.valence_context",
        "probe.decoding.samples=3",
        "probe.decoding.temperature=0.75",
    )
    assert results["answers"]["answered"] == 3 * len(rows())
    assert {row["n"] for row in results["benchmark"]["rows"]} == {3 * OCCUPATIONS}  # a maximum for each set and seed
    found = {row["cut"]: row["verdict"] for row in results["matched"]["rows"] if row["scorer"] == "trust_rating"}
    assert found["gender"] == "biased"
    assert found["race"] in ("no_difference_found", "equivalent")


def test_sets_attributes_and_occupations_are_read(tmp_path: Path) -> None:
    people = load_social_counterfactuals(
        folder(tmp_path / "copy", rows()), tmp_path, lambda done, n: None, False
    ).people
    first = people.iloc[0]
    assert first[["set_id", "subject_id", "field_occupation", "field_type"]].tolist() == [
        "race_gender/0",
        "job 0",
        "job 0",
        "race_gender",
    ]
    assert first[["attr_race", "attr_gender"]].tolist() == [["White"], ["male"]]


def test_a_caption_without_its_attributes_is_named(tmp_path: Path) -> None:
    first, *rest = rows()
    wrong = [{**first, "caption": "A photo of a person"}, *rest]
    with pytest.raises(
        Fp2Error, match=r"item 'images/0_White_male.jpg' \(row 1\) has the caption 'A photo of a person'"
    ):
        load_social_counterfactuals(folder(tmp_path / "copy", wrong), tmp_path, lambda done, n: None, False)
