"""Pairwise comparisons of groups: the permutation test pair by pair, and Mann-Whitney tests on subject means.

Mann-Whitney is asymptotic and takes the groups as independent. Pairs explain a disparity; they never decide a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import (
    NO_GAP,
    FloatArray,
    GroupMoments,
    adjust_p_values,
    cell_means,
    finite,
    hedges_g,
    join_ties,
    pair_error,
    permutation_p,
    permuted_moments,
    prepare,
    rank_biserial,
    read_entries,
    subject_means_by_group,
)


@dataclass(frozen=True)
class PairTest:
    """Two groups compared; signs are those of first - second, None where a number does not exist.

    Attributes
    ----------
    difference
        Of the means over subjects.
    statistic, p_value, adjusted_p
        U (Mann-Whitney) or the studentised difference (permutation); p before and after correction.
    effect
        Rank-biserial correlation (Mann-Whitney) or Hedges' g (permutation).
    dependent_groups
        Whether some subject counts in more than one of the compared groups.
    """

    first: str
    second: str
    n_first: int
    n_second: int
    difference: float
    statistic: float | None
    p_value: float | None
    effect: float | None
    dependent_groups: bool
    adjusted_p: float | None = None


def pairwise_mann_whitney(
    values: ArrayLike, groups: ArrayLike, subjects: ArrayLike, *, min_subjects: int = 10
) -> list[PairTest]:
    """Test all pairs of groups with at least `min_subjects` subjects; `adjusted_p` is left to `correct_family`.

    values, groups, subjects (n,): one entry per (answer, group); NaN = missing. Two-sided, corrected for ties. Raises
    ValueError as `read_entries`.
    """
    from scipy.stats import mannwhitneyu

    by_group = subject_means_by_group(values, groups, subjects, min_subjects)
    tests = []
    for a, b in combinations(by_group.groups, 2):
        n, m = len(a.means), len(b.means)
        x, y = join_ties([a.means, b.means])
        statistic, p = n * m / 2, 1.0
        if np.ptp(np.concatenate([x, y])) > 0:
            statistic, p = (float(number) for number in mannwhitneyu(x, y, alternative="two-sided"))
        gap, effect = float(a.means.mean() - b.means.mean()), rank_biserial(a.means, b.means)
        tests.append(PairTest(a.name, b.name, n, m, gap, statistic, p, effect, by_group.dependent))
    return tests


def correct_family(rows: Sequence[PairTest], method: str = "holm") -> list[PairTest]:
    """Return the rows with `adjusted_p` over all of them: pairs of several outcomes may be one family."""
    adjusted = adjust_p_values([row.p_value for row in rows], method)
    return [replace(row, adjusted_p=p) for row, p in zip(rows, adjusted, strict=True)]


def pairwise_permutation_panel(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    *,
    images: ArrayLike | None = None,
    yes_no: Sequence[bool],
    n_permutations: int,
    seed: int,
    min_subjects: int = 10,
) -> list[list[PairTest]]:
    """Test all pairs of groups on several outcomes by the disparity's own permutation test.

    `adjusted_p` compares the pair's |T| with the permuted maximum over all pairs; `p_value` compares it with its own
    permutations. Valid where subjects count in several groups. The smallest `adjusted_p` is the `p_value` of
    `disparity` where that has pairs alone (two groups, or common subjects); of three groups and more it also tests all
    groups together.

    Parameters
    ----------
    values : (n, m)
        Outcomes that share their permutations; NaN = missing.
    groups, subjects, images : (n,)
    yes_no : (m,)
        Which outcomes are 0/1.

    Returns
    -------
    list of m lists
        Empty where fewer than two groups have enough subjects.
    """
    entries = read_entries(np.asarray(values, dtype=np.float64), groups, subjects, images)
    cells = cell_means(entries)
    p = prepare(entries, cells, min_subjects)
    if p is None:
        return [[] for _ in range(entries.values.shape[1])]
    by_name = np.argsort(p.units.kept).tolist()
    pairs = list(combinations(by_name, 2))
    observed_moments, batches = permuted_moments(p, np.array(yes_no, dtype=bool), n_permutations, seed)
    permuted, observed = (
        np.concatenate([_pair_t(relabelled, pairs) for relabelled in batches]),
        _pair_t(observed_moments, pairs)[0],
    )
    out = []
    for j in range(entries.values.shape[1]):
        usable = [k for k, (g, h) in enumerate(pairs) if p.eligible[g, j] and p.eligible[h, j]]
        means = {g: cells.known_means(int(p.units.kept[g]), j) for g in by_name if p.eligible[g, j]}
        names = {g: entries.names[p.units.kept[g]] for g in by_name}
        largest = np.fmax.reduce(permuted[:, usable, j], axis=1) if usable else np.empty(0)
        rows = []
        for k, (g, h) in ((k, pairs[k]) for k in usable):
            t, gap = float(observed[k, j]), float(means[g].mean() - means[h].mean())
            rows.append(
                PairTest(
                    names[g],
                    names[h],
                    len(means[g]),
                    len(means[h]),
                    gap,
                    finite(math.copysign(t, gap)),
                    permutation_p(t, permuted[:, k, j]),
                    hedges_g(means[g], means[h]),
                    p.units.dependent,
                    permutation_p(t, largest),
                )
            )
        out.append(rows)
    return out


def _pair_t(group_moments: GroupMoments, pairs: Sequence[tuple[int, int]]) -> FloatArray:
    """Return |T| of each pair, (b, pairs, m); NaN where a group of the pair has fewer than two answers."""
    columns = []
    for g, h in pairs:
        gap = (group_moments.mean[g] - group_moments.mean[h]) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.sqrt(np.where(gap <= NO_GAP, 0.0, gap / pair_error(group_moments, g, h)))
        columns.append(np.where(group_moments.valid[g] & group_moments.valid[h], t, np.nan))
    return np.stack(columns, axis=1)
