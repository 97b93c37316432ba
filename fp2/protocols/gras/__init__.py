"""GRAS: one hundred traits, five framings, P(Yes) — and what its score is worth.

The stable functions: `bias_score` scores p-values (published ones too), `attribution_rates` scores group means,
`attribution_intervals` gives the rates of a run's answers with intervals. `analyse` does everything for one run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fp2.protocols.gras.analysis import analyse
    from fp2.protocols.gras.answers import GrasAnswers
    from fp2.protocols.gras.attribution import attribution_intervals, attribution_rates
    from fp2.protocols.gras.options import GrasOptions
    from fp2.protocols.gras.score import BiasScore, bias_score

_HOME = {
    "BiasScore": "score",
    "GrasAnswers": "answers",
    "GrasOptions": "options",
    "analyse": "analysis",
    "attribution_intervals": "attribution",
    "attribution_rates": "attribution",
    "bias_score": "score",
}

__all__ = [
    "BiasScore",
    "GrasAnswers",
    "GrasOptions",
    "analyse",
    "attribution_intervals",
    "attribution_rates",
    "bias_score",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use, so that importing this package costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
