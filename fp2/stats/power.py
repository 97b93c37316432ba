"""What could have been found, and what was shown to be small: minimum detectable difference and equivalence."""

from __future__ import annotations

import numpy as np

from fp2.stats.pairwise import PairTable
from fp2.stats.rows import FloatArray


def minimum_detectable(critical: float, largest_error: float, power: float = 0.8) -> float:
    """Return the gap between any two groups that the max|T| test finds with `power`.

    critical: the (1 - alpha) quantile of the permuted max|T|; largest_error: standard error of the least precise pair,
    so that the promise holds whichever two groups differ. |T| of a pair with gap d is about normal around d / SE, so
    d = (critical + z_power) SE; the help of other pairs is left out.
    """
    from scipy.special import ndtri

    return float((critical + float(ndtri(power))) * largest_error)


def tost_p(gap: FloatArray, error: FloatArray, df: FloatArray, bound: float | FloatArray) -> FloatArray:
    """Return the p-values of two one-sided t tests that gaps lie within +-bound (Schuirmann 1987).

    gap: differences of two means; error: their standard errors; df: degrees of freedom. Without spread (error 0) the
    gap is taken as known.
    """
    from scipy.special import ndtr, stdtr

    room = bound - np.abs(gap)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, -room / error, np.where(room > 0, -np.inf, np.inf))
        p: FloatArray = np.where(np.isinf(df), ndtr(t), stdtr(np.where(np.isinf(df), 1.0, df), t))
    return p


def equivalence_p(table: PairTable, bound: FloatArray) -> FloatArray:
    """Return the largest TOST p-value over all pairs (m,): small when **every** pair was shown to differ by < bound.

    All pairs must pass, so each at level alpha keeps the level of the whole statement (intersection-union).
    `bound` (m,). NaN where no pair is valid.
    """
    p = tost_p(table.gap, table.error, table.df, bound)
    known = np.isfinite(table.gap)
    return np.where(known.any(axis=0), np.where(known, p, 0.0).max(axis=0), np.nan)
