"""Matched designs: counterfactual sets, one scene with one attribute changed, compared within the set.

Differences between scenes cancel, so that effects far below the variation between scenes are found. Labels are permuted
within sets, never between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import CHUNK_BYTES, FloatArray, cell_means, finite, permutation_p, read_entries, stream

NO_SPREAD = 1e-12
ROUNDING = 1e-7
"""Rounding error of a standard error of 0 after sums of squares were subtracted, in units of the scale."""
FEW = 10
"""Number of differing sets below which a t test of the mean difference is anti-conservative (by simulation)."""


@dataclass(frozen=True)
class MatchedPair:
    """Two versions of the same sets: mean of the within-set difference first - second, with a t interval.

    `n_different`: number of sets in which they differ at all.
    """

    first: str
    second: str
    n_sets: int
    n_different: int
    difference: float
    standard_error: float | None
    ci_low: float | None
    ci_high: float | None
    adjusted_p: float


@dataclass(frozen=True)
class MatchedVersion:
    """One version: its least-squares level (levels of all versions average to 0) and the number of its sets."""

    name: str
    n_sets: int
    level: float | None


@dataclass(frozen=True)
class MatchedTest:
    """All versions compared; numbers are None where no two versions share `min_sets` sets.

    Attributes
    ----------
    raw, null_mean, null_p95
        Largest mean within-set difference of a pair; its mean and 95th percentile under permutation.
    p_value
        Of the largest |t| over pairs, labels permuted within every set. A pair's `adjusted_p` compares its own |t| with
        the same permuted maximum.
    worst_group, best_group
        The versions of the pair with the largest difference.
    permuted : (n_permutations,)
        Permuted largest |t|.
    """

    raw: float | None
    null_mean: float | None
    null_p95: float | None
    p_value: float | None
    worst_group: str | None
    best_group: str | None
    n_sets: int
    n_permutations: int
    pairs: tuple[MatchedPair, ...]
    versions: tuple[MatchedVersion, ...] = ()
    permuted: FloatArray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)

    def critical(self, alpha: float) -> float | None:
        """Return the 1 - alpha quantile of the permuted largest |t|; None where it is infinite."""
        return finite(float(np.quantile(self.permuted, 1 - alpha, method="higher"))) if len(self.permuted) else None

    def exceeds_p(self, bound: float) -> float | None:
        """Return the p-value that no pair of versions differs by more than `bound`; None without pairs."""
        if not self.pairs:
            return None
        over = np.array([abs(pair.difference) - bound for pair in self.pairs])
        error = np.array([pair.standard_error or 0.0 for pair in self.pairs])
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(over > 0, over / error, 0.0)
        return permutation_p(float(t.max()), self.permuted)


def matched_panel(
    values: ArrayLike,
    groups: ArrayLike,
    sets: ArrayLike,
    *,
    higher_is_better: Sequence[bool],
    n_permutations: int,
    seed: int,
    alpha: float = 0.05,
    min_sets: int = 10,
) -> list[MatchedTest]:
    """Compare the versions of counterfactual sets on several outcomes.

    Outcomes that are known for the same sets and versions share their permutations. A set without some version counts
    for the pairs that it has.

    Parameters
    ----------
    values : (n, m)
        One line per answer, NaN = missing; several answers to one version of a set are averaged.
    groups, sets : (n,)
        The version and the set of each answer; for subjects with several sets, pass the subject as `sets`.
    higher_is_better : (m,)
        If False the worst version has the larger mean.
    n_permutations, seed, alpha, min_sets
        Of the test; level of the intervals; least number of sets that a pair of versions needs.

    Raises
    ------
    ValueError
        If lengths differ, labels are missing, or an option is out of range.
    """
    if n_permutations < 1 or not 0 < alpha < 1:
        raise ValueError("need n_permutations >= 1 and 0 < alpha < 1")
    entries = read_entries(np.asarray(values, dtype=np.float64), groups, sets, None)
    cells = cell_means(entries)
    m = cells.mean.shape[1]
    y = np.full((m, int(cells.subject.max(initial=-1)) + 1, len(entries.names)), np.nan)
    y[:, cells.subject, cells.group] = cells.mean.T
    tables = [column[np.isfinite(column).sum(axis=1) >= 2] for column in y]
    alike: dict[bytes, list[int]] = {}
    for j, table in enumerate(tables):
        alike.setdefault(np.isfinite(table).tobytes(), []).append(j)
    out: list[MatchedTest | None] = [None] * m
    for members in alike.values():
        present = np.isfinite(tables[members[0]])
        shared = present.T.astype(np.intp) @ present
        pairs = [(g, h) for g, h in combinations(range(present.shape[1]), 2) if shared[g, h] >= max(min_sets, 2)]
        if not pairs:
            for j in members:
                out[j] = MatchedTest(None, None, None, None, None, None, len(present), n_permutations, ())
            continue
        centred = [tables[j] - np.nanmean(tables[j], axis=1, keepdims=True) for j in members]
        scales = [float(np.nanmax(np.abs(tables[j]))) for j in members]
        permuted = _permute(centred, pairs, scales, n_permutations, seed)
        for j, c, scale, largest in zip(members, centred, scales, permuted, strict=True):
            out[j] = _assembled(tables[j], c, scale, pairs, entries.names, largest, alpha, higher_is_better[j])
    return [test for test in out if test is not None]


def _assembled(
    y: FloatArray,
    centred: FloatArray,
    scale: float,
    pairs: list[tuple[int, int]],
    names: tuple[str, ...],
    permuted: tuple[FloatArray, FloatArray],
    alpha: float,
    higher_is_better: bool,
) -> MatchedTest:
    """Return one outcome's test; `permuted`: its largest |t| and largest gap per permutation."""
    largest_t, largest_gap = permuted
    t, gap = (term[0] for term in _statistics(centred[None], pairs, scale))
    levels = _level(gap, pairs, y.shape[1])
    extreme = int(np.abs(gap).argmax())
    raw = float(np.abs(gap[extreme]))
    flat = raw <= NO_SPREAD * max(1.0, scale)
    # the pair with the largest difference: with incomplete sets it need not have the extreme levels
    low, high = pairs[extreme] if gap[extreme] < 0 else pairs[extreme][::-1]
    worst, best = (low, high) if higher_is_better else (high, low)
    present = np.isfinite(y).sum(axis=0)
    return MatchedTest(
        raw=raw,
        null_mean=finite(float(largest_gap.mean())),
        null_p95=finite(float(np.quantile(largest_gap, 0.95))),
        p_value=permutation_p(float(t.max()), largest_t),
        worst_group=None if flat else names[worst],
        best_group=None if flat else names[best],
        n_sets=len(y),
        n_permutations=len(largest_t),
        pairs=tuple(
            _pair(y, names, g, h, permutation_p(float(statistic), largest_t), alpha)
            for (g, h), statistic in zip(pairs, t, strict=True)
        ),
        versions=tuple(
            MatchedVersion(name, int(size), finite(float(level)))
            for name, size, level in zip(names, present, levels, strict=True)
            if size
        ),
        permuted=largest_t,
    )


