"""The range of the group means after empirical Bayes shrinkage towards their common mean."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.core.numeric import BoolArray, FloatArray, IntArray


def paule_mandel(means: ArrayLike, variances: ArrayLike) -> tuple[float, float]:
    """Return (tau^2, mu): the between-group variance by Paule and Mandel (1982), and the weighted mean.

    tau^2 makes the weighted sum of squares equal its expectation k - 1 (DerSimonian and Kacker 2007), and is 0 if the
    sum is below that without it. The sum falls with tau^2, so that bisection finds the root.

    Parameters
    ----------
    means, variances : (k,)
        Group means and their squared standard errors (> 0).
    """
    y, v = np.asarray(means, dtype=np.float64), np.asarray(variances, dtype=np.float64)

    def at(tau2: float) -> tuple[float, float]:
        weight = 1.0 / (v + tau2)
        mu = float((weight * y).sum() / weight.sum())
        return float((weight * (y - mu) ** 2).sum()) - (len(y) - 1), mu

    over, mu = at(0.0)
    if over <= 0:
        return 0.0, mu
    low, high = 0.0, float(np.ptp(y)) ** 2 + float(v.max())
    while at(high)[0] > 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle)[0] > 0 else (low, middle)
        if high - low <= 1e-14 * high:
            break
    return high, at(high)[1]


def shrunken_range(means: ArrayLike, variances: ArrayLike) -> float:
    """Return the estimate of the gap: max - min of the means, each shrunken by tau^2 / (tau^2 + v_g) towards mu.

    means, variances (k,) as in `paule_mandel`. Where some v_g is 0 nothing is shrunken. Raises ValueError for fewer
    than two groups.
    """
    y, v = np.asarray(means, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if len(y) < 2:
        raise ValueError("a range needs at least two groups")
    if not (v > 0).all():
        return float(np.ptp(y))
    tau2, mu = paule_mandel(y, v)
    theta: FloatArray = mu + tau2 / (tau2 + v) * (y - mu)
    return float(np.ptp(theta))


def shrunken_ranges(means: FloatArray, variances: FloatArray, valid: BoolArray) -> FloatArray:
    """Return `shrunken_range` of many tables at once: all arrays (G, b, m), result (b, m).

    `valid` marks the groups that count; NaN where fewer than two do. Newton's method from 0: the weighted sum of
    squares is convex and falls in tau^2, so that the steps never pass the root.
    """
    k = valid.sum(axis=0)
    ready = (k >= 2) & (np.where(valid, variances, 1.0) > 0).all(axis=0)
    y, v = np.where(valid, means, 0.0), np.where(valid & ready, variances, 1.0)
    tau2 = np.zeros(means.shape[1:])
    mu, over, slope = _heterogeneity(y, v, tau2, valid, k)
    for _ in range(100):
        step = np.where(ready & (over > 0), over / np.where(slope > 0, slope, 1.0), 0.0)
        tau2 = tau2 + step
        mu, over, slope = _heterogeneity(y, v, tau2, valid, k)
        if not (step > 1e-13 * np.maximum(tau2, 1e-300)).any():
            break
    theta = np.where(ready, mu + tau2 / (tau2 + v) * (y - mu), y)
    top = np.where(valid, theta, -np.inf).max(axis=0)
    with np.errstate(invalid="ignore"):
        return np.where(k >= 2, top - np.where(valid, theta, np.inf).min(axis=0), np.nan)


def _heterogeneity(
    y: FloatArray, v: FloatArray, tau2: FloatArray, valid: BoolArray, k: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mu, the weighted sum of squares less its expectation k - 1, and minus its derivative in tau^2."""
    weight = np.where(valid, 1.0 / (v + tau2), 0.0)
    mu = (weight * y).sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-300)
    square = weight * (y - mu) ** 2
    return mu, square.sum(axis=0) - (k - 1), (weight * square).sum(axis=0)
