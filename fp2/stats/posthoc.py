"""Which groups differ: every pair tested, on subject means, with a correction over a stated family.

Mann-Whitney, Brunner-Munzel, Dunn and Games-Howell are asymptotic and take the groups as independent: they say which
pairs are behind a disparity and never decide a verdict. `permutation` is A1's own test, pair by pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.adjustment import adjust_p_values
from fp2.stats.composite import permutation_p
from fp2.stats.effects import hedges_g
from fp2.stats.joint import permuted_moments
from fp2.stats.layout import Cells, make_cells, read_entries
from fp2.stats.pairwise import welch_df
from fp2.stats.prepare import prepare
from fp2.stats.rows import FloatArray, finite
from fp2.stats.samples import Sample, subject_samples
from fp2.stats.studentised import NO_GAP, GroupMoments, pair_error

RANK_BISERIAL = "rank_biserial"
HEDGES = "hedges_g"


@dataclass(frozen=True)
class PairTest:
    """Two groups compared; signs are those of first - second.

    `difference` of the means over subjects; `statistic` is U (Mann-Whitney), W (Brunner-Munzel), z (Dunn) or t
    (Games-Howell, permutation); `effect` is the rank-biserial correlation 2 U / (n1 n2) - 1 (= Cliff's delta) for the
    tests on ranks, Hedges' g for those on means; `family_size` counts the p-values corrected together. None where a
    number does not exist.
    """

    first: str
    second: str
    n_first: int
    n_second: int
    difference: float
    statistic: float | None
    p_value: float | None
    effect: float | None
    effect_name: str
    method: str
    dependent_groups: bool
    adjusted_p: float | None = None
    correction: str | None = None
    family_size: int | None = None


def pairwise_tests(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    *,
    method: str = "mann-whitney",
    correction: str | None = "holm",
    min_subjects: int = 10,
) -> list[PairTest]:
    """Test all pairs of groups with at least `min_subjects` subjects.

    Parameters
    ----------
    values, groups, subjects
        1-D, one entry per (answer, group); NaN = missing.
    method
        `mann-whitney` (two-sided, ties corrected), `brunner-munzel` (shapes may differ), `dunn` (ranks of all groups
        together; Dunn 1964), `games-howell` (unequal spread; its studentised range already corrects for all pairs, so
        `correction` does not touch it).
    correction
        Over the pairs given back, as in `adjust_p_values`; None leaves `adjusted_p` to `correct_family`.

    Raises
    ------
    ValueError
        For another method or correction, or input that does not fit.
    """
    tests = {"mann-whitney": _mann_whitney, "brunner-munzel": _brunner_munzel, "games-howell": _games_howell}
    if method not in (*tests, "dunn"):
        raise ValueError(f"unknown test {method!r}; choose from {', '.join([*tests, 'dunn'])}")
    found = subject_samples(values, groups, subjects, min_subjects)
    pairs = list(combinations(range(len(found.groups)), 2))
    scores = _dunn(found.groups, pairs) if method == "dunn" else _each(found.groups, pairs, tests[method])
    by_means = method == "games-howell"
    out = []
    for (i, j), (statistic, p) in zip(pairs, scores, strict=True):
        a, b = found.groups[i], found.groups[j]
        out.append(
            PairTest(
                a.name,
                b.name,
                len(a.means),
                len(b.means),
                float(a.means.mean() - b.means.mean()),
                finite(statistic),
                finite(p),
                hedges_g(a.means, b.means) if by_means else rank_biserial(a.means, b.means),
                HEDGES if by_means else RANK_BISERIAL,
                method,
                found.dependent,
            )
        )
    if by_means:
        return [replace(r, adjusted_p=r.p_value, correction="studentised range", family_size=len(out)) for r in out]
    return out if correction is None else correct_family(out, correction)


def correct_family(rows: Sequence[PairTest], method: str = "holm") -> list[PairTest]:
    """Return the rows with `adjusted_p` over all of them together: pairs of several outcomes may be one family.

    Games-Howell and permutation rows are corrected for their own pairs already; they are refused (ValueError).
    """
    if any(row.method in ("games-howell", "permutation") for row in rows):
        raise ValueError("Games-Howell and permutation p-values are corrected for all pairs already")
    adjusted = adjust_p_values([row.p_value for row in rows], method)
    size = sum(row.p_value is not None for row in rows)
    return [
        replace(row, adjusted_p=p, correction=method, family_size=size) for row, p in zip(rows, adjusted, strict=True)
    ]


def rank_biserial(x: ArrayLike, y: ArrayLike) -> float:
    """Return 2 U / (n1 n2) - 1 in [-1, 1]: how much oftener a value of x exceeds one of y than the other way round."""
    from scipy.stats import rankdata

    a, b = _ties_joined([np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)])
    ranks = rankdata(np.concatenate([a, b]))
    u = float(ranks[: len(a)].sum()) - len(a) * (len(a) + 1) / 2
    return 2 * u / (len(a) * len(b)) - 1


def _ties_joined(parts: Sequence[FloatArray]) -> list[FloatArray]:
    """Means that tie but for rounding must rank as ties."""
    everything = np.concatenate(list(parts))
    low, width = float(everything.min()), float(np.ptp(everything))
    if width <= 1e-12 * max(1.0, float(np.abs(everything).max())):
        return [np.zeros(len(part)) for part in parts]
    return [np.round((part - low) / width, 9) for part in parts]


Score = tuple[float, float]
Test = Callable[[FloatArray, FloatArray, int, int], Score]


def _each(groups: Sequence[Sample], pairs: Sequence[tuple[int, int]], test: Test) -> list[Score]:
    df = sum(len(g.means) for g in groups) - len(groups)
    return [test(groups[i].means, groups[j].means, len(groups), df) for i, j in pairs]


def _mann_whitney(x: FloatArray, y: FloatArray, k: int, df: int) -> Score:
    from scipy.stats import mannwhitneyu

    a, b = _ties_joined([x, y])
    if np.ptp(np.concatenate([a, b])) == 0:
        return len(a) * len(b) / 2, 1.0
    found = mannwhitneyu(a, b, alternative="two-sided")
    return float(found.statistic), float(found.pvalue)


def _brunner_munzel(x: FloatArray, y: FloatArray, k: int, df: int) -> Score:
    from scipy.stats import brunnermunzel

    a, b = _ties_joined([x, y])
    if np.ptp(np.concatenate([a, b])) == 0:
        return 0.0, 1.0
    if min(a.max(), b.max()) < max(a.min(), b.min()):
        # no overlap: the statistic is infinite
        return (math.inf if a.mean() < b.mean() else -math.inf), 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        found = brunnermunzel(a, b)
    return float(found.statistic), float(found.pvalue)


def _games_howell(x: FloatArray, y: FloatArray, k: int, df: int) -> Score:
    """Welch's t with the studentised range of k groups (Games and Howell 1976)."""
    from scipy.stats import studentized_range

    e, f = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
    if e + f <= 1e-24 * max(1.0, float(np.abs(x).max()), float(np.abs(y).max())) ** 2:
        return math.nan, math.nan
    t = float((x.mean() - y.mean()) / math.sqrt(e + f))
    nu = float(welch_df(np.array(e), np.array(f), np.array(len(x)), np.array(len(y))))
    return t, float(np.clip(studentized_range.sf(abs(t) * math.sqrt(2), k, nu), 0.0, 1.0))


def _dunn(groups: Sequence[Sample], pairs: Sequence[tuple[int, int]]) -> list[Score]:
    """z of the difference of mean ranks over all groups, ties corrected (Dunn 1964)."""
    from scipy.special import ndtr
    from scipy.stats import rankdata

    if len(groups) < 2:
        return []
    parts = _ties_joined([g.means for g in groups])
    everything = np.concatenate(parts)
    n = len(everything)
    ranks = np.split(rankdata(everything), np.cumsum([len(p) for p in parts])[:-1])
    _, ties = np.unique(everything, return_counts=True)
    spread = n * (n + 1) / 12 - float((ties.astype(np.float64) ** 3 - ties).sum()) / (12 * (n - 1))
    out = []
    for i, j in pairs:
        if spread <= 0:
            out.append((0.0, 1.0))
            continue
        error = math.sqrt(spread * (1 / len(ranks[i]) + 1 / len(ranks[j])))
        z = float(ranks[i].mean() - ranks[j].mean()) / error
        out.append((z, float(2 * ndtr(-abs(z)))))
    return out


def pairwise_permutation(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    *,
    images: ArrayLike | None = None,
    yes_no: bool = False,
    n_permutations: int,
    seed: int,
    min_subjects: int = 10,
) -> list[PairTest]:
    """Test all pairs with A1's permutation of whole subjects: |T| of a pair against the permuted maximum of all pairs.

    The smallest `adjusted_p` is the row's own `p_value` (`disparity` with the same options). Valid where subjects count
    in several groups. `p_value` is the pair's before correction for the other pairs: its own permuted |T|.
    """
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise ValueError("values must be one-dimensional")
    return pairwise_permutation_panel(
        column[:, None], groups, subjects, images=images, yes_no=[yes_no], n_permutations=n_permutations, seed=seed,
        min_subjects=min_subjects,
    )[0]  # fmt: skip


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
    """Test all pairs of groups on several outcomes, values (n, m), which share their permutations.

    Each list is what `pairwise_permutation` gives for that outcome alone; it is empty where fewer than two groups have
    enough subjects.
    """
    entries = read_entries(np.asarray(values, dtype=np.float64), groups, subjects, images)
    cells = make_cells(entries)
    p = prepare(entries, cells, min_subjects)
    if p is None:
        return [[] for _ in range(entries.values.shape[1])]
    by_name = np.argsort(p.slots.kept).tolist()
    pairs = list(combinations(by_name, 2))
    seen, chunks = permuted_moments(p, np.array(yes_no, dtype=bool), n_permutations, seed)
    permuted, observed = np.concatenate([_pair_t(found, pairs) for found in chunks]), _pair_t(seen, pairs)[0]
    out = []
    for j in range(entries.values.shape[1]):
        usable = [k for k, (g, h) in enumerate(pairs) if p.eligible[g, j] and p.eligible[h, j]]
        means = {g: _means(cells, int(p.slots.kept[g]), j) for g in by_name if p.eligible[g, j]}
        named = {g: entries.names[p.slots.kept[g]] for g in by_name}
        tests = [
            _PairPermuted(named[g], named[h], means[g], means[h], float(observed[k, j]), permuted[:, k, j])
            for k, (g, h) in ((k, pairs[k]) for k in usable)
        ]
        largest = np.fmax.reduce(permuted[:, usable, j], axis=1) if usable else np.empty(0)
        out.append([test.row(largest, len(usable), p.slots.dependent) for test in tests])
    return out


def _means(cells: Cells, group: int, j: int) -> FloatArray:
    y: FloatArray = cells.mean[cells.group == group, j]
    return y[np.isfinite(y)]


@dataclass(frozen=True)
class _PairPermuted:
    """One pair of one outcome: the subjects' means, |T|, and its permutations (B,)."""

    first: str
    second: str
    a: FloatArray
    b: FloatArray
    observed: float
    permuted: FloatArray

    def row(self, largest: FloatArray, n_pairs: int, dependent: bool) -> PairTest:
        """Return the test, corrected by the permuted maximum of all pairs."""
        gap = float(self.a.mean() - self.b.mean())
        return PairTest(
            self.first, self.second, len(self.a), len(self.b), gap, finite(math.copysign(self.observed, gap)),
            permutation_p(self.observed, self.permuted), hedges_g(self.a, self.b), HEDGES, "permutation", dependent,
            permutation_p(self.observed, largest), "permuted maximum", n_pairs,
        )  # fmt: skip


def _pair_t(found: GroupMoments, pairs: Sequence[tuple[int, int]]) -> FloatArray:
    """|T| of each pair, (b, pairs, m); NaN where a group of the pair has fewer than two answers."""
    columns = []
    for g, h in pairs:
        gap = (found.mean[g] - found.mean[h]) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.sqrt(np.where(gap <= NO_GAP, 0.0, gap / pair_error(found, g, h)))
        columns.append(np.where(found.valid[g] & found.valid[h], t, np.nan))
    return np.stack(columns, axis=1)
