"""Counterfactual sets: those that vary in a cut, what varies with it, and which sets are independent."""

from __future__ import annotations

import pandas as pd
import pytest

from fp2.cuts import Cut, of_sets, varying
from fp2.data.sampling import units, whole_sets
from fp2.errors import Fp2Error

SKIN, AGE = Cut("skin", ("skin",)), Cut("age", ("age",))


def people(rows: list[tuple[str | None, str, str, str, str]]) -> pd.DataFrame:
    """Rows of (set, subject, skin, age, hair)."""
    return pd.DataFrame(
        [
            {
                "image_id": f"image {number}",
                "subject_id": subject,
                "set_id": name,
                "attr_skin": [skin],
                "attr_age": [age],
                "attr_hair": [hair],
            }
            for number, (name, subject, skin, age, hair) in enumerate(rows)
        ]
    )


SOME = people(
    [
        ("s1", "a", "I", "young", "dark"),
        ("s1", "a", "VI", "young", "dark"),
        ("s2", "b", "I", "young", "dark"),
        ("s2", "b", "VI", "young", "light"),
        ("g1", "c", "I", "young", "dark"),
        ("g1", "c", "I", "old", "dark"),
        (None, "d", "I", "old", "dark"),
        ("n1", "e", "I", "old", "dark"),
        ("n1", "e", "I", "old", "light"),
    ]
)


def test_a_set_belongs_to_the_cuts_in_which_it_varies() -> None:
    assert of_sets(SOME)
    assert set(varying(SOME, SKIN)["set_id"]) == {"s1", "s2"}
    assert set(varying(SOME, AGE)["set_id"]) == {"g1"}
    population = SOME.assign(set_id=None)
    assert not of_sets(population)
    assert len(varying(population, SKIN)) == len(SOME)


def test_images_of_no_set_and_sets_of_another_attribute_are_left_out_and_reported() -> None:
    kept, notes = whole_sets(SOME, [SKIN])
    assert kept["set_id"].unique().tolist() == ["s1", "s2"]
    assert notes == (
        "1 image of no set left out",
        "2 sets without variation in any of the cuts left out",
        "the sets that vary in skin also vary in hair: differences within them cannot be attributed to one of these "
        "alone",
    )
    both, _ = whole_sets(SOME, [SKIN, AGE])
    assert set(both["set_id"]) == {"s1", "s2", "g1"}
    with pytest.raises(Fp2Error, match=r"varies in skin.*The sets vary in: age, hair"):
        whole_sets(SOME.iloc[4:], [SKIN])


def test_sets_of_one_person_and_people_of_one_set_are_one_unit() -> None:
    table = people(
        [
            ("s1", "a", "I", "", ""),
            ("s1", "b", "VI", "", ""),  # no person was mapped: every picture is its own
            ("s2", "c", "I", "", ""),
            ("s3", "c", "VI", "", ""),  # one person in two scenes
            ("s4", "d", "I", "", ""),
            ("s5", "d", "I", "", ""),
            ("s5", "b", "I", "", ""),  # ties s4, s5 and s1 together
        ]
    )
    assert units(table).tolist() == ["s1", "s1", "s2", "s2", "s1", "s1", "s1"]
