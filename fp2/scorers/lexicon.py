"""Lexicons: word lists in versioned YAML files, validated and hashed, and how their terms are matched in an answer.

A lexicon file has the keys `name, version, description, lists` and optionally `ignore` (phrases in which no term
counts). Each list states what `negation` does to its terms, its `entries`, and their `size` (as a check). An entry is
one term in its surface forms, separated by slashes; the first form is the name of the term: `mansion/mansions`. A blank
in a form also matches a hyphen. The categories of `lexicons/vocabulary.yaml` are looked up in the same way; no term of
theirs counts in what is said of the image and of words in it (`lexicons/scene.yaml`).

Terms are looked up in normalised text; negation is by clause. A term matches as a whole word: not inside a longer word
("rich" in "enrichment"), not as the last part of a compound ("rich" in "nutrient-rich"), not before a contraction
("can" in "can't"). Of the forms of all lists that start at one position, the longest matches, so that "not sure" is not
also matched as "sure".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
import numpy.typing as npt

from fp2.artifacts import read_yaml
from fp2.errors import Fp2Error, nearest
from fp2.hashing import digest
from fp2.results import ENGLISH
from fp2.scorers.base import BaseScorer, normalise
from fp2.text import in_number

PACKAGED = Path(__file__).parent / "lexicons"
NegationRule = Literal["drop", "turn", "keep"]
RULES: tuple[NegationRule, ...] = ("drop", "turn", "keep")
LIST_KEYS = ("size", "negation", "turns_to", "entries")
FILE_KEYS = ("name", "version", "description", "lists", "ignore")


@dataclass(frozen=True)
class TermList:
    """Terms of one kind.

    Parameters
    ----------
    name : str
        The kind, such as `assertive`.
    negation : {"drop", "turn", "keep"}
        How a negated term is counted: not at all, for the list `turns_to`, or as if it were not negated.
    turns_to : str
        The list for which a negated term is counted; empty unless `negation` is `turn`.
    entries : tuple of tuples of str
        Normalised surface forms of each term; the first is its name.
    alone : frozenset of str
        Forms that count only where they are all of a clause ("Education: low").
    """

    name: str
    negation: NegationRule
    turns_to: str
    entries: tuple[tuple[str, ...], ...]
    alone: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Negation:
    """The words that negate a term, and their scope: `lexicons/negation.yaml`, of the vocabulary `negation_2.yaml`."""

    window: int
    negators: frozenset[str]
    suffix: str
    fillers: frozenset[str]
    breaks: tuple[str, ...]
    exceptions: tuple[str, ...]
    denials: tuple[str, ...]


@dataclass(frozen=True)
class Lexicon:
    """A lexicon file: its lists, phrases in which no term counts, the negation words, and the digest of these.

    `scene` holds the expressions for what is said of the image, where no term counts either.
    """

    name: str
    version: str
    description: str
    lists: Mapping[str, TermList]
    ignore: tuple[str, ...]
    scene: tuple[re.Pattern[str], ...]
    negation: Negation
    sha256: str

    @property
    def info(self) -> dict[str, str]:
        """Name, version and sha256, as in the scores table."""
        return {"name": self.name, "version": self.version, "sha256": self.sha256}

    def surfaces(self) -> Iterator[tuple[str, str, str]]:
        """Yield (surface form, list, term) of everything that can match; the list of an ignored phrase is empty."""
        for terms in self.lists.values():
            for forms in terms.entries:
                for form in forms:
                    yield form, terms.name, forms[0]
        for phrase in self.ignore:
            yield phrase, "", phrase


def lexicon_path(reference: str) -> Path:
    """Return the file of a packaged lexicon (`confidence`), or the user's own file (`my/words.yaml`)."""
    is_own_file = reference.endswith((".yaml", ".yml"))
    path = Path(reference) if is_own_file else PACKAGED / f"{reference}.yaml"
    if not path.is_file():
        fix = "Check the path" if is_own_file else nearest(reference, packaged_lexicons())
        raise Fp2Error(f"there is no lexicon '{reference}'", fix=fix)
    return path


