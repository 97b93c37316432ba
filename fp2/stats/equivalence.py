"""Equivalence of group means, and the minimum detectable effect."""

from __future__ import annotations

import numpy as np

from fp2.stats.core.numeric import FloatArray


def tost_p(gap: FloatArray, error: FloatArray, df: FloatArray, bound: float | FloatArray) -> FloatArray:
    """Return the p-values of two one-sided t tests that differences lie within +-bound (Schuirmann 1987).

    Parameters
    ----------
    gap, error, df
        Differences of two means, their standard errors and degrees of freedom. With error 0 the difference is known.
    bound
        The equivalence margin.
    """
    from scipy.special import ndtr, stdtr

    room = bound - np.abs(gap)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, -room / error, np.where(room > 0, -np.inf, np.inf))
        p: FloatArray = np.where(np.isinf(df), ndtr(t), stdtr(np.where(np.isinf(df), 1.0, df), t))
    return p


def minimum_detectable(critical: float, largest_error: float, power: float = 0.8) -> float:
    """Return the minimum detectable effect: the difference of two groups that the max|T| test finds with `power`.

    |T| of a pair with difference d is approximately normal around d / SE, so that d = (critical + z_power) SE; the
    contribution of other pairs to the power is neglected.

    Parameters
    ----------
    critical
        The (1 - alpha) quantile of the permuted max|T|.
    largest_error
        Standard error of the least precise pair, so that the statement holds for any two groups.
    """
    from scipy.special import ndtri

    return float((critical + float(ndtri(power))) * largest_error)
