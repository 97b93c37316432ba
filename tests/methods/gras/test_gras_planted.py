"""The simulator's whole battery of 500 questions through the analysis: planted traits and groups, and planted zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fp2.compose import load_config
from fp2.cuts import Cut
from fp2.methods.gras.analysis import analyse
from fp2.methods.gras.answers import GrasAnswers
from fp2.methods.gras.options import GrasOptions
from fp2.methods.peeps.planted.engine import simulate_yes_no
from fp2.methods.peeps.planted.truth import load_truth
from fp2.probes.battery import load_battery

ZEROS = ("calm", "lazy", "wise", "rude")
TRUTH = {
    "yes_no": {
        "effects": {"tone": {"I": 0.25, "VI": -0.25}},
        "unaffected": list(ZEROS),
        "trait_effects": {"calm": {"pool": {"he": 1.5}}},
        "noise": {"subject_sd": 0.4, "image_sd": 0.3},
        "mass": {"base": 0.95},
    }
}


@pytest.fixture(scope="module")
def block() -> dict[str, Any]:
    from dataclasses import asdict

    battery = load_battery(asdict(load_config(["probe=gras"]).probe))
    subject = np.arange(240)
    people = pd.DataFrame(
        {
            "image_id": [f"i{k}" for k in range(240)],
            "subject_id": [f"s{s}" for s in subject],
            "attr_tone": [[("I", "III", "VI")[s % 3]] for s in subject],
            "attr_pool": [[("he", "she")[s // 3 % 2]] for s in subject],
            "attr_region": [[("north", "south", "west", "east")[s // 6 % 4]] for s in subject],
        }
    )
    found = simulate_yes_no(people, battery.questions, load_truth(TRUTH))
    words, templates = [t.word for t in battery.traits], list(dict.fromkeys(q.template for q in battery.questions))
    place = {(q.trait, q.template): k for k, q in enumerate(battery.questions)}
    order = [[place[word, template] for template in templates] for word in words]
    ids = (people["image_id"].to_numpy(dtype=object), people["subject_id"].to_numpy(dtype=object))
    columns = {name: values[:, order] for name, values in found.items()}
    answers = GrasAnswers(*ids, tuple(battery.traits), tuple(templates), columns)
    cuts = [Cut(name, (name,)) for name in ("tone", "pool", "region")]
    return analyse(answers, people, cuts, GrasOptions(permutations=40, bootstrap=20))


def test_planted_effects_are_found_in_the_right_cells_and_zeros_are_not(block: dict[str, Any]) -> None:
    tests = block["units"]["images"]["tests"]
    found = {name: np.array(part["significant"]) for name, part in tests.items()}
    words = [trait["word"] for trait in block["traits"]]
    strong = np.array([abs(trait["valence"]) >= 1.5 and trait["word"] not in ZEROS for trait in block["traits"]])
    assert found["tone"][strong].mean() >= 0.9
    assert not any(found["tone"][words.index(word)] for word in ZEROS)
    assert [words[k] for k in np.flatnonzero(found["pool"])] == ["calm"]
    assert not found["region"].any()


def test_the_right_groups_are_at_the_ends(block: dict[str, Any]) -> None:
    unit = block["units"]["images"]
    rows = {(row["attribute"], row["group"], row["polarity"]): row for row in unit["attribution"]}
    assert rows["tone", "I", "positive"]["low"] > 0.7
    assert rows["tone", "VI", "negative"]["low"] > 0.7
    assert rows["tone", "VI", "positive"]["high"] < 0.3
    assert rows["tone", "I", "positive"]["share"] > rows["tone", "I", "positive"]["null_high"]
    for group in ("north", "south", "west", "east"):
        row = rows["region", group, "positive"]
        assert row["null_low"] <= row["share"] <= row["null_high"]


def test_scores_stand_beside_chance(block: dict[str, Any]) -> None:
    score = block["units"]["images"]["scores"]["by_attribute"]
    assert score["tone"]["published_orientation"]["value"] > score["tone"]["published_orientation"]["null_high"]
    region = score["region"]["published_orientation"]
    assert region["value"] <= region["null_high"]
    size = block["units"]["images"]["magnitude"]["by_attribute"]
    assert size["tone"]["omega_squared"]["low"] > 0.05
    assert size["region"]["omega_squared"]["low"] < 0.01
    assert not any("does not answer" in line for line in block["warnings"])
