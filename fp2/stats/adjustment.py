"""Correction of a family of p-values for multiple testing, and the verdicts that follow.

A family may be weighted: its tests share alpha in proportion to their weights (Holm 1979, section 3; Genovese, Roeder
and Wasserman 2006 for false discovery rates). Holm needs permutations in proportion to the family; above some 2,000
tests the step-down max-T procedure (Westfall and Young 1993) takes its place. Outcomes of one cut share their
relabellings, so that it takes their correlation into account. Each cut is permuted by itself; rows of different cuts
count as independent, which is never anti-conservative for largest absolute values (Sidak 1967).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.core.numeric import FloatArray, finite
from fp2.stats.core.units import TIE
from fp2.stats.rows import OK, DisparityRow, Panel
from fp2.verdicts import Verdict

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


def adjust_p_values(
    p_values: Sequence[float | None], method: str = "holm", weights: Sequence[float] | None = None
) -> list[float | None]:
    """Return adjusted p-values in the order given; missing ones (None, NaN) stay None and are not in the family.

    Parameters
    ----------
    p_values
        One family, all of it.
    method
        `holm`: step-down Bonferroni (Holm 1979). `bh`, `by`: false discovery rate, for independent tests or under any
        dependence (Benjamini and Hochberg 1995; Benjamini and Yekutieli 2001). `bonferroni`. `none`.
    weights
        Above 0, one per p-value; equal by default. Those of missing p-values do not count.

    Raises
    ------
    ValueError
        For another method, a p-value outside [0, 1], or weights that do not fit.
    """
    if method not in METHODS:
        raise ValueError(f"unknown correction {method!r}; choose from {', '.join(METHODS)}")
    p_array = np.array([math.nan if p is None else p for p in p_values], dtype=np.float64)
    present = np.isfinite(p_array)
    if ((p_array[present] < 0) | (p_array[present] > 1)).any():
        raise ValueError("a p-value lies outside [0, 1]")
    share = np.ones(len(p_array)) if weights is None else np.asarray(weights, dtype=np.float64)
    if share.shape != p_array.shape or not (share > 0).all():
        raise ValueError("need one weight above 0 per p-value")
    adjusted = np.full(len(p_array), np.nan)
    if present.any():
        adjusted[present] = _adjusted(p_array[present], method, share[present] / share[present].mean())
    return [float(p) if math.isfinite(p) else None for p in adjusted]


def _adjusted(p: FloatArray, method: str, weight: FloatArray) -> FloatArray:
    """Return the adjusted p-values; the mean weight is 1."""
    if method == "none":
        return p
    weighted = p / weight
    if method == "holm":
        # statsmodels' Holm runs a full garbage collection in every call: 0.1 to 0.5 s in our process
        order = np.argsort(weighted, kind="stable")
        remaining = np.cumsum(weight[order][::-1])[::-1]
        out = np.empty(len(p))
        out[order] = np.minimum(np.maximum.accumulate(weighted[order] * remaining), 1.0)
        return out
    from statsmodels.stats.multitest import multipletests

    return np.asarray(multipletests(np.minimum(weighted, 1.0), method=_STATSMODELS[method])[1])


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


def step_down(panels: Sequence[Panel], chosen: Sequence[int], *, minimum_effect: bool = False) -> list[float | None]:
    """Return the step-down max-T p-values of a family: `chosen` counts the rows of the panels, panel by panel.

    `minimum_effect`: of the hypotheses that no pair differs by more than the smallest effect of interest, instead of
    equal groups. None for a row that was not tested. Raises ValueError if the panels have different numbers of
    permutations.
    """
    if len({len(panel.max_t_permuted) for panel in panels}) > 1:
        raise ValueError("the panels have different numbers of permutations")
    if not chosen:
        return []
    rows = [row for panel in panels for row in panel.rows]
    observed = np.concatenate([panel.max_t for panel in panels])
    if minimum_effect:
        tests = (row.test for row in rows)
        observed = np.array([t.statistic(r.smallest_effect) if t else 0.0 for t, r in zip(tests, rows, strict=True)])
    observed = np.where([row.p_value is not None for row in rows], observed, np.nan)
    columns = list(chosen)
    permuted = np.concatenate([panel.max_t_permuted for panel in panels], axis=1)[:, columns]
    return [float(p) if np.isfinite(p) else None for p in step_down_max_t(observed[columns], permuted)]


def adjust(rows: Sequence[DisparityRow], method: str = "holm", alpha: float = 0.05) -> list[DisparityRow]:
    """Return new rows with adjusted p-values, verdict, selected interval and `mde80`; `rows` are one family, all of it.

    Rows that were not tested (too few subjects, no answers) are not in the family; constant answers are, with p = 1.
    Three hypotheses of every row are corrected, each over the whole family: that all groups are equal, that no pair
    differs by more than the smallest effect of interest, and that some pair differs by at least as much.

    - `biased`: the second is rejected (minimum-effect test);
    - `significant_but_small`: the first and the third are;
    - `significant_size_unclear`: only the first is;
    - `equivalent`: only the third is;
    - `no_difference_found`: none is.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    adjusted = adjust_p_values([row.p_value for row in rows], method)
    larger = adjust_p_values(in_family(rows, "minimum_effect_p"), method)
    tested = sum(row.p_value is not None for row in rows)
    level = alpha if method == "none" else alpha / max(tested, 1)
    return decide(rows, adjusted, larger, [level] * len(rows), method=method, alpha=alpha)


