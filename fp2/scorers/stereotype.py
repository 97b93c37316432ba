"""Stereotype alignment: whether an answer ascribes a stereotype to the person, from 0 to 1.

Version 2 (`lexicons/stereotype_2.yaml`) estimates the probability that an answer ascribes one of eighteen kinds of
stereotypes (`docs/scorers.md`) from the terms for these, with negation, and from words (`fp2.scorers.fitted`).
Version 3 (`lexicons/stereotype_3.yaml`) adds a rule: an answer that gives a group as its reason, or says what a group
is like, is very probably one.

Version 1 (`lexicons/stereotype.yaml`, the default of 0.3.0) is the similarity to a fixed corpus of terms, each of which
is one document. scikit-learn's TF-IDF (unigrams and bigrams, smoothed idf, unit length) is fitted on these documents
only, so that a score does not depend on other answers. The score is the largest cosine with any term; the mean cosine
over the terms is a detail. Before that, each surface form is replaced by the name of its term, and negated terms are
removed. Words outside the corpus do not count, so that a single term in a long answer gives 1, and k different terms
give about 1/sqrt(k) at most; the detail `terms` is their number.

`published` takes the terms of version 1 from the user's own copies of StereoSet, WinoBias and CrowS-Pairs, which the
Fingerprint² page names (entry point of `fp2.terms`), in place of our own list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar

import numpy as np

from fp2.data.base import Content, OmitDefault
from fp2.errors import Fp2Error
from fp2.hashing import digest
from fp2.plugins import TERMS, load
from fp2.scorers.base import Flag, Number, Scored, normalise
from fp2.scorers.fitted import FittedScorer, load_weights
from fp2.scorers.labels import STEREOTYPE, LabelScale
from fp2.scorers.lexicon import Lexicon, Matcher, expand, matcher
from fp2.stats.core.numeric import FloatArray

_DROPPED = " droppedterm "
"""Replaces a negated term: not a word of the corpus, and it keeps the words around it from forming a bigram."""
_BLOCK = 8192


def _published_lexicon(folder: str) -> Lexicon:
    lexicon: Lexicon = load(TERMS, "published", "scorer.stereotype.published")(folder)
    return lexicon


def _terms_digest(folder: str) -> str:
    return _published_lexicon(folder).sha256


@dataclass(frozen=True)
class Stereotype(FittedScorer):
    """The probability that an answer ascribes a stereotype; or its largest TF-IDF cosine with a term of a corpus.

    Parameters
    ----------
    published : str, optional
        A file, or a folder with files, of StereoSet, WinoBias or CrowS-Pairs; in place of `lexicon_file`.
    groups_only : bool
        0 for every answer to which the rule of version 3 does not apply, such as "A slum", which names no group.
    """

    name: str = "stereotype"
    higher_is_better: Flag = False
    value_range: tuple[float, float] = (0.0, 1.0)
    smallest_effect: Number = 0.025
    lexicon_file: str = "stereotype_3"
    published: Annotated[str | None, OmitDefault(), Content(_terms_digest)] = None
    groups_only: Annotated[Flag, OmitDefault()] = False

    scale: ClassVar[tuple[float, float]] = (0.0, 1.0)
    label_scale: ClassVar[LabelScale] = STEREOTYPE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._by_terms:
            _terms(self.lexicon_file, self.published)
        if self.groups_only and (self._by_terms or _group_statements(self.lexicon_file) is None):
            where = f"scorer.{self.name}.groups_only"
            raise Fp2Error(
                "only version 3 has a rule of groups", where=where, fix="Leave out lexicon_file and published"
            )

    @property
    def _by_terms(self) -> bool:
        return self.published is not None or load_weights(self.lexicon_file) is None

    @property
    def lexicon(self) -> dict[str, str]:
        """Name, version and sha256 of the weights or terms; another sha256 with `groups_only`."""
        if self._by_terms:
            return _terms(self.lexicon_file, self.published).lexicon.info
        info = super().lexicon
        return {**info, "sha256": digest([info["sha256"], "groups_only"])} if self.groups_only else info

    def score(self, texts: Sequence[str], probes: Sequence[str]) -> Scored:
        """Return the probabilities, or the cosines; detail of version 3: `of_a_group`, whether its rule applies."""
        if self._by_terms:
            return super().score(texts, probes)
        values = self.probabilities(texts, probes)[1.0]
        if (rule := _group_statements(self.lexicon_file)) is None:
            return Scored(values)
        minimum, pattern = rule
        of_a_group = np.asarray([bool(pattern.search(normalise(text))) for text in texts], dtype=bool)
        others = np.zeros(len(values)) if self.groups_only else values
        return Scored(np.where(of_a_group, np.fmax(values, minimum), others), {"of_a_group": of_a_group})

    def score_unique(self, texts: Sequence[str]) -> Scored:
        """Return the largest cosine; details: `mean_cosine` over all terms, and the number of `terms` not negated."""
        cleaned, counts = [], []
        for text in texts:
            clean, count = canonical(_terms(self.lexicon_file, self.published), text)
            cleaned.append(clean)
            counts.append(count)
        largest, mean = _cosines(self.lexicon_file, self.published, cleaned)
        return Scored(largest, {"mean_cosine": mean, "terms": np.asarray(counts, dtype=np.int64)})


@cache
def _group_statements(lexicon_file: str) -> tuple[float, re.Pattern[str]] | None:
    """Return the least value of an answer that draws a conclusion from a group, and the pattern of such answers."""
    weights = load_weights(lexicon_file)
    if weights is None or not weights.rule:
        return None
    try:
        part_of = {name: "|".join(terms) for name, terms in weights.rule["parts"].items()}
        statements = [expand(statement, part_of) for statement in weights.rule["statements"]]
        return float(weights.rule["of_a_group"]), re.compile("|".join(statements))
    except (KeyError, TypeError, ValueError, re.error) as error:
        raise Fp2Error(f"not a rule of stereotypes: {error!r}", where=lexicon_file) from error


def corpus(lexicon: Lexicon) -> list[str]:
    """Return the documents: the names of all terms, in the order of the file."""
    return [forms[0] for terms in lexicon.lists.values() for forms in terms.entries]


def canonical(terms: Matcher, text: str) -> tuple[str, int]:
    """Return the normalised text with terms in their first form and negated ones removed, and the number of terms."""
    plain = normalise(text)
    pieces, last, count = [], 0, 0
    for hit in terms.hits(plain):
        dropped = hit.negated and terms.lexicon.lists[hit.list].negation == "drop"
        pieces += [plain[last : hit.start], _DROPPED if dropped else hit.term]
        last, count = hit.end, count + (not dropped)
    return "".join([*pieces, plain[last:]]), count


@cache
def _terms(lexicon_file: str, published: str | None) -> Matcher:
    return Matcher(_published_lexicon(published)) if published else matcher(lexicon_file)


@cache
def _fitted(lexicon_file: str, published: str | None) -> tuple[Any, Any]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectoriser = TfidfVectorizer(ngram_range=(1, 2), lowercase=False, norm="l2", use_idf=True, smooth_idf=True)
    documents = vectoriser.fit_transform(corpus(_terms(lexicon_file, published).lexicon))
    return vectoriser, documents.T.tocsr()


def _cosines(lexicon_file: str, published: str | None, texts: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    largest, mean = np.zeros(len(texts)), np.zeros(len(texts))
    for start in range(0, len(texts), _BLOCK):
        vectoriser, documents = _fitted(lexicon_file, published)
        block = slice(start, start + _BLOCK)
        cosines = (vectoriser.transform(texts[block]) @ documents).toarray()
        largest[block], mean[block] = cosines.max(axis=1), cosines.mean(axis=1)
    return np.clip(largest, 0.0, 1.0), mean
