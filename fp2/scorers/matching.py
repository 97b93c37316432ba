"""Matching of lexicon terms: whole words of normalised text, one regular expression per lexicon, negation by clause.

A term matches as a whole word: not inside a longer word ("rich" in "enrichment"), not as the last part of a compound
("rich" in "nutrient-rich"), not before a contraction ("can" in "can't"). Of the forms of all lists that start at one
position, the longest matches, so that "not sure" is not also matched as "sure".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fp2.errors import Fp2Error
from fp2.scorers.base import BaseScorer, normalise
from fp2.scorers.lexicon import Lexicon, Negation, load_lexicon

BEFORE = r"(?<!\w)(?<!\w[-'])"
AFTER = r"(?!\w)(?!'(?!s\b)\w)"
_REACH = 120
"""Characters before a term that are searched for a negation; far more than the window of words needs."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A term in a normalised text: its list and name, its position, and whether it is negated."""

    list: str
    term: str
    start: int
    end: int
    negated: bool


class Matcher:
    """The compiled terms of a lexicon; `matcher` returns a shared one."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._terms = {form: (kind, term) for form, kind, term in lexicon.surfaces()}
        self._pattern = re.compile(f"{BEFORE}(?:{alternatives(self._terms)}){AFTER}")
        self._negation = NegationFinder(lexicon.negation)

    def hits(self, text: str) -> Iterator[Hit]:
        """Yield the terms of a **normalised** text from left to right, without ignored phrases."""
        for match in self._pattern.finditer(text):
            kind, term = self._terms[match.group().replace("-", " ")]
            if kind:
                yield Hit(kind, term, match.start(), match.end(), self._negation(text, match.start()))

    def counts(self, text: str) -> dict[str, int]:
        """Return the number of terms of each list in a raw text, negated terms by the rule of their list."""
        found = dict.fromkeys(self.lexicon.lists, 0)
        for hit in self.hits(normalise(text)):
            terms = self.lexicon.lists[hit.list]
            if not hit.negated or terms.negation == "keep":
                found[hit.list] += 1
            elif terms.negation == "turn":
                found[terms.turns_to] += 1
        return found


class NegationFinder:
    """Whether a position in a normalised text is negated.

    Searches the `window` words before it in the same clause, not counting fillers such as "very". Words such as "but"
    end a clause like punctuation; phrases such as "not only" do not negate.
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
    """Return a regular expression for any of `forms`, longest first; a blank matches a blank or a hyphen."""
    return "|".join(
        re.escape(form).replace(r"\ ", "[ -]") for form in sorted(forms, key=lambda form: (-len(form), form))
    )


@cache
def matcher(lexicon_reference: str) -> Matcher:
    """Return the matcher of a lexicon, compiled once."""
    return Matcher(load_lexicon(lexicon_reference))


@dataclass(frozen=True)
class LexiconScorer(BaseScorer):
    """A scorer by the terms of a lexicon.

    Parameters
    ----------
    lexicon_file : str
        A packaged lexicon's name, or the path of a YAML file; with the lists that the class names, if it names any.

    Raises
    ------
    Fp2Error
        If the lexicon cannot be loaded, or has other lists.
    """

    lexicon_file: str = ""

    lists: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        found = load_lexicon(self.lexicon_file).lists
        if self.lists and set(found) != set(self.lists):
            what, fix = f"the lexicon has the list(s) {', '.join(found)}", f"Needed: {', '.join(self.lists)}"
            raise Fp2Error(what, where=self.lexicon_file, fix=fix)

    @property
    def lexicon(self) -> dict[str, str]:
        """Name, version and sha256 of the lexicon."""
        return load_lexicon(self.lexicon_file).info

    def counts(self, texts: Sequence[str]) -> dict[str, npt.NDArray[np.int64]]:
        """Return the number of terms in each text, shape (n,), for each list of the lexicon."""
        terms = matcher(self.lexicon_file)
        counts = [terms.counts(text) for text in texts]
        return {name: np.fromiter((row[name] for row in counts), np.int64, len(counts)) for name in terms.lexicon.lists}
