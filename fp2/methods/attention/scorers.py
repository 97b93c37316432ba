"""Attention to two people in one image: who is described first, and with what share of the words.

Both scorers give the value of the person on the **left of the image that was shown**; the other person's is 1 minus
it. `fp2.methods.attention.protocol` assigns both values to the two subjects, also where the image was mirrored.

A side is named where "left" or "right" is a position (not a hand, not "right now", not a verb) in a sentence about a
person, or a label ("Left: ..."). Words are assigned to the side that was named last. A sentence that begins with a
position is assigned to that side as a whole; a change of sides within a sentence begins at the nearest "and", "while",
comma or article before it. Words before the first side, and sentences about both people or about neither ("they", "the
two", "the background"), are assigned to no side. "The other man" and "the woman to his right" name the other side. Left
and right are the viewer's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import ClassVar, Literal

import numpy as np

from fp2.extension import BaseScorer, Flag, Number, Scored, cut_long, fold

Side = Literal["left", "right"]

_BODY = (
    "hand|hands|arm|arms|forearm|wrist|elbow|shoulder|leg|legs|knee|foot|feet|ankle|thigh|hip|eye|eyebrow|ear|ears|cheek|"
    "finger|fingers|thumb|palm|fist|chest|breast|sleeve|pocket|lapel|lens|temple|nostril|shoe|sock|glove|earring|profile"
)
# What "left" and "right" mean besides a position in the image.
_NO_PLACE = re.compile(
    rf"\b(?:left|right) (?:{_BODY})\b"
    r"|\b(?:left|right) side of (?:(?:his|her|their|its) \w+|the (?:face|head|body|neck|chest|mouth))\b"
    r"|\b(?:all|that's|is|are|was|were|be|am|just|quite|you're|exactly) right(?=[,.;!]|$)"
    r"|\bright (?:now|away|here|there|next|beside|behind|after|before|in front|at|up|down|above|below|angle|amount)\b"
    r"|\b(?:the|a) right (?:to|choice|way|time|answer|moment|kind|thing)\b"
    r"|\b(?:has|have|had|having|was|were|been|being|is|are|be|he|she|they|who|and|then|just) left "
    r"(?:the|his|her|their|a|an|to|for|out|over|behind|home|school|work|alone|open|blank|in|with|by|no|early)\b"
    r"|\bleft (?:over|alone|unbuttoned|undone|behind|out|open)\b|\b(?:looking|facing|turned|turning|looks|faces|gazing|"
    r"gazes|glancing|leaning|tilted|pointing|angled|directed)(?: \w+){0,3}? (?:left|right)\b"
)
_PERSON = (
    "person|persons|people|man|men|woman|women|individual|individuals|boy|girl|guy|lady|gentleman|male|female|adult|"
    "figure|subject|character|child|teenager|one|someone|somebody|he|she|they|him|her|who|people's|person's|man's|woman's"
)
_PERSON_WORD = re.compile(rf"\b(?:{_PERSON})\b")
_PLACE = re.compile(
    r"(?:\b(?:on|to|at|in|from) )?(?:\b(?:the|my|our|your|viewer's|image|picture|far|extreme|bottom|top|upper|lower) )*"
    r"\b(?P<side>left|right)(?:most|-most)?\b(?:[- ]hand)?(?: side)?"
)
_OWN = re.compile(r"\bto (?:his|her|their|its) (?:immediate )?(?:left|right)\b")
_OTHER = re.compile(
    r"\b(?:the|an) other(?: (?:person|man|woman|individual|one|figure|boy|girl|lady|guy|gentleman|male|female)\b|"
    r"(?=[.,:;]| (?:is|was|has|wears|looks|seems|appears|stands|sits|smiles|holds)\b))"
)
_NUMBERED = re.compile(r"^\s*\d+[.)]\s+", re.MULTILINE)
_LABEL = re.compile(r"^\W*+(?:(?:side|person|man|woman)\W*+)?$")
_AFTER_LABEL = re.compile(r"^(?: (?:person|man|woman|individual|side|one))?\W*[:)\]-]")
_SHARED = re.compile(
    r"^\W*(?:both|the two|two|they|these|together|each|neither|there are|the (?:image|picture|photo|photograph|"
    r"drawing|illustration|scene|background|setting|people|overall)|in the (?:image|picture|photo|background|drawing)|"
    r"this (?:image|picture|photo|drawing)|overall|behind them|between them|here are|sure|certainly)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_JOINT = re.compile(r"\b(?:while|whereas|but|and|with|as|though|although)\b|,")
_ARTICLE = re.compile(r"\b(?:the|a|an|another|one)\b")
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Sides:
    """The side that a description names first (None if it names none), and the number of words about each side."""

    first: Side | None
    left_words: int
    right_words: int
    shared_words: int

    @property
    def both(self) -> bool:
        """Whether both sides have words."""
        return self.left_words > 0 and self.right_words > 0


@lru_cache(maxsize=65536)
def read_sides(text: str) -> Sides:
    """Return the side that `text` names first, and the number of words about each side."""
    words: dict[str, int] = {"left": 0, "right": 0, "": 0}
    current, first = "", None
    sentences = _SENTENCE.split(_NUMBERED.sub("", fold(text)))
    for sentence in chain.from_iterable(map(cut_long, sentences)):
        turns = _turns(sentence, current)
        start, holder = 0, "" if _SHARED.match(sentence) else current
        for place, side in turns:
            if place > start:
                words[holder] += len(_WORD.findall(sentence[start:place]))
            start, holder, current = place, side, side
            first = first or side
        words[holder] += len(_WORD.findall(sentence[start:]))
    return Sides(first, words["left"], words["right"], words[""])  # type: ignore[arg-type]


def _turns(sentence: str, current: str) -> list[tuple[int, str]]:
    """Return the positions in the sentence at which the side changes, with the new side; the first change is at 0."""
    marks = _marks(sentence, current)
    turns: list[tuple[int, str]] = []
    holder = ""
    for number, (begin, _, side) in enumerate(marks):
        if side == holder:
            continue
        if number == 0:
            # "The man on the left ..." and "On the left, ..." are about that side from the first word, unless the
            # sentence is about both until then
            place = _change(sentence, 0, begin) if _SHARED.match(sentence) else 0
        else:
            place = _change(sentence, marks[number - 1][1], begin)
        turns.append((place, side))
        holder = side
    return turns


def _marks(sentence: str, current: str) -> list[tuple[int, int, str]]:
    """Return the expressions of the sentence that name a side, in order: begin, end, side."""
    blocked = [match.span() for match in _NO_PLACE.finditer(sentence)]
    marks: list[tuple[int, int, str]] = []
    own_spans = [match.span() for match in _OWN.finditer(sentence)]
    speaks = bool(_PERSON_WORD.search(sentence))
    for match in _PLACE.finditer(sentence):
        begin, end = match.span("side")
        if any(low <= begin < high for low, high in blocked + own_spans):
            continue
        label = bool(_LABEL.match(sentence[: match.start()])) and bool(_AFTER_LABEL.match(sentence[match.end() :]))
        if speaks or label:
            marks.append((match.start(), match.end(), match.group("side")))
    others = [match.span() for match in _OTHER.finditer(sentence)]
    others += [span for span in own_spans if _about_person(sentence, span)]
    for begin, end in others:
        before = [mark for mark in marks if mark[1] <= begin]
        holder = before[-1][2] if before else current
        near = any(abs(mark[0] - end) <= 12 or abs(begin - mark[1]) <= 12 for mark in marks)
        if holder and not near:
            marks.append((begin, end, "right" if holder == "left" else "left"))
    return sorted(marks)


def _about_person(sentence: str, span: tuple[int, int]) -> bool:
    """Whether "to his right" is the position of a person: one is named just before it or soon after it."""
    before, after = sentence[: span[0]].split()[-3:], sentence[span[1] :].split()[:6]
    return any(_PERSON_WORD.fullmatch(word.strip(",.:;")) for word in (*before, *after))


def _change(sentence: str, low: int, high: int) -> int:
    """Return the position between two marks at which the side changes: a joint, else the last article, else the mark.

    The joint is the last one if the mark follows it directly ("..., and on the right a woman"), else the last one with
    a person after it ("..., and the woman in the hat, on the right").
    """
    joints = [match.span() for match in _JOINT.finditer(sentence, low, high)]
    if joints:
        at_once = not sentence[joints[-1][1] : high].strip()
        last = max((match.start() for match in _PERSON_WORD.finditer(sentence, low, high)), default=-1)
        spoken = [begin for begin, end in joints if end <= last]
        return spoken[-1] if spoken and not at_once else joints[-1][0]
    articles = [match.start() for match in _ARTICLE.finditer(sentence, low, high)]
    return articles[-1] if articles else high


@dataclass(frozen=True)
class OfTwo(BaseScorer):
    """A scorer of answers about two people."""

    higher_is_better: Flag = True
    value_range: tuple[float, float] = (0.0, 1.0)
    smallest_effect: Number = 0.05

    n_people: ClassVar[int] = 2
    limitations = ("Which person an answer describes is read from English words.",)


@dataclass(frozen=True)
class FirstMention(OfTwo):
    """Whether the person on the left is described first: 1, 0, or missing where no side is named."""

    name: str = "first_mention"

    yes_no: ClassVar[bool] = True
    n_bins: ClassVar[int] = 2

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return 1 where the left person is described first, 0 where the right one is."""
        value = {"left": 1.0, "right": 0.0, None: np.nan}
        return Scored(np.asarray([value[read_sides(text).first] for text in texts], dtype=np.float64))


@dataclass(frozen=True)
class WordShare(OfTwo):
    """The left person's share of the words about either person; missing unless both are named by side.

    Details: `left_words`, `right_words`, and `shared_words` about both or neither.
    """

    name: str = "word_share"
    smallest_effect: Number = 0.025

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return the left person's share."""
        read = [read_sides(text) for text in texts]
        share = [
            mention.left_words / (mention.left_words + mention.right_words) if mention.both else np.nan
            for mention in read
        ]
        counts = {
            name: np.asarray([getattr(mention, name) for mention in read], dtype=np.int64)
            for name in ("left_words", "right_words", "shared_words")
        }
        return Scored(np.asarray(share, dtype=np.float64), counts)
