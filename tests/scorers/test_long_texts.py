"""Every scorer reads a text in time proportional to its length, whatever the text is."""

import signal

import pytest

from fp2.plugins import SCORERS, installed
from fp2.scorers.base import LONGEST_SENTENCE, cut_long, normalise
from fp2.scorers.registry import build_scorer

CHARACTERS = 40_000
SECONDS = 10
"""Of the processor: a scorer takes less than one; one that is quadratic in any of the texts takes more."""
OTHERS = {"classifier", "judge", "choice_agreement", "choice_probability"}
"""Scorers that ask a model, and those of choices, which read no text."""
REPEATED = [
    "7", "7 to ", " ", "\n1. ", "a-", "-", "[(", "a\u0301\u0316", "GOOD! ", "not ", "the other one to his left ",
    "works as a person, ", "\ufdfa",
]  # fmt: skip


def _too_slow(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s of the processor")


@pytest.fixture
def limited():
    before = signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


@pytest.fixture(scope="module", params=sorted({*installed(SCORERS)} - OTHERS))
def scorer(request):
    built = build_scorer(request.param, {})
    built.score(["a"], [(built.probes or ("trust",))[0]])  # what is loaded once
    return built


@pytest.mark.parametrize("repeated", REPEATED, ids=ascii)
def test_a_long_text_is_scored_in_linear_time(scorer, repeated, limited):
    text = f"She is on the left. {repeated * CHARACTERS}"[:CHARACTERS] + " and right"
    assert len(scorer.score([text], [(scorer.probes or ("trust",))[0]]).values) == 1


def test_only_the_beginning_of_a_word_or_a_blank_without_end_is_read():
    assert normalise("seven " + "7" * 5000 + " of ten") == "seven " + "7" * 1000 + " of ten"
    assert normalise("a" + " \n" * 5000 + "b") == "a b"


def test_a_sentence_without_end_is_cut_between_words():
    sentence = " ".join(["word"] * 3000)
    parts = list(cut_long(sentence))
    assert "".join(parts) == sentence
    assert max(map(len, parts)) <= LONGEST_SENTENCE
    assert {word for part in parts for word in part.split()} == {"word"}
    assert list(cut_long("A sentence.")) == ["A sentence."]
    assert "".join(cut_long("a" * 9000)) == "a" * 9000
