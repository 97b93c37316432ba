"""FHIBE's words: written as in the release, read back as plain labels."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp2.data.readers.table import age_group
from fp2.errors import Fp2Error
from fp2.methods.fhibe_release import vocab

MULTI_CHOICE = sorted(name for name, words in vocab.VOCABULARIES.items() if words.multi)
SINGLE_CHOICE = sorted(set(vocab.VOCABULARIES) - set(MULTI_CHOICE))
LABELS = {name: st.sampled_from(words.labels) for name, words in vocab.VOCABULARIES.items()}


@pytest.mark.parametrize(
    ("column", "labels", "cell"),
    [
        ("scene", "Indoor: Home or hotel", "12. Indoor: Home or hotel"),
        ("natural_hair_type", "Wavy", "2. Wavy"),
        ("ancestry", ["Southern Africa", "Africa"], "['0. Africa', '4. Southern Africa']"),
        ("ancestry", ["Southern Asia", "Asia"], "['11. Asia', '15. Southern Asia']"),
        ("apparent_hair_color", ["Gray", "White"], "['10. White', '9. Gray']"),
        ("natural_skin_color", "IV", "2. [164, 131, 103]"),
        ("natural_skin_color", "[164, 131, 103]", "2. [164, 131, 103]"),
        ("pronoun", "She/her/hers", "['0. She/her/hers']"),
        ("hairstyle", "Free-text", "18. Free-text"),
        ("natural_left_eye_color", ["Free-text"], "['8. Free-text']"),
        ("facial_marks", ["Free-text"], "['10. Free-text']"),
        ("action_body_pose", "Free-text", "15. Free-text"),
        ("action_subject_object_interaction", ["Free-text"], "['32. Free-text']"),
        ("nationality", ["Zimbabwean", "American"], "['224. Zimbabwean', '3. American']"),
    ],
)
def test_cells_are_written_as_in_the_release(column, labels, cell):
    assert str(vocab.json_value(column, labels)) == cell


@given(st.sampled_from(MULTI_CHOICE).flatmap(lambda c: st.tuples(st.just(c), st.lists(LABELS[c], min_size=1))))
def test_multi_choice_cells_come_back_as_the_labels_that_went_in(case):
    column, labels = case
    cell = str(vocab.json_value(column, labels))
    assert {vocab.label(value) for value in vocab.parse_list(cell)} == set(labels)
    assert ast.literal_eval(cell) == sorted(set(ast.literal_eval(cell))) == vocab.json_value(column, labels)


@given(st.sampled_from(SINGLE_CHOICE).flatmap(lambda c: st.tuples(st.just(c), LABELS[c])))
def test_single_choice_cells_come_back_as_the_label_that_went_in(case):
    column, name = case
    cell = str(vocab.json_value(column, name))
    assert vocab.parse_list(cell) == [cell]
    assert vocab.label(cell) == name
    assert vocab.VOCABULARIES[column].values[vocab.split_value(cell)[0]] == name


@given(st.text())
def test_reading_never_fails_and_never_evaluates(text):
    assert all(isinstance(value, str) for value in vocab.parse_list(text))
    assert isinstance(vocab.label(text), str)


@pytest.mark.parametrize("cell", ["[__import__('os')]", "['a'", "[1, 2]", "['a'] + ['b']", "['a', None]"])
def test_what_is_no_list_of_strings_is_one_bare_value(cell):
    assert vocab.parse_list(cell) == [cell]


@pytest.mark.parametrize(
    ("rgb", "tone"), [("0. [102, 78, 65]", "VI"), ("3. [175, 148, 120]", "III"), ("5. [198, 180, 157]", "I")]
)
def test_the_skin_index_runs_from_dark_to_light_and_the_type_the_other_way(rgb, tone):
    assert vocab.fitzpatrick(rgb) == tone


def test_region_indices_are_the_first_of_their_blocks():
    index_of = vocab.VOCABULARIES["ancestry"].index_of
    assert {name: index_of[name] for name in vocab.REGIONS} == {
        "Africa": 0,
        "Americas": 6,
        "Asia": 11,
        "Europe": 17,
        "Oceania": 22,
    }
    assert len(vocab.REGION_OF) == 22
    for name, region in vocab.REGION_OF.items():
        later = [index_of[other] for other in vocab.REGIONS if index_of[other] > index_of[region]]
        assert index_of[region] < index_of[name] < min(later, default=27)


@given(st.integers(0, 120))
def test_age_groups_hold_the_ages_they_name(age):
    group = age_group(age)
    if age < 18:
        assert group == "0-17"
    elif age >= 60:
        assert group == "60+"
    else:
        low, high = map(int, group.split("-"))
        assert low <= age <= high


@pytest.mark.parametrize(
    ("column", "labels", "said"),
    [
        ("hairstile", "Long", "'hairstyle'"),
        ("hairstyle", "Lang", "'Long'"),
        ("hairstyle", ["Long", "Medium"], "exactly one"),
        ("hairstyle", [], "exactly one"),
    ],
)
def test_a_writers_mistakes_are_named(column, labels, said):
    with pytest.raises(Fp2Error, match=said):
        str(vocab.json_value(column, labels))
