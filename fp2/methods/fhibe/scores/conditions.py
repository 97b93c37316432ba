"""Conditions on subjects and images, such as `visible_keypoints >= 25 and pronoun == 'He/him/his'`.

They have the form of Python's comparisons, joined by and, or, not and parentheses; they are parsed, and never run as
code. On the left stands a column: an attribute (`pronoun`) or a feature (`visible_keypoints`); on the right a number, a
quoted text, a bare word or, after `in`, several of them in parentheses.

An attribute may have several values: `==` and `in` are true if one of them matches, `!=` and `not in` if none does. A
comparison with a missing value is neither true nor false (Kleene's three-valued logic); rows for which the whole
condition is true are kept.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from fp2.extension import ATTRIBUTE_PREFIX, Fp2Error, nearest

if TYPE_CHECKING:
    import pandas as pd

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.In: operator.eq, ast.NotIn: operator.ne,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_FIX = "Write it as visible_keypoints>=25, pronoun=='He/him/his' or age in ('50-59','60+'), joined by and, or, not"
_MAX_CHARACTERS = 2000


def keep(frame: pd.DataFrame, condition: str | None) -> pd.DataFrame:
    """Return the rows of `frame` for which `condition` is true; all rows without a condition."""
    return frame if not condition else frame[holds(frame, condition).fillna(False).astype(bool)]


def holds(frame: pd.DataFrame, condition: str) -> pd.Series[Any]:
    """Return true, false or missing (dtype `boolean`) for each row of `frame`."""

    def evaluate(node: ast.expr) -> pd.Series[Any]:
        if isinstance(node, ast.BoolOp):
            join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
            return reduce(join, [evaluate(value) for value in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~evaluate(node.operand)
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and len(node.ops) == 1:
            return _compared(frame, node.left.id, type(node.ops[0]), node.comparators[0], condition)
        raise _invalid(condition, f"{ast.unparse(node)[:30]!r} is no comparison")

    try:
        return evaluate(_parsed(condition))
    except RecursionError:
        raise _invalid(condition, "it is nested too deeply") from None


def names_in(condition: str) -> list[str]:
    """Return the columns that a condition names, in order."""
    compared = [node for node in ast.walk(_parsed(condition)) if isinstance(node, ast.Compare)]
    names = [(node.col_offset, node.left.id) for node in compared if isinstance(node.left, ast.Name)]
    return list(dict.fromkeys(name for _, name in sorted(names)))


def _parsed(condition: str) -> ast.expr:
    if len(condition) > _MAX_CHARACTERS:
        raise Fp2Error(f"a condition is longer than {_MAX_CHARACTERS} characters", where="within")
    try:
        return ast.parse(" ".join(condition.split()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _invalid(condition, getattr(error, "msg", None) or "it is nested too deeply") from None


def _invalid(condition: str, reason: str) -> Fp2Error:
    return Fp2Error(f"invalid condition: {reason}", where=f"within={condition[:200]}", fix=_FIX)


def _compared(frame: pd.DataFrame, name: str, kind: type[ast.cmpop], right: ast.expr, condition: str) -> pd.Series[Any]:
    """Return one comparison for every row; a cell with several values matches if one does (`!=`: if none does)."""
    import pandas as pd

    several = kind in (ast.In, ast.NotIn)
    if kind not in _COMPARE:
        raise _invalid(condition, f"an operator is missing after {name}")
    values = [_value(node, condition) for node in (right.elts if several and isinstance(right, ast.Tuple) else [right])]
    if not values:
        raise _invalid(condition, "a value is missing")
    column = next((label for label in (ATTRIBUTE_PREFIX + name, name) if label in frame.columns), None)
    if column is None:
        choices = [str(label).removeprefix(ATTRIBUTE_PREFIX) for label in frame.columns]
        raise Fp2Error(f"no column {name!r}", where=f"within={condition}", fix=nearest(name, choices))
    cells, negated = frame[column], kind in (ast.NotEq, ast.NotIn)
    if pd.api.types.is_numeric_dtype(cells) or pd.api.types.is_bool_dtype(cells):
        if texts := [value for value in values if isinstance(value, str)]:
            raise _invalid(condition, f"{name} is a number, {texts[0]!r} is not")
        numbers = cells.astype("float64")
        compared = reduce(
            operator.and_ if negated else operator.or_, [_COMPARE[kind](numbers, value) for value in values]
        )
        known: pd.Series[Any] = compared.astype("boolean").mask(cells.isna())
        return known
    if not (negated or kind in (ast.Eq, ast.In)):
        raise _invalid(condition, f"{name} is text, which has no order")
    wanted = {value if isinstance(value, str) else f"{value:g}" for value in values}
    matches = [None if not held else bool(wanted & set(held)) != negated for held in map(_texts, cells)]
    return pd.Series(matches, cells.index, dtype="boolean")


def _value(node: ast.expr, condition: str) -> float | str:
    """Return a number, or a text; words that Python knows, such as `None`, are texts."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bool | None):
        return str(node.value)
    try:
        return float(ast.literal_eval(node))
    except (TypeError, ValueError):
        raise _invalid(condition, f"{ast.unparse(node)[:30]!r} is no value") from None


def _texts(cell: Any) -> list[str]:
    """Return the values of a cell; none of a missing one."""
    if isinstance(cell, str):
        return [cell]
    if hasattr(cell, "__len__"):
        return list(cell)
    return [] if cell is None or cell != cell else [str(cell)]
