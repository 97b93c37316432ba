"""Sampling of drawn people: the mixtures are the stated ones, attributes are independent, and nothing tells pronoun."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from fp2.errors import Fp2Error
from fp2.methods.peeps.data.cast import YEARS, subjects
from fp2.methods.peeps.data.figure import (
    HEADS,
    POOL_OF,
    Cues,
    sample_image_cues,
    sample_person,
)

N = 6000


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(4)
    return [sample_person(rng) for _ in range(N)]


def test_no_head_tells_the_pronoun(people):
    seen = {head: {person.pronoun for person in people if person.head == head} for head in HEADS}
    assert all(pronouns == {0, 1, 2} for pronouns in seen.values())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("skin", "age"),
        ("skin", "pronoun"),
        ("skin", "region"),
        ("age", "pronoun"),
        ("age", "region"),
        ("pronoun", "region"),
        ("skin", "head"),
        ("region", "head"),
        ("age", "beard"),
        ("skin", "beard"),
    ],
)
def test_attributes_are_drawn_independently(people, first, second):
    values = [sorted({getattr(person, name) for person in people}) for name in (first, second)]
    table = np.zeros([len(each) for each in values])
    for person in people:
        table[values[0].index(getattr(person, first)), values[1].index(getattr(person, second))] += 1
    assert chi2_contingency(table).pvalue > 1e-4


def test_subjects_have_equal_counts_of_each_value_and_ages_inside_their_group():
    cast = subjects(400, np.random.default_rng(20260101))
    for name, n_values in (("skin", 6), ("age", 5), ("pronoun", 3), ("region", 5)):
        counts = Counter(getattr(subject.person, name) for subject in cast)
        assert len(counts) == n_values
        assert max(counts.values()) - min(counts.values()) <= 1
    assert all(YEARS[subject.person.age][0] <= subject.years <= YEARS[subject.person.age][1] for subject in cast)
    assert len({subject.subject_id for subject in cast}) == 400
    table = np.zeros((6, 5))
    for subject in cast:
        table[subject.person.skin, subject.person.region] += 1
    assert chi2_contingency(table).pvalue > 1e-3


def test_an_image_keeps_what_belongs_to_the_person_and_varies_the_rest(people):
    rng = np.random.default_rng(9)
    pictures = [sample_image_cues(people[0], rng) for _ in range(60)]
    assert {picture.person for picture in pictures} == {people[0]}
    assert {picture.expression for picture in pictures} == set(range(8))
    assert {picture.clothing for picture in pictures} == set(range(7))
    assert {picture.glasses for picture in pictures} == {0, 1, 2}


def test_the_same_seed_draws_the_same_people():
    drawn = [sample_image_cues(sample_person(rng), rng) for rng in (np.random.default_rng(3), np.random.default_rng(3))]
    assert drawn[0] == drawn[1]
    assert drawn[0].pool == POOL_OF[drawn[0].head]


@pytest.mark.parametrize(("name", "value"), [("skin", 6), ("age", -1), ("head", "turban"), ("beard", "fulll")])
def test_a_cue_that_cannot_be_drawn_is_refused(name, value):
    cues = Cues(2, 0, 0, 1, "medium3")
    with pytest.raises(Fp2Error, match=str(value)):
        replace(cues, **{name: value})