def packaged_lexicons() -> list[str]:
    """Return the names of the packaged lexicons: files with a name and terms; the others are what lexicons share."""
    kinds = {"lists", "patterns", "weights", "weights_of"}
    contents = {file.stem: read_yaml(file) for file in PACKAGED.glob("*.yaml")}
    return sorted(name for name, content in contents.items() if "name" in content and kinds & content.keys())


def expand(pattern: str, parts: Mapping[str, str]) -> str:
    """Return a regular expression with each `{name}` replaced by the part of that name, parts of parts as well."""
    while (expanded := re.sub(r"\{([a-z_]+)\}", lambda match: parts[match.group(1)], pattern)) != pattern:
        pattern = expanded
    return pattern


def agreement_of(lexicon: Mapping[str, object] | None) -> dict[str, Any] | None:
    """Return `answers, n, r, same, fitted` of a packaged scorer with this lexicon (`agreement.yaml`); else None."""
    record = read_yaml(PACKAGED / "agreement.yaml")
    record_found = record["scorers"].get(str((lexicon or {}).get("sha256"))[:12])
    return {"answers": record["answers"], **record_found} if record_found else None


@cache
def load_negation(name: str = "negation") -> Negation:
    """Return the negation words of a packaged file, which lexicons share."""
    content = read_yaml(PACKAGED / f"{name}.yaml")
    return Negation(
        window=int(content["window"]),
        negators=frozenset(content["negators"]),
        suffix=str(content["suffix"]),
        fillers=frozenset(content["fillers"]),
        breaks=tuple(content["breaks"]),
        exceptions=tuple(content["exceptions"]),
        denials=tuple(content.get("denials", ())),
    )


@cache
def load_vocabulary() -> Lexicon:
    """Return `lexicons/vocabulary.yaml`: a list for each category, choices `[a|b]` and `{part}` written out."""
    content = read_yaml(PACKAGED / "vocabulary.yaml")
    part_of = {f"{{{name}}}": str(forms_text) for name, forms_text in content["parts"].items()}
    lists = {}
    for name, text in content["categories"].items():
        forms: dict[str, None] = {}
        for form in (form for row in re.split(r"[/\n]", str(text).strip()) for form in _written_out(row, part_of)):
            forms[form] = None
            if name in content["plural"] and not form.endswith("s"):
                forms[f"{form}s"] = None
        alone = frozenset(forms) if name in content["alone"] else frozenset()
        lists[name] = TermList(name, "keep", "", tuple((form,) for form in forms), alone)
    ignore = {form: None for phrase in content["ignore"] for form in _written_out(str(phrase), {})}
    scene, negation = read_yaml(PACKAGED / "scene.yaml"), read_yaml(PACKAGED / "negation_2.yaml")
    return Lexicon(
        str(content["name"]),
        str(content["version"]),
        str(content["description"]),
        lists,
        tuple(ignore),
        tuple(re.compile(pattern) for pattern in scene["patterns"]),
        load_negation("negation_2"),
        digest([content, scene, negation]),
    )


def _written_out(text_row: str, part_of: Mapping[str, str]) -> tuple[str, ...]:
    def choices(piece: str) -> list[str]:
        return re.sub(r"\{\w+\}", lambda match: part_of[match.group()], piece.strip("[]")).split("|")

    forms: dict[str, None] = {}
    for form in text_row.split("/"):
        pieces = [choices(piece) for piece in re.split(r"(\[[^\]]*\]|\{\w+\})", form) if piece]
        forms |= dict.fromkeys(clean_form("".join(chosen)) for chosen in product(*pieces))
    return tuple(forms)


