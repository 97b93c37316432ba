"""Welch's test from sums, for all questions and permutations at once (Welch 1951; two groups: Welch's t-test).

The weight of a group without any spread would be infinite, and SciPy returns NaN. Here its variance is bounded below
by a vanishing share of the column's, which gives the limit: the test uses the spread of the other groups.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fp2.protocols.gras.group_sums import Sums
from fp2.protocols.gras.grouping import BoolArray, FloatArray

_VANISHING = 1e-12


class Welch(NamedTuple):
    """p-value, F, omega^2 and max - min of the group means of each test.

    omega^2 = df1 (F - 1) / (df1 (F - 1) + N), not truncated at 0: its mean over tests stays 0 where nothing differs.
    NaN where fewer than two groups have enough answers; a constant column has F = 0 and p = 1.
    """

    p: FloatArray
    f: FloatArray
    omega_squared: FloatArray
    gap: FloatArray


def welch(sums: Sums, scale: FloatArray, constant: BoolArray, large: BoolArray) -> Welch:
    """Return the tests of the groups of `sums` (b, G, Q), each (b, Q).

    Parameters
    ----------
    sums : Sums
    scale : array, shape (Q,)
        Mean square of the columns.
    constant : array of bool, shape (Q,)
        Columns without any spread.
    large : array of bool, shape (G, Q) or (G, 1)
        Groups with enough subjects in each column. Others are left out, as are groups with fewer than two answers.
    """
    from scipy.special import fdtrc

    valid = (sums.n >= 2) & large
    n = np.where(valid, sums.n, 2.0)
    mean = sums.total / n
    variance = np.maximum((sums.squares - sums.total * mean) / (n - 1.0), _VANISHING * scale + 1e-300)
    weight = np.where(valid, n / variance, 0.0)
    k = np.broadcast_to(valid, weight.shape).sum(axis=1)
    enough = k >= 2
    groups = np.where(enough, k, 2)
    df1 = groups - 1.0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        whole = weight.sum(axis=1)
        centre = (weight * mean).sum(axis=1) / whole
        between = (weight * (mean - centre[:, None]) ** 2).sum(axis=1) / (groups - 1.0)
        rest = (np.where(valid, (1.0 - weight / whole[:, None]) ** 2, 0.0) / (n - 1.0)).sum(axis=1)
        f = between / (1.0 + 2.0 * (groups - 2.0) / (groups**2 - 1.0) * rest)
        df2 = (groups**2 - 1.0) / (3.0 * rest)
        gain = df1 * (f - 1.0)
        omega = gain / (gain + (n * valid).sum(axis=1))
        gap = np.where(valid, mean, -np.inf).max(axis=1) - np.where(valid, mean, np.inf).min(axis=1)
    for values in (f, omega, gap):
        values[:, constant] = 0.0
        values[~enough] = np.nan
    p = np.asarray(fdtrc(df1, df2, f))
    p[:, constant] = np.where(np.isnan(f[:, constant]), np.nan, 1.0)
    return Welch(p, f, omega, gap)
