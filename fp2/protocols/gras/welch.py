"""Welch's test from sums, for all questions and relabellings at once (Welch 1951; two groups: Welch's t-test).

Where a group does not vary at all its weight would be infinite, and SciPy's answer is NaN; here its variance is held at
a vanishing share of the column's, which gives the limit: the test goes on with the other groups' spread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fp2.protocols.gras.groups import BoolArray, FloatArray
from fp2.protocols.gras.units import Sums

_VANISHING = 1e-12


class Welch(NamedTuple):
    """Each (b, Q): F and its degrees of freedom, omega^2 and max - min of the group means.

    omega^2 = df1 (F - 1) / (df1 (F - 1) + N), not floored at 0: its mean over tests stays 0 where nothing differs.
    NaN where fewer than two groups have enough answers; a constant column has F = 0.
    """

    f: FloatArray
    df1: FloatArray
    df2: FloatArray
    omega_squared: FloatArray
    gap: FloatArray

    def p_values(self, constant: BoolArray) -> FloatArray:
        """Return the p-values (b, Q); 1 in constant columns, NaN where there is no test."""
        from scipy.special import fdtrc

        p = np.asarray(fdtrc(self.df1, self.df2, self.f))
        p[:, constant] = np.where(np.isnan(self.f[:, constant]), np.nan, 1.0)
        return p


def welch(sums: Sums, scale: FloatArray, constant: BoolArray, large: BoolArray) -> Welch:
    """Test the groups of `sums` (b, G, Q); `scale` (Q,) is the mean square of the columns.

    large (G, Q) or (G, 1): the groups with enough people in each column; others are left out, as are groups with fewer
    than two answers.
    """
    valid = (sums.n >= 2) & large
    n = np.where(valid, sums.n, 2.0)
    mean = sums.s / n
    variance = np.maximum((sums.q - sums.s * mean) / (n - 1.0), _VANISHING * scale + 1e-300)
    weight = np.where(valid, n / variance, 0.0)
    k = np.broadcast_to(valid, weight.shape).sum(axis=1)
    enough = k >= 2
    groups = np.where(enough, k, 2)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        whole = weight.sum(axis=1)
        centre = (weight * mean).sum(axis=1) / whole
        between = (weight * (mean - centre[:, None]) ** 2).sum(axis=1) / (groups - 1.0)
        rest = (np.where(valid, (1.0 - weight / whole[:, None]) ** 2, 0.0) / (n - 1.0)).sum(axis=1)
        f = between / (1.0 + 2.0 * (groups - 2.0) / (groups**2 - 1.0) * rest)
        df2 = (groups**2 - 1.0) / (3.0 * rest)
        gain = (groups - 1.0) * (f - 1.0)
        omega = gain / (gain + (n * valid).sum(axis=1))
        gap = np.where(valid, mean, -np.inf).max(axis=1) - np.where(valid, mean, np.inf).min(axis=1)
    for values in (f, omega, gap):
        values[:, constant] = 0.0
        values[~enough] = np.nan
    return Welch(f, groups - 1.0, df2, omega, gap)
