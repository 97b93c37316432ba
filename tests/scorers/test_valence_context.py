"""Valence in context: what is said of the person counts, what is said of the image does not, a rating decides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from fp2.errors import Fp2Error
from fp2.scorers.fitted import WORD, features, load_weights
from fp2.scorers.valence_context import ValenceContext


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
    assert ValenceContext.label_scale.read(np.array([value])) == sign


def test_a_rating_decides_where_one_is_asked_for():
    assert score("8/10", "trust") > 0.3
    assert score("2/10", "trust") < -0.3
    assert abs(score("5/10", "trust")) < 0.3
    found = ValenceContext().score(["7.", "An honest man.", "7."], ["trust", "trust", "lifestyle"]).details["rating"]
    np.testing.assert_array_equal(found, [7, np.nan, np.nan])


def test_blank_is_missing():
    assert np.isnan(score(" "))


def test_the_probabilities_are_those_of_scikit_learn():
    """Softmax of the linear predictor, as LogisticRegression.predict_proba of the same coefficients."""
    weights = load_weights("valence_context")
    texts = ["An honest, kind man.", "Not honest.", "A school dropout, but happy."]
    names = sorted(weights.features)
    matrix = np.array([[features(text, "trust").get(name, 0.0) for name in names] for text in texts])
    model = LogisticRegression()
    model.classes_, model.intercept_ = np.array(weights.classes), weights.intercept
    model.coef_ = np.array([weights.features[name] for name in names]).T
    found = [weights.probabilities(features(text, "trust")) for text in texts]
    np.testing.assert_allclose(found, model.predict_proba(matrix), atol=1e-12)


def test_features_of_an_answer():
    found = features("Not wealthy. He is a surgeon, dressed like a judge.", "trust")
    assert found["-affluence"] == found["trust-affluence"] == 1
    assert found["has high"] == found["names high"] == 1
    assert found["polarity"] < 0
    assert found["w a surgeon"] == WORD


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            "label: economic\nclasses: [-1, 0, 1]\nintercept: [0, 0, 0]\nweights: |\n  w a 0 0 0\n",
            "for the label 'economic'",
        ),
        ("label: valence\nclasses: [-1, 0, 1]\nintercept: [0, 0, 0]\nweights: |\n  w a 0 0\n", "not a file of weights"),
        ("patterns: []\n", "needs|lists|missing"),
    ],
)
def test_a_file_that_is_none_is_one_line(tmp_path, content, says):
    path = tmp_path / "own.yaml"
    path.write_text(f"name: own\nversion: 1\n{content}", encoding="utf-8")
    with pytest.raises(Fp2Error, match=says):
        ValenceContext(lexicon_file=str(path))


@given(st.text(max_size=80))
def test_any_text_is_on_the_scale(text):
    assert not abs(score(text)) > 1
