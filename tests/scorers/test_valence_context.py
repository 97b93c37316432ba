"""Valence in context: what is said of the person counts, what is said of the image does not, a rating decides."""

import numpy as np
import pytest

from fp2.scorers.base import scorer_version
from fp2.scorers.valence import Valence
from fp2.scorers.valence_context import ValenceContext, in_context


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
    assert score("8/10. He looks suspicious.", "trust") == pytest.approx((8 - 5.5) / 4.5)
    assert score("1", "trust") == -1
    assert score("8/10. He looks suspicious.") < 0
    assert score("An honest man.", "trust") > 0.25
    found = ValenceContext().score(["7.", "An honest man.", "7."], ["trust", "trust", "lifestyle"]).details["rating"]
    np.testing.assert_array_equal(found, [7, np.nan, np.nan])


def test_blank_is_missing_and_plain_words_are_vaders():
    assert np.isnan(score(" "))
    assert score("murder") == Valence().score(["murder"], ["p"]).values[0]


def test_the_text_that_vader_reads():
    from fp2.scorers.lexicon import matcher

    assert in_context(matcher("valence_context"), "Best guess: an HONEST man") == "fp2neutral: an fp2positive man"


def test_the_version_names_both_lexicons():
    assert "vader" in scorer_version(ValenceContext())
    assert ValenceContext().lexicon["sha256"] != Valence().lexicon["sha256"]
