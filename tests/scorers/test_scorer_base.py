"""What all scorers share: each distinct text once, settings checked, bins, versions."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fp2.errors import Fp2Error
from fp2.plugins import SCORERS, installed, load
from fp2.scorers.base import Scored, Scorer, once_per_text, scorer_version
from fp2.scorers.confidence import Confidence
from fp2.scorers.economic import Economic
from fp2.scorers.refusal import Refusal
from fp2.scorers.registry import build_scorer
from fp2.scorers.stereotype import Stereotype
from fp2.scorers.trust_rating import TrustRating
from fp2.scorers.valence import Valence

ALL = [Valence(), Stereotype(), Confidence(), Refusal(), Economic(), TrustRating()]
TEXTS = ["A wealthy nurse, definitely.", "perhaps 7/10", "I cannot say.", "", " ", "a kind but poor person", "not rich"]


def lengths(texts):
    return Scored(
        np.array([len(text) for text in texts], float), {"first": np.array([t[0] for t in texts], dtype=np.str_)}
    )


@given(st.lists(st.sampled_from(["a", "bb", "ccc", "", " "]), max_size=20))
def test_scoring_once_equals_scoring_each(texts):
    calls = []

    def spy(batch):
        calls.extend(batch)
        return lengths(batch)

    scored = once_per_text(texts, spy)
    expected = [float(len(text)) if text.strip() else np.nan for text in texts]
    np.testing.assert_array_equal(scored.values, expected)
    assert scored.details["first"].tolist() == [text.strip()[:1] for text in texts]
    assert sorted(calls) == sorted({text for text in texts if text.strip()})


@pytest.mark.parametrize("scorer", ALL, ids=lambda scorer: scorer.name)
@settings(max_examples=15)
@given(texts=st.lists(st.sampled_from(TEXTS), max_size=12))
def test_copies_and_company_do_not_change_a_score(scorer, texts):
    probes = ["trust"] * len(texts)
    together = scorer.score(texts, probes)
    alone = [scorer.score([text], ["trust"]) for text in texts]
    np.testing.assert_array_equal(together.values, [one.values[0] for one in alone])
    assert together.values.dtype == np.float64
    for name, column in together.details.items():
        assert column.shape == (len(texts),)
        np.testing.assert_array_equal(column, [one.details[name][0] for one in alone])


@pytest.mark.parametrize("scorer", ALL, ids=lambda scorer: scorer.name)
def test_blank_answers(scorer):
    values = scorer.score(["", " \n"], ["trust", "trust"]).values
    assert np.all(values == 0) if scorer.name == "refusal" else np.isnan(values).all()


@pytest.mark.parametrize("scorer", ALL, ids=lambda scorer: scorer.name)
def test_every_scorer_is_complete(scorer):
    assert isinstance(scorer, Scorer)
    low, high = scorer.value_range
    edges = np.array(scorer.bins)
    assert np.all(np.diff(edges) > 0)
    assert edges[0] <= low < high <= edges[-1]
    np.testing.assert_allclose(np.diff(edges), edges[1] - edges[0])
    assert 0 < scorer.smallest_effect < high - low
    assert scorer.yes_no is (scorer.name == "refusal")


def test_bins_are_those_of_the_statistics():
    assert len(Valence().bins) == len(Economic().bins) == 12
    assert Valence().bins[5] < 0 < Valence().bins[6]
    assert len(Stereotype().bins) == len(Confidence().bins) == len(Refusal().bins) == 11


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"value_range": [0, 1]}, "does not match the scale"),
        ({"value_range": "wide"}, r"'wide' is not a list, such as \[a, b\] \(scorer\.valence\.value_range\)"),
        ({"value_range": None}, r"None is not a list, such as \[a, b\] \(scorer\.valence\.value_range\)"),
        ({"value_range": [-1, 1, 2]}, "value_range"),
        ({"higher_is_better": "yes"}, r"'yes' is not true or false \(scorer\.valence\.higher_is_better\)"),
        ({"higher_is_better": 1}, "1 is not true or false"),
        ({"smallest_effect": True}, "True is not a number"),
        ({"smallest_effect": 0}, "above 0"),
        ({"smallest_effect": 5}, "below the width"),
        ({"smallest_effect": "small"}, "'small' is not a number"),
        ({"smallest_effect": float("nan")}, "above 0"),
    ],
)
def test_settings_are_checked(change, says):
    with pytest.raises(Fp2Error, match=says) as caught:
        build_scorer("valence", change)
    assert "\n" not in str(caught.value)


def test_no_scorer_reads_a_flag_or_a_number_from_another_type():
    """A subclass with another default repeats the strict types of the base class."""
    checked = 0
    for name in installed(SCORERS):
        options = {one.name for one in fields(load(SCORERS, name, "scorer"))}  # the judge takes neither
        for option, value, allowed in (
            ("higher_is_better", "no", "true or false"),
            ("smallest_effect", "0.02", "a number"),
        ):
            if option in options:
                checked += 1
                with pytest.raises(Fp2Error, match=f"is not {allowed}"):
                    build_scorer(name, {option: value})
    assert checked > 2 * len(installed(SCORERS)) - 4


def test_the_version_carries_the_lexicon():
    version = scorer_version(Economic())
    assert version.startswith("1+economic-3-")
    assert version != scorer_version(Confidence())
    assert scorer_version(TrustRating()) == "1"