@cache
def load_lexicon(reference: str) -> Lexicon:
    """Load and validate a lexicon; the digest covers its content and the negation words."""
    path = lexicon_path(reference)
    content = read_yaml(path)
    where = str(path)
    _check_keys(content, FILE_KEYS, required=("name", "version", "lists"), where=where)
    if not isinstance(content["lists"], dict) or not content["lists"]:
        raise Fp2Error("'lists' must name at least one list", where=where)
    lists = {name: _term_list(name, body, where) for name, body in content["lists"].items()}
    for terms in lists.values():
        if terms.negation == "turn" and terms.turns_to not in lists:
            raise Fp2Error(
                f"turns_to of the list '{terms.name}' names an unknown list",
                where=where,
                fix=nearest(terms.turns_to, lists),
            )
    ignore = tuple(form for phrase in content.get("ignore") or () for form in _written_out(str(phrase), {}))
    lexicon = Lexicon(
        name=str(content["name"]),
        version=str(content["version"]),
        description=" ".join(str(content.get("description", "")).split()),
        lists=lists,
        ignore=ignore,
        scene=(),
        negation=load_negation(),
        sha256=digest({"lexicon": content, "negation": read_yaml(PACKAGED / "negation.yaml")}),
    )
    forms = Counter(form for terms in lists.values() for entry in terms.entries for form in entry)
    if repeated := next((form for form, n in forms.items() if n > 1), None):
        raise Fp2Error(f"'{repeated}' occurs twice", where=where)
    return lexicon


def clean_form(form: object) -> str:
    """Return a surface form as in normalised text, with blanks for hyphens."""
    return " ".join(normalise(str(form)).replace("-", " ").split())


def _term_list(name: str, body: object, where: str) -> TermList:
    where = f"{where}, list '{name}'"
    if not isinstance(body, dict):
        raise Fp2Error("a mapping with size, negation and entries was expected", where=where)
    _check_keys(body, LIST_KEYS, required=("size", "negation", "entries"), where=where)
    if body["negation"] not in RULES:
        raise Fp2Error(
            f"unknown negation rule '{body['negation']}'", where=where, fix=nearest(str(body["negation"]), RULES)
        )
    raw = body["entries"]
    if not isinstance(raw, list) or not all(isinstance(entry, str) for entry in raw):
        raise Fp2Error("entries must be a list of strings (quote words such as 'no' and 'yes')", where=where)
    if len(raw) != body["size"]:
        raise Fp2Error(f"{len(raw)} entries, but size says {body['size']}", where=where)
    entries = [tuple(clean_form(form) for form in entry.split("/")) for entry in raw]
    if not all(form for forms in entries for form in forms):
        raise Fp2Error("an entry has an empty form", where=where)
    return TermList(name, cast("NegationRule", body["negation"]), str(body.get("turns_to", "")), tuple(entries))


def _check_keys(
    content: Mapping[str, object], allowed: tuple[str, ...], *, required: tuple[str, ...], where: str
) -> None:
    for key in content:
        if key not in allowed:
            raise Fp2Error(f"unknown key '{key}'", where=where, fix=nearest(str(key), allowed))
    for key in required:
        if key not in content:
            raise Fp2Error(f"the key '{key}' is missing", where=where)


_TOKEN = re.compile(r"[\w%]+(?:'\w+)*")
_ALONE_BEFORE, _ALONE_AFTER = re.compile(r"(?:^|[.,:;!?(\"]) ?$"), re.compile(r" ?(?:$|[.,;!?)\"])")
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
    """The terms of a lexicon, by form; `matcher` returns a shared one."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._terms: dict[str, dict[str, str]] = {}
        self._longest: dict[str, int] = {}
        for form, kind, term in lexicon.surfaces():
            self._terms.setdefault(form, {}).setdefault(kind, term)
            tokens = _TOKEN.findall(form)
            self._longest[tokens[0]] = max(self._longest.get(tokens[0], 0), len(tokens))
        self.negated = NegationFinder(lexicon.negation)

    def hits(self, text: str) -> Iterator[Hit]:
        """Yield the terms of a **normalised** text from left to right, without those in ignored places."""
        scene = [match.span() for pattern in self.lexicon.scene for match in pattern.finditer(text)]
        for start, end, form in self._forms(text):
            kinds = self._terms[form]
            if "" in kinds or any(low <= start < high for low, high in scene):
                continue
            negated = self.negated(text, start, end)
            for kind, term in kinds.items():
                if form not in self.lexicon.lists[kind].alone or is_alone(text, start, end):
                    yield Hit(kind, term, start, end, negated)

    def _forms(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield (start, end, form) of the longest form at each word that is not part of an earlier one."""
        tokens = [match.span() for match in _TOKEN.finditer(text)]
        spaced = text.replace("-", " ")
        index = 0
        while index < len(tokens):
            start, end = tokens[index]
            first = spaced[start:end]
            longest = max(self._longest.get(first, 0), self._longest.get(first.removesuffix("'s"), 0))
            inside = start > 1 and text[start - 1] in "-'" and text[start - 2].isalnum()
            for last in range(index + longest - 1, index - 1, -1) if longest and not inside else ():
                if last < len(tokens):
                    candidate = spaced[start : tokens[last][1]]
                    form = candidate if candidate in self._terms else candidate.removesuffix("'s")
                    if form in self._terms:
                        yield start, start + len(form), form
                        index = last
                        break
            index += 1

    def counts(self, text: str) -> dict[str, int]:
        """Return the number of terms of each list in a raw answer, negated terms by the rule of their list."""
        count_of = dict.fromkeys(self.lexicon.lists, 0)
        for hit in self.hits(normalise(text)):
            terms = self.lexicon.lists[hit.list]
            if not hit.negated or terms.negation == "keep":
                count_of[hit.list] += 1
            elif terms.negation == "turn":
                count_of[terms.turns_to] += 1
        return count_of


