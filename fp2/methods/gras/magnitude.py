"""Effect sizes that do not grow with the number of images, each with an interval.

`omega_squared` is the mean over tests of Welch's omega^2 = df1 (F - 1) / (df1 (F - 1) + N), not truncated at 0, so
that its expectation is 0 where groups do not differ. `gap` is the root of the mean over tests of (max - min of group
means)^2 less its mean under permuted labels. A plain mean of max - min grows as groups get smaller; the correction in
squares removes what sampling noise adds (to a few hundredths of the gap in simulation, benchmarks/gras_validity.py).
The plain mean and its null mean are given beside it, with an interval for its expectation at this number of subjects.

Intervals are estimate +- 1.96 standard errors (`_error`) from bootstrap resamples of subjects; those of the gap are
computed in squares. Resamples and permutations that leave an attribute without any test are left out and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fp2.extension import FloatArray, rounded
from fp2.methods.gras.resampling import Null, means
from fp2.methods.gras.welch import Welch

_Z = 1.959963984540054


class ResampledMeans:
    """Accumulates the means over tests of omega^2, gap^2 and gap from batches of resamples, each (b, A)."""

    def __init__(self) -> None:
        self._parts: list[list[FloatArray]] = []

    def add(self, tests: Welch) -> None:
        """Add one batch."""
        self._parts.append([means(x) for x in (tests.omega_squared, tests.gap**2, tests.gap)])

    def result(self) -> list[FloatArray]:
        """Return omega^2, gap^2 and gap, each (B, A)."""
        return [np.concatenate([part[i] for part in self._parts]) for i in range(3)]


def magnitude(observed: Welch, null: Null, resampled: ResampledMeans, names: Sequence[str]) -> dict[str, Any]:
    """Return both effect sizes over all attributes, and per attribute under `by_attribute`."""
    omega, gap, square = (means(x)[0] for x in (observed.omega_squared, observed.gap, observed.gap**2))
    expected = np.where(np.isfinite(observed.gap[0]), null.square_gap, np.nan)[None]
    corrected = square - means(expected)[0]
    drawn = resampled.result()
    every = list(range(len(names)))
    return {
        **_sizes(every, omega, gap, corrected, null, drawn),
        "by_attribute": {name: _sizes([a], omega, gap, corrected, null, drawn) for a, name in enumerate(names)},
    }


def _sizes(
    which: list[int], omega: FloatArray, gap: FloatArray, corrected: FloatArray, null: Null, drawn: list[FloatArray]
) -> dict[str, Any]:
    """Return the means over some attributes (all have the same number of cells)."""
    which = [a for a in which if np.isfinite(omega[a])]
    centre, error = _average(omega[which]), _error(drawn[0], null.omega_squared, which)
    square, square_error = _average(corrected[which]), _error(drawn[1], null.square, which)
    low, high = (_root(square + z * square_error) for z in (-_Z, _Z))
    mean, mean_error = _average(gap[which]), _variance(_draws(drawn[2], which)) ** 0.5
    permuted = _draws(null.omega_squared, which)
    return {
        "omega_squared": {
            "value": rounded(centre),
            "low": rounded(centre - _Z * error),
            "high": rounded(centre + _Z * error),
            "null_mean": rounded(_average(permuted)),
            "null_p95": rounded(float(np.quantile(permuted, 0.95)) if len(permuted) else float("nan")),
        },
        "gap": {
            "value": rounded(_root(square)),
            "low": rounded(low),
            "high": rounded(high),
            "plain_mean": rounded(mean),
            "plain_low": rounded(max(0.0, mean - _Z * mean_error) if np.isfinite(mean_error) else mean_error),
            "plain_high": rounded(mean + _Z * mean_error),
            "plain_null_mean": rounded(_average(null.gap[:, which])),
        },
        "resamples_left_out": len(drawn[0]) - len(_draws(drawn[0], which)),
    }


def _average(x: FloatArray) -> float:
    """Return the mean of the finite values, NaN without any."""
    known = x[np.isfinite(x)]
    return float(known.mean()) if len(known) else float("nan")


def _root(square: float) -> float:
    """Return the root of the positive part; NaN stays."""
    return float(np.sqrt(np.maximum(0.0, square)))


def _draws(x: FloatArray, which: list[int]) -> FloatArray:
    """Return the mean of (B, A) over some attributes, without the draws in which one of them has no test."""
    part = x[:, which]
    return np.asarray(part[np.isfinite(part).all(axis=1)].mean(axis=1)) if which else np.empty(0)


def _variance(draws: FloatArray) -> float:
    """Return the variance of two draws or more, else NaN."""
    return float(draws.var(ddof=1)) if len(draws) >= 2 else float("nan")


def _error(drawn: FloatArray, null: FloatArray, which: list[int]) -> float:
    """Return the standard error of a mean of squares, from its resamples and its permutations (B, A).

    A square (m + e)^2 has the variance V + L: V as where nothing differs (m = 0), L in proportion to m^2. A resample
    draws around m + e, which adds 2 V on average and is subtracted. NaN where fewer than two draws have a test.
    """
    resampled, permuted = (_variance(_draws(x, which)) for x in (drawn, null))
    return float(np.sqrt(np.maximum(resampled - 2.0 * permuted, permuted)))
