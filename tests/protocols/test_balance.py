"""The association of attributes in the data: the table, its warnings, and unknown pairs."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats.contingency import association

from fp2.cuts import Cut
from fp2.data.base import people_table
from fp2.notes import Stage, read_notes, without
from fp2.protocols.balance import AS_FIRST, ASSOCIATED, OF_FIRST_RUN, UNKNOWN, balance_block, balance_warnings


def people(**attributes) -> pd.DataFrame:
    n = len(next(iter(attributes.values())))
    return people_table(
        {
            "image_id": [f"i{k}" for k in range(n)],
            "subject_id": [f"s{k}" for k in range(n)],
            "image_path": [f"/{k}" for k in range(n)],
            "is_primary": [True] * n,
            "n_people": [1] * n,
            **{f"attr_{name}": [[value] if value else [] for value in values] for name, values in attributes.items()},
        }
    )


def test_a_confounded_cut_is_reported():
    rng = np.random.default_rng(0)
    gender = np.array(["woman", "man"])[rng.integers(0, 2, 400)]
    age = np.where((gender == "woman") ^ (rng.random(400) < 0.15), "young", "old")
    race = np.array(["a", "b", "c"])[rng.integers(0, 3, 400)]
    frame = people(gender=gender, age=age, race=race, shoes=age)
    block = balance_block(frame, (Cut("gender", ("gender",)),))
    assert [(entry["attribute"], entry["other"], entry["confounded"]) for entry in block] == [
        ("gender", "age", True),
        ("gender", "race", False),
    ]  # shoes are not a demographic attribute
    counts = pd.crosstab(gender, age)
    assert block[0]["counts"] == counts.loc[block[0]["rows"], block[0]["columns"]].to_numpy().tolist()
    assert block[0]["cramers_v"] == pytest.approx(association(counts.to_numpy(), correction=False), abs=0.01)
    (line,) = balance_warnings(block)
    assert line.startswith("gender and age are associated in these images")


def test_attributes_of_one_intersection_are_not_compared_with_each_other():
    frame = people(gender=["x", "y"] * 40, age=["u", "u", "v", "v"] * 20)
    assert balance_block(frame, (Cut("both", ("gender", "age")),)) == []
    pairs = balance_block(frame, (Cut("gender", ("gender",)), Cut("age", ("age",))))
    assert [(entry["cut"], entry["other"]) for entry in pairs] == [("gender", "age"), ("age", "gender")]


def test_an_attribute_without_values_makes_no_pair():
    frame = people(gender=["x", "y"] * 40, age=["u", "u", "v", "v"] * 20, race=[""] * 80)
    assert [entry["other"] for entry in balance_block(frame, (Cut("gender", ("gender",)),))] == ["age"]


def test_each_pair_has_one_warning():
    frame = people(gender=["x", "y"] * 40, age=["u", "v"] * 40)
    assert len(balance_warnings(balance_block(frame, (Cut("gender", ("gender",)), Cut("age", ("age",)))))) == 1


def test_attributes_never_known_together_cannot_be_checked_and_small_cells_are_suppressed():
    frame = people(
        gender=["x"] * 25 + ["y"] * 5 + [""] * 30, age=["u"] * 30 + [""] * 30, skin_tone=[""] * 30 + ["1", "2"] * 15
    )
    block = balance_block(frame, (Cut("skin_tone", ("skin_tone",)),))
    assert {entry["n_subjects"] for entry in block} == {0}
    (line,) = balance_warnings(block)
    assert line.startswith("No subject's skin tone is known together with gender, age")
    (entry,) = balance_block(frame, (Cut("gender", ("gender",)),))[:1]
    assert entry["counts"] == [[25.0], [None]]


def test_warnings_are_recognised_in_logged_results_without_records_those_of_version_0_3_0_too():
    entry = {"attribute": "gender", "cramers_v": 0.5, "n_subjects": 80, "confounded": True, AS_FIRST: True}
    unknown = {**entry, "other": "race", "n_subjects": 0, "confounded": False, AS_FIRST: False}
    warnings = balance_warnings([{**entry, "other": "age"}, unknown])
    earlier = [
        "gender and age go together in these pictures (Cramer's V 0.50): a difference between groups of the one may be "
        "the other's.",
        "Nobody's gender is known together with race: whether they are confounded cannot be checked.",
        "How gender goes together with age is told as of the first run: the tables that this one was made from keep "
        "only the attributes of the cuts.",
    ]
    kinds = [ASSOCIATED.code, UNKNOWN.code, OF_FIRST_RUN.code]
    assert [note.code for note in warnings] == kinds
    for lines in (list(map(str, warnings)), earlier):
        notes = read_notes({"limitations": lines})
        assert [note.code for note in notes] == kinds
        assert without(notes, Stage.TABLES) == []
