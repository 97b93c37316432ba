"""Effect sizes and asymptotic reference tests on subject means; none of them decides a verdict."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fp2.stats.rows import FloatArray, finite


def kruskal_wallis(groups: Sequence[FloatArray]) -> tuple[float | None, float | None, float | None]:
    """Return (H, p, epsilon^2 = H / (n - 1)) of the groups' subject means; None where all values tie."""
    from scipy.stats import kruskal

    everything = np.concatenate(list(groups))
    low, width = float(everything.min()), float(np.ptp(everything))
    if width <= 1e-12 * max(1.0, float(np.abs(everything).max())):
        return None, None, None
    # means that tie but for rounding must rank as ties
    h, p = (float(x) for x in kruskal(*(np.round((g - low) / width, 9) for g in groups)))
    return finite(h), finite(p), finite(h / (len(everything) - 1))


def welch(groups: Sequence[FloatArray]) -> tuple[float | None, float | None, float | None]:
    """Return (F, p, omega^2 = df1 (F - 1) / (df1 (F - 1) + N), at least 0) of Welch's analysis of variance.

    None where a group is constant: its weight would be infinite.
    """
    from scipy.stats import f_oneway

    if any(len(g) < 2 or np.ptp(g) == 0 for g in groups):
        return None, None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f, p = (float(x) for x in f_oneway(*groups, equal_var=False))
    if not math.isfinite(f):
        return None, None, None
    gain = (len(groups) - 1) * (f - 1)
    n = sum(len(g) for g in groups)
    return f, finite(p), max(0.0, gain / (gain + n))


def hedges_g(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return (mean x - mean y) / pooled SD (ddof 1) times Hedges' correction 1 - 3 / (4 df - 1).

    None where it does not exist: fewer than three values in all, or no spread inside either group.
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    df = len(a) + len(b) - 2
    if min(len(a), len(b)) < 1 or df < 1:
        return None
    squares = float(((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum())
    if squares <= 1e-24 * max(1.0, float(np.abs(a).max()), float(np.abs(b).max())) ** 2:
        return None
    return float((a.mean() - b.mean()) / math.sqrt(squares / df) * (1 - 3 / (4 * df - 1)))
