"""Stimulus to be small: every pair of groups within a bound (TOST on subject means), not merely not shown to differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.interval import observed_moments
from fp2.stats.layout import make_cells, read_entries
from fp2.stats.pairwise import signed_pair_table
from fp2.stats.power import equivalence_p, tost_p
from fp2.stats.prepare import prepare


@dataclass(frozen=True)
class EquivalencePair:
    """Two groups: difference of the means (first - second), TOST p, and the 1 - 2 alpha interval that goes with it."""

    first: str
    second: str
    difference: float
    ci_low: float
    ci_high: float
    p_value: float


@dataclass(frozen=True)
class Equivalence:
    """`p_value`: the largest of the pairs', the level of the statement that **all** groups differ by less than `bound`.

    `equivalent` at `alpha`. None where fewer than two groups have enough subjects.
    """

    bound: float
    p_value: float | None
    equivalent: bool | None
    pairs: tuple[EquivalencePair, ...]


def equivalence_test(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike,
    *,
    bound: float,
    alpha: float = 0.05,
    min_subjects: int = 10,
) -> Equivalence:
    """Test that all groups' means over subjects lie within `bound` of each other (intersection-union).

    values, groups, subjects (n,), one entry per (answer, group); NaN = missing. Standard errors are those of A2
    (`disparity`'s `equivalence_p` is the same number); subjects in several groups are accounted for. Raises ValueError
    for a bound that is not above 0.
    """
    from scipy.special import stdtrit

    if not bound > 0 or not 0 < alpha < 0.5:
        raise ValueError(f"need bound > 0 and 0 < alpha < 0.5, got {bound} and {alpha}")
    entries = read_entries(np.asarray(values, dtype=np.float64).reshape(-1), groups, subjects, None)
    p = prepare(entries, make_cells(entries), min_subjects)
    if p is None or p.eligible.sum() < 2:
        return Equivalence(bound, None, None, ())
    scale = float(p.scale[0])
    signed, table = signed_pair_table(observed_moments(p.y, p.member, p.eligible, p.slots.dependent))
    out = []
    for k, (g, h) in enumerate(combinations(range(len(p.slots.kept)), 2)):
        if not np.isfinite(table.gap[k, 0]):
            continue
        gap, error, df = float(signed[k, 0]) * scale, float(table.error[k, 0]) * scale, float(table.df[k, 0])
        single = float(tost_p(np.array(gap), np.array(error), np.array(df), bound))
        names = [entries.names[p.slots.kept[i]] for i in (g, h)]
        if names[0] > names[1]:
            names, gap = names[::-1], -gap
        reach = float(stdtrit(df, 1 - alpha)) * error if math.isfinite(df) else 0.0
        out.append(EquivalencePair(names[0], names[1], gap, gap - reach, gap + reach, single))
    whole = float(equivalence_p(table, np.array([bound / scale]))[0]) if scale else 0.0
    return Equivalence(bound, whole, whole <= alpha, tuple(sorted(out, key=lambda r: (r.first, r.second))))
