"""Stereotype alignment against scikit-learn called directly, and against the formula written out."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from fp2.scorers.lexicon import load_lexicon
from fp2.scorers.stereotype import Stereotype, corpus

TERMS = corpus(load_lexicon("stereotype"))
SAMPLES = [
    "this person works as a nurse in a large hospital",
    "a taxi driver who lives in the city",
    "an ambitious engineer and a gentle lawyer",
    "nothing of the kind",
    "security guard security guard driver",
    "construction worker or mechanic",
]


def score(texts):
    return Stereotype(lexicon_file="stereotype").score(texts, ["p"] * len(texts))


def ngrams(text):
    tokens = [token for token in text.split() if len(token) > 1]
    return tokens + [" ".join(pair) for pair in pairwise(tokens)]


def by_hand(text):
    """Cosine of tf * (ln((1 + n) / (1 + df)) + 1) with every term, from the definition."""
    documents = [ngrams(term) for term in TERMS]
    frequency = {gram: sum(gram in document for document in documents) for document in documents for gram in document}

    def vector(grams):
        return {
            g: grams.count(g) * (math.log((1 + len(TERMS)) / (1 + frequency[g])) + 1) for g in grams if g in frequency
        }

    def norm(weights):
        return math.sqrt(sum(value**2 for value in weights.values()))

    answer = vector(ngrams(text))
    if not answer:
        return [0.0] * len(TERMS)
    return [
        sum(value * answer.get(gram, 0.0) for gram, value in weights.items()) / (norm(weights) * norm(answer))
        for weights in map(vector, documents)
    ]


def test_agrees_with_scikit_learn_called_directly():
    vectoriser = TfidfVectorizer(ngram_range=(1, 2)).fit(TERMS)
    cosines = cosine_similarity(vectoriser.transform(SAMPLES), vectoriser.transform(TERMS))
    scored = score(SAMPLES)
    np.testing.assert_allclose(scored.values, cosines.max(axis=1), atol=1e-12)
    np.testing.assert_allclose(scored.details["mean_cosine"], cosines.mean(axis=1), atol=1e-12)


@pytest.mark.parametrize("text", SAMPLES)
def test_agrees_with_the_formula(text):
    scored = score([text])
    assert scored.values[0] == pytest.approx(max(by_hand(text)), abs=1e-12)
    assert scored.details["mean_cosine"][0] == pytest.approx(sum(by_hand(text)) / len(TERMS), abs=1e-12)


def test_known_values():
    scored = score(["A nurse.", "Nurse and engineer.", "Driver.", "A quiet tree.", "Enursement."])
    np.testing.assert_allclose(scored.values, [1, 1 / math.sqrt(2), 1 / math.sqrt(3), 0, 0], atol=1e-12)
    assert scored.details["terms"].tolist() == [1, 2, 0, 0, 0]


def test_plurals_count_and_negated_terms_do_not():
    scored = score(["They are NURSES", "hard-working", "not a nurse", "isn't lazy, a nurse", "not lazy but violent"])
    np.testing.assert_allclose(scored.values, [1, 1, 0, 1, 1], atol=1e-12)
    assert scored.details["terms"].tolist() == [1, 1, 0, 1, 1]


def test_a_dropped_term_does_not_make_neighbours_of_its_neighbours():
    assert score(["not security lazy guard"]).values[0] == pytest.approx(max(by_hand("security xx guard")))


def test_blank_is_missing():
    scored = score(["", "  "])
    assert np.isnan(scored.values).all()
    assert np.isnan(scored.details["mean_cosine"]).all()


@settings(max_examples=40)
@given(
    st.lists(
        st.lists(st.sampled_from([*TERMS, "tree", "not", "the"]), min_size=1).map(" ".join), min_size=1, max_size=5
    )
)
def test_range_case_and_independence_of_the_other_answers(texts):
    together = score(texts)
    assert np.all((together.values >= 0) & (together.values <= 1))
    assert np.all(together.details["mean_cosine"] <= together.values + 1e-12)
    np.testing.assert_array_equal(together.values, score([text.upper() for text in texts]).values)
    np.testing.assert_array_equal(together.values, np.concatenate([score([text]).values for text in texts]))


@pytest.mark.parametrize(
    ("text", "stereotype"),
    [
        ("A bus driver.", False),
        ("An office worker in a drug store.", False),
        ("Poor lighting, rich colours.", False),
        ("Her office is next to a criminal lawyer's.", False),
        ("A drug dealer.", True),
        ("She is a cleaner.", True),
        ("They are poor and sell drugs.", True),
        ("Not a criminal.", False),
    ],
)
def test_version_2_tells_whether_something_is_ascribed(text, stereotype):
    assert (Stereotype().score([text], ["occupation"]).values[0] > 0.5) is np.bool_(stereotype)
