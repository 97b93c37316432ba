"""Cuts: how they are written, what they refuse, and who is in which group."""

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fp2.config import choices
from fp2.cuts import (
    Cut,
    expand_overrides,
    memberships,
    parse_cut,
    resolve_cuts,
    with_merged_values,
    with_present_values,
)
from fp2.data.group_sizes import MEMBERSHIP, SMALL_GROUPS, cut_notes, small_groups
from fp2.errors import Fp2Error
from fp2.notes import TEXT, read_notes

KNOWN = ["region", "pronoun", "age", "skin_tone", "size_x_shape"]
PEOPLE = pd.DataFrame(
    {
        "image_id": ["i1", "i2", "i3", "i4"],
        "subject_id": ["s1", "s1", "s2", "s3"],
        "attr_region": [["Asia", "Europe"], ["Asia"], [], ["Africa"]],
        "attr_pronoun": [["She/her/hers", "They/them/their"], ["She/her/hers"], ["He/him/his"], []],
        "attr_age": [["18-29"], ["30-39"], ["60+"], ["60+"]],
    }
)


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("region", ("region",)),
        ("region_x_pronoun", ("region", "pronoun")),
        ("skin_tone_x_age_x_region", ("skin_tone", "age", "region")),
        ("size_x_shape", ("size_x_shape",)),
        ("age_x_size_x_shape", ("age", "size_x_shape")),
    ],
)
def test_names_are_split_into_known_attributes(text, by):
    assert parse_cut(text, KNOWN) == Cut(text, by)


@given(st.lists(st.sampled_from(KNOWN), min_size=1, unique=True))
def test_a_name_made_of_attributes_comes_back_as_them(names):
    assert parse_cut("_x_".join(names), KNOWN).by == tuple(names)


def test_without_known_attributes_every_joint_splits():
    assert parse_cut("a_x_b_c").by == ("a", "b_c")


@pytest.mark.parametrize("text", ["region_x_prnoun", "prnoun"])
def test_an_unknown_attribute_is_named_with_the_nearest(text):
    with pytest.raises(Fp2Error, match=r"no attribute 'prnoun' \(cut .*Did you mean 'pronoun'"):
        parse_cut(text, KNOWN)


@pytest.mark.parametrize("text", ["", "_x_", "region_x_", "region_x_region"])
def test_empty_and_repeated_parts_are_refused(text):
    with pytest.raises(Fp2Error, match=r"empty part|twice"):
        parse_cut(text)


def test_a_person_counts_in_each_of_their_groups():
    table = memberships(PEOPLE, Cut("region", ("region",)))
    assert list(table.itertuples(index=False, name=None)) == [
        ("i1", "s1", "Asia"),
        ("i1", "s1", "Europe"),
        ("i2", "s1", "Asia"),
        ("i4", "s3", "Africa"),
    ]


def test_an_intersection_is_the_cartesian_product_and_both_values_are_needed():
    cut = Cut("rp", ("region", "pronoun"))
    assert memberships(PEOPLE, cut)["group"].tolist() == [
        "Asia x She/her/hers",
        "Asia x They/them/their",
        "Europe x She/her/hers",
        "Europe x They/them/their",
        "Asia x She/her/hers",
    ]


CELLS = st.lists(st.sampled_from("abc"), max_size=3)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_every_combination_once_and_nobody_else(cells):
    people = pd.DataFrame(
        {
            "image_id": [f"i{n}" for n in range(len(cells))],
            "subject_id": ["s"] * len(cells),
            "attr_one": [one for one, _ in cells],
            "attr_two": [two for _, two in cells],
        }
    )
    cut = Cut("c", ("one", "two"))
    table = memberships(people, cut)
    expected = [(f"i{n}", f"{a} x {b}") for n, (one, two) in enumerate(cells) for a in set(one) for b in set(two)]
    assert sorted(zip(table["image_id"], table["group"], strict=True)) == sorted(expected)
    assert len(people) - table["image_id"].nunique() == sum(not one or not two for one, two in cells)


