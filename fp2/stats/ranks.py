"""Simultaneous confidence sets for the ranks of models, and groups of models that do not differ significantly.

Models are ranked by the difference between two groups that is left when noise is taken off (`profiles`); ranks follow
from all pairs of models at once (Mogstad, Romano, Shaikh and Wilhelm 2024); every bootstrap resample has the same
subjects for all models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.core.entries import cell_means, read_entries
from fp2.stats.core.numeric import BoolArray
from fp2.stats.core.resampling import resampled_moments
from fp2.stats.core.units import prepare
from fp2.stats.profiles import profiles, smaller_profiles


@dataclass(frozen=True)
class Ranked:
    """One model: its `difference` (lower is better), the interval of its rank, and its letters.

    `difference`: root mean square over outcomes and pairs of groups of the difference of two group means, less its
    squared standard error; 0 where that is negative. Of two groups and one outcome it is the gap, and it is less than
    max - min of more groups. Models that share a letter do not differ significantly (compact letter display).
    """

    name: str
    difference: float
    rank_low: int
    rank_high: int
    letters: str


@dataclass(frozen=True)
class RankTable:
    """Models by difference, best first.

    `critical`: simultaneous critical value, in units of a single pair's own. better (K, K), in the table's order:
    better[a, b] if a is significantly better than b.
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
    """Rank K models that answered the same m questions about the same subjects.

    Parameters
    ----------
    values
        (K, n, m): model, (image, group) line, outcome; NaN = missing. Outcomes count alike, in their own units.
    groups, subjects, images
        (n,), as in `disparity`.
    names
        The K models' names, all different.

    Raises
    ------
    ValueError
        If shapes differ, a name repeats, or some outcome of some model has fewer than two groups with enough subjects.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 3 or len(names) != len(table) or len(set(names)) != len(names) or n_bootstrap < 2:
        raise ValueError("need values (models, lines, outcomes), one unique name per model, and n_bootstrap >= 2")
    k, n, m = table.shape
    entries = read_entries(table.transpose(1, 0, 2).reshape(n, k * m), groups, subjects, images)
    p = prepare(entries, cell_means(entries), min_subjects)
    if p is None or (p.eligible.sum(axis=0) < 2).any():
        raise ValueError("every outcome of every model needs two groups with enough subjects")
    drawn, resamples = resampled_moments(p, n_bootstrap, seed)
    valid = drawn.valid[:, 0]
    observed = profiles(drawn, valid, p.scale, k)
    batches = (profiles(found, valid, p.scale, k) for found in resamples)
    better, critical = smaller_profiles(observed, batches, p.member.sum(axis=0), alpha)
    squares = observed.squares()[0]
    order = np.argsort(squares, kind="stable")
    better = better[np.ix_(order, order)]
    letters = compact_letters(better | better.T)
    rows = tuple(
        Ranked(
            str(names[model]),
            float(np.sqrt(max(squares[model], 0.0))),
            1 + int(better[:, place].sum()),
            k - int(better[place].sum()),
            letters[place],
        )
        for place, model in enumerate(order.tolist())
    )
    return RankTable(rows, critical, better)


def compact_letters(different: BoolArray) -> list[str]:
    """Return letters (K,) such that two items share one exactly where they are **not** different.

    Insert-and-absorb algorithm (Piepho 2004). different (K, K): symmetric, in the order of the table.
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
