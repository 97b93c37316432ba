"""Whole words, one normalisation, negation by clause."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp2.scorers.base import normalise
from fp2.scorers.lexicon import Matcher, NegationFinder, load_lexicon, matcher


def economic(text):
    counts = matcher("economic").counts(text)
    return counts["high_status"], counts["low_status"]


@pytest.mark.parametrize(
    "text",
    [
        "enrichment",
        "Richard lives here",
        "nutrient-rich soil",
        "poorly lit",
        "a poor's",  # possessive of a term is the term, see below
        "cheapen",
        "eliteness",
        "rich'd",
    ],
)
def test_a_term_inside_another_word_does_not_match(text):
    expected = (0, 1) if text.endswith("'s") else (0, 0)
    assert economic(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("They are rich.", (1, 0)),
        ("RICH!", (1, 0)),
        ("(rich)", (1, 0)),
        ('"rich"', (1, 0)),
        ("**rich**", (1, 0)),
        ("_rich_", (1, 0)),
        ("rich/poor", (1, 1)),
        ("rich-looking", (1, 0)),
        ("ｒｉｃｈ", (1, 0)),  # full-width letters
        ("ri\u00adch", (1, 0)),  # soft hyphen
        ("low income", (0, 1)),
        ("low-income", (0, 1)),
        ("low\u2011income", (0, 1)),  # non-breaking hyphen
        ("low \n\t income", (0, 1)),
        ("upper-middle-class suburb", (1, 0)),
        ("working—class", (0, 0)),  # a long dash parts two words
        ("two mansions", (1, 0)),
    ],
)
def test_a_term_by_itself_matches_however_it_is_written(text, expected):
    assert economic(text) == expected


@pytest.mark.parametrize("phrase", ["poor lighting", "Poor-quality picture", "rich in trees", "a rich cultural life"])
def test_a_phrase_in_another_sense_is_passed_over(phrase):
    assert economic(phrase) == (0, 0)


@pytest.mark.parametrize(
    "text",
    [
        "not wealthy",
        "isn't wealthy",
        "isn’t wealthy",
        "This person does not appear to be very wealthy.",
        "no signs of being wealthy",
        "neither wealthy nor affluent",
        "hardly affluent",
        "lacks wealth",
        "cannot be wealthy",
    ],
)
def test_a_denied_status_is_dropped(text):
    assert economic(text) == (0, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("not tall, wealthy", (1, 0)),
        ("not tall but wealthy", (1, 0)),
        ("Not only wealthy", (1, 0)),
        ("no doubt wealthy", (1, 0)),
        ("I do not know him. Wealthy, it seems", (1, 0)),
        ("not a person who would at first glance be called wealthy", (1, 0)),
        ("a notable, affluent area", (1, 0)),
        ("knot wealthy", (1, 0)),
        ("not poor; rich", (1, 0)),
    ],
)
def test_a_negation_ends_with_its_clause_and_its_window(text, expected):
    assert economic(text) == expected


def test_the_longest_form_wins_over_all_lists():
    hits = list(matcher("confidence").hits(normalise("I am not sure that it is so")))
    assert [(hit.list, hit.term) for hit in hits] == [("hedged", "not sure")]


def test_every_form_of_every_list_matches_itself():
    for name in ("confidence", "economic", "stereotype"):
        terms = Matcher(load_lexicon(name))
        for form, kind, term in terms.lexicon.surfaces():
            found = [(hit.list, hit.term) for hit in terms.hits(form)]
            assert found == ([(kind, term)] if kind else []), form


def test_negation_finder_agrees_with_a_plain_reading():
    """Same answers as a word-by-word rule on a clause without fillers, exceptions or breaks."""
    rule = load_lexicon("economic").negation
    finder = NegationFinder(rule)
    for gap in range(8):
        text = "not " + "word " * gap
        assert finder(text, len(text)) is (gap < rule.window)


plain_words = st.text(alphabet=string.ascii_letters + " .,!?'-\n\t", max_size=60)
snippets = st.sampled_from(
    ["rich", "not wealthy", "low-income", "a poor man", "poor lighting", "mansions", "isn't cheap"]
)
answers = st.lists(st.one_of(plain_words, snippets), max_size=6).map(" ".join)


@given(answers)
def test_case_and_white_space_do_not_matter(text):
    assert economic(text) == economic(text.upper()) == economic("\n " + re.sub(r"\s+", " \t ", text) + " ")


@given(st.text(max_size=80))
def test_normalising_twice_changes_nothing(text):
    assert normalise(normalise(text)) == normalise(text)


@given(answers, answers)
def test_sentences_apart_count_apart(first, second):
    """A full stop parts clauses, so counts add up."""
    together = economic(f"{first} . {second}")
    assert together == tuple(a + b for a, b in zip(economic(first), economic(second), strict=True))