def test_by_is_one_cut_each_is_several():
    assert resolve_cuts({"name": None, "by": ["pronoun", "age"], "each": None}) == (
        Cut("pronoun_x_age", ("pronoun", "age")),
    )
    assert resolve_cuts({"name": "mine", "by": "age"}) == (Cut("mine", ("age",)),)
    cuts = resolve_cuts({"name": "all", "each": ["region", "age_x_region", ["pronoun", "age"]]}, KNOWN)
    assert [cut.by for cut in cuts] == [("region",), ("age", "region"), ("pronoun", "age")]
    assert [cut.name for cut in cuts] == ["region", "age_x_region", "pronoun_x_age"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"by": ["age"], "each": ["region"]}, r"both by and each.*cut\.by=\[a,b\]"),
        ({"by": None, "each": None}, "neither"),
        ({"each": ["age", "age"]}, "twice"),
        ({"by": ["age", "age"]}, "twice"),
        ({"by": ["aeg"]}, "Did you mean 'age'"),
        ({"each": ["region", "aeg"]}, "Did you mean 'age'"),
        ({"each": ["region"], "groups": {"age": ["60+"]}}, "no cut uses"),
        ({"each": ["region"], "groups": {"region": []}}, "is selected"),
        ({"by": ["region"], "groups": {"regoin": ["Asia"]}}, "no cut uses 'regoin'.*Did you mean 'region'"),
        ({"by": ["region"], "groups": ["Asia"]}, "not a mapping"),
        ({"by": ["region"], "groups": {"region": {"East": ["Asia"], "West": ["Europe", "Asia"]}}}, "'Asia' is listed"),
        ({"by": ["region"], "groups": {"region": ["Asia", "Asia"]}}, "'Asia' is listed twice"),
        ({"by": ["region"], "groups": {"region": ["Asia", {"East": ["Asia"]}]}}, "'Asia' is listed twice"),
        ({"by": ["region"], "groups": {"region": {"East": []}}}, "the group 'East' lists no value"),
        ({"by": ["region"], "groups": {"region": {"East": {"a": ["b"]}}}}, "the group 'East' lists no value"),
        ({"by": ["region"], "groups": {"region": {" ": ["Asia"]}}}, "has no name"),
        ({"by": ["region", "age"], "groups": {"East": ["Asia"]}}, "no cut uses 'East'"),
    ],
)
def test_specs_that_are_refused(spec, said):
    with pytest.raises(Fp2Error, match=said):
        resolve_cuts(spec, KNOWN)


def test_groups_filter_the_cuts_that_use_them():
    spec = {"each": ["region", "age", "age_x_region"], "groups": {"region": ["Asia", "Africa"]}}
    region, age, both = resolve_cuts(spec, KNOWN)
    assert memberships(PEOPLE, region)["group"].tolist() == ["Asia", "Asia", "Africa"]
    assert len(memberships(PEOPLE, age)) == 4
    assert memberships(PEOPLE, both)["group"].tolist() == ["18-29 x Asia", "30-39 x Asia", "60+ x Africa"]


def test_values_are_merged_and_renamed_and_the_others_stay():
    (cut,) = resolve_cuts({"by": ["region"], "groups": {"region": {"Eurasia": ["Asia", "Europe"]}}}, KNOWN)
    # s1 has Asia and Europe in one image: once in Eurasia; Africa is not listed and stays a group
    assert list(memberships(PEOPLE, cut).itertuples(index=False, name=None)) == [
        ("i1", "s1", "Eurasia"),
        ("i2", "s1", "Eurasia"),
        ("i4", "s3", "Africa"),
    ]
    assert resolve_cuts({"by": ["region"], "groups": {"Eurasia": ["Asia", "Europe"]}}, KNOWN) == (cut,)
    assert cut_notes(PEOPLE.assign(set_id=None), [cut]) == [
        "Cut region: 1 of 3 subjects have no value and are in no group."
    ]


