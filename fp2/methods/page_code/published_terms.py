"""Stereotype terms from the user's own copies of StereoSet, WinoBias and CrowS-Pairs, as a lexicon.

The Fingerprint² page compiles about 60 terms from these three and does not list them. Here, from every file given:

- StereoSet (`dev.json`; Nadeem et al. 2021): the words in the place of BLANK in the sentences labelled `stereotype`;
- WinoBias (`pro_stereotyped_type1.txt.dev` and so on; Zhao et al. 2018): the occupations in brackets;
- CrowS-Pairs (`crows_pairs_anonymized.csv`; Nangia et al. 2020): the words that only the more stereotypical sentence of
  a `stereo` pair has, for the kinds of bias in which these are traits and not names of groups.

Of each source the terms of the most sentences are taken (ties in the order of the alphabet), in equal parts. Nothing of
the files is part of this package.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fp2.extension import (
    Fp2Error,
    Lexicon,
    TermList,
    clean_form,
    dialect,
    digest,
    load_negation,
    read_table,
)

N_TERMS = 60
"""As many as the page has."""
TRAITS = ("socioeconomic", "physical-appearance", "age", "disability")
"""Kinds of bias of CrowS-Pairs whose sentences differ in a trait (`poor`), not in the name of a group."""
FORMS = "StereoSet's dev.json, WinoBias' pro_stereotyped_*.txt.* or CrowS-Pairs' crows_pairs_anonymized.csv"
_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_BRACKETS = re.compile(r"\[([^\]]+)\]")
_ARTICLE = re.compile(r"^(?:the|a|an) ", re.IGNORECASE)
_PRONOUNS = frozenset(("he", "she", "him", "her", "his", "hers", "himself", "herself"))


@cache
def published_lexicon(place: str) -> Lexicon:
    """Return the terms of a file, or of all files in a folder, as a lexicon with one list."""
    path = Path(place).expanduser()
    if not path.exists():
        raise Fp2Error("there is no such file or folder", where=place, fix=f"Give {FORMS}, or their folder")
    counts: dict[str, Counter[str]] = {}
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        for source, terms in _read(file):
            counts.setdefault(source, Counter()).update(terms)
    chosen = most_frequent({source: count for source, count in sorted(counts.items()) if count})
    if not chosen:
        raise Fp2Error("no stereotype term is found", where=place, fix=f"Give {FORMS}, or their folder")
    names = "+".join(sorted({source for source, count in counts.items() if count}))
    negation = load_negation()
    listed = TermList("terms", "drop", "", tuple((term,) for term in chosen))
    sha256 = digest({"terms": chosen, "sources": names})
    text = f"The {len(chosen)} most frequent terms."
    return Lexicon(names, "1", text, {"terms": listed}, (), (), negation, sha256)


def most_frequent(counts: Mapping[str, Counter[str]], n: int = N_TERMS) -> list[str]:
    """Return up to `n` terms, of each source in equal parts; one that two sources have counts for the first."""
    chosen: list[str] = []
    for index, (_, terms) in enumerate(counts.items()):
        share = (index + 1) * n // len(counts) - index * n // len(counts)
        ranked = (term for term, _ in sorted(terms.items(), key=lambda item: (-item[1], item[0])) if term not in chosen)
        chosen += [term for _, term in zip(range(share), ranked, strict=False)]
    return chosen


def _read(path: Path) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield (source, terms of one sentence) of a file; nothing of a file of another form."""
    reader: Callable[[Path], Iterator[tuple[str, Iterable[str]]]] | None = None
    if path.is_file():
        if path.suffix == ".json":
            reader = _stereoset
        elif path.suffix == ".csv":
            reader = _crows_pairs
        elif path.name.startswith("pro_stereotyped") and ".txt" in path.suffixes:
            reader = _winobias
    try:
        yield from reader(path) if reader else ()
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Fp2Error(f"the file cannot be read: {type(error).__name__}: {error}", where=str(path)) from error


def _stereoset(path: Path) -> Iterator[tuple[str, Iterable[str]]]:
    content: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, dict) or "intrasentence" not in data:
        return
    for item in data["intrasentence"]:
        before, blank, after = item["context"].partition("BLANK")
        for sentence in item["sentences"]:
            text = sentence["sentence"]
            if blank and sentence["gold_label"] == "stereotype" and len(text) > len(before) + len(after):
                yield "stereoset", _terms([text[len(before) : len(text) - len(after)]])


def _winobias(path: Path) -> Iterator[tuple[str, Iterable[str]]]:
    for text in path.read_text(encoding="utf-8-sig").splitlines():
        named = (_ARTICLE.sub("", name.strip()) for name in _BRACKETS.findall(text))
        yield "winobias", _terms(name for name in named if name.casefold() not in _PRONOUNS)


def _crows_pairs(path: Path) -> Iterator[tuple[str, Iterable[str]]]:
    if not {"sent_more", "sent_less", "stereo_antistereo", "bias_type"} <= set(dialect(path).header):
        return
    for row in read_table(path).to_dict("records"):
        if row["stereo_antistereo"] == "stereo" and row["bias_type"] in TRAITS:
            shared = {word.casefold() for word in _WORD.findall(row["sent_less"])}
            stereotyped_words = (word for word in _WORD.findall(row["sent_more"]) if word.casefold() not in shared)
            yield "crows_pairs", _terms(word for word in stereotyped_words if word == word.casefold())


def _terms(texts: Iterable[str]) -> set[str]:
    """Return texts as terms of one or two words; others, and words that carry no content, are left out."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    terms = {clean_form(" ".join(_WORD.findall(text))) for text in texts}
    return {term for term in terms if 0 < len(term.split()) <= 2 and len(term) > 2 and term not in ENGLISH_STOP_WORDS}
