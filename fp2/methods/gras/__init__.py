"""GRAS: one hundred traits in five templates, scored on P(Yes), with the null distribution of the score.

`bias_score` scores p-values (published ones too), `attribution_rates` scores group means, and `attribution_intervals`
gives the rates of a run's answers with intervals. They are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fp2.methods.gras.attribution import attribution_intervals, attribution_rates
    from fp2.methods.gras.score import bias_score

__all__ = ["attribution_intervals", "attribution_rates", "bias_score"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "score" if name == "bias_score" else "attribution"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
