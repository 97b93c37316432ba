"""Options checked against the annotations of the dataclass that takes them, each mistake in one line.

YAML 1.2 has no `no`: `higher_is_better: no` is the text "no", which Python would take for true.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from fp2.errors import Fp2Error, nearest

_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Mapping: "a table: {name: value}",
}
_LIMITS: dict[str, tuple[float, float]] = {
    "alpha": (1e-6, 0.5), "low": (1e-6, 1 - 1e-6), "support": (1e-6, 1), "smallest_lift": (0, math.inf),
    "smallest_effect": (0, math.inf), "seed": (0, math.inf), "top_k": (0, math.inf), "looked_into": (0, math.inf),
    "folds": (2, math.inf), "resamples": (2, math.inf), "min_subjects": (2, math.inf),
}  # fmt: skip
"""Smallest and largest value of a number, by name; any other whole number is 1 at least."""


def typed(kind: type[Any], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return `given` with each value as the field of `kind` of its name wants it (lists as tuples, 1 as 1.0).

    Raises
    ------
    Fp2Error
        For an unknown name, a value of another type, or a number out of its limits.
    """
    hints, known = get_type_hints(kind), [field.name for field in fields(kind)]
    found = {}
    for name, value in given.items():
        if name not in known:
            raise Fp2Error(f"unknown option {name!r}", where=where, fix=nearest(str(name), known))
        found[name] = _value(hints[name], value, name, f"{where}.{name}")
    return found


def _value(hint: Any, value: Any, name: str, where: str) -> Any:
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if value is None and types.NoneType in choices:
        return None
    wanted = next(choice for choice in choices if choice is not types.NoneType)
    if get_origin(wanted) is tuple:
        return _several(get_args(wanted), value, name, where)
    plain = Mapping if get_origin(wanted) is Mapping else wanted
    return _single(plain, value, name, where)


def _several(parts: tuple[Any, ...], value: Any, name: str, where: str) -> tuple[Any, ...]:
    """Return a list as a tuple; one text alone counts as a list of one."""
    if parts[-1] is Ellipsis:
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)):
            raise _wrong(name, value, where, f"a list, each {_WORDS[parts[0]]}")
        return tuple(_single(parts[0], item, name, where) for item in items)
    if not isinstance(value, (list, tuple)) or len(value) != len(parts):
        raise _wrong(name, value, where, f"{len(parts)} numbers, such as [0, 1]")
    return tuple(_single(part, item, name, where) for part, item in zip(parts, value, strict=True))


def _single(wanted: Any, value: Any, name: str, where: str) -> Any:
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if wanted in (int, float):
        if not number or (wanted is int and value != int(value)):
            raise _wrong(name, value, where, _WORDS[wanted])
        low, high = _LIMITS.get(name, (1, math.inf) if wanted is int else (-math.inf, math.inf))
        if not low <= value <= high:
            least = f"at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
            raise _wrong(name, value, where, f"{_WORDS[wanted]}, {least}")
        return wanted(value)
    if not isinstance(value, wanted):
        raise _wrong(name, value, where, _WORDS[wanted])
    return value


def _wrong(name: str, value: Any, where: str, wanted: str) -> Fp2Error:
    return Fp2Error(f"{name} is {value!r}", where=where, fix=f"Give {wanted}")
