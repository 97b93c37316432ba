"""Compare groups on one or many outcomes of the same images: everything that a disparity row holds, in one pass.

`disparity` is a panel of one outcome. The unit of analysis is the subject; to analyse images as if they were
independent, pass the image as the subject.

Small groups are extreme by chance: the groups with the largest and the smallest mean are often not those that the test
found to differ. The pair named is therefore the one with the largest |T|, beside a confidence set of the groups that
could rank worst.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.core.entries import Cells, Entries, cell_means, read_entries
from fp2.stats.core.moments import MEAN_TIE, NO_GAP, PairTable, pair_table, pairs
from fp2.stats.core.numeric import BoolArray, FloatArray, finite
from fp2.stats.core.resampling import JointPermutations, joint_permutations, observed_moments
from fp2.stats.core.units import TIE, Prepared, permutation_p, prepare
from fp2.stats.effects import (
    answer_d,
    hedges_g,
    icc_oneway,
    kruskal_wallis,
    permuted_divergences,
    shrunken_range,
    welch,
)  # fmt: skip
from fp2.stats.interval import GapTest, gap_tests, worst_probabilities
from fp2.stats.rows import OK, TOO_FEW, UNINFORMATIVE, DisparityRow, GroupSummary, Outcome, Panel, PanelSettings


def disparity(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    *,
    images: ArrayLike | None = None,
    higher_is_better: bool = True,
    n_permutations: int,
    n_bootstrap: int,
    seed: int,
    alpha: float = 0.05,
    smallest_effect: float = 0.05,
    min_subjects: int = 10,
    value_range: tuple[float, float] = (-1.0, 1.0),
    bins: int | None = None,
    yes_no: bool = False,
) -> DisparityRow:
    """Compare one outcome between groups.

    Parameters
    ----------
    values, groups, subjects, images : (n,)
        One entry per (answer, group). NaN = missing. An answer that counts in k groups is k entries with the same
        subject and image; without `images` every entry is an image of its own.
    higher_is_better, value_range, bins, yes_no, smallest_effect
        As of an `Outcome`.
    n_permutations, n_bootstrap, seed, alpha, min_subjects
        As of `PanelSettings`.

    Returns
    -------
    DisparityRow
        `adjusted_p`, `significant` and `verdict` are None until `adjust` sets them.

    Raises
    ------
    ValueError
        If shapes differ, labels are missing, values lie outside `value_range`, or an option is out of range.
    """
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise ValueError(f"values must be one-dimensional, got shape {column.shape}")
    outcome = Outcome(
        higher_is_better=higher_is_better,
        value_range=value_range,
        bins=bins,
        yes_no=yes_no,
        smallest_effect=smallest_effect,
    )
    settings = PanelSettings(
        n_permutations=n_permutations, n_bootstrap=n_bootstrap, seed=seed, alpha=alpha, min_subjects=min_subjects
    )
    return disparity_panel(column[:, None], groups, subjects, outcome, settings, images=images).rows[0]


def disparity_panel(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    outcomes: Outcome | Sequence[Outcome],
    settings: PanelSettings,
    *,
    images: ArrayLike | None = None,
) -> Panel:
    """Compare m outcomes between groups with joint permutations and resamples.

    Parameters
    ----------
    values : (n, m)
        One row per (image, group), NaN = unanswered.
    groups, subjects, images : (n,)
        As in `disparity`, which returns the same row for one outcome alone.
    outcomes : Outcome or sequence of m
        One alone is that of every column.
    settings : PanelSettings

    Raises
    ------
    ValueError
        As `disparity`.
    """
    entries = read_entries(values, groups, subjects, images)
    m = entries.values.shape[1]
    outcomes = [outcomes] * m if isinstance(outcomes, Outcome) else list(outcomes)
    if len(outcomes) != m:
        raise ValueError(f"{len(outcomes)} outcomes for {m} columns of values")
    _check_values(entries.values, outcomes)
    cells = cell_means(entries)
    p = prepare(entries, cells, settings.min_subjects)
    tested = None if p is None else _test(p, outcomes, settings)
    rows = []
    for j, outcome in enumerate(outcomes):
        eligible = np.zeros(len(entries.names), dtype=bool)
        if tested is not None:
            eligible[tested.prepared.units.kept] = tested.prepared.eligible[:, j]
        row = DisparityRow(
            **_description(j, entries, cells, eligible, tested is not None),
            smallest_effect=float(outcome.smallest_effect),
            n_permutations=settings.n_permutations,
        )
        if tested is not None and eligible.sum() >= 2:
            p_value = permutation_p(float(tested.joint.max_t[j]), tested.joint.max_t_permuted[:, j])
            row = replace(row, p_value=p_value, **_gap_numbers(j, tested, outcome, settings.alpha, row.status))
            row = replace(row, **_named_groups(j, entries, tested, outcome, settings.alpha))
            row = replace(row, **_reference_numbers(j, entries, cells, eligible, row.extreme_pair))
        rows.append(row)
    if tested is None:
        nothing = np.full((settings.n_permutations, m), np.nan)
        return Panel(rows, np.full(m, np.nan), nothing, nothing.copy(), np.zeros((0, m)))
    joint, scale = tested.joint, tested.prepared.scale
    influence = range_influence(tested.prepared, joint.observed.mean[:, 0]) * scale
    return Panel(rows, joint.max_t, joint.raw_permuted * scale, joint.max_t_permuted, influence)


def _check_values(values: FloatArray, outcomes: Sequence[Outcome]) -> None:
    """Raise ValueError for values (n, m) outside their scale, or other than 0 and 1 in a yes/no column."""
    for j, outcome in enumerate(outcomes if len(values) else ()):
        (low, high), column = outcome.value_range, values[:, j]
        slack = 1e-9 * max(1.0, high - low if math.isfinite(high - low) else 1.0)
        if ((column < low - slack) | (column > high + slack)).any():
            raise ValueError(f"column {j} holds a value outside its range [{low:g}, {high:g}]")
        if outcome.yes_no and ((column != 0) & (column != 1) & ~np.isnan(column)).any():
            raise ValueError(f"column {j} is yes/no but holds values other than 0 and 1")


@dataclass(frozen=True)
class _Tested:
    """What was computed on a panel with at least two groups.

    `divergence`: observed (m,) and permuted. `worst` (G, m): share of bootstrap resamples in which each group ranks
    worst, None without resamples. `own_pairs`: the pairs of groups with each group's own variance.
    """

    prepared: Prepared
    joint: JointPermutations
    tests: Sequence[GapTest | None]
    divergence: tuple[FloatArray, FloatArray]
    worst: FloatArray | None
    own_pairs: PairTable


def _test(p: Prepared, outcomes: Sequence[Outcome], settings: PanelSettings) -> _Tested:
    """Run the permutations and the bootstrap."""
    sign = np.array([1.0 if outcome.higher_is_better else -1.0 for outcome in outcomes])
    yes_no = np.array([outcome.yes_no for outcome in outcomes], dtype=bool)
    joint = joint_permutations(p, yes_no, sign, settings.n_permutations, settings.seed)
    tests = gap_tests(p, joint.observed, joint.max_t_permuted, yes_no)
    worst = None
    if settings.n_bootstrap:
        worst = worst_probabilities(p, sign, n_bootstrap=settings.n_bootstrap, seed=settings.seed)
    own_pairs = pair_table(observed_moments(p.y, p.member, p.eligible, p.units.dependent))
    return _Tested(p, joint, tests, permuted_divergences(p, outcomes, settings), worst, own_pairs)


def range_influence(p: Prepared, mean: FloatArray) -> FloatArray:
    """Return what each subject adds to max - min of the group means (G, m), (N, m)."""
    out = np.zeros((len(p.y), mean.shape[1]))
    for j in np.flatnonzero(np.isfinite(mean).sum(axis=0) >= 2):
        for g, sign in ((np.nanargmax(mean[:, j]), 1.0), (np.nanargmin(mean[:, j]), -1.0)):
            off = np.nan_to_num(p.y[:, g, j] - mean[g, j])
            n = int(np.isfinite(p.y[:, g, j]).sum())
            out[:, j] += sign * off / n * np.sqrt(n / (n - 1))
    return out


def _description(j: int, entries: Entries, cells: Cells, eligible: BoolArray, enough: bool) -> dict[str, Any]:
    """Return what a row says without a comparison: its status, its sizes, and all groups by name.

    `enough`: at least two groups have enough subjects. Too few subjects is about the data; uninformative about the
    answers: none, few, constant.
    """
    column = entries.values[:, j]
    present = np.isfinite(column)
    column_values, status = column[present & eligible[entries.group]], OK
    if len(column) and not present.any():
        status = UNINFORMATIVE
    elif not enough:
        status = TOO_FEW
    elif eligible.sum() < 2 or np.ptp(column_values) <= 1e-12 * max(1.0, float(np.abs(column_values).max())):
        status = UNINFORMATIVE
    groups = []
    for g, name in enumerate(entries.names):
        y = cells.known_means(g, j)
        images = len(np.unique(entries.image[present & (entries.group == g)]))
        mean, sd = float(y.mean()) if len(y) else None, float(y.std(ddof=1)) if len(y) > 1 else None
        groups.append(GroupSummary(name, len(y), images, mean, sd, bool(eligible[g])))
    subjects = cells.subject[eligible[cells.group]]
    n_images = len(np.unique(entries.image[present]))
    return {
        "dependent_groups": len(np.unique(subjects)) < len(subjects),
        "n_images": n_images,
        "n_subjects": len(np.unique(entries.subject[present])),
        "n_missing": len(np.unique(entries.image)) - n_images,
        "status": status,
        "groups": tuple(groups),
    }


def _gap_numbers(j: int, t: _Tested, outcome: Outcome, alpha: float, status: str) -> dict[str, Any]:
    """Return the gap, its chance level, estimate and interval, and what else follows from the test at other gaps."""
    joint, scale, observed = t.joint, float(t.prepared.scale[j]), t.joint.observed
    valid = observed.valid[:, 0, j]
    mean, n = observed.mean[valid, 0, j], observed.n[valid, 0, j]
    raw = float(np.ptp(mean)) * scale
    null = joint.raw_permuted[:, j] * scale
    null = null[np.isfinite(null)]
    null_mean = float(null.mean()) if len(null) else None
    js, js_null = float(t.divergence[0][j]), t.divergence[1][:, j]
    numbers = {
        "raw": raw,
        "null_mean": null_mean,
        "null_p95": float(np.quantile(null, 0.95)) if len(null) else None,
        "max_t": finite(float(joint.max_t[j])),
        "excess": None if null_mean is None else raw - null_mean,
        "shrunken": shrunken_range(mean, observed.pool[0, j] / n) * scale,
        "js_divergence": finite(js),
        "js_null_mean": finite(float(np.nanmean(js_null))) if np.isfinite(js_null).any() else None,
        "js_p": permutation_p(js, js_null) if np.isfinite(js) else None,
    }
    test, (low, high), bound = t.tests[j], outcome.value_range, float(outcome.smallest_effect)
    if test is None:
        return numbers
    # by rounding alone a gap without spread can lie outside its own interval
    numbers |= {"ci_low": min(test.low(alpha), raw), "ci_high": max(min(test.high(alpha), float(high - low)), raw)}
    if status != OK:
        return numbers
    return numbers | {
        "mde80": finite(test.detectable(alpha)),
        "equivalence_p": test.equivalence_p(bound),
        "minimum_effect_p": test.exceeds_p(bound),
        "test": test,
    }


def _named_groups(j: int, entries: Entries, t: _Tested, outcome: Outcome, alpha: float) -> dict[str, Any]:
    """Return the groups that differ most clearly, and those that could rank worst; none if all means are the same."""
    observed = t.joint.observed
    sign = 1.0 if outcome.higher_is_better else -1.0
    mean = np.where(observed.valid[:, 0, j], observed.mean[:, 0, j] * sign, np.nan)
    if np.nanmax(mean) - np.nanmin(mean) <= MEAN_TIE:
        return {}
    worst, best = named_pair(pair_table(observed).column(j), mean)
    names = [entries.names[code] for code in t.prepared.units.kept]
    could = worst_confidence_set(t.own_pairs.column(j), mean, alpha)
    return {
        "worst_group": names[worst],
        "best_group": names[best],
        "extreme_pair": (names[worst], names[best]),
        "pair_gap": float(abs(mean[worst] - mean[best]) * t.prepared.scale[j]),
        "worst_set": tuple(sorted(names[g] for g in np.flatnonzero(could))),
        "p_worst": None if t.worst is None else float(t.worst[worst, j]),
        "p_worst_null": finite(float(t.joint.worst_again[worst, j])),
    }


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
        is_finite = np.isfinite(entries.values[:, j])
        masks = [is_finite & (entries.group == code) for code in (best, worst)]
        d = answer_d(*(entries.values[end, j] for end in masks), *(entries.subject[end] for end in masks))
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
    is_finite = np.isfinite(table.df)
    critical = np.where(is_finite, stdtrit(np.where(is_finite, table.df, 1.0), level), ndtri(level))
    could: BoolArray = valid.copy()
    for (g, h), gap, error, c in zip(pairs(len(mean)), table.gap, table.error, critical, strict=True):
        if np.isfinite(gap) and gap**2 > NO_GAP and gap > c * error:
            could[g if mean[g] > mean[h] else h] = False
    return could
