"""Reading a simulator's truth: numbers, rates and tables of points, each mistake one line with its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fp2.errors import Fp2Error, nearest

Points = Mapping[str, Mapping[str, float]]
"""attribute -> value -> number."""


@dataclass(frozen=True)
class Rate:
    """A probability: `base`, and what each attribute value adds to it (the sum is kept within 0 and 1)."""

    base: float
    by: Points


class PointSums:
    """Sums of points over attributes; what a list of values is worth (the mean of theirs) is worked out once."""

    def __init__(self) -> None:
        self._worth: dict[tuple[int, str, tuple[str, ...]], float] = {}

    def of(self, table: Points, attributes: Mapping[str, Sequence[str]]) -> float:
        """Return the points of somebody with `attributes`; `table` must outlive this object."""
        return sum(self._mean(table, name, tuple(attributes.get(name, ()))) for name in table)

    def rate(self, rate: Rate, attributes: Mapping[str, Sequence[str]]) -> float:
        """Return a probability, not yet kept within 0 and 1."""
        return rate.base + self.of(rate.by, attributes)

    def _mean(self, table: Points, name: str, values: tuple[str, ...]) -> float:
        key = (id(table), name, values)
        if key not in self._worth:
            worth = [table[name].get(value, 0.0) for value in values]
            self._worth[key] = sum(worth) / len(worth) if worth else 0.0
        return self._worth[key]


def read_rate(table: Any, base: str, name: str, where: str) -> Rate:
    """Return a probability and what values add to it."""
    table = read_mapping(table, name, where)
    check_known(table, (base, "by"), f"key of {name}", where)
    first = read_number(table.get(base, 0.0), f"{name}.{base}", where, low=0, high=1)
    return Rate(first, read_points(table.get("by"), f"{name}.by", where))


def read_points(table: Any, name: str, where: str) -> dict[str, dict[str, float]]:
    """Return a table of points."""
    return {
        str(attribute): {
            str(value): read_number(points, f"{name}.{attribute}.{value}", where)
            for value, points in read_mapping(values, f"{name}.{attribute}", where).items()
        }
        for attribute, values in read_mapping(table, name, where).items()
    }


def read_number(value: Any, name: str, where: str, low: float | None = None, high: float | None = None) -> float:
    """Return a number within its bounds."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    if not is_number or (low is not None and value < low) or (high is not None and value > high):
        bounds = f" from {low} to {high}" if high is not None else (f" of at least {low}" if low is not None else "")
        raise Fp2Error(f"{name} should be a number{bounds}, not {value!r}", where=where)
    return float(value)


def read_mapping(value: Any, name: str, where: str) -> dict[str, Any]:
    """Return a table with names as text; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Fp2Error(f"{name} should be a table of names and values, not {value!r}", where=where)
    return {str(key): inner for key, inner in value.items()}


def check_known(table: Mapping[str, Any], names: Sequence[str], what: str, where: str) -> None:
    """Refuse a name that is not in `names`, with the nearest that is."""
    for name in table:
        if name not in names:
            raise Fp2Error(f"unknown {what} {name!r}", where=where, fix=nearest(name, names))
