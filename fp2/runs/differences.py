"""Where two results differ: by dotted place, with a tolerance for numbers, sentences for the reader left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from fp2.results import DEFINITIONS, PROSE

# Numbers come from the same seeds; only the order of floating-point sums may differ between machines.
TOLERANCE = 1e-9


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Yield where two JSON values differ, as dotted places; numbers may differ by `TOLERANCE`.

    Sentences for the reader may be written better by a later version: those under `PROSE`, and the definitions under
    `DEFINITIONS`. They have to be in both; what they say is not compared.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            inside = f"{place}.{key}" if place else str(key)
            before, after = old.get(key), new.get(key)
            if key in old and key in new and key in PROSE and _is_prose(before) and _is_prose(after):
                continue
            if key in DEFINITIONS and _are_definitions(before) and _are_definitions(after):
                yield from (
                    f"{inside}.{name}" for name in {**before, **after} if not (name in before and name in after)
                )
                continue
            yield from differences(before, after, inside)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, f"{place}.{number}")
    elif _is_number(old) and _is_number(new):
        if not equal(old, new):
            yield place
    elif type(old) is not type(new) or old != new:
        yield place


def _is_prose(value: Any) -> bool:
    """Whether it is a sentence (not a number or a name), or a list of sentences, which may be empty."""
    return _is_sentence(value) or (isinstance(value, list) and all(map(_is_sentence, value)))


def _are_definitions(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping) and bool(value) and all(map(_is_sentence, value.values()))


def _is_sentence(value: Any) -> bool:
    return isinstance(value, str) and " " in value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def equal(old: float | None, new: float | None) -> bool:
    """Whether two numbers differ by no more than `TOLERANCE`; a missing one equals a missing one only."""
    if old is None or new is None:
        return old is new
    return math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
