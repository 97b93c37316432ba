"""How often each group is the worst and the best over many outcomes, beside what chance would give.

"Group A is worst under 14 of 25 model and probe pairs" says little by itself: the models saw the same subjects, so that
one unusual sample of A shows in all of them, and groups of unequal size are not named equally often. The counts are
therefore compared with those after group labels are permuted across subjects, the same relabelling for all outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fp2.extension import (
    MEAN_TIE,
    NO_GAP,
    TIE,
    FloatArray,
    GroupMoments,
    IntArray,
    cell_means,
    pair_error,
    pairs,
    permutation_p,
    permuted_moments,
    prepare,
    range_of_means,
    read_entries,
)


@dataclass(frozen=True)
class GroupTally:
    """How often one group is at one end.

    Attributes
    ----------
    group : str
    count : int
        Number of outcomes in which it is named.
    expected, p95 : float
        Mean and 95th percentile of that number when group labels are permuted across subjects.
    p_value : float
        Probability, if no outcome differed between groups, that some group exceeds its expected number by as many
        standard deviations: corrected for looking at all groups.
    """

    group: str
    count: int
    expected: float
    p95: float
    p_value: float


@dataclass(frozen=True)
class Tally:
    """The groups that were compared, by name, at the bad end and at the good end; of `n` outcomes with two ends."""

    n: int
    worst: tuple[GroupTally, ...]
    best: tuple[GroupTally, ...]


def tally_extremes(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    *,
    images: ArrayLike | None = None,
    higher_is_better: Sequence[bool],
    yes_no: Sequence[bool],
    n_permutations: int,
    seed: int,
    min_subjects: int = 10,
    tick: Callable[[int], None] = lambda n: None,
) -> Tally | None:
    """Count the worst and best groups of m outcomes; None where no outcome has two groups that differ.

    The ends of an outcome are those of `disparity_panel`: the pair of groups with the largest |T|.

    Parameters
    ----------
    values : (n, m)
        One line per (image, group), NaN = missing.
    groups, subjects, images : (n,)
    higher_is_better, yes_no : (m,)
        As in `disparity_panel`.
    n_permutations, seed, min_subjects
        As in `disparity_panel`.
    tick : callable
        Called with the number of permutations done since the last call.
    """
    entries = read_entries(values, groups, subjects, images)
    prepared = prepare(entries, cell_means(entries), min_subjects)
    if prepared is None:
        return None
    sign = np.where(np.asarray(higher_is_better, dtype=bool), 1.0, -1.0)
    observed, batches = permuted_moments(prepared, np.asarray(yes_no, dtype=bool), n_permutations, seed)
    end_groups = _ends(observed, sign)
    counted = (end_groups >= 0).all(axis=(0, 1))
    if not counted.any():
        return None
    n_groups = len(prepared.units.kept)
    permuted = np.empty((2, n_permutations, n_groups))
    done = 0
    for relabelled in batches:
        b = relabelled.mean.shape[1]
        permuted[:, done : done + b] = _counts(_ends(relabelled, sign)[:, :, counted], n_groups)
        done += b
        tick(b)
    counts = _counts(end_groups[:, :, counted], n_groups)[:, 0]
    names = [entries.names[code] for code in prepared.units.kept]
    worst, best = (_tallies(counts[end], permuted[end], names) for end in (0, 1))
    return Tally(int(counted.sum()), worst, best)


def _ends(group_moments: GroupMoments, sign: FloatArray) -> IntArray:
    """Return the worst and the best group of each relabelling and outcome, (2, b, m); -1 where all means are equal.

    As `disparities.named_pair`: the largest |T|, of ties the largest gap.
    """
    mean = np.where(group_moments.valid, group_moments.mean, 0.0) * sign
    shape = mean.shape[1:]
    top, width, end_groups = np.full(shape, -1.0), np.full(shape, -1.0), np.full((2, *shape), -1, dtype=np.intp)
    for g, h in pairs(len(mean)):
        gap = mean[h] - mean[g]
        square = gap * gap
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.sqrt(np.where(square <= NO_GAP, 0.0, square / pair_error(group_moments, g, h)))
            tied = t >= top * (1 - TIE)
        both = group_moments.valid[g] & group_moments.valid[h]
        better = both & ((t > top * (1 + TIE)) | (tied & (np.abs(gap) > width)))
        top, width = np.where(better, t, top), np.where(better, np.abs(gap), width)
        end_groups[0] = np.where(better, np.where(gap >= 0, g, h), end_groups[0])
        end_groups[1] = np.where(better, np.where(gap >= 0, h, g), end_groups[1])
    with np.errstate(invalid="ignore"):
        apart = range_of_means(group_moments) > MEAN_TIE
    return np.where(apart, end_groups, -1)


def _counts(end_groups: IntArray, n_groups: int) -> FloatArray:
    """Return how often each group is an end, (2, b, groups), from ends (2, b, m)."""
    return np.stack([(end_groups == g).sum(axis=2, dtype=np.float64) for g in range(n_groups)], axis=2)


def _tallies(counts: FloatArray, permuted: FloatArray, names: Sequence[str]) -> tuple[GroupTally, ...]:
    """Return the tallies of one end: counts (groups,), permuted (B, groups)."""
    expected, spread = permuted.mean(axis=0), permuted.std(axis=0)
    varies = spread > 0
    scale = np.where(varies, spread, 1.0)
    largest = np.where(varies, (permuted - expected) / scale, -np.inf).max(axis=1, initial=-np.inf)
    above = np.where(varies, (counts - expected) / scale, -np.inf)
    high = np.quantile(permuted, 0.95, axis=0)
    tallies = [
        GroupTally(
            name,
            int(counts[g]),
            float(expected[g]),
            float(high[g]),
            permutation_p(float(above[g]), largest) if varies[g] else 1.0,
        )
        for g, name in enumerate(names)
    ]
    return tuple(sorted(tallies, key=lambda tally: tally.group))
