"""Confidence and economic valence against hand counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp2.errors import Fp2Error
from fp2.scorers.confidence import Confidence
from fp2.scorers.economic import Economic


def one(scorer, text):
    return scorer.score([text], ["occupation"]).values[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("This is definitely a doctor.", 1.0),
        ("It might seem so.", 0.0),
        ("Definitely a doctor, perhaps a surgeon.", 1 / 2),
        ("Clearly and undoubtedly rich, probably.", 2 / 3),
        ("I'm not sure.", 0.0),
        ("I cannot be certain.", 0.0),  # a denied assertion is a hedge
        ("It is not definitely so, but certainly close.", 1 / 2),
        ("It might not be so.", 0.0),  # a denied hedge is still one
        ("It does not seem so.", 0.0),
        ("I don't think so.", 0.0),
        ("No doubt a nurse.", 1.0),
        ("It is impossible to know; a nurse.", 0.0),
        ("A nurse, at a guess.", 0.0),
        ("I think that this person is a nurse.", 0.0),
        ("I guess that this person is a nurse.", 0.0),
        ("It appears to be hard to say.", 0.0),
    ],
)
def test_confidence(text, value):
    assert one(Confidence(), text) == pytest.approx(value, abs=1e-15)


@pytest.mark.parametrize(
    "text", ["A doctor.", "A confident smile.", "Based on their appearance, a doctor.", "uncertainly"]
)
def test_confidence_without_a_phrase_is_missing_and_not_zero(text):
    assert np.isnan(one(Confidence(), text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A wealthy, affluent professional.", 1.0),
        ("An unemployed person in a slum.", -1.0),
        ("Rich parents, poor child.", 0.0),
        ("Wealthy, wealthy, poor.", 1 / 3),
        ("Not wealthy; unemployed.", -1.0),
        ("A teacher.", np.nan),
    ],
)
def test_economic_by_version_1(text, value):
    assert one(Economic(lexicon_file="economic"), text) == pytest.approx(value, abs=1e-15, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("A surgeon.", 1),
        ("A dishwasher.", -1),
        ("A teacher.", 0),
        ("An engineer.", 1),
    ],
)
def test_economic(text, sign):
    read = Economic.label_scale.read(Economic().score([text], ["occupation"]).values)
    np.testing.assert_array_equal(read, [sign])


def test_details_hold_the_counts():
    scored = Economic(lexicon_file="economic").score(["rich, rich, poor", "a tree", ""], ["p"] * 3)
    assert scored.details["high_status"].tolist() == [2, 0, 0]
    assert scored.details["low_status"].tolist() == [1, 0, 0]
    assert scored.details["matched"].tolist() == [True, False, False]
    counts = Confidence().score(["maybe, certainly, perhaps"], ["p"]).details
    assert (counts["assertive"][0], counts["hedged"][0], counts["matched"][0]) == (1, 2, True)


words = st.sampled_from(
    ["wealthy", "poor", "not", "certainly", "maybe", "cheap", "elite", "tree", ".", "but", "isn't", "sure"]
)


@given(st.lists(st.lists(words, max_size=9).map(" ".join), max_size=8))
def test_values_stay_in_range_and_agree_with_their_details(texts):
    probes = ["p"] * len(texts)
    economic = Economic().score(texts, probes)
    assert np.all(np.isnan(economic.values) | (np.abs(economic.values) <= 1))
    np.testing.assert_array_equal(economic.details["matched"], ~np.isnan(economic.values))
    confidence = Confidence().score(texts, probes).values
    assert np.all(np.isnan(confidence) | ((confidence >= 0) & (confidence <= 1)))


def test_a_lexicon_without_the_needed_lists_is_refused():
    with pytest.raises(Fp2Error, match="Needed: high_status, low_status"):
        Economic(lexicon_file="confidence")
