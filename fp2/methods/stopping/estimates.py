"""Tests that stop: conditional power, and an estimate that is corrected for stopping.

The studentised statistic at information fraction t is taken as normal with mean theta sqrt(t), and correlated with that
at an earlier s by sqrt(s / t) (Jennison and Turnbull 2000, chapter 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from fp2.extension import FloatArray, GapTest

Numbers = TypeVar("Numbers", float, FloatArray)
_POINTS = 64
_FAR = 8.0


def predictive_power(z: Numbers, critical: Numbers, fraction: float) -> Numbers:
    """Return the conditional power of the last look, averaged over what the data leave open about theta.

    `z` is the statistic at `fraction`; the last look rejects above `critical`. With a flat prior of theta, the
    statistic of the last look is normal with mean z / sqrt(t) and variance (1 - t) / t (Spiegelhalter, Freedman and
    Blackburn 1986). Arrays are broadcast.
    """
    from scipy.special import ndtr

    power: Numbers
    if fraction >= 1:
        power = np.multiply(z >= critical, 1.0)
    else:
        power = ndtr((z - critical * math.sqrt(fraction)) / math.sqrt(1 - fraction))
    return power


def two_sided_z(p: float) -> float:
    """Return the normal statistic of a two-sided p-value."""
    from scipy.special import ndtri

    return max(0.0, -float(ndtri(p / 2)))


def stopping_probabilities(
    theta: float, fractions: Sequence[float], upper: Sequence[float], lower: Sequence[float] | None = None
) -> list[tuple[float, float]]:
    """Return for each look the probabilities that the statistic first reaches its upper and its lower bound there.

    By recursive integration; without `lower` there are no lower bounds.
    """
    from scipy.special import ndtr

    nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
    grid, mass, before, out = np.zeros(1), np.ones(1), 0.0, []
    for t, high, low in zip(fractions, upper, lower or [-math.inf] * len(fractions), strict=True):
        sd, top, bottom = math.sqrt(t - before), high * math.sqrt(t), min(low, high) * math.sqrt(t)
        mean = grid + theta * (t - before)
        out.append((float((ndtr((mean - top) / sd) * mass).sum()), float((ndtr((bottom - mean) / sd) * mass).sum())))
        reach = _FAR * math.sqrt(t)
        start, end = max(bottom, theta * t - reach), min(top, theta * t + reach)
        width = max(end - start, 0.0)
        new = (start + end) / 2 + width / 2 * nodes
        density = np.exp(-0.5 * ((new[:, None] - mean) / sd) ** 2) @ mass / (sd * math.sqrt(2 * math.pi))
        grid, mass, before = new, density * weights * width / 2, t
    return out


def crossing_probability(theta: float, fractions: Sequence[float], bounds: Sequence[float]) -> float:
    """Return the probability that the statistic reaches its bound at some look."""
    return min(1.0, sum(above for above, _ in stopping_probabilities(theta, fractions, bounds)))


def median_unbiased(z: float, fractions: Sequence[float], bounds: Sequence[float]) -> float:
    """Return the median-unbiased statistic after a test that stopped at the last of `fractions` with `z`.

    It is theta sqrt(t) for the theta at which earlier or larger results have a probability of one half, in the
    stagewise order (Tsiatis, Rosner and Mehta 1984). `bounds` are those of the looks before; z itself without any.
    """
    if not bounds:
        return z
    t = fractions[-1]
    low, high = (z - 6) / math.sqrt(t), (z + 1) / math.sqrt(t)
    for _ in range(30):
        theta = (low + high) / 2
        low, high = (low, theta) if crossing_probability(theta, fractions, [*bounds, z]) > 0.5 else (theta, high)
    return (low + high) / 2 * math.sqrt(t)


def with_spread(test: GapTest) -> GapTest:
    """Return the test of a yes/no outcome with own errors from rates (x + 1) / (n + 2) (Agresti and Caffo 2000).

    At an early look a group often has the rate 0 or 1 by chance: at that rate it has no standard error.
    """
    if not test.yes_no:
        return test
    rate = (test.mean * test.size + 1) / (test.size + 2)
    own = rate * (1 - rate) / test.size
    first, second = np.triu_indices(len(own), 1)
    return replace(test, own=own, own_error=test.shared * np.sqrt(own[first] + own[second]))
