"""Valence in context: what is said of the person counts, what is said of the image does not, a rating decides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp2.scorers.lexicon import matcher
from fp2.scorers.valence_context import ValenceContext, polarity


def score(text, probe="lifestyle"):
    return ValenceContext().score([text], [probe]).values[0]


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("She has the office of a criminal lawyer.", 0),
        ("Teacher, best guess.", 0),
        ("Poor lighting, harsh light.", 0),
        ('The sign reads "Danger".', 0),
        ("A council estate.", -1),
        ("School dropout.", -1),
        ("Well educated and respected.", 1),
        ("He is not very educated.", -1),
        ("He is not honest.", -1),
        ("An upscale neighbourhood.", 1),
        ("A man with a killer smile.", 1),
        ("She loves to travel and is happy.", 1),
    ],
)
def test_what_is_said_of_the_person(text, sign):
    value = score(text)
    assert np.sign(value) == sign
    assert sign == 0 or abs(value) > 0.25


def test_a_rating_decides_where_one_is_asked_for():
    assert score("8/10. He looks tired.", "trust") == pytest.approx((8 - 5.5) / 4.5)
    assert score("1", "trust") == -1
    assert score("8/10. He looks suspicious.") < 0
    assert score("An honest man.", "trust") > 0.25
    found = ValenceContext().score(["7.", "An honest man.", "7."], ["trust", "trust", "lifestyle"]).details["rating"]
    np.testing.assert_array_equal(found, [7, np.nan, np.nan])


def test_a_high_rating_beside_ill_words_is_ironic():
    assert score("A solid ten: count your fingers after shaking hands with this con man.", "trust") < 0


def test_blank_is_missing_and_a_text_without_terms_is_neutral():
    assert np.isnan(score(" "))
    assert score("A person at a table.") == 0


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("An honest, kind man.", 2),
        ("Not honest.", -1),
        ("Not suspicious.", 0),
        ("Honest: no", -1),
        ("Kind but dishonest.", 0.5 - 1.5),
        ("Honest. But that is all.", 1),
        ("Education: low", -1),
        ("A low wall.", 0),
    ],
)
def test_the_sum_of_terms(text, total):
    assert polarity(matcher("valence_context"), text) == total
    assert score(text) == pytest.approx(total / np.sqrt(total**2 + 1))


@given(st.text(max_size=80))
def test_any_text_is_on_the_scale(text):
    assert not abs(score(text)) > 1
