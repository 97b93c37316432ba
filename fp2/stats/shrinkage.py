"""The range of the group means after empirical Bayes shrinkage towards their common mean."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.core.numeric import FloatArray


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