def in_family(rows: Sequence[DisparityRow], name: str) -> list[float | None]:
    """Return one p-value of every row that was tested: 1 where it does not exist, so that the family stays the same."""
    values = (getattr(row, name) for row in rows)
    return [
        None if row.p_value is None else 1.0 if value is None else value
        for row, value in zip(rows, values, strict=True)
    ]


def decide(
    rows: Sequence[DisparityRow],
    adjusted: Sequence[float | None],
    minimum_effect: Sequence[float | None],
    levels: Sequence[float],
    *,
    method: str = "holm",
    alpha: float = 0.05,
    nominal: Sequence[Callable[[float], float]] | None = None,
) -> list[DisparityRow]:
    """Return new rows with the given adjusted p-values, and all that follows from them (see `adjust`).

    `mde80` is what is found at the level of the first step, when nothing else is. The intervals of the significant rows
    have the level at which an expected share of at most alpha of them misses the truth (Benjamini and Yekutieli 2005,
    false coverage rate): alpha times the number of significant rows times the row's share of the family.

    Parameters
    ----------
    adjusted, minimum_effect
        Adjusted p-values of equal groups, and of no gap above the smallest effect of interest.
    levels
        Share of alpha of each row, above 0: the level of its first test.
    method
        How equivalence is corrected, with the levels as weights.
    nominal
        The level of each row's data for a share of alpha: smaller where several looks share it.
    """
    small = adjust_p_values(in_family(rows, "equivalence_p"), method, levels)
    n_significant = sum(p is not None and p <= alpha for p in adjusted)
    decided = []
    rows_nominal = nominal or [float] * len(rows)
    columns = zip(rows, adjusted, minimum_effect, small, levels, rows_nominal, strict=True)
    for row, p, larger, equivalent, level, at_look in columns:
        significant = p is not None and p <= alpha
        changes: dict[str, object] = {}
        if row.test is not None:
            changes["mde80"] = finite(row.test.detectable(at_look(level)))
            if significant and row.ci_low is not None and row.ci_high is not None:
                selected = at_look(min(alpha, level * n_significant))
                changes["selected_ci_low"] = min(row.test.low(selected), row.ci_low)
                changes["selected_ci_high"] = max(row.test.high(selected), row.ci_high)
        verdict = verdict_of(p, larger, equivalent, alpha) if row.status == OK else row.status
        changed = replace(
            row,
            adjusted_p=p,
            significant=significant,
            adjusted_minimum_effect_p=larger,
            family_level=level,
            adjusted_equivalence_p=equivalent,
            verdict=verdict,
            **changes,
        )
        decided.append(changed)
    return decided


def verdict_of(p: float | None, larger: float | None, small: float | None, alpha: float) -> str:
    """Return the verdict that the adjusted p-values of a row's three tests give (see `adjust`)."""
    different, large, equivalent = (value is not None and value <= alpha for value in (p, larger, small))
    if not different:
        return Verdict.EQUIVALENT.value if equivalent else Verdict.NO_DIFFERENCE_FOUND.value
    if large:
        return Verdict.BIASED.value
    return Verdict.SIGNIFICANT_BUT_SMALL.value if equivalent else Verdict.SIGNIFICANT_SIZE_UNCLEAR.value
