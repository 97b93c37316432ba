"""Assemble the row of one outcome from a panel's statistics, in the outcome's own units.

Small groups are extreme by chance: the groups with the largest and the smallest mean are often not those that the test
found to differ. The pair named is therefore the one with the largest |T|, beside a confidence set of the groups that
could rank worst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.core.entries import Cells, Entries
from fp2.stats.core.moments import MEAN_TIE, NO_GAP, PairTable, pair_table, pairs
from fp2.stats.core.numeric import BoolArray, FloatArray, finite
from fp2.stats.core.permutation import TIE, permutation_p
from fp2.stats.core.units import Prepared
from fp2.stats.effects import answer_d, hedges_g, icc_oneway, kruskal_wallis, welch
from fp2.stats.interval import GapTest
from fp2.stats.joint import JointPermutations
from fp2.stats.options import Options
from fp2.stats.rows import OK, TOO_FEW, UNINFORMATIVE, DisparityRow, GroupSummary


@dataclass(frozen=True)
class Tested:
    """What was computed on a panel with at least two groups.

    `worst` (G, m): share of bootstrap resamples in which each group ranks worst, None without resamples. `own`: the
    pairs of groups with each group's own variance.
    """

    prepared: Prepared
    joint: JointPermutations
    tests: Sequence[GapTest | None]
    worst: FloatArray | None
    own: PairTable


def assemble_row(j: int, entries: Entries, cells: Cells, tested: Tested | None, options: Options) -> DisparityRow:
    """Return the row of outcome `j`; `tested` is None if fewer than two groups had enough subjects."""
    eligible = np.zeros(len(entries.names), dtype=bool)
    if tested is not None:
        eligible[tested.prepared.units.kept] = tested.prepared.eligible[:, j]
    status = _status(j, entries, eligible, tested is not None)
    numbers: dict[str, Any] = {}
    if tested is not None and eligible.sum() >= 2:
        numbers = _tested_numbers(j, entries, tested, options, status)
        numbers |= _reference_numbers(j, entries, cells, eligible, numbers.get("extreme_pair"))
    present = np.isfinite(entries.values[:, j])
    n_images = len(np.unique(entries.image[present]))
    return DisparityRow(
        **numbers,
        dependent_groups=_share_subjects(cells, eligible),
        smallest_effect=float(options.smallest_effect[j]),
        n_images=n_images,
        n_subjects=len(np.unique(entries.subject[present])),
        n_missing=len(np.unique(entries.image)) - n_images,
        n_permutations=options.n_permutations,
        status=status,
        groups=_summaries(j, entries, cells, eligible),
    )


def _status(j: int, entries: Entries, eligible: BoolArray, enough: bool) -> str:
    """Return the status: too few subjects is about the data; uninformative about the answers (none, few, constant)."""
    column = entries.values[:, j]
    known = column[np.isfinite(column) & eligible[entries.group]] if enough else column[np.isfinite(column)]
    if len(column) and not np.isfinite(column).any():
        return UNINFORMATIVE
    if not enough:
        return TOO_FEW
    if eligible.sum() < 2 or np.ptp(known) <= 1e-12 * max(1.0, float(np.abs(known).max())):
        return UNINFORMATIVE
    return OK


def _share_subjects(cells: Cells, eligible: BoolArray) -> bool:
    subjects = cells.subject[eligible[cells.group]]
    return len(np.unique(subjects)) < len(subjects)


def _summaries(j: int, entries: Entries, cells: Cells, eligible: BoolArray) -> tuple[GroupSummary, ...]:
    """Return all groups by name, whether or not they are large enough."""
    out = []
    present = np.isfinite(entries.values[:, j])
    for g, name in enumerate(entries.names):
        y = cells.known_means(g, j)
        images = len(np.unique(entries.image[present & (entries.group == g)]))
        mean = float(y.mean()) if len(y) else None
        sd = float(y.std(ddof=1)) if len(y) > 1 else None
        out.append(GroupSummary(name, len(y), images, mean, sd, bool(eligible[g])))
    return tuple(out)


def _tested_numbers(j: int, entries: Entries, t: Tested, options: Options, status: str) -> dict[str, Any]:
    """Return the gap, its tests, interval and power."""
    joint, scale, observed = t.joint, float(t.prepared.scale[j]), t.joint.observed
    valid = observed.valid[:, 0, j]
    mean, n = observed.mean[valid, 0, j], observed.n[valid, 0, j]
    raw = float(np.ptp(mean)) * scale
    null = joint.raw_permuted[:, j] * scale
    null = null[np.isfinite(null)]
    null_mean = float(null.mean()) if len(null) else None
    max_t, js = float(joint.max_t[j]), float(joint.js[j])
    js_null = joint.js_permuted[:, j]
    return {
        "raw": raw,
        "null_mean": null_mean,
        "null_p95": float(np.quantile(null, 0.95)) if len(null) else None,
        "p_value": permutation_p(max_t, joint.max_t_permuted[:, j]),
        "max_t": finite(max_t),
        "excess": None if null_mean is None else raw - null_mean,
        "shrunken": shrunken_range(mean, observed.pool[0, j] / n) * scale,
        "js_divergence": finite(js),
        "js_null_mean": finite(float(np.nanmean(js_null))) if np.isfinite(js_null).any() else None,
        "js_p": permutation_p(js, js_null) if np.isfinite(js) else None,
        **_inverted(t.tests[j], options, j, raw, status),
        **_named_groups(j, entries, t, options),
    }


def _inverted(test: GapTest | None, options: Options, j: int, raw: float, status: str) -> dict[str, Any]:
    """Return the interval, clipped to the width of the scale, and what else follows from the test at other gaps."""
    if test is None:
        return {}
    width = float(options.high[j] - options.low[j])
    # by rounding alone a gap without spread can lie outside its own interval
    ends = {"ci_low": min(test.low(options.alpha), raw), "ci_high": max(min(test.high(options.alpha), width), raw)}
    if status != OK:
        return ends
    bound = float(options.smallest_effect[j])
    return ends | {
        "mde80": finite(test.detectable(options.alpha)),
        "equivalence_p": test.equivalence_p(bound),
        "minimum_effect_p": test.exceeds_p(bound),
        "test": test,
    }


def _named_groups(j: int, entries: Entries, t: Tested, options: Options) -> dict[str, Any]:
    """Return the groups that differ most clearly, and those that could rank worst; none if all means are the same."""
    observed = t.joint.observed
    mean = np.where(observed.valid[:, 0, j], observed.mean[:, 0, j] * options.sign[j], np.nan)
    if np.nanmax(mean) - np.nanmin(mean) <= MEAN_TIE:
        return {}
    worst, best = named_pair(_column(pair_table(observed), j), mean)
    names = [entries.names[code] for code in t.prepared.units.kept]
    could = worst_confidence_set(_column(t.own, j), mean, options.alpha)
    return {
        "worst_group": names[worst],
        "best_group": names[best],
        "extreme_pair": (names[worst], names[best]),
        "pair_gap": float(abs(mean[worst] - mean[best]) * t.prepared.scale[j]),
        "worst_set": tuple(sorted(names[g] for g in np.flatnonzero(could))),
        "p_worst": None if t.worst is None else float(t.worst[worst, j]),
        "p_worst_null": finite(float(t.joint.worst_again[worst, j])),
    }


def _column(table: PairTable, j: int) -> PairTable:
    return PairTable(table.gap[:, j], table.error[:, j], table.df[:, j])


def _reference_numbers(
    j: int, entries: Entries, cells: Cells, eligible: BoolArray, extreme: tuple[str, str] | None
) -> dict[str, Any]:
    """Return effect sizes, asymptotic tests and intraclass correlation, from the cell means of the eligible groups."""
    means = [cells.known_means(g, j) for g in np.flatnonzero(eligible).tolist()]
    h, h_p, epsilon = kruskal_wallis(means)
    f, f_p, omega = welch(means)
    inside = np.isfinite(entries.values[:, j]) & eligible[entries.group]
    icc, effect = icc_oneway(entries.values[inside, j], cells.of_entry[inside], entries.group[inside])
    g = d = None
    if extreme is not None:
        worst, best = (entries.names.index(name) for name in extreme)
        g = hedges_g(cells.known_means(best, j), cells.known_means(worst, j))
        known = np.isfinite(entries.values[:, j])
        here = [known & (entries.group == code) for code in (best, worst)]
        d = answer_d(*(entries.values[part, j] for part in here), *(entries.subject[part] for part in here))
    return {
        "kruskal_h": h,
        "kruskal_p": h_p,
        "epsilon_squared": epsilon,
        "welch_f": f,
        "welch_p": f_p,
        "omega_squared": omega,
        "icc": icc,
        "design_effect": effect,
        "hedges_g": None if g is None else abs(g),
        "answer_d": None if d is None else abs(d),
    }


def named_pair(table: PairTable, mean: FloatArray) -> tuple[int, int]:
    """Return (worst, best) of the pair with the largest |T| of one outcome; of ties, the pair with the largest gap.

    Parameters
    ----------
    table : PairTable
        Each (pairs,).
    mean : (G,)
        A low mean is bad; NaN where a group does not count.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(table.gap**2 <= NO_GAP, 0.0, table.gap / table.error)
    t = np.where(np.isnan(t), -1.0, t)
    tied = t >= t.max() * (1 - TIE)
    gap = np.where(tied, table.gap, -1.0)
    g, h = list(pairs(len(mean)))[int(np.flatnonzero(gap >= gap.max() * (1 - TIE))[0])]
    return (g, h) if mean[g] <= mean[h] else (h, g)


