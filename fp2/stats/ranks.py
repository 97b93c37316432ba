"""A6: which rank a model may hold, and which models cannot be told apart.

Rank intervals from simultaneous pairwise differences (Mogstad, Romano, Shaikh and Wilhelm 2024) of the shrunken
composite; every bootstrap resample takes the same subjects for all models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.interval import observed_moments, resampled_sums
from fp2.stats.layout import make_cells, read_entries
from fp2.stats.prepare import Prepared, prepare
from fp2.stats.rows import BoolArray, FloatArray
from fp2.stats.shrunken import shrunken_ranges
from fp2.stats.studentised import GroupMoments, moments


@dataclass(frozen=True)
class Ranked:
    """One model: its shrunken composite (lower is better), the ranks it may hold, and its tie groups.

    Models that share a letter are not told apart at the level of the table.
    """

    name: str
    shrunken: float
    rank_low: int
    rank_high: int
    letters: str


@dataclass(frozen=True)
class RankTable:
    """Models by shrunken composite, best first. `critical`: the quantile that all pairs' |T| have to exceed.

    better (K, K) in the table's order: better[a, b] says that a is significantly better than b.
    """

    rows: tuple[Ranked, ...]
    critical: float
    better: BoolArray


def rank_models(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    names: Sequence[str],
    *,
    images: ArrayLike | None = None,
    n_bootstrap: int,
    seed: int,
    alpha: float = 0.05,
    min_subjects: int = 10,
) -> RankTable:
    """Rank K models that answered the same m questions about the same people.

    Parameters
    ----------
    values
        (K, n, m): model, (image, group) line, outcome; NaN = missing. The composite is the mean over outcomes.
    groups, subjects, images
        (n,), as in `disparity`.
    names
        The K models' names, all different.

    Raises
    ------
    ValueError
        On shapes that differ, names that repeat, fewer than two groups that are large enough, or an outcome that some
        model did not answer often enough to be compared.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 3 or len(names) != len(table) or len(set(names)) != len(names) or n_bootstrap < 2:
        raise ValueError("need values (models, lines, outcomes), one name of its own per model, and n_bootstrap >= 2")
    k, n, m = table.shape
    entries = read_entries(table.transpose(1, 0, 2).reshape(n, k * m), groups, subjects, images)
    p = prepare(entries, make_cells(entries), min_subjects)
    if p is None or (p.eligible.sum(axis=0) < 2).any():
        raise ValueError("every outcome of every model needs two groups with enough subjects")
    seen = observed_moments(p.y, p.member, p.eligible, p.slots.dependent)
    never = np.zeros(k * m, dtype=bool)
    composite = _composites(seen, p, k)[0]
    draws = resampled_sums(p.y, p.member, p.slots.dependent, n_bootstrap, seed)
    again = np.concatenate([_composites(moments(sums, p.eligible, never, 3.0), p, k) for sums in draws])
    better, critical = significantly_better(composite, again, alpha)
    order = np.argsort(composite, kind="stable")
    better = better[np.ix_(order, order)]
    letters = compact_letters(better | better.T)
    rows = tuple(
        Ranked(
            str(names[model]),
            float(composite[model]),
            1 + int(better[:, place].sum()),
            k - int(better[place].sum()),
            letters[place],
        )
        for place, model in enumerate(order.tolist())
    )
    return RankTable(rows, critical, better)


def _composites(found: GroupMoments, p: Prepared, k: int) -> FloatArray:
    """Mean shrunken range of each model's outcomes, (b, K)."""
    variance = np.where(found.valid, found.pool / np.maximum(found.n, 1.0), 1.0)
    ranges = shrunken_ranges(np.where(found.valid, found.mean, 0.0), variance, found.valid) * p.scale
    composite: FloatArray = ranges.reshape(len(ranges), k, -1).mean(axis=2)
    return composite


def significantly_better(composite: FloatArray, again: FloatArray, alpha: float) -> tuple[BoolArray, float]:
    """Return (K, K) "row is lower than column, simultaneously at alpha" and the critical |T|.

    composite (K,); again (B, K): the same in B joint resamples. T*_ab = |D*_ab - mean D*_ab| / SD*_ab.
    """
    k = len(composite)
    difference = composite[:, None] - composite[None]
    resampled = again[:, :, None] - again[:, None, :]
    spread = resampled.std(axis=0, ddof=1)
    usable = spread > 1e-12 * max(1.0, float(np.abs(composite).max()))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(usable, np.abs(resampled - resampled.mean(axis=0)) / spread, 0.0)
    critical = float(np.quantile(t.reshape(len(again), -1).max(axis=1), 1 - alpha, method="higher"))
    better: BoolArray = difference < -critical * spread
    better[np.arange(k), np.arange(k)] = False
    return better, critical


def compact_letters(different: BoolArray) -> list[str]:
    """Return letters (K,) so that two items share one exactly where they are **not** different.

    Insert and absorb (Piepho 2004); items come in the order of the table, and so do the letters. different (K, K):
    symmetric.
    """
    k = len(different)
    columns = [set(range(k))]
    for i in range(k):
        for j in range(i + 1, k):
            if not different[i, j]:
                continue
            split = [c for c in columns if not {i, j} <= c]
            for column in columns:
                if {i, j} <= column:
                    split += [column - {i}, column - {j}]
            columns = [
                c for x, c in enumerate(split) if not any(c < o or (c == o and y < x) for y, o in enumerate(split))
            ]
    columns.sort(key=sorted)
    return ["".join(_letter(x) for x, column in enumerate(columns) if item in column) for item in range(k)]


def _letter(x: int) -> str:
    """a ... z, then a1 ... z1, a2 ..."""
    return ascii_lowercase[x % 26] + (str(x // 26) if x >= 26 else "")
