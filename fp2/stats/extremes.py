"""Which groups differ: the pair of the largest |T|, and a confidence set of the groups that could rank worst.

Small groups are extreme by chance: the groups with the largest and the smallest mean are often not those that the test
found to differ. The pair named is therefore the one that decided the test.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fp2.stats.core.moments import NO_GAP, PairTable, pairs
from fp2.stats.core.numeric import BoolArray, FloatArray
from fp2.stats.core.permutation import TIE


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
    known = np.isfinite(table.df)
    critical = np.where(known, stdtrit(np.where(known, table.df, 1.0), level), ndtri(level))
    kept: Any = valid.copy()
    for (g, h), gap, error, c in zip(pairs(len(mean)), table.gap, table.error, critical, strict=True):
        if np.isfinite(gap) and gap**2 > NO_GAP and gap > c * error:
            kept[g if mean[g] > mean[h] else h] = False
    result: BoolArray = kept
    return result
