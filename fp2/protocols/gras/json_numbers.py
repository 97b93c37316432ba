"""Numbers as `results.json` holds them: finite, with as many digits as are meaningful."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray


def rounded(value: float, digits: int = 6) -> float | None:
    """Return `value` with `digits` significant digits, None where it is not finite."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def nested(values: NDArray[Any], digits: int = 6) -> Any:
    """Return an array as nested lists of `rounded` numbers."""
    if values.ndim == 0:
        return rounded(float(values), digits)
    return [nested(part, digits) for part in values]
