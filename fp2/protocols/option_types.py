"""Types of protocol options: values of YAML files and overrides are checked, and not converted.

Pydantic's own types take `yes` and 1 for a boolean, and true for the number 1. YAML 1.2 reads `no` as text, so that
`higher_is_better: no` has to be refused. Every message says what the option may be; `fp2.plugins.read_options` adds the
value and the key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

FORBID_EXTRA = {"extra": "forbid"}
"""`__pydantic_config__` of a dataclass of options: an unknown key is an error."""


@dataclass(frozen=True)
class Range:
    """Marks a number (`Annotated[int, Range(1)]`): finite, from `low` to `high`, and whole if the type is `int`.

    `inside`: neither of the two ends is allowed.
    """

    low: float = -math.inf
    high: float = math.inf
    inside: bool = False

    def __get_pydantic_core_schema__(self, source: type[int] | type[float], handler: object) -> CoreSchema:
        """Return the schema of the check."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(lambda value: self.check(value, source))

    def check(self, value: Any, kind: type[Any]) -> Any:
        """Return `value` as a number of this kind (`int` or `float`); raise ValueError for anything else."""
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        at_end = number and self.inside and value in (self.low, self.high)
        if not number or at_end or not self.low <= value <= self.high or (kind is int and value != int(value)):
            raise ValueError(f"Input should be a {'whole ' if kind is int else ''}number{self._bounds}")
        return kind(value)

    @property
    def _bounds(self) -> str:
        if math.isinf(self.high):
            return "" if math.isinf(self.low) else f" of at least {self.low:g}"
        limits = f"{self.low:g} and {self.high:g}" if self.inside else f"{self.low:g} to {self.high:g}"
        return f" {'between' if self.inside else 'from'} {limits}"


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("Input should be true or false")
    return value


def _names(value: object) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else () if value is None else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError("Input should be a list of texts, such as [a, b]")
    return tuple(names)


def _table(value: object) -> dict[str, object]:
    if not isinstance(value, Mapping | None):
        raise ValueError("Input should be a table, such as {name: value}")
    return {str(name): item for name, item in (value or {}).items()}


Flag = Annotated[bool, BeforeValidator(_flag)]
"""true or false."""
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
"""A list of texts; one text stands for a list of one, null for an empty list."""
OptionTable = Annotated[dict[str, object], BeforeValidator(_table)]
"""A mapping with text keys; null stands for an empty one."""
