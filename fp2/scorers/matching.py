"""Finding terms in text: whole words of the normalised text, one compiled expression a lexicon, negation by clause.

A term matches when it stands by itself: not inside a longer word ("rich" in "enrichment"), not as the tail of a
compound ("rich" in "nutrient-rich"), not before a contraction ("can" in "can't"). The longest form that starts at a
place wins, over all lists of the lexicon, so "not sure" is never also read as "sure".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from fp2.scorers.lexicon import Lexicon, Negation, load_lexicon
from fp2.scorers.text import normalise

BEFORE = r"(?<!\w)(?<!\w[-'])"
AFTER = r"(?!\w)(?!'(?!s\b)\w)"
_REACH = 120
"""Characters looked back over for a negation; far more than the window of words needs."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A term found in a normalised text: its list and name, where it stands, and whether it is negated."""

    list: str
    term: str
    start: int
    end: int
    negated: bool


class Matcher:
    """The terms of a lexicon, compiled once; use `matcher(lexicon)` to share it."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._terms = {form: (kind, term) for form, kind, term in lexicon.surfaces()}
        self._pattern = re.compile(f"{BEFORE}(?:{alternatives(self._terms)}){AFTER}")
        self._negation = NegationFinder(lexicon.negation)

    def hits(self, text: str) -> Iterator[Hit]:
        """Yield the terms in a **normalised** text from left to right; ignored phrases are passed over."""
        for match in self._pattern.finditer(text):
            kind, term = self._terms[match.group().replace("-", " ")]
            if kind:
                yield Hit(kind, term, match.start(), match.end(), self._negation(text, match.start()))

    def counts(self, text: str) -> dict[str, int]:
        """Count the terms of each list in a raw text, negated ones as their list's rule says."""
        found = dict.fromkeys(self.lexicon.lists, 0)
        for hit in self.hits(normalise(text)):
            terms = self.lexicon.lists[hit.list]
            if not hit.negated or terms.negation == "keep":
                found[hit.list] += 1
            elif terms.negation == "turn":
                found[terms.turns_to] += 1
        return found


class NegationFinder:
    """Whether a place in a normalised text stands under a negation.

    Looks back within the clause over `window` words, not counting fillers such as "very". Words like "but" end the
    clause as punctuation does; "not only" and its like are no negation.
    """

    def __init__(self, rule: Negation) -> None:
        self._rule = rule
        self._clause = re.compile(rf"[.,;:!?()\"]|\s-\s|\b(?:{'|'.join(map(re.escape, rule.breaks))})\b")
        self._exceptions = re.compile(rf"\b(?:{'|'.join(map(re.escape, rule.exceptions))})\b")
        self._word = re.compile(r"[\w']+")

    def __call__(self, text: str, start: int) -> bool:
        """Return whether the word that begins at `start` is negated."""
        clause = self._clause.split(text[max(0, start - _REACH) : start])[-1]
        words = [w for w in self._word.findall(self._exceptions.sub(" ", clause)) if w not in self._rule.fillers]
        return any(
            word in self._rule.negators or word.endswith(self._rule.suffix) for word in words[-self._rule.window :]
        )


def alternatives(forms: Iterable[str]) -> str:
    """Return an expression that matches any of `forms`, longest first, a blank standing for a blank or a hyphen."""
    return "|".join(
        re.escape(form).replace(r"\ ", "[ -]") for form in sorted(forms, key=lambda form: (-len(form), form))
    )


@cache
def matcher(lexicon_reference: str) -> Matcher:
    """Return the compiled matcher of a lexicon, loaded at most once."""
    return Matcher(load_lexicon(lexicon_reference))
