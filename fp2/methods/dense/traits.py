"""Trait words with polarity and valence: the packaged list, a list in the config, or GRAS's `selected_trait_words.csv`.

The official list has the columns `WORD_ENGLISH,VAL_MEAN,pos/neg`, 50 `positive` and 50 `negative` words, and valences
from about -3 to +3 (Britz et al. 2023). Copies that were saved by a spreadsheet are read too: other encodings, a byte
order mark, semicolons, decimal commas, capitals, blanks. What could change the analysis unnoticed (a repeated word,
unequal counts, a valence against its polarity) is reported in `TraitList.notes`. The packaged list (`gras_traits.csv`)
has the same columns.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from fp2.extension import Fp2Error, digest, in_number, nearest, plural, sha256_bytes

POSITIVE: Final = "positive"
NEGATIVE: Final = "negative"
POLARITIES: Final = (POSITIVE, NEGATIVE)
OWN_FILE: Final = Path(__file__).with_name("gras_traits.csv")
OWN_VERSION: Final = "1"
OFFICIAL_NAME: Final = "selected_trait_words.csv"

_WORD, _VALENCE, _POLARITY = "WORD_ENGLISH", "VAL_MEAN", "pos/neg"
_COLUMNS: Final = {
    _WORD: ("word_english", "word", "trait"),
    _VALENCE: ("val_mean", "valence"),
    _POLARITY: ("pos/neg", "polarity"),
}
_SAYS: Final = {**{w: POSITIVE for w in ("positive", "pos", "+")}, **{w: NEGATIVE for w in ("negative", "neg", "-")}}
_MISSING: Final = ("", "na", "nan", "n/a", "none", "null")


@dataclass(frozen=True, slots=True)
class Trait:
    """One trait word: its polarity, `positive` or `negative`, and its mean valence (about -3 to +3) if known."""

    word: str
    polarity: str
    valence: float | None = None


@dataclass(frozen=True)
class TraitList:
    """Trait words in the order of their list, with its source and digest, and notes on what is unusual about it."""

    traits: tuple[Trait, ...]
    source: str
    sha256: str
    notes: tuple[str, ...] = ()

    def count(self, polarity: str) -> int:
        """Return the number of traits with a polarity."""
        return sum(trait.polarity == polarity for trait in self.traits)


@lru_cache(maxsize=1)
def own_traits() -> TraitList:
    """Return the packaged list: 100 words, 50 of each polarity; the bundled model was trained on them."""
    traits = read_traits(OWN_FILE)
    return TraitList(traits.traits, f"fp2 {OWN_VERSION}", traits.sha256, traits.notes)


def traits_path(path: str | Path) -> Path:
    """Return the file of a list: `path`, or the official list in the folder `path` or at most two levels below."""
    folder = Path(path).expanduser()
    if not folder.is_dir():
        return folder
    from fp2.extension import find_files

    if files := find_files(folder, OFFICIAL_NAME):
        return files[0]
    fix = "Give probe.traits_file=PATH, or probe.traits_file=null for the packaged list"
    raise Fp2Error(f"there is no {OFFICIAL_NAME}", where=str(folder), fix=fix)


def read_traits(path: Path) -> TraitList:
    """Return the traits of a list with the official columns; `sha256` is the digest of the file's bytes."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        message = f"the trait list cannot be read: {error.strerror}"
        raise Fp2Error(message, where=str(path), fix="Check probe.traits_file") from error
    rows = _rows(_decoded(raw, path), path)
    traits, notes = _checked(((f"row {number}", cells) for number, cells in rows), str(path))
    return TraitList(traits, path.name, sha256_bytes(raw), notes)


def given_traits(spec: object) -> TraitList:
    """Return a config's traits: `{kind: 2.6, cruel: -2.9}`, `{kind: positive}`, or rows of word, polarity, valence."""
    where = "probe.traits"
    if isinstance(spec, Mapping):
        pairs = [(f"trait {word!r}", _of_value(word, value)) for word, value in spec.items()]
    elif isinstance(spec, Sequence) and not isinstance(spec, str):
        pairs = [(f"row {number}", _of_row(row, where)) for number, row in enumerate(spec, 1)]
    else:
        raise Fp2Error("traits is neither a mapping nor a list", where=where, fix="Write {kind: 2.6, cruel: -2.9}")
    traits, notes = _checked(pairs, where)
    return TraitList(traits, "config", digest([[t.word, t.polarity, t.valence] for t in traits]), notes)


def _of_value(word: object, value: object) -> dict[str, str]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {_WORD: str(word), _VALENCE: str(value) if is_number else "", _POLARITY: "" if is_number else str(value)}


def _of_row(row: object, where: str) -> dict[str, str]:
    if not isinstance(row, Mapping):
        raise Fp2Error(
            f"{row!r} is not a trait", where=where, fix="Write {word: kind, polarity: positive, valence: 2.6}"
        )
    columns = _places([str(name) for name in row], where)
    cells = {str(name): "" if value is None else str(value) for name, value in row.items()}
    return {ours: cells[theirs] for ours, theirs in columns.items()}