def test_a_list_selects_and_may_merge_what_it_selects():
    spec = {"by": ["region", "age"], "groups": {"region": ["Africa", {"East": ["Asia"]}], "age": {"old": ["60+"]}}}
    (cut,) = resolve_cuts(spec, KNOWN)
    assert memberships(PEOPLE, cut)["group"].tolist() == ["East x 18-29", "East x 30-39", "Africa x old"]


@given(st.lists(CELLS, min_size=1, max_size=8).filter(lambda cells: {"a", "b"} <= {v for c in cells for v in c}))
def test_merging_is_the_same_as_renaming_in_the_data(cells):
    people = pd.DataFrame({"image_id": range(len(cells)), "subject_id": "s", "attr_one": cells})
    renamed = people.assign(attr_one=[[{"a": "x", "b": "x"}.get(v, v) for v in cell] for cell in cells])
    (cut,) = resolve_cuts({"by": ["one"], "groups": {"x": ["a", "b"]}})
    expected = memberships(renamed, Cut("one", ("one",)))
    pd.testing.assert_frame_equal(memberships(people, cut), expected)
    pd.testing.assert_frame_equal(memberships(with_merged_values(people, [cut]), Cut("one", ("one",))), expected)


def test_a_merged_value_that_nobody_has_is_named_with_the_nearest_unless_it_may_be_absent():
    (cut,) = resolve_cuts({"by": ["region"], "groups": {"region": {"East": ["Asai", "Africa"]}}})
    with pytest.raises(Fp2Error, match=r"no subject has region 'Asai'.*Did you mean 'Asia'"):
        memberships(PEOPLE, cut)
    assert memberships(PEOPLE, with_present_values(PEOPLE, cut))["group"].tolist() == ["Asia", "Europe", "Asia", "East"]


def test_a_group_that_nobody_is_in_is_named_with_the_nearest():
    (cut,) = resolve_cuts({"by": ["region"], "groups": {"region": ["Asai"]}})
    with pytest.raises(Fp2Error, match=r"no subject has region 'Asai'.*Did you mean 'Asia'"):
        memberships(PEOPLE, cut)


def test_an_intersection_on_the_command_line_gets_a_node():
    overrides = ["model=m", "cut=region,age_x_pronoun"]
    assert expand_overrides(overrides) == (
        overrides,
        {"age_x_pronoun": {"name": "age_x_pronoun", "by": ["age", "pronoun"], "each": None, "groups": None}},
    )
    (cut,) = resolve_cuts(expand_overrides(overrides)[1]["age_x_pronoun"], KNOWN)
    assert cut == Cut("age_x_pronoun", ("age", "pronoun"))


def test_by_or_each_on_the_command_line_replaces_what_the_yaml_says():
    assert expand_overrides(["cut.by=[age]"])[0] == ["cut.by=[age]", "cut.each=null", "cut.name=null"]
    assert expand_overrides(["cut.each=[age]", "cut.name=x"])[0] == ["cut.each=[age]", "cut.name=x", "cut.by=null"]
    assert expand_overrides(["seed=1", "-m"]) == (["seed=1", "-m"], {})


@pytest.mark.parametrize("overrides", [["cut=[region,age]"], ["cut.by=[age]", "cut.each=[region]"], ["cut=age_x_"]])
def test_command_lines_that_are_refused(overrides):
    with pytest.raises(Fp2Error, match=r"cut\.by=\[a,b\]|attribute_x_attribute"):
        expand_overrides(overrides)


SEVERAL = {
    "all": ["region", "pronoun", "age", "skin_tone"],
    "faces": ["gender", "race", "age"],
    "fhibe_clip": ["pronoun", "region"],
    "gras": ["gender", "race", "age", "skin_tone"],
    "pairs": ["pronoun", "skin_tone", "age"],
    "gender_age": ["gender", "age"],
    "gender_age_tone": ["gender", "age", "skin_tone"],
    "race_and_gender": ["race", "gender"],
    "visogender": ["gender_oo", "gender_op", "gender_op_same", "gender_op_different"],
}

NAMED = {"jurisdiction": "location_un_region", "first_region": "first_region"}
"""Cuts whose name is not that of an attribute of every data set."""


