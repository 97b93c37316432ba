"""Welch's test from sums, for all questions and permutations at once (Welch 1951; two groups: Welch's t-test).

The weight of a group without any spread would be infinite, and SciPy returns NaN. Here its variance is bounded below
by a vanishing share of the column's, which gives the limit: the test uses the spread of the other groups.

The published p-value is `p`. `p_regular` is that of the same statistic with regularised variances, each group's
averaged with the pooled variance, which has the weight of one degree of freedom: s^2 <- ((n - 1) s^2 + s^2_pool) / n.
It is the statistic of the step-down test. Where answers are skewed, a small group's variance is close to 0 by chance
now and then, under permuted labels too; the permutation distribution of the plain statistic is then so heavy-tailed
that little is found. With two groups the variances are not regularised: the test of a small group with a large spread
would reject too often.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fp2.extension import BoolArray, FloatArray
from fp2.methods.gras.group_sums import CentredSums

VANISHING = 1e-12
_POOLED_WEIGHT = 1.0
"""Weight of the pooled variance in `p_regular`, in degrees of freedom, with three groups or more."""


class Welch(NamedTuple):
    """p-value, p-value with regularised variances, F, omega^2 and max - min of the group means of each test.

    omega^2 = df1 (F - 1) / (df1 (F - 1) + N), not truncated at 0: its mean over tests stays 0 where nothing differs.
    NaN where fewer than two groups have enough answers; a constant column has F = 0 and p = 1.
    """

    p: FloatArray
    p_regular: FloatArray
    f: FloatArray
    omega_squared: FloatArray
    gap: FloatArray


def welch(sums: CentredSums, scale: FloatArray, constant: BoolArray, large: BoolArray) -> Welch:
    """Return the tests of the groups of `sums` (b, G, Q), each (b, Q).

    Parameters
    ----------
    sums : CentredSums
    scale : array, shape (Q,)
        Mean square of the columns.
    constant : array of bool, shape (Q,)
        Columns without any spread.
    large : array of bool, shape (G, Q) or (G, 1)
        Groups with enough subjects in each column. Others are left out, as are groups with fewer than two answers.
    """
    valid = (sums.n >= 2) & large
    n = np.where(valid, sums.n, 2.0)
    mean = sums.total / n
    variance = np.maximum((sums.squares - sums.total * mean) / (n - 1.0), VANISHING * scale + 1e-300)
    k = np.broadcast_to(valid, variance.shape).sum(axis=1)
    enough = k >= 2
    groups = np.where(enough, k, 2)
    f, p = _welch_f(mean, variance, n, n - 1.0, valid, groups)
    p_regular = p
    if (groups > 2).any():
        dof = np.where(valid, n - 1.0, 0.0)
        pool = (dof * variance).sum(axis=1, keepdims=True) / np.maximum(dof.sum(axis=1, keepdims=True), 1.0)
        extra = np.where(groups > 2, _POOLED_WEIGHT, 0.0)[:, None]
        regular = ((n - 1.0) * variance + extra * pool) / (n - 1.0 + extra)
        p_regular = _welch_f(mean, regular, n, n - 1.0 + extra, valid, groups)[1]
    with np.errstate(invalid="ignore"):
        gain = (groups - 1.0) * (f - 1.0)
        omega = gain / (gain + (n * valid).sum(axis=1))
    gap = np.where(valid, mean, -np.inf).max(axis=1) - np.where(valid, mean, np.inf).min(axis=1)
    for values, of_constant in ((f, 0.0), (omega, 0.0), (gap, 0.0), (p, 1.0), (p_regular, 1.0)):
        values[:, constant] = of_constant
        values[~enough] = np.nan
    return Welch(p, p_regular, f, omega, gap)


def _welch_f(
    mean: FloatArray, variance: FloatArray, n: FloatArray, dof: FloatArray, valid: BoolArray, groups: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return Welch's F and its asymptotic p-value, each (b, Q), from group arrays (b, G, Q); groups (b, Q) counts them.

    `dof`: degrees of freedom of each group's variance.
    """
    from scipy.special import fdtrc

    weight = np.where(valid, n / variance, 0.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        whole = weight.sum(axis=1)
        centre = (weight * mean).sum(axis=1) / whole
        between = (weight * (mean - centre[:, None]) ** 2).sum(axis=1) / (groups - 1.0)
        rest = (np.where(valid, (1.0 - weight / whole[:, None]) ** 2, 0.0) / dof).sum(axis=1)
        f = between / (1.0 + 2.0 * (groups - 2.0) / (groups**2 - 1.0) * rest)
        df2 = (groups**2 - 1.0) / (3.0 * rest)
        return f, np.asarray(fdtrc(groups - 1.0, df2, f))
