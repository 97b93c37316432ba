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
        ("A low-income, run-down but upscale area.", -1 / 3),
        ("Not wealthy; unemployed.", -1.0),
        ("A surgeon.", 1.0),
        ("A dishwasher.", -1.0),
        ("Not wealthy.", -1.0),
        ("Not poor.", 1.0),
        ("Neither rich nor poor.", 0.0),
        ("A quiet suburban street.", 0.0),
        ("An ordinary suburb of wealthy people.", 1 / 2),
    ],
)
def test_economic(text, value):
    assert one(Economic(), text) == pytest.approx(value, abs=1e-15)


@pytest.mark.parametrize(
    "text",
    [
        "A person.",
        "A teacher.",
        "Poor lighting.",
        "Enrichment.",
        "The light is poor.",
        'The poster reads "Luxury flats".',
    ],
)
def test_economic_without_a_term_is_missing(text):
    assert np.isnan(one(Economic(), text))


def test_details_hold_the_counts():
    scored = Economic().score(["rich, rich, poor", "a tree", ""], ["p"] * 3)
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
    counts = (economic.details[f"{which}_status"] for which in ("high", "low", "middle"))
    for value, up, down, middle in zip(economic.values, *counts, strict=True):
        total = up + down + middle
        assert np.isnan(value) if total == 0 else value == (up - down) / total
    confidence = Confidence().score(texts, probes).values
    assert np.all(np.isnan(confidence) | ((confidence >= 0) & (confidence <= 1)))


def test_a_lexicon_without_the_needed_lists_is_refused():
    with pytest.raises(Fp2Error, match="Needed: high_status, low_status"):
        Economic(lexicon_file="confidence")
