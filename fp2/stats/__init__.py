"""Group statistics with the subject as unit of analysis: pure functions on arrays.

`core/` is the permutation engine, `rows` what a comparison takes and gives; every other module is one method, whose
docstring names its source. docs/statistics.csv lists the functions by question. Callers import from these modules.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Return `disparity` or `adjust`, imported on first use, so that importing the package loads nothing heavy."""
    if name == "disparity":
        from fp2.stats.disparities import disparity

        return disparity
    if name == "adjust":
        from fp2.stats.adjustment import adjust

        return adjust
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