def matched_equivalence(test: MatchedTest, bound: float, width: float) -> float | None:
    """Return the p-value that all pairs of versions differ by less than `bound` (intersection-union test), or None.

    Two one-sided t tests on every pair's differences (Schuirmann 1987). If fewer than `FEW` sets differ at all, their
    share is tested too: with a mean difference of `bound`, at least the share bound / width of the sets would differ,
    as no difference exceeds the width of the scale; p is the binomial probability of so few. The larger p counts.
    None without pairs. Raises ValueError unless bound and width are above 0.
    """
    from scipy.special import bdtr

    if not bound > 0 or not width > 0:
        raise ValueError(f"need bound and width above 0, got {bound} and {width}")
    if not test.pairs:
        return None
    p_values = []
    for pair in test.pairs:
        p_values.append(tost_p(pair.difference, pair.standard_error or 0.0, pair.n_sets - 1.0, bound))
        if pair.n_different < FEW:
            p_values.append(float(bdtr(pair.n_different, pair.n_sets, min(1.0, bound / width))))
    return max(p_values)


def _statistics(y: FloatArray, pairs: list[tuple[int, int]], scale: float) -> tuple[FloatArray, FloatArray]:
    """Return |t| and mean difference of every pair in a batch of tables (b, sets, groups): each (b, pairs); 0/0 = 0.

    The same cells are known in all tables of a batch. Sums of squared differences come from sums and cross products.
    """
    present = np.isfinite(y[0])
    k = present.astype(np.float64)
    filled = np.where(present, y, 0.0)
    both = k.T @ k
    turned = filled.transpose(0, 2, 1)
    cross = turned @ filled
    if present.all():
        total = filled.sum(axis=1)[:, :, None] + np.zeros_like(k[0])
        square = np.diagonal(cross, axis1=1, axis2=2)[:, :, None] + np.zeros_like(k[0])
    else:
        total, square = turned @ k, (turned * turned) @ k
    t, gap = [], []
    for g, h in pairs:
        n = max(float(both[g, h]), 2.0)
        mean = (total[:, g, h] - total[:, h, g]) / n
        squares = square[:, g, h] + square[:, h, g] - 2 * cross[:, g, h]
        variance = np.maximum(squares - n * mean * mean, 0.0) / (n - 1) / n
        variance[variance <= (ROUNDING * max(scale, 1e-300)) ** 2] = 0.0
        tiny = np.abs(mean) <= NO_SPREAD * scale
        with np.errstate(divide="ignore", invalid="ignore"):
            t.append(np.where(tiny, 0.0, np.abs(mean) / np.sqrt(variance)))
        gap.append(mean)
    return np.stack(t, axis=1), np.stack(gap, axis=1)


