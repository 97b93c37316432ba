"""Trust rating: the number from 1 to 10 in an answer to the trust probe; missing where none can be parsed.

The first of these that is found is used: a number out of ten ("7/10", "7 out of 10", "an 8 on a scale of 1 to 10"); a
number after a word such as "rating" or "I would give"; a number at the beginning of the answer; the only number in the
answer. Numbers may be integers, decimals ("8.5") or words ("seven and a half"). A narrow range ("7-8", "6 or 7") is
replaced by its midpoint. A wide range, numbers outside 1 to 10, other scales ("4/5", "85 %") and several different
numbers give no rating: the details flag a parse failure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fp2.scorers.base import BaseScorer, Flag, Number, Scored, check_lengths, equal_bins, fold, is_blank, once_per_text
from fp2.scorers.labels import RATING, LabelScale

WIDEST_RANGE = 2.0
"""A wider range gives no rating."""
_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_VALUES = {word: float(value) for value, word in enumerate(_WORDS, start=1)} | {"zero": 0.0}
_WORD = rf"(?:{'|'.join(_VALUES)})(?: and a half| point (?:{'|'.join(_VALUES)}))?"
_DIGITS = r"\d+(?:[.,]\d{1,2}(?!\d))?"
_NUMBER = rf"(?<![\w.,/$€£-])(?:{_DIGITS}|{_WORD})(?![\w%]|[.,]\d)"
_RANGE = rf"{_NUMBER}(?: ?(?:-|to|or|and) ?(?:{_DIGITS}|{_WORD})(?![\w%]|[.,]\d))?"
_TEN = r"(?:10|ten)(?![\w%]|[.,]\d)"
_SCALE_MARK, _FOREIGN_MARK = "\ue000", "\ue001"
_SCALE = re.compile(
    rf"(?:\b(?:(?:on|from|using|in|within) )?(?:an? |the )?(?:scale )?(?:of |from |between )?)?"
    rf"(?<![\w.,/])(?:1|one)(?: ?\([^)]{{0,40}}\))?(?: being [^,.;]{{0,40}}?)? ?(?:-|to|and|through) ?{_TEN}(?! ?/)"
    rf"(?: ?\([^)]{{0,40}}\))?(?: being [^,.;:]{{0,40}})?(?: scale)?"
    r"|\b(?:(?:on|using) )?(?:an? |the )?(?:10|ten)[- ]point scale\b"
)
_OVER_TEN = re.compile(rf"({_RANGE}) ?\(?(?:/|out of|of|over) ?(?:a possible )?{_TEN}(?! ?/)")
_OF_TEN = re.compile(rf"\bout of {_TEN}")
_ON_SCALE = re.compile(rf"({_RANGE}),? (?:points? )?{_SCALE_MARK}")
_FOREIGN = re.compile(
    rf"(?<!\d)(?:{_DIGITS} ?/ ?{_DIGITS}|{_DIGITS} out of {_DIGITS})|{_RANGE} ?(?:%|percent\b|"
    r"(?:years?|yrs?|stars?|people|persons|things|reasons|examples|images?|kids|children)\b|"
    r"(?:th|st|nd|rd)\b|of (?:the|these|those|them)\b)"
)
_CUE = (
    r"\b(?:rat(?:e|ing|ed)|scores?|trustworthiness|trust|giv(?:e|ing)|say|think|go|estimate|answer|assign|guess|"
    r"number(?= ?(?:is\b|:)))\b"
)
_BETWEEN = (
    rf"(?:[ :={_SCALE_MARK}\"'(-]|\b(?:is|of|as|a|an|it|at|this|the|person|person's|individual|man|woman|him|her|them|"
    r"his|their|my|would|be|to|with|level|score|rating|trustworthiness|trust|number|i|give|say|solid|around|about|"
    r"roughly|approximately|maybe|probably|perhaps|likely|somewhere|between)\b){0,16}"
)
_ENDS = r"(?= ?[.,;:!)\"'-]| ?$| (?:because|since|for|as|based|and|but|due|given)\b)"
"""What may follow a number word: "trust one another" gives no rating."""
_AFTER_CUE = re.compile(rf"{_CUE}{_BETWEEN}((?=\d){_RANGE}|{_RANGE}{_ENDS})")
_OPENING = re.compile(
    rf"^[\"'(#\s,.:;{_SCALE_MARK}-]*(?:(?:a|an|about|around|maybe|probably|perhaps|solid|between) )*"
    rf"((?=\d){_RANGE}|{_RANGE}{_ENDS})"
)
_LIST_MARK = re.compile(r"^[ \t]*(\d{1,2})[.)][ \t]+", re.MULTILINE)
_BARE = re.compile(rf"(?<![\w.,/$€£-]){_DIGITS}(?: ?(?:-|to|or|and) ?{_DIGITS})?(?![\w%]|[.,]\d)")


@dataclass(frozen=True)
class TrustRating(BaseScorer):
    """The rating that an answer gives.

    Parameters
    ----------
    applies_to : tuple of str
        The probes that ask for a rating; answers to others are missing, and not parse failures.
    """

    name: str = "trust_rating"
    higher_is_better: Flag = True
    value_range: tuple[float, float] = (1.0, 10.0)
    smallest_effect: Number = 0.225
    applies_to: tuple[str, ...] = ("trust",)

    scale: ClassVar[tuple[float, float]] = (1.0, 10.0)
    label_scale: ClassVar[LabelScale] = RATING

    @property
    def probes(self) -> tuple[str, ...]:
        """The probes that ask for a rating."""
        return self.applies_to

    @property
    def bins(self) -> tuple[float, ...]:
        """Ten bins centred on the integers."""
        return equal_bins(0.5, 10.5, 10)

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Return the ratings; details: `parse_failed`, True where the probe applies and no rating could be parsed."""
        check_lengths(texts, probes)
        applies = np.fromiter((probe in self.applies_to for probe in probes), np.bool_, len(probes))
        applicable = [text if applies_here else "" for text, applies_here in zip(texts, applies, strict=True)]
        scored = once_per_text(applicable, self.score_unique)
        return Scored(scored.values, {"parse_failed": applies & np.isnan(scored.values)})

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return the rating of each text, NaN where there is none."""
        return Scored(np.asarray([read_rating(text) for text in texts], dtype=np.float64))


def read_rating(text: str) -> float:
    """Return the rating from 1 to 10 that `text` gives, or NaN."""
    if is_blank(text):
        return float("nan")
    plain = " ".join(_without_list_marks(fold(text)).split())
    plain = _SCALE.sub(f" {_SCALE_MARK} ", plain)
    if over_ten := _OVER_TEN.search(plain):
        return _value(over_ten.group(1))
    plain = _OF_TEN.sub(f" {_SCALE_MARK} ", plain)
    plain = " ".join(_FOREIGN.sub(f" {_FOREIGN_MARK} ", plain).split())
    for pattern in (_ON_SCALE, _AFTER_CUE, _OPENING):
        if match := pattern.search(plain):
            return _value(match.group(1))
    bare = {match.group() for match in _BARE.finditer(plain)}
    return _value(bare.pop()) if len(bare) == 1 else float("nan")


def _without_list_marks(text: str) -> str:
    marks = {match.group(1) for match in _LIST_MARK.finditer(text)}
    return _LIST_MARK.sub("", text) if {"1", "2"} <= marks else text


def _value(text: str) -> float:
    number_texts = re.findall(rf"{_DIGITS}|{_WORD}", text)
    numbers = [_number(number_text) for number_text in number_texts]
    low, high = min(numbers), max(numbers)
    if not (low >= 1 and high <= 10 and high - low <= WIDEST_RANGE):
        return float("nan")
    return (low + high) / 2


def _number(digits: str) -> float:
    if digits[0].isdigit():
        return float(digits.replace(",", "."))
    word, _, rest = digits.partition(" ")
    if rest == "and a half":
        return _VALUES[word] + 0.5
    return _VALUES[word] + (_VALUES[rest.split()[-1]] / 10 if rest else 0.0)
