"""Group-sequential tests: p-values that stay valid when data are added and looked at again.

An alpha-spending function (Lan and DeMets 1983) says how much of alpha may be used up to each declared look. The
nominal level of a look follows from the levels of the looks before it: a two-sided test statistic is standard normal at
every look, with correlation sqrt(t_j / t_k) between the information fractions t_j < t_k (Armitage, McPherson and Rowe
1969). The repeated p-value of a look is the smallest alpha at which its nominal level reaches the observed p (Jennison
and Turnbull 2000, chapter 9). It takes the place of p in a correction for several tests (Maurer and Bretz 2013).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np

from fp2.extension import FloatArray

SPENDING = ("obrien_fleming", "pocock")
_POINTS = 161
_WIDEST = 9.0


def spent(alpha: float, fraction: float, spending: str = "obrien_fleming") -> float:
    """Return how much of alpha may be spent up to an information fraction in (0, 1].

    `obrien_fleming`: 4 - 4 Phi(z_{1 - alpha / 4} / sqrt(t)), that of a one-sided test at alpha / 2 on either side,
    little at first; `pocock`: alpha log(1 + (e - 1) t), about the same at each look.

    Raises
    ------
    ValueError
        For another function, or numbers out of range.
    """
    if spending not in SPENDING:
        raise ValueError(f"unknown spending function {spending!r}; choose from {', '.join(SPENDING)}")
    if not 0 < alpha < 1 or not 0 < fraction <= 1:
        raise ValueError(f"need 0 < alpha < 1 and 0 < fraction <= 1, got {alpha} and {fraction}")
    if spending == "pocock":
        return alpha * math.log1p((math.e - 1) * fraction)
    from scipy.special import ndtr, ndtri

    return float(4 * ndtr(ndtri(alpha / 4) / math.sqrt(fraction)))


def nominal_levels(alpha: float, fractions: Sequence[float], spending: str = "obrien_fleming") -> list[float]:
    """Return the two-sided nominal level of every look; together they use up `spent(alpha, fractions[-1])`.

    Raises
    ------
    ValueError
        If fractions are not increasing in (0, 1], or as `spent`.
    """
    if not fractions or any(b <= a for a, b in pairwise(fractions)):
        raise ValueError(f"information fractions must increase, got {list(fractions)}")
    spent_so_far = [spent(alpha, t, spending) for t in fractions]
    return list(_levels(tuple(fractions), tuple(b - a for a, b in pairwise([0.0, *spent_so_far])))[0])


@cache
def _grid() -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
    return nodes, weights


@lru_cache(maxsize=4096)
def _levels(
    fractions: tuple[float, ...], shares: tuple[float, ...]
) -> tuple[tuple[float, ...], FloatArray, FloatArray]:
    """Return the nominal levels at which the looks spend `shares`, by recursive integration.

    With them the density times step of the score process that has crossed no boundary so far, and its grid.
    """
    from scipy.special import ndtr

    if not fractions:
        return (), np.zeros(1), np.ones(1)
    levels, grid, mass = _levels(fractions[:-1], shares[:-1])
    t, before = fractions[-1], fractions[-2] if levels else 0.0
    sd = math.sqrt(t - before)

    def crossing(z: float) -> float:
        edge = z * math.sqrt(t)
        return float(((ndtr((grid - edge) / sd) + ndtr((-edge - grid) / sd)) * mass).sum())

    low, high = 0.0, _WIDEST * 4
    for _ in range(80):
        z = (low + high) / 2
        low, high = (z, high) if crossing(z) > shares[-1] else (low, z)
    edge = min(high, _WIDEST) * math.sqrt(t)
    nodes, weights = _grid()
    new = edge * nodes
    density = np.exp(-0.5 * ((new[:, None] - grid) / sd) ** 2) @ mass / (sd * math.sqrt(2 * math.pi))
    return (*levels, float(2 * ndtr(-high))), new, density * edge * weights


def repeated_p(p: float, fractions: Sequence[float], look: int, spending: str = "obrien_fleming") -> float:
    """Return the repeated p-value of the p-value `p` at look `look` (1, 2, ...) of `fractions`: at least `p`.

    Raises
    ------
    ValueError
        For a look that is not declared, a p outside [0, 1], or as `nominal_levels`.
    """
    if not 1 <= look <= len(fractions) or not 0 <= p <= 1:
        raise ValueError(f"need a look from 1 to {len(fractions)} and a p-value, got {look} and {p}")
    alphas, levels = _curve(tuple(fractions[:look]), spending)
    if p > levels[-1]:
        return 1.0
    corrected = math.exp(float(np.interp(math.log(max(p, levels[0])), np.log(levels), np.log(alphas))))
    return max(p, min(corrected, 1.0))


@cache
def _curve(fractions: tuple[float, ...], spending: str) -> tuple[FloatArray, FloatArray]:
    """Return a grid of alpha and the nominal level of the last look at each; p below the grid count as its first."""
    alphas = np.exp(np.concatenate([np.linspace(-14.0, -5.0, 25)[:-1], np.linspace(-5.0, math.log(0.999), 50)]))
    levels = np.array([nominal_levels(float(alpha), fractions, spending)[-1] for alpha in alphas])
    increasing = np.concatenate([[True], np.diff(np.maximum.accumulate(levels)) > 0]) & (levels > 0)
    return alphas[increasing], levels[increasing]