@pytest.mark.parametrize("path", choices("cut").values(), ids=lambda path: path.stem)
def test_the_cuts_that_ship(path):
    spec = yaml.safe_load(path.read_text())
    assert set(spec) == {"name", "by", "each", "groups"}
    assert spec["name"] == path.stem
    names = "region subregion pronoun age skin_tone gender race group category version"
    cuts = resolve_cuts(spec, [*names.split(), *NAMED.values(), *SEVERAL["visogender"]])
    expected = SEVERAL.get(path.stem, [path.stem])
    assert [(cut.name, cut.by) for cut in cuts] == [(name, (NAMED.get(name, name),)) for name in expected]


def _people(**attributes: list[list[str]]) -> pd.DataFrame:
    from fp2.data.base import people_table

    n = len(next(iter(attributes.values())))
    return people_table(
        {
            "image_id": [f"i{k}" for k in range(n)],
            "subject_id": [f"s{k}" for k in range(n)],
            "image_path": [f"/i{k}.png" for k in range(n)],
            "is_primary": [True] * n,
            "n_people": [1] * n,
            **{f"attr_{name}": values for name, values in attributes.items()},
        }
    )


def test_missing_values_and_several_groups_are_counted_beside_every_cut() -> None:
    people = _people(gender=[["f"], ["m"], [], ["f", "m"], []], region=[["N"], ["N"], ["S"], ["S"], ["N"]])
    gender, both, region = (
        Cut("gender", ("gender",)),
        Cut("gender_x_region", ("gender", "region")),
        Cut("r", ("region",)),
    )
    first, second = cut_notes(people, [gender, both, region])
    assert "2 of 5 subjects have no value" in first
    assert "1 of 5 subjects are in several groups" in first
    assert second.startswith("Cut gender_x_region: 2 of 5")
    assert (first.code, first.parameters["without_value"], first.parameters["in_several"]) == (MEMBERSHIP.code, 2, 1)
    (other,) = read_notes({"limitations": ["Cut the cake: now"]})
    assert other.code == TEXT
    selected = Cut("gender", ("gender",), (("gender", ("f",)),))
    assert cut_notes(people, [selected]) == [first]  # a value that is not selected is not missing


def test_groups_that_are_too_small_are_listed_with_the_number_of_subjects_that_would_do() -> None:
    people = _people(region=[["N"]] * 6 + [["S"]] * 3 + [["W"]], empty=[[]] * 10)
    cut = Cut("region", ("region",))
    assert small_groups(people, [cut], 3) == []
    (line,) = small_groups(people, [cut], 4)
    assert "N 6, S 3, W 1" in line
    assert "about 14 subjects" in line  # 3 of 10 are in the second group: 4 need 13.3
    assert (line.code, line.parameters["needed"]) == (SMALL_GROUPS.code, 14)
    with pytest.raises(Fp2Error, match="none of the 10 subjects has a value"):
        small_groups(people, [Cut("empty", ("empty",))], 2)


def test_an_attribute_that_cannot_be_a_cut_is_not_suggested() -> None:
    with pytest.raises(Fp2Error, match="no attribute 'location_countr'") as caught:
        parse_cut("location_countr", ["region", "location_country", "user_hour_captured"])
    assert "location_country" not in str(caught.value)
    assert "region" in str(caught.value)


@pytest.mark.parametrize(
    ("word", "read"),
    [
        ("cut.by=age", "cut.by=[age]"),
        ("cut.each=[Größe,age]", "cut.each=['Größe',age]"),
        ("cut.each=[a b, c]", "cut.each=['a b',c]"),
        ("cut=Größe_x_age", "cut='Größe_x_age'"),
        ("cut.by=null", "cut.by=null"),
        ("cut.each=['a b']", "cut.each=['a b']"),
    ],
)
def test_names_that_hydra_cannot_read_are_quoted(word: str, read: str) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    (first, *_), nodes = expand_overrides([word])
    assert first == read
    OverridesParser.create().parse_override(first)
    assert all(name == "Größe_x_age" for name in nodes)