def _decoded(raw: bytes, path: Path) -> str:
    """Return the text of a file that a spreadsheet may have saved: UTF-8, UTF-16 with a mark, else Windows-1252."""
    marked = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
    for encoding in ("utf-16",) if marked else ("utf-8-sig", "cp1252"):
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\x00" not in text:
            return text
    raise Fp2Error("the trait list is not text", where=str(path), fix="Save it as CSV in UTF-8")


def _rows(text: str, path: Path) -> list[tuple[int, dict[str, str]]]:
    head = next((text_line for text_line in text.splitlines() if text_line.strip()), "")
    delimiter = max(",;\t", key=head.count)
    read = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    table_rows = [cells for cells in read if any(map(str.strip, cells))]
    if len(table_rows) < 2:
        raise Fp2Error("the trait list is empty", where=str(path))
    header = [name.strip() for name in table_rows[0]]
    columns = {ours: header.index(theirs) for ours, theirs in _places(header, str(path)).items()}
    rows = []
    for number, cells in enumerate(table_rows[1:], 1):
        if len(cells) < len(header) or any(map(str.strip, cells[len(header) :])):
            message = f"row {number} has {len(cells)} cells, the header has {len(header)}"
            raise Fp2Error(message, where=str(path), fix="Was the file copied completely?")
        rows.append((number, {name: cells[column] for name, column in columns.items()}))
    return rows


def _places(header: Sequence[str], where: str) -> dict[str, str]:
    """Return official name -> the header's name of each column; valence or polarity may be absent, not the word."""
    folded = {name.strip().casefold(): name for name in header}
    columns = {
        ours: next(folded[name] for name in names if name in folded)
        for ours, names in _COLUMNS.items()
        if any(name in folded for name in names)
    }
    missing = [name for name in (_WORD, _POLARITY) if name not in columns]
    if missing == [_POLARITY] and _VALENCE in columns:
        return columns
    if missing:
        fix = f"The official columns are {_WORD}, {_VALENCE}, {_POLARITY}; it has {', '.join(header)}"
        raise Fp2Error(f"the trait list lacks {', '.join(missing)}", where=where, fix=fix)
    return columns


def _checked(rows: Iterable[tuple[str, Mapping[str, str]]], where: str) -> tuple[tuple[Trait, ...], tuple[str, ...]]:
    """Return the traits, each word once, and notes for the reader of the results."""
    traits_of: dict[str, Trait] = {}
    twice: list[str] = []
    against: list[str] = []
    for row, cells in rows:
        trait = _trait(cells, f"{where}, {row}")
        key = trait.word.casefold()
        if key in traits_of and traits_of[key].polarity != trait.polarity:
            raise Fp2Error(f"the trait '{trait.word}' is listed as positive and as negative", where=f"{where}, {row}")
        if key in traits_of:
            twice.append(trait.word)
            continue
        traits_of[key] = trait
        if trait.valence and (trait.valence > 0) != (trait.polarity == POSITIVE):
            against.append(trait.word)
    traits = tuple(traits_of.values())
    if not traits:
        raise Fp2Error("the trait list is empty", where=where)
    return traits, tuple(_notes(traits, twice, against))


def _trait(cells: Mapping[str, str], where: str) -> Trait:
    word = " ".join(cells[_WORD].split())
    if not word:
        raise Fp2Error("the row has no word", where=where)
    valence = _valence(cells.get(_VALENCE, ""), where)
    polarity = cells.get(_POLARITY, "").strip().casefold()
    if polarity and polarity not in _SAYS:
        fix = nearest(polarity, POLARITIES)
        raise Fp2Error(f"the trait '{word}' is {polarity!r}, neither positive nor negative", where=where, fix=fix)
    if not polarity and not valence:
        raise Fp2Error(f"the trait '{word}' has neither a polarity nor a valence other than 0", where=where)
    return Trait(word, _SAYS[polarity] if polarity else (POSITIVE if (valence or 0.0) > 0 else NEGATIVE), valence)


def _valence(cell: str, where: str) -> float | None:
    text = cell.strip().replace("\u2212", "-")
    if text.casefold() in _MISSING:
        return None
    try:
        value = float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise Fp2Error(f"the valence {cell.strip()!r} is not a number", where=where)
    return value


def _notes(traits: Sequence[Trait], twice: Sequence[str], against: Sequence[str]) -> list[str]:
    counts = Counter(trait.polarity for trait in traits)
    unknown = sum(trait.valence is None for trait in traits)
    notes = []
    if counts[POSITIVE] != counts[NEGATIVE]:
        notes.append(f"{counts[POSITIVE]} traits are positive and {counts[NEGATIVE]} negative")
    if twice:
        notes.append(in_number(len(twice), f"[trait|traits] listed twice, asked once: {_some(twice)}"))
    if against:
        notes.append(f"the valence contradicts the polarity, and the polarity is used: {_some(against)}")
    if unknown:
        notes.append(f"{plural(unknown, 'trait')} without a valence")
    return notes


def _some(items: Sequence[str], maximum: int = 5) -> str:
    listed = ", ".join(items[:maximum])
    return listed if len(items) <= maximum else f"{listed} and {len(items) - maximum} more"
