"""Matched designs: the same scene with one attribute changed (counterfactual twins), compared within the set.

A set removes what differs between scenes, so gaps far below the spread between them are found. Labels are exchanged
inside a set, never between sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.composite import permutation_p
from fp2.stats.layout import make_cells, read_entries
from fp2.stats.permutation import stream
from fp2.stats.rows import FloatArray, finite
from fp2.stats.sums import CHUNK_BYTES

NO_SPREAD = 1e-12


@dataclass(frozen=True)
class MatchedPair:
    """Two versions of the same sets: mean of the within-set difference first - second, with a t interval."""

    first: str
    second: str
    n_sets: int
    difference: float
    standard_error: float | None
    ci_low: float | None
    ci_high: float | None
    adjusted_p: float


@dataclass(frozen=True)
class MatchedTest:
    """All versions compared; `raw` is the largest mean within-set difference of a pair, null_* its chance level.

    `p_value`: permutation of the labels inside every set, of the largest |t| over pairs; `adjusted_p` of a pair is its
    own |t| against the same maximum. `p_value` is None where fewer than two versions share `min_sets` sets.
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


def sign_flip(differences: ArrayLike, *, n_permutations: int, seed: int) -> float:
    """Return the two-sided p-value that the mean of paired differences (n,) is 0, by flipping their signs.

    Exact (all 2^n flips) where those are no more than `n_permutations`; else (1 + #) / (B + 1). NaN are left out.
    Raises ValueError if nothing is left.
    """
    d = np.asarray(differences, dtype=np.float64).reshape(-1)
    d = d[np.isfinite(d)]
    if not len(d):
        raise ValueError("no paired difference is known")
    seen = abs(float(d.sum()))
    tie = 1e-12 * max(1.0, float(np.abs(d).sum()))
    if len(d) <= 24 and 2 ** len(d) <= n_permutations:
        codes = np.arange(2 ** len(d))
        signs = 1.0 - 2.0 * ((codes[:, None] >> np.arange(len(d))) & 1)
        return float((np.abs(signs @ d) >= seen - tie).mean())
    rng, reached = stream(seed, 0, 3), 0
    step = max(1, CHUNK_BYTES // (8 * len(d)))
    for start in range(0, n_permutations, step):
        signs = rng.integers(0, 2, (min(step, n_permutations - start), len(d))) * 2.0 - 1.0
        reached += int((np.abs(signs @ d) >= seen - tie).sum())
    return (1 + reached) / (n_permutations + 1)


def matched_test(
    values: ArrayLike,
    groups: ArrayLike,
    sets: ArrayLike,
    *,
    higher_is_better: bool = True,
    n_permutations: int,
    seed: int,
    alpha: float = 0.05,
    min_sets: int = 10,
) -> MatchedTest:
    """Compare the versions of counterfactual sets.

    values, groups, sets (n,): one entry per answer; `groups` says which version of the set it is about. Several answers
    to one version of a set are averaged. Where one person carries several sets, pass the person as `sets`. A set that
    lacks a version counts for the pairs that it has. Raises ValueError on lengths that differ or missing labels.
    """
    if n_permutations < 1 or not 0 < alpha < 1:
        raise ValueError("need n_permutations >= 1 and 0 < alpha < 1")
    entries = read_entries(np.asarray(values, dtype=np.float64).reshape(-1), groups, sets, None)
    cells = make_cells(entries)
    y = np.full((int(cells.subject.max(initial=-1)) + 1, len(entries.names)), np.nan)
    y[cells.subject, cells.group] = cells.mean[:, 0]
    y = y[np.isfinite(y).sum(axis=1) >= 2]
    scale = float(np.nanmax(np.abs(y))) if y.size else 0.0
    centred = y - np.nanmean(y, axis=1, keepdims=True) if len(y) else y
    pairs = _enough(y, min_sets)
    if not pairs:
        return MatchedTest(None, None, None, None, None, None, len(y), n_permutations, ())
    seen_t, seen_gap = (part[0] for part in _statistics(centred[None], pairs, scale))
    largest_t, largest_gap = _permute(centred, pairs, scale, n_permutations, seed)
    means = _level(seen_gap, pairs, y.shape[1]) * (1 if higher_is_better else -1)
    flat = float(np.abs(seen_gap).max()) <= NO_SPREAD * max(1.0, scale)
    return MatchedTest(
        raw=float(np.abs(seen_gap).max()),
        null_mean=finite(float(largest_gap.mean())),
        null_p95=finite(float(np.quantile(largest_gap, 0.95))),
        p_value=permutation_p(float(seen_t.max()), largest_t),
        worst_group=None if flat else entries.names[int(np.nanargmin(means))],
        best_group=None if flat else entries.names[int(np.nanargmax(means))],
        n_sets=len(y),
        n_permutations=n_permutations,
        pairs=tuple(
            _pair(y, entries.names, g, h, permutation_p(float(t), largest_t), alpha)
            for (g, h), t in zip(pairs, seen_t, strict=True)
        ),
    )


def _enough(y: FloatArray, least: int) -> list[tuple[int, int]]:
    known = np.isfinite(y)
    return [(g, h) for g, h in combinations(range(y.shape[1]), 2) if (known[:, g] & known[:, h]).sum() >= max(least, 2)]


def _statistics(y: FloatArray, pairs: list[tuple[int, int]], scale: float) -> tuple[FloatArray, FloatArray]:
    """|t| and mean difference of every pair in a batch of tables (b, sets, groups): each (b, pairs); 0/0 = 0."""
    t, gap = [], []
    for g, h in pairs:
        d = y[:, :, g] - y[:, :, h]
        known = np.isfinite(d)
        n = np.maximum(known.sum(axis=1), 2)
        d = np.where(known, d, 0.0)
        mean = d.sum(axis=1) / n
        square = np.maximum((d * d).sum(axis=1) - n * mean * mean, 0.0) / (n - 1) / n
        square[square <= (NO_SPREAD * max(scale, 1e-300)) ** 2] = 0.0
        tiny = np.abs(mean) <= NO_SPREAD * scale
        with np.errstate(divide="ignore", invalid="ignore"):
            t.append(np.where(tiny, 0.0, np.abs(mean) / np.sqrt(square)))
        gap.append(mean)
    return np.stack(t, axis=1), np.stack(gap, axis=1)


def _permute(
    y: FloatArray, pairs: list[tuple[int, int]], scale: float, n: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Exchange the answers of every set among the versions that it has; return max |t| and max |gap|, each (n,)."""
    rng, (rows, k) = stream(seed, 0, 4), y.shape
    known = np.isfinite(y)
    # a set's versions in their order of columns, absent ones last: a random order of the present ones goes back there
    place = np.argsort(~known, axis=1, kind="stable")
    back = np.argsort(place, axis=1, kind="stable")
    step = max(1, CHUNK_BYTES // (8 * 6 * rows * k))
    t, gap = [], []
    for start in range(0, n, step):
        b = min(step, n - start)
        drawn = np.where(known, rng.random((b, rows, k)), 2.0)
        shuffled = np.take_along_axis(
            np.broadcast_to(y, (b, rows, k)), np.argsort(drawn, axis=2, kind="stable"), axis=2
        )
        found = _statistics(np.take_along_axis(shuffled, np.broadcast_to(back, (b, rows, k)), axis=2), pairs, scale)
        t.append(found[0].max(axis=1))
        gap.append(np.abs(found[1]).max(axis=1))
    return np.concatenate(t), np.concatenate(gap)


def _level(gap: FloatArray, pairs: list[tuple[int, int]], k: int) -> FloatArray:
    """Least-squares level of each version from the pair differences; NaN for a version in no pair."""
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
    return MatchedPair(names[g], names[h], len(d), mean, error, mean - reach, mean + reach, p)
