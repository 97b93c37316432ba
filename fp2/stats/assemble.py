"""Put the numbers of one column together into its row, back in the outcome's own units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fp2.stats.composite import permutation_p
from fp2.stats.effects import hedges_g, kruskal_wallis, welch
from fp2.stats.interval import Interval
from fp2.stats.joint import Joint
from fp2.stats.layout import Cells, Entries
from fp2.stats.options import Options
from fp2.stats.pairwise import PairTable, pair_table
from fp2.stats.power import equivalence_p, minimum_detectable
from fp2.stats.prepare import Prepared
from fp2.stats.reliability import icc_oneway
from fp2.stats.rows import OK, TOO_FEW, UNINFORMATIVE, BoolArray, DisparityRow, FloatArray, GroupSummary, finite
from fp2.stats.shrunken import shrunken_range
from fp2.stats.studentised import MEAN_TIE


@dataclass(frozen=True)
class Tested:
    """Everything computed on a panel with at least two groups; `cautious` are the pairs regularised as A2 asks."""

    prepared: Prepared
    joint: Joint
    interval: Interval | None
    cautious: PairTable


_NUMBERS = ("raw", "null_mean", "null_p95", "p_value", "max_t", "excess", "shrunken", "ci_low", "ci_high")
_WORST = ("worst_group", "best_group", "extreme_pair", "p_worst", "p_worst_null")
_REFERENCE = ("hedges_g", "epsilon_squared", "omega_squared", "kruskal_h", "kruskal_p", "welch_f", "welch_p")
_MORE = ("js_divergence", "js_null_mean", "js_p", "icc", "design_effect", "mde80", "equivalence_p")


def assemble_row(j: int, entries: Entries, cells: Cells, tested: Tested | None, options: Options) -> DisparityRow:
    """Build the row of column `j`; `tested` is None where fewer than two groups had enough subjects."""
    eligible = np.zeros(len(entries.names), dtype=bool)
    if tested is not None:
        eligible[tested.prepared.slots.kept] = tested.prepared.eligible[:, j]
    status = _status(j, entries, eligible, tested is not None)
    numbers: dict[str, Any] = dict.fromkeys(_NUMBERS + _WORST + _REFERENCE + _MORE)
    if tested is not None and eligible.sum() >= 2:
        numbers |= _tested_numbers(j, entries, tested, options, status)
        numbers |= _reference_numbers(j, entries, cells, eligible, numbers["extreme_pair"])
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
    """Too few subjects is about the data; uninformative is about the answers: none, too few, or all the same."""
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
    """Every group, by name, whether or not it is large enough."""
    out = []
    present = np.isfinite(entries.values[:, j])
    for g, name in enumerate(entries.names):
        y = _subject_means(j, cells, g)
        images = len(np.unique(entries.image[present & (entries.group == g)]))
        mean = float(y.mean()) if len(y) else None
        sd = float(y.std(ddof=1)) if len(y) > 1 else None
        out.append(GroupSummary(name, len(y), images, mean, sd, bool(eligible[g])))
    return tuple(out)


def _subject_means(j: int, cells: Cells, group: int) -> FloatArray:
    y = cells.mean[cells.group == group, j]
    known: FloatArray = y[np.isfinite(y)]
    return known


def _tested_numbers(j: int, entries: Entries, t: Tested, options: Options, status: str) -> dict[str, Any]:
    """What A1-A4 say about column `j`."""
    joint, scale, seen = t.joint, float(t.prepared.scale[j]), t.joint.seen
    valid = seen.valid[:, 0, j]
    mean, n = seen.mean[valid, 0, j], seen.n[valid, 0, j]
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
        "shrunken": shrunken_range(mean, seen.pool[0, j] / n) * scale,
        "js_divergence": finite(js),
        "js_null_mean": finite(float(np.nanmean(js_null))) if np.isfinite(js_null).any() else None,
        "js_p": permutation_p(js, js_null) if np.isfinite(js) else None,
        **_ends(j, t, options, raw),
        **_worst_and_best(j, entries, t, options),
        **({} if status != OK else _power(j, t, options)),
    }


def _ends(j: int, t: Tested, options: Options, raw: float) -> dict[str, Any]:
    """The interval, clipped to the width of the scale."""
    if t.interval is None:
        return {}
    scale, width = float(t.prepared.scale[j]), float(options.high[j] - options.low[j])
    high = min(float(t.interval.high[j]) * scale, width)
    # rounding alone can put a gap without spread outside its own interval
    return {"ci_low": min(float(t.interval.low[j]) * scale, raw), "ci_high": max(high, raw)}


def _worst_and_best(j: int, entries: Entries, t: Tested, options: Options) -> dict[str, Any]:
    """Name the extreme groups and say how surely; nobody is worst when all means are the same.

    Of groups whose means tie up to rounding the first by name stands for all, so that a shift of scale changes no name.
    """
    valid = t.joint.seen.valid[:, 0, j]
    mean = np.where(valid, t.joint.seen.mean[:, 0, j] * options.sign[j], np.nan)
    if np.nanmax(mean) - np.nanmin(mean) <= MEAN_TIE:
        return {}
    worst = int(np.flatnonzero(mean <= np.nanmin(mean) + MEAN_TIE)[0])
    best = int(np.flatnonzero(mean >= np.nanmax(mean) - MEAN_TIE)[0])
    names = [entries.names[code] for code in t.prepared.slots.kept]
    return {
        "worst_group": names[worst],
        "best_group": names[best],
        "extreme_pair": (names[worst], names[best]),
        "p_worst": None if t.interval is None else float(t.interval.worst[worst, j]),
        "p_worst_null": finite(float(t.joint.worst_again[worst, j])),
    }


def _power(j: int, t: Tested, options: Options) -> dict[str, Any]:
    scale = float(t.prepared.scale[j])
    permuted = t.joint.max_t_permuted[:, j]
    permuted = np.where(np.isnan(permuted), np.inf, permuted)
    critical = float(np.quantile(permuted, 1 - options.alpha, method="higher"))
    least_precise = float(np.nanmax(pair_table(t.joint.seen).error[:, j]))
    one = PairTable(*(part[:, [j]] for part in (t.cautious.gap, t.cautious.error, t.cautious.df)))
    return {
        "mde80": finite(minimum_detectable(critical, least_precise) * scale),
        "equivalence_p": finite(float(equivalence_p(one, options.smallest_effect[[j]] / scale)[0])) if scale else 0.0,
    }


def _reference_numbers(
    j: int, entries: Entries, cells: Cells, eligible: BoolArray, extreme: tuple[str, str] | None
) -> dict[str, Any]:
    """Effect sizes, asymptotic tests and agreement within a person, from the cell means of the eligible groups."""
    means = [_subject_means(j, cells, g) for g in np.flatnonzero(eligible).tolist()]
    h, h_p, epsilon = kruskal_wallis(means)
    f, f_p, omega = welch(means)
    inside = np.isfinite(entries.values[:, j]) & eligible[entries.group]
    icc, effect = icc_oneway(entries.values[inside, j], cells.of_entry[inside], entries.group[inside])
    g = None
    if extreme is not None:
        worst, best = (_subject_means(j, cells, entries.names.index(name)) for name in extreme)
        g = hedges_g(best, worst)
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
    }
