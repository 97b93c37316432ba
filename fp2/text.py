"""Text from outside (file names, ids, data sets, models, servers) before it is shown, logged or written to a table.

The one boundary for such text: control characters and direction overrides are shown as escapes (`\\x1b`), so that they
cannot change a terminal, hide a word or end a line, and the length is bounded. Markup is switched off where text is
printed (`fp2.progress.Terminal`) and escaped by the template of the dashboard.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

Cell = TypeVar("Cell")
LONGEST = 2000
"""Characters of a message; more is cut."""
_SPACES = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029")
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_BREAKS = ("\t", "\r", "\n")
_SIGNS = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
"""First characters of what a spreadsheet evaluates, and their full-width forms."""
_SKIPPED = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
"""Categories of characters that a spreadsheet may remove before it looks: white space, invisible ones, controls."""


RUN_ID = re.compile(r"[0-9A-Za-z_\-]{1,100}")
"""Ids of runs: they name folders."""


def normal_id(value: object) -> str:
    """Return an id in Unicode normalisation form C (UAX #15), without white space at its ends.

    Two spellings of one name are one id: a subject is found again, and removed, however the id was typed.
    """
    return unicodedata.normalize("NFC", str(value)).strip()


def printable(text: object, limit: int | None = LONGEST) -> str:
    """Return `text` on one line: line breaks are spaces, other control characters are escapes, no more than `limit`.

    Unpaired surrogates, which no file and no terminal can take, are escapes too.
    """
    text_given = str(text)
    if limit is not None and len(text_given) > limit:
        text_given = f"{text_given[: limit - 1]}…"
    return text_given if text_given.isascii() and text_given.isprintable() else "".join(map(_shown, text_given))


def plural(n: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 image`, `2 images`; `many` is the plural where it is more than an s."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def first_few(texts: Sequence[str], more: str = "more") -> str:
    """Return the first three texts, and how many more there are."""
    rest = len(texts) - 3
    return ", ".join(texts[:3]) + (f" and {rest} {more}" if rest > 0 else "")


def in_number(n: int, text: str) -> str:
    """Return a text with its words in the number of `n`: of `[image|images] [is|are]` the first forms for 1."""
    return re.sub(r"\[([^|\]]*)\|([^|\]]*)\]", lambda forms: forms.group(1 if n == 1 else 2), text)


def spreadsheet_cell(value: Cell) -> Cell | str:
    """Return a value for a CSV file that is only read by people: on one line, bounded, and no formula (`quoted`)."""
    if not isinstance(value, str):
        return value
    return f"'{printable(value)}" if _is_formula(value) else printable(value)


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header, every cell as `spreadsheet_cell` has it."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: spreadsheet_cell(value) for key, value in row.items()} for row in rows)
    return stream.getvalue()


def quoted(text: str) -> str:
    """Return text for a CSV file that is read again: an apostrophe stands before what a spreadsheet would evaluate.

    One more stands before text that looks as if it were quoted already, so that `unquoted` gives the same text again.
    """
    return f"'{text}" if _is_formula(text.lstrip("'")) else text


def unquoted(text: str) -> str:
    """Return the text that `quoted` was given."""
    return text[1:] if text.startswith("'") and _is_formula(text.lstrip("'")) else text


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet might evaluate the text: a sign begins it, or follows characters that are not seen."""
    first = next((char for char in text if unicodedata.category(char) not in _SKIPPED), "")
    return text.startswith(_BREAKS) or first in _SIGNS


def _shown(char: str) -> str:
    if char in _SPACES:
        return " "
    if char.isprintable() or (unicodedata.category(char) in ("Cf", "Zs") and char not in _DIRECTIONS):
        return char
    return char.encode("unicode_escape").decode("ascii")