def worst_confidence_set(table: PairTable, mean: FloatArray, alpha: float) -> BoolArray:
    """Return the groups (G,) that could rank worst: none of the others is significantly worse.

    Each group is compared with every other by a one-sided Welch t test at alpha / (k - 1), so that the group that ranks
    worst is in the set with probability 1 - alpha at least (comparisons with the best, Hsu 1981, with Bonferroni's
    bound). Parameters as in `named_pair`.
    """
    from scipy.special import ndtri, stdtrit

    valid = np.isfinite(mean)
    level = 1 - alpha / max(int(valid.sum()) - 1, 1)
    known = np.isfinite(table.df)
    critical = np.where(known, stdtrit(np.where(known, table.df, 1.0), level), ndtri(level))
    kept: Any = valid.copy()
    for (g, h), gap, error, c in zip(pairs(len(mean)), table.gap, table.error, critical, strict=True):
        if np.isfinite(gap) and gap**2 > NO_GAP and gap > c * error:
            kept[g if mean[g] > mean[h] else h] = False
    result: BoolArray = kept
    return result


def paule_mandel(means: ArrayLike, variances: ArrayLike) -> tuple[float, float]:
    """Return (tau^2, mu): the between-group variance by Paule and Mandel (1982), and the weighted mean.

    tau^2 makes the weighted sum of squares equal its expectation k - 1 (DerSimonian and Kacker 2007), and is 0 if the
    sum is below that without it. The sum falls with tau^2, so that bisection finds the root.

    Parameters
    ----------
    means, variances : (k,)
        Group means and their squared standard errors (> 0).
    """
    y, v = np.asarray(means, dtype=np.float64), np.asarray(variances, dtype=np.float64)

    def at(tau2: float) -> tuple[float, float]:
        weight = 1.0 / (v + tau2)
        mu = float((weight * y).sum() / weight.sum())
        return float((weight * (y - mu) ** 2).sum()) - (len(y) - 1), mu

    over, mu = at(0.0)
    if over <= 0:
        return 0.0, mu
    low, high = 0.0, float(np.ptp(y)) ** 2 + float(v.max())
    while at(high)[0] > 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[0] > 0 else (low, middle)
        if high - low <= 1e-14 * high:
            break
    return high, at(high)[1]


def shrunken_range(means: ArrayLike, variances: ArrayLike) -> float:
    """Return the estimate of the gap: max - min of the means, each shrunken by tau^2 / (tau^2 + v_g) towards mu.

    means, variances (k,) as in `paule_mandel`. Where some v_g is 0 nothing is shrunken. Raises ValueError for fewer
    than two groups.
    """
    y, v = np.asarray(means, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if len(y) < 2:
        raise ValueError("a range needs at least two groups")
    if not (v > 0).all():
        return float(np.ptp(y))
    tau2, mu = paule_mandel(y, v)
    theta: FloatArray = mu + tau2 / (tau2 + v) * (y - mu)
    return float(np.ptp(theta))