def _permute(
    tables: list[FloatArray], pairs: list[tuple[int, int]], scales: list[float], n: int, seed: int
) -> list[tuple[FloatArray, FloatArray]]:
    """Permute the answers of every set among its versions; return max |t| and max |gap| of each table, (n,)."""
    rng, (rows, k) = stream(seed, 0, 4), tables[0].shape
    present = np.isfinite(tables[0])
    # versions in the order of columns, absent ones last, so that the present ones are permuted among themselves
    position = np.argsort(~present, axis=1, kind="stable")
    back = np.argsort(position, axis=1, kind="stable")
    step = max(1, CHUNK_BYTES // (8 * 6 * rows * k))
    statistics: list[list[tuple[FloatArray, FloatArray]]] = [[] for _ in tables]
    for start in range(0, n, step):
        b = min(step, n - start)
        drawn = np.where(present, rng.random((b, rows, k)), 2.0)
        order = np.argsort(drawn, axis=2, kind="stable")
        from_version = np.take_along_axis(order, np.broadcast_to(back, (b, rows, k)), axis=2)
        for y, scale, batches in zip(tables, scales, statistics, strict=True):
            if np.nanmax(np.abs(y)) <= NO_SPREAD * scale:  # no set has answers that differ between versions
                batches.append((np.zeros(b), np.zeros(b)))
                continue
            shuffled = np.take_along_axis(np.broadcast_to(y, (b, rows, k)), from_version, axis=2)
            t, gap = _statistics(shuffled, pairs, scale)
            batches.append((t.max(axis=1), np.abs(gap).max(axis=1)))
    return [
        (np.concatenate([t for t, _ in batches]), np.concatenate([gap for _, gap in batches])) for batches in statistics
    ]


def _level(gap: FloatArray, pairs: list[tuple[int, int]], k: int) -> FloatArray:
    """Return the least-squares level of each version from the pair differences; NaN for a version in no pair."""
    design = np.zeros((len(pairs), k))
    for row, (g, h) in enumerate(pairs):
        design[row, g], design[row, h] = 1.0, -1.0
    level = np.linalg.lstsq(design, gap, rcond=None)[0]
    return np.where(np.abs(design).any(axis=0), level, np.nan)


def _pair(y: FloatArray, names: tuple[str, ...], g: int, h: int, p: float, alpha: float) -> MatchedPair:
    from scipy.special import stdtrit

    d = y[:, g] - y[:, h]
    d = d[np.isfinite(d)]
    mean, error = float(d.mean()), float(d.std(ddof=1) / np.sqrt(len(d)))
    reach = float(stdtrit(len(d) - 1, 1 - alpha / 2)) * error
    different = int((np.abs(d) > NO_SPREAD * max(1.0, float(np.abs(y[np.isfinite(y)]).max()))).sum())
    return MatchedPair(names[g], names[h], len(d), different, mean, error, mean - reach, mean + reach, p)


def tost_p(gap: float, error: float, df: float, bound: float) -> float:
    """Return the p-value of two one-sided t tests that a difference lies within +-bound (Schuirmann 1987).

    Parameters
    ----------
    gap, error, df
        Difference of two means, its standard error and degrees of freedom. With error 0 the difference is known.
    bound
        The equivalence margin.
    """
    from scipy.special import stdtr

    room = bound - abs(gap)
    return float(stdtr(df, -room / error)) if error > 0 else float(room <= 0)


def minimum_detectable(critical: float, largest_error: float, power: float = 0.8) -> float:
    """Return the minimum detectable effect: the difference of two groups that the max|T| test finds with `power`.

    |T| of a pair with difference d is approximately normal around d / SE, so that d = (critical + z_power) SE; the
    contribution of other pairs to the power is neglected.

    Parameters
    ----------
    critical
        The (1 - alpha) quantile of the permuted max|T|.
    largest_error
        Standard error of the least precise pair, so that the statement holds for any two groups.
    """
    from scipy.special import ndtri

    return float((critical + float(ndtri(power))) * largest_error)
