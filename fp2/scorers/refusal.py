"""Refusal: 1 if an answer declines the question, else 0.

Eighteen patterns of English refusals (`lexicons/refusal.yaml`) are searched in the normalised text. Blank answers are
0. The scorer applies to every probe, and every run computes it, because refusals are excluded from the means of the
other scorers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from fp2.errors import Fp2Error
from fp2.hashing import digest
from fp2.scorers.base import BaseScorer, Flag, Number, Scored, normalise
from fp2.scorers.lexicon import lexicon_path, read_yaml


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

    def find(self, text: str) -> str:
        """Return the id of the first pattern found in a raw text, or an empty string if it is not a refusal."""
        plain = normalise(text)
        match = self.pattern.search(plain)
        if match is None or (self.answered_anyway is not None and self.answered_anyway.search(plain, match.start())):
            return ""
        return str(match.lastgroup)


@dataclass(frozen=True)
class Refusal(BaseScorer):
    """Whether an answer declines the question.

    Parameters
    ----------
    lexicon_file : str
        A packaged lexicon's name, or the path of a YAML file with `patterns`.
    """

    name: str = "refusal"
    higher_is_better: Flag = False
    value_range: tuple[float, float] = (0.0, 1.0)
    smallest_effect: Number = 0.02
    lexicon_file: str = "refusal"

    scale: ClassVar[tuple[float, float]] = (0.0, 1.0)
    yes_no: ClassVar[bool] = True
    blank_value: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        load_patterns(self.lexicon_file)

    @property
    def lexicon(self) -> dict[str, str]:
        """Name, version and sha256 of the patterns."""
        patterns = load_patterns(self.lexicon_file)
        return {"name": patterns.name, "version": patterns.version, "sha256": patterns.sha256}

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return 0 or 1; details: `pattern`, the id of the pattern that was found, or an empty string."""
        patterns = load_patterns(self.lexicon_file)
        found = [patterns.find(text) for text in texts]
        values = np.fromiter((float(bool(which)) for which in found), np.float64, len(found))
        return Scored(values, {"pattern": np.asarray(found, dtype=np.str_)})


def default_refusal() -> Refusal:
    """Return the built-in refusal scorer, which every run computes."""
    return Refusal()


@cache
def load_patterns(reference: str) -> RefusalPatterns:
    """Load and compile a file of refusal patterns.

    Raises
    ------
    Fp2Error
        If the file is missing, a key is missing, an id occurs twice, or a pattern does not compile.
    """
    path = lexicon_path(reference)
    content = read_yaml(path)
    where = str(path)
    try:
        parts = {str(name): str(part) for name, part in (content.get("parts") or {}).items()}
        rows = [
            (str(row["id"]), _expand(str(row["pattern"]), parts), str(row["example"])) for row in content["patterns"]
        ]
        name, version = str(content["name"]), str(content["version"])
        anyway = [_expand(str(pattern), parts) for pattern in content.get("answered_anyway") or ()]
        ids = tuple(row[0] for row in rows)
        if len(set(ids)) != len(ids):
            raise Fp2Error("an id occurs twice", where=where)
        combined = re.compile("|".join(f"(?P<{which}>{pattern})" for which, pattern, _ in rows))
        cancel = re.compile("|".join(anyway)) if anyway else None
    except (KeyError, TypeError, AttributeError) as error:
        raise Fp2Error(f"not a list of refusal patterns: {error!r}", where=where) from error
    except re.error as error:
        raise Fp2Error(f"a pattern does not compile: {error}", where=where) from error
    return RefusalPatterns(name, version, digest(content), ids, tuple(row[2] for row in rows), combined, cancel)


def _expand(pattern: str, parts: dict[str, Any]) -> str:
    return re.sub(r"\{([a-z_]+)\}", lambda match: parts[match.group(1)], pattern)
