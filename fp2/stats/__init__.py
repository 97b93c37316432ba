"""Group statistics with the person as the unit: pure functions on arrays, imported only when used.

Names: `disparity`, `disparity_panel`, `composite_test`, `adjust`, `adjust_p_values`, `default_permutations`,
`jensen_shannon`, `response_diversity`, `refusal_bounds` and the result types. See each one's module for the method.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fp2.stats.adjustment import adjust, adjust_p_values
    from fp2.stats.bounds import refusal_bounds
    from fp2.stats.composite import composite_test
    from fp2.stats.divergence import jensen_shannon
    from fp2.stats.diversity import Diversity, response_diversity
    from fp2.stats.panel import disparity, disparity_panel
    from fp2.stats.permutation import default_permutations
    from fp2.stats.rows import CompositeTest, DisparityRow, GroupSummary, Panel

_HOME = {
    "CompositeTest": "rows",
    "DisparityRow": "rows",
    "Diversity": "diversity",
    "GroupSummary": "rows",
    "Panel": "rows",
    "adjust": "adjustment",
    "adjust_p_values": "adjustment",
    "composite_test": "composite",
    "default_permutations": "permutation",
    "disparity": "panel",
    "disparity_panel": "panel",
    "jensen_shannon": "divergence",
    "refusal_bounds": "bounds",
    "response_diversity": "diversity",
}

__all__ = [
    "CompositeTest",
    "DisparityRow",
    "Diversity",
    "GroupSummary",
    "Panel",
    "adjust",
    "adjust_p_values",
    "composite_test",
    "default_permutations",
    "disparity",
    "disparity_panel",
    "jensen_shannon",
    "refusal_bounds",
    "response_diversity",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use, so that `import fp2.stats` costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