def is_alone(text: str, start: int, end: int) -> bool:
    """Whether the words from `start` to `end` are all of a clause of a normalised text."""
    return bool(_ALONE_BEFORE.search(text, max(0, start - 2), start) and _ALONE_AFTER.match(text, end))


class NegationFinder:
    """Whether a term in a normalised text is negated.

    Searches the `window` words before it in the same clause, not counting fillers such as "very", and in answers read
    with the vocabulary a denial after it ("Honest: no"). Words such as "but" end a clause like punctuation; phrases
    such as "not only" do not negate.
    """

    def __init__(self, rule: Negation) -> None:
        self._rule = rule
        self._clause = re.compile(rf"[.,;:!?()\"]|\s-\s|\b(?:{'|'.join(map(re.escape, rule.breaks))})\b")
        self._exceptions = re.compile(rf"\b(?:{'|'.join(map(re.escape, rule.exceptions))})\b")
        self._denials = re.compile(rf" ?[:=] ?(?:{'|'.join(map(re.escape, rule.denials))})\b") if rule.denials else None
        phrases = [re.escape(phrase) for phrase in sorted(rule.negators) if " " in phrase]
        self._phrases = re.compile(rf"\b(?:{'|'.join(phrases)})\b") if phrases else None
        self._word = re.compile(r"[\w']+")

    def __call__(self, text: str, start: int, end: int | None = None) -> bool:
        """Return whether the words from `start` to `end` are negated."""
        if self._denials is not None and end is not None and self._denials.match(text, end):
            return True
        before = text[max(0, start - _REACH) : start]
        clause = self._clause.split(self._phrases.sub(" not ", before) if self._phrases else before)[-1]
        tokens = [w for w in self._word.findall(self._exceptions.sub(" ", clause)) if w not in self._rule.fillers]
        return any(
            word in self._rule.negators or word.endswith(self._rule.suffix) for word in tokens[-self._rule.window :]
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
    """

    lexicon_file: str = ""

    lists: ClassVar[tuple[str, ...]] = ()
    optional_lists: ClassVar[tuple[str, ...]] = ()
    limitations = (ENGLISH,)

    def __post_init__(self) -> None:
        super().__post_init__()
        lists = load_lexicon(self.lexicon_file).lists
        if self.lists and set(lists) - set(self.optional_lists) != set(self.lists):
            message, fix = (
                in_number(len(lists), f"the lexicon has the [list|lists] {', '.join(lists)}"),
                f"Needed: {', '.join(self.lists)}",
            )
            raise Fp2Error(message, where=self.lexicon_file, fix=fix)

    @property
    def lexicon(self) -> dict[str, str]:
        """Name, version and sha256 of the lexicon."""
        return load_lexicon(self.lexicon_file).info

    def counts(self, texts: Sequence[str]) -> dict[str, npt.NDArray[np.int64]]:
        """Return the number of terms in each text, shape (n,), for each list of the lexicon."""
        terms = matcher(self.lexicon_file)
        count = cache(terms.counts)
        counts = [count(text) for text in texts]
        return {name: np.fromiter((row[name] for row in counts), np.int64, len(counts)) for name in terms.lexicon.lists}
