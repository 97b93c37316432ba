"""Correction of a family of p-values, and the verdicts that need it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fp2.stats.rows import OK, TOO_FEW, UNINFORMATIVE, DisparityRow, FloatArray

BIASED = "biased"
SMALL = "significant_but_small"
EQUIVALENT = "equivalent"
NOT_FOUND = "no_difference_found"
METHODS = ("holm", "bh", "by", "bonferroni", "sidak", "none")


def adjust_p_values(p_values: Sequence[float | None], method: str = "holm") -> list[float | None]:
    """Return adjusted p-values in the order given; missing ones (None, NaN) stay None and do not count in the family.

    holm: step-down Bonferroni; bh, by: step-up false discovery rate (by: under any dependence); bonferroni; sidak:
    independent tests; none. Raises ValueError for another method or a p-value outside [0, 1].
    """
    if method not in METHODS:
        raise ValueError(f"unknown correction {method!r}; choose from {', '.join(METHODS)}")
    given = np.array([math.nan if p is None else p for p in p_values], dtype=np.float64)
    known = np.isfinite(given)
    if ((given[known] < 0) | (given[known] > 1)).any():
        raise ValueError("a p-value lies outside [0, 1]")
    adjusted = np.full(len(given), np.nan)
    if known.any():
        adjusted[known] = _adjust(given[known], method)
    return [float(p) if math.isfinite(p) else None for p in adjusted]


def _adjust(p: FloatArray, method: str) -> FloatArray:
    m = len(p)
    if method == "none":
        return p
    if method == "bonferroni":
        return np.minimum(p * m, 1.0)
    if method == "sidak":
        with np.errstate(divide="ignore"):
            return np.asarray(-np.expm1(m * np.log1p(-p)))
    order = np.argsort(p, kind="stable")
    rank = np.arange(1, m + 1)
    if method == "holm":
        stepped = np.maximum.accumulate(p[order] * (m - rank + 1))
    else:
        factor = m * (np.sum(1.0 / rank) if method == "by" else 1.0)
        stepped = np.minimum.accumulate((p[order] * factor / rank)[::-1])[::-1]
    out = np.empty(m)
    out[order] = np.minimum(stepped, 1.0)
    return out


def adjust(rows: Sequence[DisparityRow], method: str = "holm", alpha: float = 0.05) -> list[DisparityRow]:
    """Return new rows with `adjusted_p`, `significant` and `verdict` set; `rows` are one family, all of it.

    Rows that could not be tested (too few subjects, no answers) do not count in the family; constant answers count with
    p = 1. A row is `biased` when significant and `raw` is at least its smallest effect, `equivalent` when not
    significant and its own TOST p is at most alpha.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    return decide(rows, adjust_p_values([row.p_value for row in rows], method), alpha)


def decide(rows: Sequence[DisparityRow], adjusted: Sequence[float | None], alpha: float = 0.05) -> list[DisparityRow]:
    """Return new rows with the adjusted p-values given (`step_down_panels`) and the verdicts that follow."""
    return [_decide(row, p, alpha) for row, p in zip(rows, adjusted, strict=True)]


def _decide(row: DisparityRow, p: float | None, alpha: float) -> DisparityRow:
    significant = p is not None and p <= alpha
    return replace(row, adjusted_p=p, significant=significant, verdict=_verdict(row, significant, alpha))


def _verdict(row: DisparityRow, significant: bool, alpha: float) -> str:
    if row.status in (TOO_FEW, UNINFORMATIVE):
        return row.status
    if row.status != OK or row.raw is None:
        raise ValueError(f"row with status {row.status!r} and raw {row.raw!r}")
    if significant:
        return BIASED if row.raw >= row.smallest_effect else SMALL
    if row.equivalence_p is not None and row.equivalence_p <= alpha:
        return EQUIVALENT
    return NOT_FOUND
