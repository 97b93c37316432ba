"""Valence is VADER's compound, exactly, and nothing stands in for it."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

import fp2.scorers.valence as module
from fp2.errors import Fp2Error
from fp2.scorers.registry import build_scorers
from fp2.scorers.valence import Valence

VADER = SentimentIntensityAnalyzer()
SAMPLES = ["A kind, warm person!", "A KIND, WARM PERSON!!!", "A violent criminal.", "A person.", "not good", "☺ nice"]


def score(texts):
    return Valence().score(texts, ["p"] * len(texts)).values


def test_equals_vader():
    np.testing.assert_array_equal(score(SAMPLES), [VADER.polarity_scores(text)["compound"] for text in SAMPLES])


_IN_CONTEXT = [
    "but", "BUT", "no", "not", "never", "so", "this", "without", "doubt", "least", "at", "very", "kind", "of", "the",
    "bomb", "good", "good!", "great", "GOOD", "bad", "isn't", "x", "\U0001f600",
]  # fmt: skip


@settings(max_examples=300)
@given(st.lists(st.sampled_from(_IN_CONTEXT), max_size=14))
def test_equals_vader_where_words_stand_in_context(words):
    text = " ".join(words)
    if text:
        assert score([text])[0] == VADER.polarity_scores(text)["compound"]


def test_hand_computed():
    """One word of valence v gives v / sqrt(v^2 + 15); VADER lists "good" with 1.9; "not" before it: times -0.74."""
    assert score(["good"])[0] == round(1.9 / (1.9**2 + 15) ** 0.5, 4)
    denied = 1.9 * -0.74
    assert score(["not good"])[0] == round(denied / (denied**2 + 15) ** 0.5, 4)


def test_no_word_of_the_list_is_zero_and_blank_is_missing():
    values = score(["A person.", "", " \n\t"])
    assert values[0] == 0.0
    assert np.isnan(values[1:]).all()


@settings(max_examples=50)
@given(st.lists(st.one_of(st.text(max_size=30), st.sampled_from(SAMPLES)), max_size=6))
def test_any_text_is_in_range_or_missing_when_blank(texts):
    for text, value in zip(texts, score(texts), strict=True):
        assert np.isnan(value) if not text.strip() else -1 <= value <= 1


def test_it_says_which_vader(monkeypatch):
    info = Valence().lexicon
    assert info["name"] == "vader"
    assert info["version"][0].isdigit()
    assert len(info["sha256"]) == 64


def test_without_the_package_a_run_is_refused_when_its_scorers_are_built(monkeypatch):
    monkeypatch.setattr(module.util, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "vaderSentiment", None)
    with pytest.raises(Fp2Error, match="which the scorer valence needs"):
        build_scorers({"valence": {}})
