"""Correction of a family of p-values for multiple testing, and the verdicts that follow.

Holm needs permutations in proportion to the family; above some 2,000 tests the step-down max-T procedure (Westfall and
Young 1993) takes its place. Outcomes of one cut share their relabellings, so that it takes their correlation into
account. Each cut is permuted by itself; rows of different cuts count as independent, which is never anti-conservative
for largest absolute values (Sidak 1967).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.core.numeric import FloatArray
from fp2.stats.core.permutation import TIE
from fp2.stats.rows import OK, TOO_FEW, UNINFORMATIVE, DisparityRow, Panel

BIASED = "biased"
SMALL = "significant_but_small"
EQUIVALENT = "equivalent"
NOT_FOUND = "no_difference_found"
_STATSMODELS = {"bh": "fdr_bh", "by": "fdr_by", "bonferroni": "bonferroni"}
METHODS = ("holm", *_STATSMODELS, "none")
LARGE_FAMILY = 2_000
"""Number of tests above which the step-down max-T procedure takes the place of Holm."""


def default_permutations(m: int, alpha: float = 0.05) -> int:
    """Return the number of permutations for a Holm family of `m` p-values: 10 m / alpha, at least 10,000.

    Raises ValueError unless m >= 1 and 0 < alpha < 1.
    """
    if m < 1 or not 0 < alpha < 1:
        raise ValueError(f"need m >= 1 and 0 < alpha < 1, got {m} and {alpha}")
    return max(10_000, math.ceil(round(10 * m / alpha, 6)))


def adjust_p_values(p_values: Sequence[float | None], method: str = "holm") -> list[float | None]:
    """Return adjusted p-values in the order given; missing ones (None, NaN) stay None and are not in the family.

    Parameters
    ----------
    p_values
        One family, all of it.
    method
        `holm`: step-down Bonferroni (Holm 1979). `bh`, `by`: false discovery rate, for independent tests or under any
        dependence (Benjamini and Hochberg 1995; Benjamini and Yekutieli 2001). `bonferroni`. `none`.

    Raises
    ------
    ValueError
        For another method, or a p-value outside [0, 1].
    """
    if method not in METHODS:
        raise ValueError(f"unknown correction {method!r}; choose from {', '.join(METHODS)}")
    given = np.array([math.nan if p is None else p for p in p_values], dtype=np.float64)
    known = np.isfinite(given)
    if ((given[known] < 0) | (given[known] > 1)).any():
        raise ValueError("a p-value lies outside [0, 1]")
    adjusted = np.full(len(given), np.nan)
    if known.any():
        adjusted[known] = _adjusted(given[known], method)
    return [float(p) if math.isfinite(p) else None for p in adjusted]


def _adjusted(p: FloatArray, method: str) -> FloatArray:
    if method == "none":
        return p
    if method == "holm":
        # statsmodels' Holm runs a full garbage collection in every call: 0.1 to 0.5 s in our process
        order = np.argsort(p, kind="stable")
        out = np.empty(len(p))
        out[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
        return out
    from statsmodels.stats.multitest import multipletests

    return np.asarray(multipletests(p, method=_STATSMODELS[method])[1])


def step_down_max_t(observed: ArrayLike, permuted: ArrayLike) -> FloatArray:
    """Return the adjusted p-values (m,) of observed statistics (m,) from their joint permutations (B, m).

    From the largest statistic down, each is compared with the permuted maximum over itself and all smaller ones:
    (1 + #) / (B + 1), made monotone. NaN: not tested, left out; a permutation without a statistic counts as reached.
    Raises ValueError for other shapes.
    """
    t, table = np.asarray(observed, dtype=np.float64), np.asarray(permuted, dtype=np.float64)
    if t.ndim != 1 or table.ndim != 2 or table.shape[1] != len(t):
        raise ValueError(f"need observed (m,) and permuted (B, m), got {t.shape} and {table.shape}")
    out = np.full(len(t), np.nan)
    order = [int(j) for j in np.argsort(-t, kind="stable") if not np.isnan(t[j])]
    running, p = np.full(len(table), -np.inf), []
    for j in reversed(order):
        column = table[:, j]
        running = np.maximum(running, np.where(np.isnan(column), np.inf, column))
        p.append((1 + int((running >= t[j] * (1 - TIE) - TIE).sum())) / (len(table) + 1))
    if order:
        out[order] = np.maximum.accumulate(p[::-1])
    return out


def step_down_panels(panels: Sequence[Panel]) -> list[float | None]:
    """Return the step-down max-T p-values of all rows of several panels, panel by panel; pass them to `decide`.

    None for a row that was not tested. Raises ValueError if the panels have different numbers of permutations.
    """
    if len({len(panel.max_t_permuted) for panel in panels}) > 1:
        raise ValueError("the panels have different numbers of permutations")
    if not panels:
        return []
    tested = np.array([row.p_value is not None for panel in panels for row in panel.rows], dtype=bool)
    observed = np.where(tested, np.concatenate([panel.max_t for panel in panels]), np.nan)
    p = step_down_max_t(observed, np.concatenate([panel.max_t_permuted for panel in panels], axis=1))
    return [float(x) if np.isfinite(x) else None for x in p]


def adjust(rows: Sequence[DisparityRow], method: str = "holm", alpha: float = 0.05) -> list[DisparityRow]:
    """Return new rows with `adjusted_p`, `significant` and `verdict` set; `rows` are one family, all of it.

    Rows that were not tested (too few subjects, no answers) are not in the family; constant answers are, with p = 1.
    A row is `biased` if significant with `raw` at least its smallest effect, and `equivalent` if not significant with
    its own TOST p-value at most alpha.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    return decide(rows, adjust_p_values([row.p_value for row in rows], method), alpha)


def decide(rows: Sequence[DisparityRow], adjusted: Sequence[float | None], alpha: float = 0.05) -> list[DisparityRow]:
    """Return new rows with the given adjusted p-values and the verdicts that follow (see `adjust`)."""
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
