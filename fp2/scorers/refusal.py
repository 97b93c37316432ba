"""Refusal: 1 if an answer declines the question, else 0.

Version 2 (`lexicons/refusal_2.yaml`) is a logistic regression on the words and pairs of words of an answer, by TF-IDF,
fitted on labelled answers (`benchmarks/scorers/fit_refusal.py`); every weight is in the file. A rating answers a
question for a rating, whatever surrounds it.

Version 1 (`lexicons/refusal.yaml`, the default of 0.3.0) searches eighteen patterns in the whole text; files of one's
own have this form. Blank answers are 0. The scorer applies to every probe, and every run computes it, because refusals
are excluded from the means of the other scorers.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from fp2.errors import Fp2Error
from fp2.hashing import digest
from fp2.scorers.base import BaseScorer, Flag, Number, Scored, check_lengths, normalise
from fp2.scorers.lexicon import lexicon_path, read_yaml
from fp2.scorers.trust_rating import read_rating


@dataclass(frozen=True)
class RefusalPatterns:
    """The patterns of a file as one regular expression, and the patterns that cancel them."""

    name: str
    version: str
    sha256: str
    ids: tuple[str, ...]
    examples: tuple[str, ...]
    pattern: re.Pattern[str]
    answered_anyway: re.Pattern[str] | None

    def find(self, text: str, probe: str = "") -> str:
        """Return the id of the first pattern found in a raw text, or an empty string if it is not a refusal."""
        plain = normalise(text)
        match = self.pattern.search(plain)
        if match is None or (self.answered_anyway is not None and self.answered_anyway.search(plain, match.start())):
            return ""
        return str(match.lastgroup)


@dataclass(frozen=True)
class LinearRefusal:
    """A logistic regression on words and pairs of words.

    Parameters
    ----------
    name, version, sha256 : str
        Of its file.
    intercept : float
        Log odds of a refusal without any known feature.
    threshold : float
        The probability above which an answer is a refusal.
    weights : mapping
        Feature -> (inverse document frequency, coefficient).
    """

    name: str
    version: str
    sha256: str
    intercept: float
    threshold: float
    weights: Mapping[str, tuple[float, float]]

    def find(self, text: str, probe: str = "") -> str:
        """Return the feature that speaks most for a refusal, or an empty string if the answer is none."""
        if probe in RATINGS and _NUMBER.search(text) and not math.isnan(read_rating(text)):
            return ""
        words = tokens(text)
        counts = Counter((*words, *map(" ".join, pairwise(words))))
        found = {one: (1 + math.log(n)) * self.weights[one][0] for one, n in counts.items() if one in self.weights}
        if not found:
            return ""
        shares = {one: value * self.weights[one][1] for one, value in found.items()}
        odds = self.intercept + sum(shares.values()) / math.hypot(*found.values())
        return max(shares, key=shares.__getitem__) if odds > math.log(self.threshold / (1 - self.threshold)) else ""


def tokens(text: str) -> list[str]:
    """Return the words, numbers (as #) and punctuation marks of a raw text."""
    return _TOKEN.findall(_DIGITS.sub(" # ", normalise(text)))


RATINGS = ("trust",)
"""Probes whose questions ask for a number."""
_NUMBER = re.compile(r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten)\b", re.IGNORECASE)
"""A number that is not "one", which also stands for a noun."""
_DIGITS = re.compile(r"\d+(?:[.,]\d+)?")
_TOKEN = re.compile(r"[\w']+|[#?!:,.]")


@dataclass(frozen=True)
class Refusal(BaseScorer):
    """Whether an answer declines the question.

    Parameters
    ----------
    lexicon_file : str
        A packaged lexicon's name, or the path of a YAML file with `patterns` or `weights`.
    """

    name: str = "refusal"
    higher_is_better: Flag = False
    value_range: tuple[float, float] = (0.0, 1.0)
    smallest_effect: Number = 0.02
    lexicon_file: str = "refusal_2"

    scale: ClassVar[tuple[float, float]] = (0.0, 1.0)
    yes_no: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        load_refusals(self.lexicon_file)

    @property
    def lexicon(self) -> dict[str, str]:
        """Name, version and sha256 of the patterns or weights."""
        patterns = load_refusals(self.lexicon_file)
        return {"name": patterns.name, "version": patterns.version, "sha256": patterns.sha256}

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Return 0 or 1; details: `pattern`, the pattern or feature that was found, or an empty string."""
        check_lengths(texts, probes)
        find = cache(load_refusals(self.lexicon_file).find)
        found = [find(text, probe) if text.strip() else "" for text, probe in zip(texts, probes, strict=True)]
        values = np.fromiter((float(bool(which)) for which in found), np.float64, len(found))
        return Scored(values, {"pattern": np.asarray(found, dtype=np.str_)})


def default_refusal() -> Refusal:
    """Return the built-in refusal scorer, which every run computes."""
    return Refusal()


@cache
def load_refusals(reference: str) -> RefusalPatterns | LinearRefusal:
    """Load a file of refusal patterns, or of the weights of a linear model.

    Raises
    ------
    Fp2Error
        If the file is missing, a key is missing, an id occurs twice, or a pattern does not compile.
    """
    path = lexicon_path(reference)
    content = read_yaml(path)
    where = str(path)
    try:
        name, version = str(content["name"]), str(content["version"])
        if "weights" in content:
            rows = (line.rsplit(" ", 2) for line in str(content["weights"]).splitlines())
            weights = {feature: (float(idf), float(weight)) for feature, idf, weight in rows}
            intercept, threshold = float(content["intercept"]), float(content["threshold"])
            return LinearRefusal(name, version, digest(content), intercept, threshold, weights)
        return _patterns(name, version, content, where)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Fp2Error(f"not a list of refusal patterns: {error!r}", where=where) from error
    except re.error as error:
        raise Fp2Error(f"a pattern does not compile: {error}", where=where) from error


def _patterns(name: str, version: str, content: dict[str, Any], where: str) -> RefusalPatterns:
    parts = {str(part): str(pattern) for part, pattern in (content.get("parts") or {}).items()}
    rows = [(str(row["id"]), _expand(str(row["pattern"]), parts), str(row["example"])) for row in content["patterns"]]
    ids = tuple(row[0] for row in rows)
    if len(set(ids)) != len(ids):
        raise Fp2Error("an id occurs twice", where=where)
    combined = re.compile("|".join(f"(?P<{which}>{pattern})" for which, pattern, _ in rows))
    examples, anyway = tuple(row[2] for row in rows), _joined(content.get("answered_anyway"), parts)
    return RefusalPatterns(name, version, digest(content), ids, examples, combined, anyway)


def _joined(patterns: Sequence[Any] | None, parts: dict[str, str]) -> re.Pattern[str] | None:
    return re.compile("|".join(_expand(str(one), parts) for one in patterns)) if patterns else None


def _expand(pattern: str, parts: dict[str, str]) -> str:
    """Put the parts into a pattern; parts may name other parts."""
    while (found := re.sub(r"\{([a-z_]+)\}", lambda match: parts[match.group(1)], pattern)) != pattern:
        pattern = found
    return pattern
