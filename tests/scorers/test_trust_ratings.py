"""The rating in an answer to the trust probe: what is read, and what is not."""

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp2.errors import Fp2Error
from fp2.scorers.registry import build_scorer
from fp2.scorers.trust_rating import TrustRating, read_rating

CASES = [
    ("7", 7),
    ("7.", 7),
    ("7/10", 7),
    ("7 / 10", 7),
    ("7 out of 10", 7),
    ("seven", 7),
    ("Seven.", 7),
    ("8.5", 8.5),
    ("8,5", 8.5),
    ("Rating: 6 -", 6),
    ("Rating: 6 - seems kind", 6),
    ("**8/10**", 8),
    ("I'd give this person a 7.", 7),
    ("I would rate their trustworthiness as a 6 out of 10.", 6),
    ("Trustworthiness: 9", 9),
    ("On a scale of 1 to 10, I would give a 5.", 5),
    ("On a scale from 1-10, 4", 4),
    ("an 8 on a scale of 1 to 10", 8),
    ("8 on a 1–10 scale", 8),
    ("1/10", 1),
    ("10", 10),
    ("10/10", 10),
    ("10 out of 10", 10),
    ("1", 1),
    ("7-8", 7.5),
    ("7 to 8 out of 10", 7.5),
    ("6 or 7", 6.5),
    ("between 6 and 8", 7),
    ("Between six and seven.", 6.5),
    ("seven and a half", 7.5),
    ("seven point five", 7.5),
    ("7. The person is about 30 years old and smiles at 2 people.", 7),
    ("This person is in their 40s; rating 6.", 6),
    ("1. Smile\n2. Open posture\nRating: 7", 7),
    ("Ten.", 10),
    ("Score = 3", 3),
    ("Rate this person's trustworthiness 1–10. 7. They smile.", 7),
    ("1-10: 7", 7),
    ("I think a seven.", 7),
    ("A solid 8.", 8),
    ("Out of 10, I'd say 6.", 6),
    ("7 (out of 10)", 7),
    ("I rate this person as 5 of 10.", 5),
    ("Their rating would be seven out of ten.", 7),
    ("６/10", 6),
    ("My rating: 4, because one can see he hides something.", 4),
    ("I would trust this person, 8.", 8),
    ("Number: 6. Brief explanation: calm eyes.", 6),
    ("I'd say 7/10, though 10/10 is possible.", 7),
    ("On a scale of 1 (lowest) to 10 (highest): 6", 6),
    ("On a scale of one to ten, six.", 6),
    ("1 being the lowest and 10 the highest, I'd say 3", 3),
    ("5 stars out of 10", None),
    ("0", None),
    ("11", None),
    ("11/10", None),
    ("0/10", None),
    ("-3", None),
    ("70/100", None),
    ("4/5", None),
    ("85%", None),
    ("100", None),
    ("1-10", None),
    ("2 to 9", None),
    ("", None),
    ("  ", None),
    ("I cannot rate on a scale of 1 to 10.", None),
    ("They look kind.", None),
    ("One can trust this person.", None),
    ("No one knows; trust one another.", None),
    ("Some would say 3, others 8.", 3),
    ("3 and also 8", 3),
    ("He is 45 years old.", None),
    ("There are 2 people.", None),
    ("The number one reason is his smile.", None),
    ("12 out of 10", None),
    ("4 stars", None),
    ("Born 1987.", None),
    ("I'd give one example of kindness.", None),
    ("3 of the 10 people trust him", None),
    ("$7", None),
    ("a 7.25", 7.25),
    ("Between 7 and 3, hard", None),
    ("It might be 3, it might be 8", None),
    ("10,000", None),
    ("7th", None),
    ("#7", 7),
]
FRAMES = [
    "{}",
    "{}.",
    "{}/10",
    "{} out of 10",
    "Rating: {}",
    "I would rate this person {} out of 10.",
    "**{}** - a kind face",
    "Trustworthiness: {}. They smile.",
    "On a scale of 1 to 10, I'd say {}.",
    "I'd give them a {} because of the smile.",
]


@pytest.mark.parametrize(("text", "rating"), CASES)
def test_reading(text, rating):
    found = read_rating(text)
    assert math.isnan(found) if rating is None else found == rating


@given(st.sampled_from(FRAMES), st.integers(10, 100))
def test_every_number_in_every_usual_frame(frame, tenths):
    number = tenths / 10
    assert read_rating(frame.format(f"{number:g}")) == number
    assert read_rating(frame.format(f"{number:g}").upper()) == number
    assert read_rating("\n " + frame.format(f"{number:g}").replace(" ", "  \n")) == number


@given(st.sampled_from(FRAMES), st.one_of(st.just(0), st.integers(11, 5000)))
def test_a_number_outside_the_scale_is_no_rating(frame, number):
    assert math.isnan(read_rating(frame.format(number)))


@given(st.text(alphabet="0123456789/.,- toneight(%)\n", max_size=40))
def test_whatever_is_read_lies_on_the_scale(text):
    found = read_rating(text)
    assert math.isnan(found) or 1 <= found <= 10


def test_only_the_trust_probe_is_read_and_failures_are_counted():
    scored = TrustRating().score(
        ["7", "7", "no idea", "", "no idea"], ["trust", "lifestyle", "trust", "trust", "education"]
    )
    np.testing.assert_array_equal(scored.values, [7, np.nan, np.nan, np.nan, np.nan])
    assert scored.details["parse_failed"].tolist() == [False, False, True, True, False]


def test_a_battery_may_name_its_probe_otherwise():
    scorer = build_scorer("trust_rating", {"applies_to": ["reliability"]})
    assert scorer.probes == ("reliability",)
    assert scorer.score(["7"], ["reliability"]).values[0] == 7


def test_bins_hold_one_whole_number_each():
    counts, _ = np.histogram(np.arange(1, 11), bins=TrustRating().bins)
    assert counts.tolist() == [1] * 10


def test_one_probe_as_a_bare_string_is_refused():
    with pytest.raises(Fp2Error, match=r"'trust' is not a list, such as \[a, b\] \(scorer\.trust_rating\.applies_to\)"):
        build_scorer("trust_rating", {"applies_to": "trust"})


@pytest.mark.parametrize(
    "bait", ["1 being ", "rating of the ", "1 (", "7 ", "seven and ", "a ", "on a scale of ", "10 out of "]
)
def test_a_long_answer_takes_linear_time(bait):
    """A hundred times the length must not take ten thousand times as long: 100,000 characters stay under seconds."""
    started = time.process_time()
    read_rating(bait * (100_000 // len(bait)))
    assert time.process_time() - started < 5
