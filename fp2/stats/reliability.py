"""How alike the answers about one person are: ANOVA ICC(1) after group means, and the design effect."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.layout import make_cells, read_entries
from fp2.stats.rows import FloatArray, IntArray


def icc_oneway(values: FloatArray, cell: IntArray, group: IntArray) -> tuple[float | None, float | None]:
    """Return (ICC(1), design effect 1 + (k0 - 1) ICC).

    values (n,) finite, one per (image, group); cell (n,): the (subject, group) pair; group (n,). Group means are
    removed first, so a gap between groups does not pass for agreement within a person: mean squares are between
    subjects inside groups, and within subjects. k0 is the mean number of images a subject, corrected for unequal
    numbers. With one group it is Shrout and Fleiss' ICC(1,1); it can be negative, and counts as 0 in the design effect.
    None where it does not exist: one image a subject (design effect 1), one subject a group, or no spread at all.
    """
    cells, cell = np.unique(cell, return_inverse=True)
    groups, group = np.unique(group, return_inverse=True)
    size = np.bincount(cell)
    group_of = np.zeros(len(cells), dtype=np.intp)
    group_of[cell] = group
    group_size = np.bincount(group)
    df_between, df_within = len(cells) - len(groups), len(values) - len(cells)
    if df_within < 1:
        return None, 1.0
    if df_between < 1:
        return None, None
    mean = np.bincount(cell, weights=values) / size
    group_mean = np.bincount(group, weights=values) / group_size
    between = float((size * (mean - group_mean[group_of]) ** 2).sum()) / df_between
    within = float(((values - mean[cell]) ** 2).sum()) / df_within
    squares = np.bincount(group_of, weights=size.astype(np.float64) ** 2)
    k0 = (len(values) - float((squares / group_size).sum())) / df_between
    denominator = between + (k0 - 1) * within
    if denominator <= 1e-24:
        return None, None
    icc = (between - within) / denominator
    return icc, 1 + (k0 - 1) * max(icc, 0.0)


def intraclass_correlation(
    values: ArrayLike, groups: ArrayLike, subjects: ArrayLike
) -> tuple[float | None, float | None]:
    """Return (ICC(1), design effect) of an outcome: `icc_oneway` for labels of any kind.

    values, groups, subjects (n,), one entry per (answer, group), NaN = missing and left out.
    """
    entries = read_entries(np.asarray(values, dtype=np.float64).reshape(-1), groups, subjects, None)
    known = np.isfinite(entries.values[:, 0])
    return icc_oneway(entries.values[known, 0], make_cells(entries).of_entry[known], entries.group[known])
