"""Conditions on subjects and images, such as `visible_keypoints >= 25 and pronoun == 'He/him/his'`.

They are parsed, and never run as code.

Grammar:

    condition  = both { "or" both }
    both       = one { "and" one }
    one        = "not" one | "(" condition ")" | name operator value | name ["not"] "in" "(" value { "," value } ")"
    operator   = "==" | "!=" | "<" | "<=" | ">" | ">="
    value      = number | quoted text | bare word

A name is a column: an attribute (`pronoun`) or a feature (`visible_keypoints`). An attribute may have several values:
`==` and `in` are true if one of them matches, `!=` and `not in` if none does. A comparison with a missing value is
neither true nor false (Kleene's three-valued logic); rows for which the whole condition is true are kept.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fp2.extension import ATTRIBUTE_PREFIX, Fp2Error, nearest

if TYPE_CHECKING:
    import pandas as pd

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\w+])"
    r"|(?P<text>'[^']*'|\"[^\"]*\")|(?P<sign>==|!=|<=|>=|<|>|\(|\)|,)|(?P<word>[A-Za-z_]\w*))"
)
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_WORDS = ("and", "or", "not", "in")
_FIX = "Write it as visible_keypoints>=25, pronoun=='He/him/his' or age in ('50-59','60+'), joined by and, or, not"
_MOST = 2000  # characters

Token = tuple[str, Any]


def keep(frame: pd.DataFrame, condition: str | None) -> pd.DataFrame:
    """Return the rows of `frame` for which `condition` is true; all rows without a condition.

    Raises
    ------
    Fp2Error
        If the condition is invalid, names an unknown column or compares text with numbers.
    """
    return frame if not condition else frame[holds(frame, condition).fillna(False).astype(bool)]


def holds(frame: pd.DataFrame, condition: str) -> pd.Series[Any]:
    """Return true, false or missing (dtype `boolean`) for each row of `frame`; raises as `keep`."""
    parser = _Parser(condition, frame)
    found = parser.condition()
    parser.end()
    return found


def names_in(condition: str) -> list[str]:
    """Return the columns that a condition names, in order; raises as `keep`."""
    tokens = list(_tokens(condition))
    follows = [*tokens[1:], ("end", "")]
    starts = {*_COMPARE, "in", "not"}
    return list(
        dict.fromkeys(
            str(value)
            for (kind, value), (_, after) in zip(tokens, follows, strict=True)
            if kind == "word" and value not in _WORDS and after in starts
        )
    )


def _tokens(text: str) -> Iterator[Token]:
    if len(text) > _MOST:
        raise Fp2Error(f"a condition is longer than {_MOST} characters", where="within")
    place = 0
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        if match is None:
            raise Fp2Error(f"cannot parse {text[place:].strip()[:30]!r}", where=f"within={text}", fix=_FIX)
        place, kind = match.end(), str(match.lastgroup)
        token = match[kind]
        yield kind, float(token) if kind == "number" else token[1:-1] if kind == "text" else token


class _Parser:
    """A recursive-descent parser that evaluates the condition for every row."""

    def __init__(self, text: str, frame: pd.DataFrame) -> None:
        self.text, self.frame = text, frame
        self.tokens, self.place, self.depth = [*_tokens(text), ("end", "")], 0, 0

    def condition(self) -> pd.Series[Any]:
        found = self.both()
        while self.taken("or"):
            found = found | self.both()
        return found

    def both(self) -> pd.Series[Any]:
        found = self.one()
        while self.taken("and"):
            found = found & self.one()
        return found

    def one(self) -> pd.Series[Any]:
        self.depth += 1
        if self.depth > 50:
            raise self.error("it is nested too deeply")
        if self.taken("not"):
            found = ~self.one()
        elif self.taken("("):
            found = self.condition()
            self.need(")")
        else:
            found = self.comparison()
        self.depth -= 1
        return found

    def comparison(self) -> pd.Series[Any]:
        kind, name = self.next()
        if kind != "word" or name in _WORDS:
            raise self.error(f"{name!r} is not a column name")
        cells = self.column(str(name))
        if self.taken("not"):
            self.need("in")
            return ~self.inside(cells, str(name))
        if self.taken("in"):
            return self.inside(cells, str(name))
        _, sign = self.next()
        if sign not in _COMPARE:
            raise self.error(f"an operator is missing after {name}")
        return _compared(cells, str(sign), self.value(), self.error, str(name))

    def inside(self, cells: pd.Series[Any], name: str) -> pd.Series[Any]:
        self.need("(")
        found = _compared(cells, "==", self.value(), self.error, name)
        while self.taken(","):
            found = found | _compared(cells, "==", self.value(), self.error, name)
        self.need(")")
        return found

    def column(self, name: str) -> pd.Series[Any]:
        for column in (ATTRIBUTE_PREFIX + name, name):
            if column in self.frame.columns:
                return self.frame[column]
        known = [str(column).removeprefix(ATTRIBUTE_PREFIX) for column in self.frame.columns]
        raise Fp2Error(f"no column {name!r}", where=f"within={self.text}", fix=nearest(name, known))

    def value(self) -> Any:
        kind, value = self.next()
        if kind in ("number", "text") or (kind == "word" and value not in _WORDS):
            return value
        raise self.error("a value is missing")

    def next(self) -> Token:
        token = self.tokens[self.place]
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    def taken(self, sign: str) -> bool:
        kind, value = self.tokens[self.place]
        if kind in ("sign", "word") and value == sign:
            self.place += 1
            return True
        return False

    def need(self, sign: str) -> None:
        if not self.taken(sign):
            raise self.error(f"{sign!r} is missing")

    def end(self) -> None:
        if self.tokens[self.place][0] != "end":
            raise self.error(f"{self.tokens[self.place][1]!r} is not expected")

    def error(self, what: str) -> Fp2Error:
        return Fp2Error(f"invalid condition: {what}", where=f"within={self.text}", fix=_FIX)


def _compared(
    cells: pd.Series[Any], sign: str, value: Any, error: Callable[[str], Fp2Error], name: str
) -> pd.Series[Any]:
    """Return one comparison for every cell; a cell with several values matches if one does (`!=`: if none does)."""
    import pandas as pd

    if _holds_lists(cells):
        return pd.Series([_any_matches(cell, sign, value, error, name) for cell in cells], cells.index, dtype="boolean")
    if pd.api.types.is_numeric_dtype(cells) or pd.api.types.is_bool_dtype(cells):
        if not isinstance(value, float):
            raise error(f"{name} is a number, {value!r} is not")
        compared = _COMPARE[sign](cells.astype("float64"), value)
    else:
        if sign not in ("==", "!="):
            raise error(f"{name} is text, which has no order")
        compared = _COMPARE[sign](cells.astype("str"), _text(value))
    known: pd.Series[Any] = compared.astype("boolean").mask(cells.isna())
    return known


def _any_matches(
    cell: Sequence[str], sign: str, value: Any, error: Callable[[str], Fp2Error], name: str
) -> bool | None:
    if not len(cell):
        return None
    if sign not in ("==", "!="):
        raise error(f"{name} is text, which has no order")
    matches = any(item == _text(value) for item in cell)
    return matches if sign == "==" else not matches


def _holds_lists(cells: pd.Series[Any]) -> bool:
    first = next((cell for cell in cells if cell is not None), None)
    return first is not None and not isinstance(first, str) and hasattr(first, "__len__")


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
